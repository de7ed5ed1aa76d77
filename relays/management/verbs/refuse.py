"""`relay refuse GATE --seen DIGEST --comment T`."""

import argparse

from relays.actions.decide import refuse
from relays.management.cli import emit
from relays.management.verbs._relays import acting, add_actor, gate_data, pairs


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("gate", metavar="GATE")
    parser.add_argument("--seen", default="", metavar="DIGEST", help="what `status` or the gate's page showed")
    parser.add_argument("--comment", required=True, metavar="T")
    parser.add_argument("--then", default="", metavar="stop", help="stop: end the relay for good")
    parser.add_argument("--next-action", default="", metavar="T", help="what is still missing")
    parser.add_argument("--answer", nargs="+", action="extend", default=[], metavar="REF=T")
    parser.add_argument("--region", nargs="+", action="extend", default=[], metavar="G")
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="k=v")
    parser.add_argument("--objective", default="", metavar="T")
    parser.add_argument("--reopen", action="store_true", help="open a refused or expired gate again")
    add_actor(parser)


def run(options: argparse.Namespace) -> int:
    outcome = refuse(
        acting(options),
        options.gate,
        seen=options.seen,
        comment=options.comment,
        then=options.then,
        next_action=options.next_action,
        answers=pairs(options.answer, "--answer"),
        region=options.region,
        sets=options.set,
        objective=options.objective,
        reopen=options.reopen,
    )
    emit(gate_data(outcome), options.json, f"gate {outcome.gate} {outcome.state}")
    return 0

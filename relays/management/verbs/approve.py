"""`relay approve GATE --seen DIGEST --comment T`."""

import argparse

from relays.actions.decide import approve
from relays.core.settling import Settling
from relays.management.cli import emit
from relays.management.verbs._relays import acting, add_actor, gate_data, pairs


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("gate", metavar="GATE")
    parser.add_argument("--seen", required=True, metavar="DIGEST", help="what `status` or the gate's page showed")
    parser.add_argument("--comment", required=True, metavar="T")
    parser.add_argument("--next-action", default="", metavar="T")
    parser.add_argument("--answer", nargs="+", action="extend", default=[], metavar="REF=T")
    parser.add_argument("--region", nargs="+", action="extend", default=[], metavar="G")
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="k=v")
    parser.add_argument("--objective", default="", metavar="T")
    parser.add_argument("--confirm", nargs="+", action="extend", default=[], metavar="KEY", help="an assumption holds")
    parser.add_argument("--refresh", nargs="+", action="extend", default=[], metavar="KEY", help="it is read again")
    parser.add_argument(
        "--serve", nargs="+", action="extend", default=[], metavar="kind:ref=T", help="the record, or where it is now"
    )
    parser.add_argument("--waive", nargs="+", action="extend", default=[], metavar="kind:ref", help="do without it")
    parser.add_argument("--host-dead", action="store_true")
    add_actor(parser)


def run(options: argparse.Namespace) -> int:
    outcome = approve(
        acting(options),
        options.gate,
        seen=options.seen,
        comment=options.comment,
        next_action=options.next_action,
        answers=pairs(options.answer, "--answer"),
        region=options.region,
        sets=options.set,
        objective=options.objective,
        host_dead=options.host_dead,
        said=Settling(options.confirm, options.refresh, pairs(options.serve, "--serve"), options.waive),
    )
    emit(
        gate_data(outcome),
        options.json,
        f"gate {outcome.gate} {outcome.state} ({outcome.have} of {outcome.need} approvals) {outcome.note}".rstrip(),
    )
    return 0

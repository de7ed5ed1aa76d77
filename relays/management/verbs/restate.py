"""`relay restate ID [--objective T] [--set envelope.…=…] --comment T`: a new objective, or new limits of the budget."""

import argparse

from relays.actions.restate import restate
from relays.management.verbs._relays import acting, add_actor, emit_outcome


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--objective", default="", metavar="T", help="what the relay is for from now on")
    parser.add_argument("--set", nargs="+", action="extend", default=[], metavar="envelope.k=v", help="a new limit")
    parser.add_argument("--comment", required=True, metavar="T")
    add_actor(parser)


def run(options: argparse.Namespace) -> int:
    outcome = restate(
        acting(options), options.id, new_objective=options.objective, sets=options.set, comment=options.comment
    )
    return emit_outcome(outcome, options)

"""`relay stop ID [--now]`."""

import argparse

from relays.actions import park
from relays.management.verbs._relays import acting, add_actor, emit_outcome


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--now", action="store_true", help="end the leg at once, without waiting for a safe point")
    parser.add_argument("--comment", default="", metavar="T")
    add_actor(parser)


def run(options: argparse.Namespace) -> int:
    return emit_outcome(park.stop(acting(options), options.id, now=options.now, comment=options.comment), options)

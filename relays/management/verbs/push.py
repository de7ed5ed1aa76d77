"""`relay push ID --seen TIP`: send the branch of a finished relay to the address that its policy names."""

import argparse

from relays.actions import push
from relays.management.cli import Exit, emit
from relays.management.verbs._relays import acting, add_actor


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--seen", required=True, metavar="SHA", help="the tip of the branch that you looked at")
    parser.add_argument("--comment", default="", metavar="T")
    add_actor(parser)


def run(options: argparse.Namespace) -> int:
    asked = push.push(acting(options), options.id, seen=options.seen, comment=options.comment)
    data = {
        "relay": asked.relay, "where": asked.where, "branch": asked.branch, "tip": asked.tip, "state": asked.state,
        "new": asked.new,
    }  # fmt: skip
    words = f"{asked.relay}: {asked.branch} at {asked.tip[:12]} to {asked.where}: {asked.state}"
    emit(data, options.json, words)
    return Exit.FINE

"""`relay release ID`: let go of a relay's region, so that another relay may work there."""

import argparse

from relays.actions import release
from relays.management.cli import Exit, emit
from relays.management.verbs._relays import acting, add_actor


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--comment", default="", metavar="T")
    add_actor(parser)


def run(options: argparse.Namespace) -> int:
    done = release.release(acting(options), options.id, options.comment)
    data = {
        "relay": done.relay,
        "status": done.status,
        "leg": done.leg,
        "will": "none",
        "released": list(done.region),
    }
    words = (
        f"{done.relay} let go of {' '.join(done.region)}; its next leg takes it again, or waits for whoever has it"
        if done.region
        else f"{done.relay} holds no region; nothing was changed"
    )
    emit(data, options.json, words)
    return Exit.FINE

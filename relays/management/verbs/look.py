"""`relay look ID`: one look at an idle watch whose done_when runs commands; workers start this as its own process."""

import argparse

from relays.actions.base import relay_or_refuse
from relays.driver import advance, idle
from relays.management.cli import emit


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")


def run(options: argparse.Namespace) -> int:
    relay = relay_or_refuse(options.id)
    said = idle.look_with_commands(relay.pk)
    # a watch that woke goes on at once: the bell that it rang found this process driving it
    advance.advance(relay.pk)
    emit({"relay": relay.pk, "said": said}, options.json, said)
    return 0

"""`relay readout ID`: the seven lines of the operator readout."""

import argparse

from relays.actions.base import relay_or_refuse
from relays.management.cli import emit
from relays.reports import status as report


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")


def run(options: argparse.Namespace) -> int:
    relay = relay_or_refuse(options.id)
    data = report.status(relay.pk)
    emit(data, options.json, lambda: "\n".join(f"{key}: {value}" for key, value in data["readout"].items()))
    return 0

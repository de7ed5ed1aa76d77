"""`relay supervise LEG`: drive one leg to its end; workers start this as a process of its own."""

import argparse

from relays.driver.supervise import supervise
from relays.management.cli import emit


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("leg", type=int, metavar="LEG", help="the leg's key in the database")


def run(options: argparse.Namespace) -> int:
    said = supervise(options.leg)
    emit({"leg": options.leg, "said": said}, options.json, said)
    return 0

"""`relay supervise LEG`: drive one leg to its end, and those that follow it; workers start this as its own process."""

import argparse

from relays.driver import onward
from relays.management.cli import Exit, emit, refuse
from relays.models import Leg


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("leg", type=int, metavar="LEG", help="the leg's key in the database")


def run(options: argparse.Namespace) -> int:
    if not 0 <= options.leg < 2**63 or not Leg.objects.filter(pk=options.leg).exists():
        refuse(
            f"supervise: no leg has the key {options.leg}; workers give it, `relay start --wait` needs none",
            Exit.NOT_FOUND,
        )
    onward.drive(options.leg, lambda leg, said: emit({"leg": leg, "said": said}, options.json, said))
    return 0

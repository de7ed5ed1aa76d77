"""What the verbs about relays share: the actor, key=value options and the words for a person."""

import argparse
from typing import Any

from relays.actions.base import Actor, Outcome
from relays.actions.people import actor
from relays.management.cli import emit, refuse


def add_actor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--as", dest="as_user", default=None, metavar="USER", help="the user who acts (default: local)")


def acting(options: argparse.Namespace) -> Actor:
    if options.as_user == "":
        refuse("--as '' names nobody; name a user, or leave --as out to act as local")
    return actor(options.as_user or "")


def pairs(values: list[str], flag: str) -> dict[str, str]:
    """`K=V …` as a mapping; one that has no `=` is refused."""
    found: dict[str, str] = {}
    for value in values:
        name, sign, rest = value.partition("=")
        if not sign or not name.strip():
            refuse(f"{flag} {value!r}: write it as name=value")
        found[name.strip()] = rest
    return found


def emit_outcome(outcome: Outcome, options: argparse.Namespace) -> int:
    data = {"relay": outcome.relay, "status": outcome.status, "leg": outcome.leg, "will": outcome.will}
    words = {
        "drain": "its leg ends at the next safe point",
        "now": "its leg ends now",
        "start": "a leg starts",
        "none": "nothing more happens",
    }
    emit(data, options.json, f"{outcome.relay} {outcome.status}: {words[outcome.will]}")
    return 0


def gate_data(outcome: Any) -> dict[str, Any]:
    return {
        "gate": outcome.gate,
        "state": outcome.state,
        "decision": outcome.decision,
        "approvals": {"have": outcome.have, "need": outcome.need},
        **({"note": outcome.note} if outcome.note else {}),
    }

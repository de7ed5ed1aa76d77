"""`relay safe-point ID`: may the leg stop here, and if not, why; exit 0 or 10. A look only: the leg goes on."""

import argparse

from relays.actions.base import relay_or_refuse
from relays.driver import safe_point
from relays.management.cli import Exit, emit, refuse
from relays.stores.base import StoreUnavailable


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")


def run(options: argparse.Namespace) -> int:
    relay = relay_or_refuse(options.id)
    try:
        seen = safe_point.look(relay)
    except StoreUnavailable as error:
        refuse(f"safe-point {relay.pk}: {relay.repo}: {error.evidence}; make it readable again", Exit.UNKNOWN)
    if seen is None:
        refuse(f"safe-point {relay.pk}: no leg of it has run yet; `relay status {relay.pk}` says why", Exit.NOT_FOUND)
    data = {
        "relay": seen.relay,
        "leg": seen.leg,
        "live": seen.live,
        "safe": seen.safe,
        "hold": None if seen.hold is None else str(seen.hold),
        "armed": seen.armed,
        "in_flight": list(seen.in_flight),
        "tree": {
            "dirty": list(seen.tree.dirty),
            "parked": seen.tree.parked,
            "operation": seen.tree.operation,
        },
        "next_actions": list(seen.next_actions),
        "gate": {
            "admit": seen.admit,
            "facts": [
                {"label": fact.label, "backing": fact.backing, "verdict": fact.verdict, "fix": fact.fix}
                for fact in seen.facts
            ],
        },
        "done": seen.done,
    }

    def words() -> str:
        head = f"{seen.relay} leg {seen.leg}: " + ("may stop here" if seen.may_stop else f"not here, {seen.hold}")
        lines = [head if seen.live else f"{head} (it has ended)"]
        lines += [f"in flight: {name}" for name in seen.in_flight]
        lines += [f"dirty: {path}" for path in seen.tree.dirty]
        lines += [f"git is in the middle of: {seen.tree.operation}"] if seen.tree.operation else []
        lines += [f"next action: {text}" for text in seen.next_actions] or ["next action: none"]
        lines += [f"fact: {fact.label}: {fact.fix}" for fact in seen.facts if fact.fix]
        return "\n".join(lines)

    emit(data, options.json, words)
    return Exit.FINE if seen.may_stop else Exit.NOT_SAFE

"""`relay verify ID`: all pointers of the relay's current baton again; check-baton's shape and exits.

A relay that ended done before a leg of it did has no baton: it answers `done`, with no leg and no checks.
"""

import argparse

from relays.actions.base import relay_or_refuse
from relays.driver.reload import verify_again
from relays.management.cli import OUTCOME_EXITS, Exit, emit, refuse
from relays.models import Baton, Relay, RelayStatus


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")


def run(options: argparse.Namespace) -> int:
    relay = relay_or_refuse(options.id)
    row = Baton.objects.filter(relay=relay, current=True).select_related("leg").first()
    if row is None:
        return _without_baton(relay, options)
    found = verify_again(row.pk)
    checks = [
        {"step": check.step, "path": check.path, "verdict": check.verdict, "evidence": check.evidence}
        for check in found.checks.order_by("number")
    ]
    data = {
        "relay": relay.pk,
        "leg": row.leg.number,
        "outcome": found.outcome,
        "step": found.step,
        "path": found.path or None,
        "checks": checks,
    }
    emit(
        data,
        options.json,
        lambda: "\n".join(
            [f"{relay.pk} leg {row.leg.number}: {found.outcome} {found.path} {found.evidence}".rstrip()]
            + [f"{c['step']} {c['path'] or '-'} {c['verdict']} {c['evidence']}" for c in checks]
        ),
    )
    return int(OUTCOME_EXITS[found.outcome])


def _without_baton(relay: Relay, options: argparse.Namespace) -> int:
    if relay.status == RelayStatus.STOPPED:
        refuse(f"verify {relay.pk}: it was stopped before a leg of it ended; there is no baton", Exit.NOT_FOUND)
    if relay.status != RelayStatus.DONE:
        refuse(f"verify {relay.pk}: it has no baton yet; its first leg has not ended", Exit.NOT_FOUND)
    data: dict[str, object] = {
        "relay": relay.pk,
        "leg": None,
        "outcome": "done",
        "step": None,
        "path": None,
        "checks": [],
    }
    emit(data, options.json, f"{relay.pk}: done before a leg of it ended; there is no baton to verify")
    return int(OUTCOME_EXITS["done"])

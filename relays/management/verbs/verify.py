"""`relay verify ID`: all pointers of the relay's current baton again; check-baton's shape and exits."""

import argparse

from relays.actions.base import relay_or_refuse
from relays.driver.reload import verify_again
from relays.management.cli import OUTCOME_EXITS, Exit, emit, refuse
from relays.models import Baton


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")


def run(options: argparse.Namespace) -> int:
    relay = relay_or_refuse(options.id)
    row = Baton.objects.filter(relay=relay, current=True).select_related("leg").first()
    if row is None:
        refuse(f"verify {relay.pk}: it has no baton yet; its first leg has not ended", Exit.NOT_FOUND)
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

"""`doctor`: is everything there that a relay needs? Exit 0 when nothing failed, else 1."""

import argparse

from relays.management.cli import Exit, emit, many, table
from relays.reports import health as doctor


def configure(parser: argparse.ArgumentParser) -> None:
    """No options beside --json."""


def run(options: argparse.Namespace) -> int:
    findings = doctor.examine()
    data = doctor.as_mapping(findings)
    rows = [[one.state, one.name, one.detail, one.fix] for one in findings]
    count = {state: sum(one.state == state for one in findings) for state in ("failed", "warning")}
    verdict = f"{count['failed']} failed, {many(count['warning'], 'warning')}"
    emit(data, options.json, f"{table(rows, ['state', 'check', 'found', 'what to do'])}\n{verdict}")
    return Exit.FINE if data["ok"] else Exit.FAILED

"""`audit verify`: the chain of decisions recomputed; exit 4 where it does not hold."""

import argparse

from relays.management.cli import Exit, emit
from relays.reports import audit


def configure(parser: argparse.ArgumentParser) -> None:
    acts = parser.add_subparsers(dest="act", required=True, metavar="verify")
    verify = acts.add_parser("verify", help="recompute every decision and look for gaps")
    verify.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="answer with one JSON value")


def run(options: argparse.Namespace) -> int:
    found = audit.verify()
    data = {
        "rows": found.rows,
        "ok": found.ok,
        "first_bad": found.first_bad,
        "head": found.head,
        "why": list(found.why),
    }
    words = [f"{found.rows} decisions: {'the chain holds' if found.ok else 'the record was changed'}", *found.why]
    emit(data, options.json, "\n".join([*words, f"head {found.head}"]))
    return Exit.FINE if found.ok else Exit.INVALID

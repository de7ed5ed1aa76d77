"""`ledger add ID --ref kind:ref… [--note T]` and `ledger list ID`: a relay's intent ledger."""

import argparse

from relays.actions import ledger, people
from relays.actions.base import relay_or_refuse
from relays.management.cli import Exit, emit, table
from relays.models import LedgerRow


def configure(parser: argparse.ArgumentParser) -> None:
    acts = parser.add_subparsers(dest="act", required=True, metavar="add|list")
    add = acts.add_parser("add", help="append a row")
    add.add_argument("id", metavar="ID")
    add.add_argument("--ref", action="append", required=True, metavar="kind:ref", help="a pointer; may be repeated")
    add.add_argument("--note", default="", metavar="T", help="one line")
    add.add_argument("--as", dest="user", default="", metavar="USER", help="who acts; default: user local")
    listing = acts.add_parser("list", help="all rows, oldest first")
    listing.add_argument("id", metavar="ID")
    for one in (add, listing):
        one.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="answer with one JSON value")


def run(options: argparse.Namespace) -> int:
    if options.act == "add":
        row = ledger.append(people.actor(options.user), options.id, options.ref, options.note)
        data = _shape(row)
        words = "\n".join(f"{ref}: {verdict}" for ref, verdict in zip(row.refs, row.verdicts, strict=True))
        emit(data, options.json, f"{row.pk}\n{words}")
        return Exit.FINE
    relay = relay_or_refuse(options.id)
    rows = list(LedgerRow.objects.filter(relay=relay).select_related("leg"))
    lines = [[row.pk, row.at.isoformat(timespec="seconds"), row.by, " ".join(row.refs), row.note] for row in rows]
    text = table(lines, ["row", "at", "by", "references", "note"]) if rows else f"{relay.pk} has no ledger rows yet"
    emit({"rows": [_shape(row) for row in rows]}, options.json, text)
    return Exit.FINE


def _shape(row: LedgerRow) -> dict[str, object]:
    verdicts = [*row.verdicts, *["unknown"] * (len(row.refs) - len(row.verdicts))]
    return {
        "id": row.pk,
        "relay": row.relay_id,
        "leg": row.leg.number if row.leg else None,
        "refs": [{"ref": ref, "verdict": verdict} for ref, verdict in zip(row.refs, verdicts, strict=False)],
        "note": row.note,
        "by": row.by,
        "at": row.at,
    }

"""`relay status ID`: one relay with legs, gates, verdicts and readout."""

import argparse
from typing import Any

from relays.actions.base import relay_or_refuse
from relays.management.cli import emit, table
from relays.reports import status as report


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")


def run(options: argparse.Namespace) -> int:
    relay = relay_or_refuse(options.id)
    data = report.status(relay.pk)
    emit(data, options.json, lambda: _words(data, relay.status_why))
    return 0


def _words(data: dict[str, Any], why: str) -> str:
    lines = [f"{data['relay']} {data['status']} {why}".rstrip(), f"objective: {data['objective']['text']}"]
    rows = [
        [
            str(leg["leg"]),
            leg["reason"] or leg["state"],
            leg["cause"] or "",
            leg["hold"] or "",
            str(leg["turns"]),
            f"{leg['peak_tokens']}/{leg['ceiling_tokens']}",
            "not yet" if leg["progress"] is None else str(leg["progress"]),
        ]
        for leg in data["legs"]
    ]
    if rows:
        lines += ["", table(rows, ["leg", "tombstone", "cause", "hold", "turns", "peak/ceiling", "progress"])]
    for gate in data["gates"]:
        open_yet = f" blocks {gate['blocks']} seen {gate['seen']}" if gate["seen"] else ""
        lines.append(f"gate {gate['id']} {gate['token']} {gate['state']}{open_yet}")
    lines += ["", *(f"{name}: {verdict}" for name, verdict in data["verdicts"].items())]
    if data["advisory"]:
        lines.append(f"advice ({data['advisory']['mode']}): {data['advisory']['said']}")
    return "\n".join(lines)

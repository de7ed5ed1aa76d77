"""`relay list`: all relays, newest first."""

import argparse

from relays.management.cli import emit, refuse, table
from relays.models import RelayStatus
from relays.reports import status as report


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--status", default="", metavar="S", choices=RelayStatus.values, help=", ".join(RelayStatus.values)
    )
    parser.add_argument("--limit", type=int, default=50, metavar="N")
    parser.add_argument("--next", default="", metavar="CURSOR", help="what an earlier answer gave as next")


def run(options: argparse.Namespace) -> int:
    if options.next and not report.is_cursor(options.next):
        refuse(f"list: --next {options.next[:80]!r} is no cursor; give the next of an earlier answer, or leave it out")
    filters = {"status": options.status} if options.status else {}
    data = report.listing(options.next, options.limit, filters)
    emit(
        data,
        options.json,
        lambda: (
            table(
                [
                    [
                        row["relay"],
                        row["status"],
                        "" if row["leg"] is None else str(row["leg"]),
                        row["repo"],
                        row["owner"],
                    ]
                    for row in data["relays"]
                ],
                ["relay", "status", "leg", "repository", "owner"],
            )
            if data["relays"]
            else _nothing(options)
        ),
    )
    return 0


def _nothing(options: argparse.Namespace) -> str:
    if options.status:
        return f"no relay is {options.status} now"
    return "nothing behind this page" if options.next else "no relay yet; `relay start --help` says how to start one"

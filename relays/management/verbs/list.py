"""`relay list`: all relays, newest first."""

import argparse

from relays.management.cli import emit, table
from relays.reports import status as report


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--status", default="", metavar="S")
    parser.add_argument("--limit", type=int, default=50, metavar="N")
    parser.add_argument("--next", default="", metavar="CURSOR", help="what an earlier answer gave as next")


def run(options: argparse.Namespace) -> int:
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
            else "no relay yet; `relay start --help` says how to start one"
        ),
    )
    return 0

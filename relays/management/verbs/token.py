"""`relay token add|list|revoke`: a program's way into `/api/v1/`; the secret is shown once."""

import argparse

from django.utils import timezone

from relays.actions import tokens
from relays.management.cli import Exit, emit, table
from relays.management.verbs._relays import acting, add_actor
from relays.reports import roles
from relays.reports import tokens as report

HEAD = ["id", "name", "starts", "owner", "role", "state", "expires", "used"]


def configure(parser: argparse.ArgumentParser) -> None:
    does = parser.add_subparsers(dest="do", required=True, metavar="add|list|revoke")
    add = does.add_parser("add", help="make one; its secret is shown once", allow_abbrev=False)
    add.add_argument("name", metavar="NAME", help="what it is for")
    add.add_argument("--role", required=True, choices=roles.TOKEN_ROLES, help="`sender` may send hook events only")
    add.add_argument("--days", type=int, default=90, metavar="N", help="how long it lasts (default: 90)")
    add.add_argument("--for", dest="owner", default="", metavar="USER", help="whose it is (default: the one who acts)")
    listed = does.add_parser("list", help="those that are one's own; for an admin all", allow_abbrev=False)
    revoke = does.add_parser("revoke", help="end one at once", allow_abbrev=False)
    revoke.add_argument("id", metavar="ID")
    for one in (add, listed, revoke):
        add_actor(one)
        one.add_argument("--json", action="store_true", help="answer with one JSON value")


def run(options: argparse.Namespace) -> int:
    actor, now = acting(options), timezone.now()
    if options.do == "add":
        made = tokens.add(actor, name=options.name, role=options.role, days=options.days, owner=options.owner)
        row = report.TokenRow(made.token, made.token.user.get_username(), report.state_of(made.token, now))
        words = (
            f"token {made.token.pk} of {row.owner}, role {made.token.role}, until {made.token.expires_at:%Y-%m-%d}\n"
            f"{made.secret}\n(shown this once; only its SHA-256 is kept)"
        )
        emit({**report.as_mapping(row), "secret": made.secret}, options.json, words)
    elif options.do == "revoke":
        ended = tokens.revoke(actor, options.id)
        row = report.TokenRow(ended, ended.user.get_username(), "revoked")
        emit(report.as_mapping(row), options.json, f"token {ended.pk} is revoked")
    else:
        rows = report.listing(actor.user, now)
        data = {"tokens": [report.as_mapping(one) for one in rows]}
        lines = [[str(value or "—") for value in list(report.as_mapping(one).values())] for one in rows]
        shown = [[line[0], line[1], line[2], line[3], line[4], line[5], line[7][:10], line[8][:16]] for line in lines]
        emit(data, options.json, lambda: table(shown, HEAD) if shown else "no token yet: relay token add NAME --role R")
    return Exit.FINE

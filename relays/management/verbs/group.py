"""`relay group [add|remove NAME USER…]`: the groups whose members alone decide where a relay names one."""

import argparse

from relays.actions.reviewers import change_group
from relays.management.cli import Exit, emit
from relays.management.verbs._relays import acting, add_actor
from relays.reports import reviewers


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("act", nargs="?", choices=["list", "add", "remove"], default="list", metavar="list|add|remove")
    parser.add_argument("name", nargs="?", default="", metavar="NAME")
    parser.add_argument("user", nargs="*", metavar="USER")
    parser.add_argument("--comment", default="", metavar="T")
    add_actor(parser)


def run(options: argparse.Namespace) -> int:
    if options.act != "list":
        change = {"add": options.user} if options.act == "add" else {"remove": options.user}
        change_group(acting(options), options.name, comment=options.comment, **change)
    rows = reviewers.group_rows()
    data = {
        "groups": [
            {"group": row.name, "members": [*row.names], "may_not_review": [*row.silent], "relays": row.relays}
            for row in rows
        ]
    }
    lines = [f"{row.name}: {', '.join(row.names) or 'nobody who may review'}; {row.relays} relays" for row in rows]
    emit(data, options.json, "\n".join(lines or ["no group yet; `relay group add NAME USER` makes one"]))
    return Exit.FINE

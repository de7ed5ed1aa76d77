"""`relay reviewers ID [--group NAME|--anyone] --comment T`: who decides on a relay's gates from now on."""

import argparse

from relays.actions.base import relay_or_refuse
from relays.actions.reviewers import give
from relays.driver import budgets
from relays.management.cli import Exit, emit
from relays.management.verbs._relays import acting, add_actor
from relays.reports import reviewers


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--group", metavar="NAME", help="only its members decide")
    chosen.add_argument("--anyone", action="store_true", help="whoever may review decides")
    parser.add_argument("--comment", default="", metavar="T", help="why; required with a change")
    add_actor(parser)


def run(options: argparse.Namespace) -> int:
    decision = None
    if options.anyone or options.group is not None:
        decision = give(acting(options), options.id, options.group or "", options.comment).seq
    relay = relay_or_refuse(options.id)
    found = reviewers.deciders(relay, budgets.policy_of(relay).four_eyes)
    data = {"relay": relay.pk, "group": found.group, "may_decide": [*found.names], "decision": decision}
    who = f"group {found.group}" if found.group else "whoever may review"
    emit(data, options.json, f"{relay.pk}: {who}: {', '.join(found.names) or 'nobody'}")
    return Exit.FINE

"""`relay fact ID [--add TEXT | --remove TEXT]`: what a person states for every leg to come; alone it lists them."""

import argparse

from relays.actions import userfacts
from relays.management.verbs._relays import acting, add_actor, add_change, emit_facts


def configure(parser: argparse.ArgumentParser) -> None:
    add_change(parser, "TEXT", "one line; a ledger row holds it, and the next leg is given the row")
    add_actor(parser)


def run(options: argparse.Namespace) -> int:
    if options.add is not None:
        return emit_facts(userfacts.add_fact(acting(options), options.id, options.add, options.comment), options)
    if options.remove is not None:
        return emit_facts(
            userfacts.remove(acting(options), options.id, "fact", options.remove, options.comment), options
        )
    return emit_facts(None, options)

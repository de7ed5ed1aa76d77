"""`relay pin ID [--add kind:ref | --remove kind:ref]`: pointers that every leg is given; alone it lists them."""

import argparse

from relays.actions import userfacts
from relays.management.verbs._relays import acting, add_actor, add_change, emit_facts


def configure(parser: argparse.ArgumentParser) -> None:
    add_change(parser, "kind:ref", "a pointer into a durable store, such as file:docs/plan.md")
    add_actor(parser)


def run(options: argparse.Namespace) -> int:
    if options.add is not None:
        return emit_facts(userfacts.add_pin(acting(options), options.id, options.add, options.comment), options)
    if options.remove is not None:
        return emit_facts(
            userfacts.remove(acting(options), options.id, "pin", options.remove, options.comment), options
        )
    return emit_facts(None, options)

"""`relay layout [--density D] [--first-tab T] [--close PANEL… | --open-all]`: how pages are laid out for a person."""

import argparse

from relays.actions.layout import choose
from relays.management.cli import Exit, emit
from relays.management.verbs._relays import acting, add_actor
from relays.reports import layout
from relays.reports.relay import TABS


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--density", choices=tuple(layout.DENSITIES))
    parser.add_argument("--first-tab", choices=TABS, help="of a relay's records")
    panels = parser.add_mutually_exclusive_group()
    panels.add_argument(
        "--close", nargs="+", choices=tuple(layout.PANELS), metavar="PANEL", help="show their head only"
    )
    panels.add_argument("--open-all", action="store_true", help="close no panel")
    add_actor(parser)


def run(options: argparse.Namespace) -> int:
    actor = acting(options)
    closed = [] if options.open_all else options.close
    asked = options.density is not None or options.first_tab is not None or closed is not None
    found = (
        choose(actor, density=options.density, first_tab=options.first_tab, closed=closed)
        if asked
        else layout.of(actor.user)
    )
    data = {"density": found.density, "first_tab": found.first_tab, "closed": list(found.closed)}
    words = f"density {found.density}, first tab {found.first_tab}, closed: {', '.join(found.closed) or 'none'}"
    emit(data, options.json, words)
    return Exit.FINE

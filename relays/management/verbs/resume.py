"""`relay resume ID`."""

import argparse

from relays.actions import resume
from relays.management.verbs._relays import acting, add_actor, emit_outcome


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID")
    parser.add_argument("--comment", default="", metavar="T")
    add_actor(parser)


def run(options: argparse.Namespace) -> int:
    return emit_outcome(resume.resume(acting(options), options.id, options.comment), options)

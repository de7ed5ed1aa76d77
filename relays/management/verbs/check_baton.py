"""`check-baton FILE [--repo DIR] [--branch B]`: the reader's ladder over a baton that comes from anywhere."""

import argparse

from relays.core import baton
from relays.management import outside
from relays.management.cli import OUTCOME_EXITS, Exit, emit, read_input, refuse, say, table
from relays.management.verbs.canonical import READ_BYTES
from relays.stores.base import StoreUnavailable


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a baton, or - for standard input")
    parser.add_argument("--repo", metavar="DIR", default="", help="judge its pointers against this repository")
    parser.add_argument("--branch", metavar="B", default="", help="default: relay/<id> where it exists, else HEAD")


def run(options: argparse.Namespace) -> int:
    if options.branch and not options.repo:
        refuse("relay check-baton: --branch needs --repo DIR: a branch lives in a repository")
    reading = baton.read(read_input(options.file, READ_BYTES, cut=True))
    place, why_not = None, ""
    if options.repo and reading.baton is not None:
        try:
            place = outside.locate(options.repo, reading.baton.relay_id, options.branch)
        except StoreUnavailable as error:
            why_not = error.evidence
            say(f"relay check-baton: --repo {options.repo}: {error}")
        except outside.NoBranch:
            refuse(
                f"relay check-baton: branch {options.branch!r} does not exist in {options.repo}; "
                "`git branch --list` shows those that do",
                Exit.NOT_FOUND,
            )
    ladder = outside.climb(reading, place, why_not)

    def words() -> str:
        rows = [[str(one.step), one.path or "(whole text)", one.verdict, one.evidence] for one in ladder.checks]
        why = f" at step {ladder.step}, {ladder.path or 'the whole text'}: {ladder.evidence}" if ladder.step else ""
        return f"{ladder.outcome}{why}\n{table(rows, ['step', 'path', 'verdict', 'evidence'])}"

    emit(ladder.as_mapping(), options.json, words)
    return OUTCOME_EXITS[ladder.outcome]

"""`plan FILE --repo DIR [--branch B]`: the deterministic reload plan; check-baton's exits, nothing is changed."""

import argparse

from relays.core import baton
from relays.management import outside
from relays.management.cli import OUTCOME_EXITS, Exit, emit, read_input, refuse, say
from relays.management.verbs.canonical import READ_BYTES
from relays.stores.base import StoreUnavailable


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a baton, or - for standard input")
    parser.add_argument("--repo", metavar="DIR", required=True, help="the repository that a leg would start in")
    parser.add_argument("--branch", metavar="B", default="", help="default: relay/<id> where it exists, else HEAD")


def run(options: argparse.Namespace) -> int:
    reading = baton.read(read_input(options.file, READ_BYTES, cut=True))
    place, why_not = None, ""
    if reading.baton is not None:
        try:
            place = outside.locate(options.repo, reading.baton.relay_id, options.branch)
        except StoreUnavailable as error:
            why_not = error.evidence
            say(f"relay plan: --repo {options.repo}: {error}")
        except outside.NoBranch:
            refuse(
                f"relay plan: branch {options.branch!r} does not exist in {options.repo}; "
                "`git branch --list` shows those that do",
                Exit.NOT_FOUND,
            )
    plan = outside.plan(reading, place, why_not)

    def words() -> str:
        cursor, reread = plan["cursor"], plan["reread"]
        assert isinstance(cursor, dict) and isinstance(reread, dict)  # noqa: S101 - plan_mapping makes both
        counts = ", ".join(f"{len(reread[kind])} {kind}" for kind in ("commits", "issues", "ledger"))
        return "\n".join(
            [
                f"{plan['outcome']} on {plan['branch'] or 'no branch'} at {plan['tip'] or 'no commit'}",
                f"cursor: {cursor['sha'] or 'none'}{' (rebuilt)' if cursor['rebuilt'] else ''}",
                f"read anew: {counts}",
                f"next action: {plan['next_action'] or 'none'}",
            ]
        )

    emit(plan, options.json, words)
    return OUTCOME_EXITS[str(plan["outcome"])]

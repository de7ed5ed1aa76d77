"""Which agents a start can name on this machine, for whoever chooses one.

Issue: "the start form offers what is there". No process is run and no database is asked: some milliseconds.
"""

from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from relays.agents import readiness, registry
from relays.agents.readiness import SignIn
from relays.reports.sentences import told

#: in the order in which they are offered; the programs first
ORDER = ("claude-code", "codex", "gemini", "opencode", "command", "scripted")
NOTES = {
    "command": gettext_noop("any program that speaks relay.event.v1"),
    "scripted": gettext_noop("the built-in worker: real commits, scripted usage, no model"),
}


@dataclass(frozen=True, slots=True)
class Offered:
    """`ready`: it can be started. `sign_in` is "" for an agent that needs none. `fix`: what makes it ready, or more."""

    name: str
    package: str
    program: str
    version: str
    ready: bool
    sign_in: SignIn
    note: str
    fix: str


def offered() -> tuple[Offered, ...]:
    """Every agent of the registry, those of ORDER first."""
    there = registry.names()
    names = [*(name for name in ORDER if name in there), *(name for name in there if name not in ORDER)]
    return tuple(_one(name) for name in names)


def _one(name: str) -> Offered:
    if name not in readiness.KNOWN:
        return Offered(name, "", "", "", True, "", told(NOTES.get(name, "")), "")
    found = readiness.look(name)
    note = found.needs or (found.seen if found.sign_in == "found" else _("no sign-in is in sight"))
    return Offered(
        name, found.package, found.program, found.version, not found.needs, found.sign_in, told(note), told(found.fix)
    )  # fmt: skip

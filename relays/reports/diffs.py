"""The difference of two commits as lines to look at, read through our own repository and capped."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from relays.models import Relay
from relays.reports.gate import store
from relays.stores.base import StoreUnavailable

BYTES = 200_000
LINES = 1_500


@dataclass(frozen=True, slots=True)
class Diff:
    """`lines` = (add, del, at or "", text). `problem` says why it is not known; `cut`: there is more than is shown."""

    label: str
    lines: tuple[tuple[str, str], ...]
    added: int
    removed: int
    files: int
    cut: bool
    problem: str
    command: str


def between(relay: Relay, old: str, new: str, label: str) -> Diff:
    """What `new` has that `old` has not; never raises for a store that does not answer. Agent text stays text."""
    command = f"git diff {old[:12]} {new[:12]}"
    if not old or not new:
        return Diff(label, (), 0, 0, 0, False, _("there is no commit to compare with"), "")
    try:
        text = store(relay).diff(old, new, BYTES)
    except StoreUnavailable as error:
        return Diff(label, (), 0, 0, 0, False, error.evidence, command)
    return read(text, label, command)


def read(text: str, label: str, command: str = "") -> Diff:
    """Classify the lines of a unified diff; the counts cover what was read, not only what is shown."""
    lines = text.splitlines()
    found = [(_kind(line), line[:400]) for line in lines if not line.startswith(("index ", _("[cut at ")))]
    cut = len(found) > LINES or any(line.startswith(_("[cut at ")) for line in lines[-2:])
    return Diff(
        label=label,
        lines=tuple(found[:LINES]),
        added=sum(kind == "add" for kind, _ in found),
        removed=sum(kind == "del" for kind, _ in found),
        files=sum(line.startswith("diff --git ") for line in lines),
        cut=cut,
        problem="",
        command=command,
    )


def _kind(line: str) -> str:
    if line.startswith(
        ("diff --git", "@@", "--- ", "+++ ", _("new file"), _("deleted file"), "rename", "similarity", "Binary")
    ):
        return "at"
    return {"+": "add", "-": "del"}.get(line[:1], "")

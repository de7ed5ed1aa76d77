"""The difference of two commits as lines to look at, read through our own repository and capped."""

from dataclasses import dataclass

from django.utils.translation import gettext as _

from relays.models import Relay
from relays.reports.gate import store
from relays.reports.sentences import told
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

    @property
    def by_file(self) -> tuple["FileDiff", ...]:
        """The lines that are shown, file by file; the file that the cut went through has fewer than it has."""
        files: list[tuple[str, list[tuple[str, str]]]] = []
        for kind, text in self.lines:
            if text.startswith("diff --git ") and kind == "at":
                files.append((_name(text), []))
            elif files:
                files[-1][1].append((kind, text))
        return tuple(
            FileDiff(name, sum(kind == "add" for kind, _ in rows), sum(kind == "del" for kind, _ in rows), tuple(rows))
            for name, rows in files
        )


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file of a diff: its name now, what was added and removed of the lines that are shown, and these lines."""

    name: str
    added: int
    removed: int
    lines: tuple[tuple[str, str], ...]


def between(relay: Relay, old: str, new: str, label: str) -> Diff:
    """What `new` has that `old` has not; never raises for a store that does not answer. Agent text stays text."""
    command = f"git diff {old[:12]} {new[:12]}"
    if not old or not new:
        return Diff(label, (), 0, 0, 0, False, _("there is no commit to compare with"), "")
    try:
        text = store(relay).diff(old, new, BYTES)
    except StoreUnavailable as error:
        return Diff(label, (), 0, 0, 0, False, told(error.evidence), command)
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


def _name(line: str) -> str:
    """The name after the change, out of `diff --git a/… b/…`; git quotes one with unusual letters."""
    rest = line.removeprefix("diff --git ")
    half = len(rest) // 2
    if rest[:half].removeprefix("a/") == rest[half + 1 :].removeprefix("b/"):
        return rest[half + 1 :].removeprefix("b/")
    return rest.rpartition(" b/")[2] or rest


def _kind(line: str) -> str:
    if line.startswith(
        ("diff --git", "@@", "--- ", "+++ ", _("new file"), _("deleted file"), "rename", "similarity", "Binary")
    ):
        return "at"
    return {"+": "add", "-": "del"}.get(line[:1], "")

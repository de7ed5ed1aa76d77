"""The safe point: nothing in flight, the tree green or explicitly parked, exactly one next action.

Mission: "a work boundary at which a leg may end without losing or corrupting work: no in-flight tool call, no
half-written commit, the tree is green or explicitly parked, and the next action is expressible as a single baton
line." The three are judged from what is measured now, never from what an agent says about them.
"""

import unicodedata
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from relays.core.lines import recorded
from relays.core.vocabulary import Hold, strongest

#: of a next action, in UTF-8
NEXT_ACTION_BYTES = 200


@dataclass(frozen=True, slots=True)
class TreeState:
    """A working tree as it was found.

    `dirty`: paths that `git status` names, untracked ones included. `parked`: the agent sent `park_tree` and nothing
    voided it since; then `parked_paths` are the paths that it covers, or every dirty one where none is named.
    `operation`: merge, rebase, cherry-pick, revert, bisect, index.lock, or "". `known`: the tree could be read; where
    it could not, `dirty` may hold the line that says why.
    """

    dirty: tuple[str, ...] = ()
    parked: bool = False
    parked_paths: tuple[str, ...] = ()
    operation: str = ""
    known: bool = True

    @property
    def unparked(self) -> tuple[str, ...]:
        """The dirty paths that nobody parked."""
        if not self.parked:
            return self.dirty
        if not self.parked_paths:
            return ()
        covered = frozenset(self.parked_paths)
        return tuple(path for path in self.dirty if path not in covered)

    @property
    def green_or_parked(self) -> bool:
        """True when it was read, git is in no mid-operation and every dirty path, if any, is parked."""
        return self.known and not self.operation and not self.unparked


@dataclass(frozen=True, slots=True)
class NextAction:
    """`text` is the one next action, or None with the `hold` that says why; `candidates` are those that count."""

    text: str | None
    hold: Hold | None
    candidates: tuple[str, ...]


def choose_next_action(candidates: Iterable[str]) -> NextAction:
    """Exactly one candidate passes, after trimming, dropping what is no single line of a baton, and de-duplication.

    Dropped: empty ones, ones of several lines or with a control character, ones over 200 UTF-8 bytes, ones that are
    no UTF-8. "If it cannot, it is mid-thought, not at a boundary."
    """
    kept = tuple(dict.fromkeys(text for text in map(str.strip, candidates) if _one_line(text)))
    if len(kept) == 1:
        return NextAction(kept[0], None, kept)
    return NextAction(None, Hold.AMBIGUOUS_NEXT_ACTION if kept else Hold.NO_NEXT_ACTION, kept)


def _one_line(text: str) -> bool:
    if not text or len(text) > NEXT_ACTION_BYTES:
        return False
    # Cc: controls, CR and LF with them; Zl, Zp: the other line ends; Cs: lone surrogates, which no UTF-8 can hold
    if any(unicodedata.category(char) in {"Cc", "Zl", "Zp", "Cs"} for char in text):
        return False
    return len(text.encode()) <= NEXT_ACTION_BYTES


@dataclass(frozen=True, slots=True)
class SafePoint:
    """Whether a leg may end here; `holds` are all reasons against it, `detail` has one line each for every hold."""

    safe: bool
    holds: frozenset[Hold]
    detail: Mapping[Hold, tuple[str, ...]] = field(default_factory=dict)

    @property
    def hold(self) -> Hold | None:
        """The strongest hold, the one that a boundary records."""
        return strongest(self.holds)


def running(tool: str, name: str) -> str:
    """The line of a tool call in flight: its id alone tells a person nothing."""
    if name:
        return recorded("tool call %(tool)s was still running (%(name)s)", tool=tool, name=name)
    return recorded("tool call %(tool)s was still running", tool=tool)


def judge(in_flight: Collection[str], tree: TreeState, next_action: NextAction) -> SafePoint:
    """Judge one boundary.

    `in_flight`: a line for each tool call that has started and not ended, as `running` says it, taken from the live
    stream. A tree that could not be read counts as dirty (fail closed); git in mid-operation is `NOT_AT_SAFE_POINT`,
    parked or not.
    """
    detail: dict[Hold, tuple[str, ...]] = {}
    if in_flight:
        detail[Hold.IN_FLIGHT_TOOL_CALL] = tuple(in_flight)
    if not tree.known:
        detail[Hold.TREE_DIRTY_UNPARKED] = (": ".join((recorded("the tree could not be read"), *tree.dirty)),)
    elif tree.unparked:
        detail[Hold.TREE_DIRTY_UNPARKED] = tree.unparked
    if next_action.hold is not None:
        detail[next_action.hold] = next_action.candidates
    elif next_action.text is None:
        detail[Hold.NO_NEXT_ACTION] = ()
    if tree.operation:
        detail[Hold.NOT_AT_SAFE_POINT] = (recorded("git is in the middle of: %(operation)s", operation=tree.operation),)
    return SafePoint(not detail, frozenset(detail), detail)

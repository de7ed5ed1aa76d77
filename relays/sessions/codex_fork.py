"""What a Codex file itself says of which of its calls repeat its parent's.

sessions.md, Codex, rules (c) and (d): a turn that started before the session was made is the parent's (proven); a turn
whose UUIDv7 is older than the thread's own is taken for the parent's (estimated: such ids need not be chronological);
where neither speaks, the rows that were written in one burst with the parent's header are (estimated). Rules (a) and
(b) need the parent's file: `relays.core.replay`.
"""

from collections.abc import Mapping
from typing import Any, Final

from relays.core.meter import Copied
from relays.sessions.fields import ident, seconds, table
from relays.sessions.reader import UUID

#: a history is re-written within "the fork second (or several seconds)", without a pause as long as this
_PAUSE: Final = 2.0


class Fork:
    """Follows one file from its first line; says of each call whether it is a repetition."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        kept = state or {}
        self.parent: str = kept.get("parent", "")
        self._id: str = kept.get("id", "")
        self._declared: bool = kept.get("declared", False)
        self._made_at: float | None = kept.get("made_at")
        self._parent_header: bool = kept.get("header", False)
        self._past: bool = kept.get("past", False)
        self._turn: str = kept.get("turn", "")  # of the current turn: "", replay, estimated
        self._before: float | None = kept.get("before")

    def state(self) -> dict[str, Any]:
        return {
            "parent": self.parent,
            "id": self._id,
            "declared": self._declared,
            "made_at": self._made_at,
            "header": self._parent_header,
            "past": self._past,
            "turn": self._turn,
            "before": self._before,
        }

    @property
    def repeats(self) -> bool:
        """Whether the file says that it holds another session's history."""
        return self._declared or self._parent_header

    @property
    def repeating(self) -> bool:
        """Whether the records that come now are the parent's."""
        return bool(self.copied())

    def copied(self) -> Copied:
        """What a call that comes now is."""
        if not self.parent or self._past:
            return ""
        if self._turn == "replay":
            return "replay"
        return "estimated" if self._turn == "estimated" or self._parent_header else ""

    def meta(self, payload: Mapping[str, Any], *, own: bool, at: str) -> None:
        """A `session_meta`; `own`: of this file's session, not of one whose history it repeats."""
        if not own:
            self._parent_header = True
            self.parent = self.parent or ident(payload.get("id"))
            return
        if self._id:
            return  # repeated on resume
        self._id = ident(payload.get("id"))
        made = seconds(payload.get("timestamp"))
        self._made_at = made if made is not None else seconds(at)
        spawned = table(table(table(payload.get("source")).get("subagent")).get("thread_spawn"))
        forked = ident(payload.get("forked_from_id"))
        self._declared = bool(forked)
        self.parent = forked or ident(spawned.get("parent_thread_id")) or ident(payload.get("parent_thread_id"))

    def turn(self, turn: str, started_at: object, *, new: bool) -> None:
        """A turn's beginning, or a record that names the turn again (`new` False)."""
        if not self.parent or self._past:
            return
        started = seconds(started_at)
        if started is not None and self._made_at is not None:
            # whole seconds against a time with milliseconds: the same second is the session's own
            self._past = started >= int(self._made_at)
            self._turn = "replay"
        elif new:
            older = _older(turn, self._id)
            self._past = older is False
            self._turn = "estimated" if older else ""

    def clock(self, at: str) -> None:
        """The time of the record that comes now."""
        now = seconds(at)
        if now is None or not self.parent or self._past:
            return
        pause = self._before is not None and now - self._before > _PAUSE
        self._before = now
        if pause and not self._turn and self._parent_header:
            self._past = True


def _older(turn: str, thread: str) -> bool | None:
    """Whether a turn's UUIDv7 was made before the thread's; None = they do not say."""
    if not all(UUID.fullmatch(one) and one[14] == "7" for one in (turn, thread)):
        return None
    return turn.lower() < thread.lower()

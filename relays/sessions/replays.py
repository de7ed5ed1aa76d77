"""Which rows of a session repeat what another file says better, judged from all files that were read.

sessions.md, Codex: "Fork/subagent files replay the whole parent history"; "usage [of exec] is cumulative over the
thread, also across `resume` … deltas vs last-seen per thread_id; resident context only from the rollout". The same
holds of what Gemini CLI prints without its terminal: one sum per model over the session so far.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from django.db.models import Max, Q

from relays.core import replay
from relays.core.meter import Copied
from relays.core.usage import Buckets, resident
from relays.models import Session, SessionBoundary, SessionCall
from relays.sessions import rows
from relays.sessions.ownership import Row
from relays.stores import prices

AGENT: Final = "codex"
#: agents of whose sessions something is settled here
SETTLED: Final = frozenset((AGENT, "gemini-cli"))
#: in the keys of calls that are turns of a headless stream
TURN: Final = ":turn:"


def settle(session: Session) -> None:
    """Bring `copied` and `counts` of a session's rows up to date, and what each headless turn added."""
    mine = SessionCall.objects.filter(session=session)
    if session.agent == AGENT and (session.parent or mine.filter(~Q(claimed=""), shown=True).exists()):
        _split(session)
    if mine.filter(key__contains=TURN).exists():
        _turns(session)


def _split(session: Session) -> None:
    ours = _rollout(session)
    parent = _parent(session)
    theirs = _rollout(parent) if parent is not None else []
    found = replay.split([row for _, row in ours], [row for _, row in theirs] or None)
    copied: Copied = "estimated" if found.how == "estimated" else "replay"
    _mark(session, [key for key, _ in ours[: found.rows]], copied)
    _mark(session, [key for key, _ in ours[found.rows :]], "")
    _boundaries(session)


def _parent(session: Session) -> Session | None:
    """Whose calls it repeats. Of sessions that name one another as parents in a circle one began: else none would be

    the one whose calls count.
    """
    found: Session | None = None
    above, seen = session, {session.sid}
    while above.parent:
        parent = Session.objects.filter(agent=AGENT, sid=above.parent).first()
        if parent is None:
            return found
        found = found or parent
        if parent.sid == session.sid:
            return None if session.sid == min(seen) else found
        if parent.sid in seen:
            return found
        seen.add(parent.sid)
        above = parent
    return found


def _boundaries(session: Session) -> None:
    """A compaction before the last repeated call is the parent's, whether the parent's file is there or not."""
    repeated = SessionCall.objects.filter(session=session, shown=True).exclude(copied="")
    last = dict(repeated.order_by().values_list("source").annotate(line=Max("line")))
    for row in SessionBoundary.objects.filter(session=session, shown=True):
        own = row.line > last.get(row.source_id, 0)
        counts = own and not SessionBoundary.objects.exclude(pk=row.pk).filter(uid=row.uid, counts=True).exists()
        if counts != row.counts:
            row.counts = counts
            row.save(update_fields=["counts"])


def _rollout(session: Session) -> list[tuple[str, replay.Row]]:
    """(key, row) of the session's rollout in file order, repeated ones included."""
    shown = SessionCall.objects.filter(session=session, shown=True).exclude(key__contains=TURN)
    ordered = sorted(shown.values_list("source__path", "line", "key", "vector", "turn", "claimed"))
    return [(key, replay.Row(vector, turn, _claimed(claimed))) for _, _, key, vector, turn, claimed in ordered]


def _claimed(value: str) -> Copied:
    return "replay" if value == "replay" else "estimated" if value == "estimated" else ""


def _mark(session: Session, keys: Sequence[str], copied: Copied) -> None:
    for chunk in rows.chunks(keys):
        mine = SessionCall.objects.filter(session=session, key__in=chunk)
        wrong = mine.exclude(copied=copied, counts=not copied) if copied else mine.exclude(copied="")
        if copied:
            wrong.update(copied=copied, counts=False)
        elif wrong.exists():
            wrong.filter(shown=False).update(copied="", counts=False)
            wrong.filter(shown=True).update(copied="", counts=True)


def _turns(session: Session) -> None:
    turns = SessionCall.objects.filter(session=session, key__contains=TURN)
    known = SessionCall.objects.filter(session=session).exclude(key__contains=TURN).exists()
    if known:
        turns.update(copied="replay", counts=False)
        return
    found: list[Row] = list(rows.of_keys(sorted(set(turns.values_list("key", flat=True)))))
    changed: list[Row] = []
    for model in {row.model for row in found}:  # each has its own running total
        same = [row for row in found if row.model == model]
        added = replay.turns(row.vector for row in same)
        changed += [row for row in same if _take(row, added)]
    if changed:
        _price(session.agent, changed)
        rows.update(changed)


def _take(row: Row, added: dict[str, Buckets]) -> bool:
    buckets = added.get(row.vector)
    if buckets is None or buckets == row.buckets and row.counts == row.shown and not row.copied:
        return False
    row.input, row.cache_read, row.output = buckets.input, buckets.cache_read, buckets.output
    row.cache_write_5m = row.cache_write_1h = 0
    row.reasoning = min(row.reasoning, row.output)
    row.copied, row.counts = "", row.shown
    return True


def priced_as(key: str, model: str, agent: str, at: datetime | None, buckets: Buckets) -> str:
    """The model by whose price a row is priced; "" (unpriced) for a sum of calls that reaches into a tier.

    Cost: tiers hold "per request", and how long each request of a sum was nobody wrote down.
    """
    if agent in SETTLED and TURN in key and not prices.book().flat(model, agent, at, resident(buckets)):
        return ""
    return model


def _price(agent: str, changed: Iterable[Row]) -> None:
    changed = list(changed)
    asked: list[prices.Asked] = []
    for row in changed:
        at = rows.moment(row.at)
        asked.append((priced_as(row.key, row.model, agent, at, row.buckets), agent, at, row.buckets))
    for row, found in zip(changed, prices.book().bulk(asked), strict=True):
        row.cost, row.price = found if found is not None else (None, None)

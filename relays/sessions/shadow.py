"""The shadow relay of an imported session in the tables: its legs, would-be batons and their fidelity.

Mission, phase 0: "emit a shadow 'would rotate here at soft mark X' signal and a would-be baton"; "score baton fidelity
for weeks before any auto-fire". Here it is made from what was read; `judging` asks the session's repository.
"""

import hashlib
import json
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, groupby, islice
from operator import itemgetter
from typing import Final

from django.conf import settings
from django.db import transaction

from relays.core import policy, shadow, windows
from relays.core.lines import recorded
from relays.core.pointers import is_sha
from relays.core.shadow import Done, Figure, LegCut, MainCall, Provenance
from relays.models import Session, SessionAct, SessionLeg

#: acts of one session that are looked at, and of several that are read at once
MOST_ACTS: Final = 50_000
#: what `judging` writes into a leg's row
JUDGED: Final = ("baton", "verified", "dangling", "unknown", "checks", "judged_at")
_EVER: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Main:
    """The main calls of a session in order, copied ones included, with their keys and times.

    The window is `session.window_tokens`; `declared`: the agent itself says it.
    """

    session: Session
    calls: Sequence[MainCall]
    keys: Sequence[str]
    times: Sequence[datetime | None]
    declared: bool = False


def project(
    session: Session,
    calls: Sequence[MainCall],
    keys: Sequence[str],
    times: Sequence[datetime | None],
    *,
    declared: bool = False,
) -> dict[str, object]:
    """`project_all` of one session."""
    return project_all([Main(session, calls, keys, times, declared)])[0]


def project_all(mains: Sequence[Main]) -> list[dict[str, object]]:
    """Write the sessions' `SessionLeg` rows anew and return the JSON for each `Session.shadow`; no session is saved.

    A leg that comes out as it was keeps its verdicts. A fixed number of queries however many sessions there are; call
    it inside the transaction of the projection, after the acts are stored.
    """
    ids = [main.session.pk for main in mains]
    chosen = policy.build(settings.SITE_POLICY, None, {})
    before: dict[int, dict[int, SessionLeg]] = {}
    for leg in SessionLeg.objects.filter(session__in=ids):
        before.setdefault(leg.session_id, {})[leg.number] = leg
    acts = _acts_of(mains)
    legs: list[SessionLeg] = []
    summaries: list[dict[str, object]] = []
    for main in mains:
        session, done = main.session, acts.get(main.session.pk, [])
        names = session.model_names
        whole = shadow.would(
            main.calls,
            _window(session, main.declared),
            chosen,
            model=names[0] if len(names) == 1 else "its models" if names else recorded("a model that is not named"),
            effect=min((call for call, act in done if act.kind != "issue"), default=None),
        )
        known = before.get(session.pk, {})
        legs += [
            _leg(session, cut, batons, _until(session, main.times, cut), known.get(cut.number))
            for cut, batons in zip(whole.legs, _up_to(whole.legs, done), strict=True)
        ]
        summaries.append(whole.summary())
    with transaction.atomic():
        SessionLeg.objects.filter(session__in=ids).delete()
        SessionLeg.objects.bulk_create(legs, batch_size=500)
    return summaries


def _window(session: Session, declared: bool) -> Figure | None:
    if not session.window_tokens:
        return None
    if declared:
        return Figure(session.window_tokens, Provenance.OBSERVED, recorded("declared by the agent"))
    found = (windows.known(name, most=session.max_resident) for name in session.model_names)
    source = next(
        (one.source for one in found if one and one.tokens == session.window_tokens), recorded("known of its model")
    )
    return Figure(session.window_tokens, Provenance.ASSUMED, source)


def _acts_of(mains: Sequence[Main]) -> dict[int, list[tuple[int, Done]]]:
    """Session -> its acts, see `_acts`."""
    of = {main.session.pk: main for main in mains}
    told = SessionAct.objects.filter(session__in=of).order_by("session_id", "source_id", "line", "pk")
    names = ("session_id", "kind", "ref", "call", "at")
    grouped = groupby(told.values_list(*names).iterator(2_000), key=itemgetter(0))
    return {pk: _acts(of[pk], islice(acts, MOST_ACTS)) for pk, acts in grouped}


def _acts(main: Main, told: Iterable[tuple[int, str, str, str, datetime | None]]) -> list[tuple[int, Done]]:
    """(main call from 1, act) in order. An act of a sub-agent belongs to the main call that went before it in time."""
    number = {key: at for at, key in enumerate(main.keys, 1)}
    latest: list[datetime] | None = None  # never falling: times may step back
    found: dict[tuple[str, str], int] = {}
    for _, kind, ref, call, at in told:
        if call in number:
            place = number[call]
        elif at is not None:
            if latest is None:
                latest = list(accumulate((time or _EVER for time in main.times), max))
            place = max(bisect_right(latest, at), 1)
        else:
            place = len(main.keys)
        shown = _inside(ref, main.session.cwd) if kind == "file" else ref
        found[kind, shown] = min(place, found.get((kind, shown), place))
    placed = [(place, Done(kind, ref)) for (kind, ref), place in found.items()]
    return sorted(placed, key=itemgetter(0))  # stable: in the files' order within a call


def _inside(ref: str, cwd: str) -> str:
    """A file as seen from the session's folder; one that lies elsewhere as the session named it."""
    if not cwd or not os.path.isabs(cwd):
        return ref
    found = os.path.relpath(os.path.normpath(os.path.join(cwd, ref)), os.path.normpath(cwd))
    return ref if found == ".." or found.startswith("../") else found


def _up_to(legs: Sequence[LegCut], acts: Sequence[tuple[int, Done]]) -> Iterator[list[Done]]:
    """Per leg the acts up to its end, oldest first."""
    done = [act for _, act in acts]
    at = 0
    for leg in legs:
        while at < len(acts) and acts[at][0] <= leg.last_call:
            at += 1
        yield done[:at]


def _until(session: Session, times: Sequence[datetime | None], cut: LegCut) -> datetime | None:
    """Up to when what came into the repository is the leg's: the next leg's first call, else the session's end."""
    return times[cut.last_call] if cut.last_call < len(times) else session.last_at


def _leg(
    session: Session, cut: LegCut, acts: Sequence[Done], until: datetime | None, before: SessionLeg | None
) -> SessionLeg:
    head = next((act.ref for act in reversed(acts) if act.kind == "commit" and is_sha(act.ref)), None)
    baton = shadow.would_be_baton(cut, session.sid, acts, head)
    baton["until"] = until.isoformat() if until else None
    # what judging adds is kept as long as this is the same
    baton["base"] = hashlib.sha256(json.dumps(baton, sort_keys=True).encode()).hexdigest()[:32]
    row = SessionLeg(
        session=session,
        number=cut.number,
        first_call=cut.first_call,
        last_call=cut.last_call,
        ended=cut.ended,
        peak=cut.peak,
        baton=baton,
    )
    if before is not None and before.judged_at is not None and _same(before, row):
        for name in JUDGED:
            setattr(row, name, getattr(before, name))
    return row


#: what judging writes


def _same(one: SessionLeg, other: SessionLeg) -> bool:
    names = ("first_call", "last_call", "ended")
    alike = all(getattr(one, name) == getattr(other, name) for name in names)
    return alike and bool(one.baton.get("base") == other.baton["base"])

"""How far the engine is to be believed: each session that really compacted, predicted by what was learned without it.

cost.md: "it predicts the session's own cost and compaction points from the work stream before them; the page shows
predicted against observed, the median absolute error over all, and the error of this session". What a session's own
compactions did to its window is not in the stream that is played; what it read again after them is, as any tool result.
"""

import hashlib
import time
from dataclasses import replace
from typing import Any, Final

from django.utils import timezone

from relays.core import backtest
from relays.core.baselines import Parameter, Setting, defaults
from relays.core.carryover import Work
from relays.core.lines import recorded
from relays.core.pricing import kept
from relays.core.shadow import Provenance
from relays.core.usage import resident
from relays.costs import learned, measured, rollups, streams
from relays.models import BackTest, CostState, Session, SessionBoundary
from relays.models.pulse import bump

NAME: Final = "backtest"
#: the parameters that a prediction stands on
SHOWN: Final = ("trigger", "residue", "reread", "summary_call", "kept")


def bring_up(until: float = float("inf")) -> bool:
    """Predict what is new until that moment of the monotonic clock, and sum up; whether nothing is left."""
    sign = learned.mark()
    stored = dict(BackTest.objects.values_list("session_id", "digest"))
    sessions = Session.objects.filter(compactions__gt=0, projected_at__isnull=False).order_by("pk")
    keys: set[int] = set()
    changed = False
    for pk, projected in list(sessions.values_list("pk", "projected_at")):
        keys.add(pk)
        digest = hashlib.sha256(f"{projected} {sign}".encode()).hexdigest()
        if stored.get(pk) == digest:
            continue
        if time.monotonic() > until:
            return False
        values = predict(Session.objects.get(pk=pk))
        with rollups.serialised():
            BackTest.objects.update_or_create(
                session_id=pk, defaults={**values, "digest": digest, "at": timezone.now()}
            )
        changed = True
    if gone := set(stored) - keys:
        BackTest.objects.filter(session__in=gone).delete()
        changed = True
    if changed or not CostState.objects.filter(name=NAME).exists():
        _sum_up()
    return True


def predict(session: Session) -> dict[str, Any]:
    """The columns of the session's `BackTest`; a fixed number of queries."""
    seen = streams.of_session(session)
    stream = seen.stream
    if stream is None or not seen.window:
        return {**_nothing(), "why": recorded("the window of its model is not known")}
    setting = defaults(seen.agent, seen.window)
    work = _work(session, seen, stream.work, setting)
    setting = setting.put("base", Parameter(work.base, Provenance.OBSERVED, recorded("the session's first call")))
    setting = learned.apply(setting, seen.agent, seen.version, without=session.sid)
    setting = setting.given("reread", 0, recorded("what it read again is in its work stream"))
    work = replace(work, kept=min(setting.tokens("kept"), work.base))
    # one after the last call is one all the same, though no call shows what came of it
    points = (*stream.cuts, len(seen.calls)) if seen.ended_cut else stream.cuts
    # all of the compactions' own calls are in the file, or they are left out on both sides
    own = seen.carrying_calls >= len(points) > 0
    paid = seen.main + seen.carrying if own else seen.main
    prices = seen.prices if seen.priced else [setting.prices()] * max(1, len(seen.prices))
    found = backtest.predict(work, setting, prices, paid, points, own_calls=own)
    shown = SessionBoundary.objects.filter(session=session, shown=True, counts=True, kind="compaction")
    manual = shown.filter(trigger="manual").exists()
    money = seen.priced
    beside = seen.beside  # sub-agents: the same on both sides
    models = ", ".join(seen.unpriced)
    why = "" if money else recorded("no price is known for %(calls)s", calls=models or "some calls")
    left_out = 0 if own else len(points)
    observed, predicted = kept(paid + beside), kept(found.predicted_cost + beside)
    return {
        "observed_cost": observed if money else None,
        "predicted_cost": predicted if money else None,
        "error": float((predicted - observed) / observed) if money and observed else None,
        "observed_compactions": len(points),
        "predicted_compactions": len(found.predicted_points),
        "observed_at": list(points),
        "predicted_at": list(found.predicted_points),
        "left_out_calls": left_out,
        "counts": not manual,
        "learned": {name: _shown(setting.parameters[name]) for name in SHOWN},
        "why": recorded("a person compacted it: nobody can predict when") if manual else why,
    }


def _work(session: Session, seen: streams.Observed, work: Work, setting: Setting) -> Work:
    """The stream with a base that its own compactions did not show: its first call's, else the agent's usual one."""
    first = resident(seen.calls[0].buckets)
    base = min(first, setting.tokens("base")) if measured.began_inherited(session) else first
    return replace(work, base=base, first=first - base, kept=0)


def _shown(parameter: Parameter) -> dict[str, Any]:
    value = parameter.value
    return {
        "value": float(value) if not isinstance(value, int) else value,
        "provenance": str(parameter.provenance),
        "source": parameter.source,
    }


def _nothing() -> dict[str, Any]:
    return {
        "observed_cost": None, "predicted_cost": None, "error": None, "observed_compactions": 0,
        "predicted_compactions": None, "observed_at": [], "predicted_at": [], "left_out_calls": 0, "counts": False,
        "learned": {},
    }  # fmt: skip


def _sum_up() -> None:
    """Keep what a page says over all: sessions, median_abs_error, count_right, left_out_calls, goal, met."""
    rows = list(
        BackTest.objects.filter(counts=True).values_list(
            "error", "observed_compactions", "predicted_compactions", "left_out_calls"
        )
    )
    found = backtest.trust([row[0] for row in rows], [row[1] == row[2] for row in rows])
    value = {
        "sessions": found.sessions,
        "median_abs_error": found.median_abs_error,
        "count_right": found.count_right,
        "left_out_calls": sum(row[3] for row in rows),
        "goal": [backtest.ERROR_GOAL, backtest.COUNT_GOAL],
        "met": found.met,
    }
    with rollups.serialised():
        CostState.objects.update_or_create(name=NAME, defaults={"value": value, "at": timezone.now()})
        bump(rollups.COST)


def summary() -> dict[str, Any]:
    """What was summed up last; all null before anything was."""
    row = CostState.objects.filter(name=NAME).first()
    nothing = {"sessions": 0, "median_abs_error": None, "count_right": None, "left_out_calls": 0, "met": None}
    return {**nothing, **(row.value if row else {})}

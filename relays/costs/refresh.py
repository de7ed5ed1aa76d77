"""Bring costs up to date in the background: what is due, oldest first, in steps that end within their seconds.

architecture.md: "Every task may run twice, late, or never". Whatever a step makes is made from stored rows as a whole
and replaces what was there, so that twice or late comes to the same; what a step does not reach is due in the next one.
"""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final, TypeVar

from django.db.models import F, Q
from django.utils import timezone

from relays.core import forecast, policy
from relays.core.pricing import plain
from relays.core.usage import Buckets
from relays.costs import backtest, compare, faithful, learned, rollups
from relays.costs.against import Ground
from relays.models import Comparison, CostState, Leg, LegState, Relay, RelayStatus, Session
from relays.models.pulse import bump

log = logging.getLogger(__name__)
Key = TypeVar("Key", int, str)

STEP_TAKES: Final = 20.0  # seconds
#: a step that has not said that it ended is taken for dead
STALE: Final = timedelta(seconds=100)
#: how long a comparison stands while its relay works, by what it takes: below so many milliseconds, so long
STANDS: Final = ((2_000, timedelta(seconds=10)), (10_000, timedelta(minutes=2)), (2_147_483_647, timedelta(minutes=10)))
#: when what failed is tried again
TRY_AGAIN: Final = timedelta(minutes=2)
SOME: Final = 20
#: legs or sessions that are cut in one transaction
TOGETHER: Final = 10


def step(seconds: float = STEP_TAKES) -> str:
    """One step of whatever is due: "busy" where another one runs, else "done" (nothing more is due) or "more"."""
    now = timezone.now()
    CostState.objects.get_or_create(name="step", defaults={"at": now})
    if not CostState.objects.filter(name="step", at__lte=now).update(at=now + STALE):
        return "busy"
    try:
        return "done" if bring_up(time.monotonic() + seconds) else "more"
    finally:
        CostState.objects.filter(name="step").update(at=timezone.now())


def bring_up(until: float = float("inf")) -> bool:
    """Bring everything up to date until that moment of the monotonic clock; whether nothing is left.

    Days first (they are cheap and every page shows them), then what compactions teach, comparisons, back-tests.
    """
    done = _all("days of legs", rollups.due_legs, rollups.cut_legs, until, TOGETHER)
    done = _all("days of sessions", rollups.due_sessions, rollups.cut_sessions, until, TOGETHER) and done
    done = _one("what was learned", learned.bring_up, until) and done
    done = _all("relays", due_relays, _relays, until) and done
    done = _all("sessions", due_sessions, _sessions, until) and done
    return _one("back-tests", lambda: backtest.bring_up(until), until) and done


def _one(what: str, act: Callable[[], object], until: float) -> bool:
    if time.monotonic() > until:
        return False
    try:
        return act() is not False
    except Exception:  # noqa: BLE001 - the step's duty: what one part meets, the others are done
        log.exception("costs: %s failed; tried again in the next step", what)
        return False


def _all(
    what: str, due: Callable[[int], list[Key]], act: Callable[[list[Key]], None], until: float, together: int = 1
) -> bool:
    """All that are due, each once, some at a time; one that fails, or is due again, keeps nobody from their turn.

    `together`: how many are done at once: a site of thousands of legs that was never looked at is done sooner. Where
    that fails each is tried alone.
    """
    tried: set[Key] = set()
    failed = False
    while True:
        if time.monotonic() > until:
            return False
        keys = [key for key in due(SOME + len(tried)) if key not in tried]
        if not keys:
            return not failed
        tried.update(keys)
        for start in range(0, len(keys), together):
            if time.monotonic() > until:
                return False
            failed = not _done(what, keys[start : start + together], act) or failed


def _done(what: str, keys: list[Key], act: Callable[[list[Key]], None]) -> bool:
    """Whether all of them could be done."""
    try:
        act(keys)
    except Exception:  # noqa: BLE001 - as above
        if len(keys) > 1:
            return not [key for key in keys if not _done(what, [key], act)]  # each of them, whatever fails
        log.exception("costs: %s %s failed; tried again in the next step", what, keys[0])
        return False
    return True


def want(of: Relay | Session) -> Comparison:
    """Ask for a new comparison: the next step makes it. What a page calls where it shows none."""
    key = {"relay": of} if isinstance(of, Relay) else {"session": of}
    row, made = Comparison.objects.get_or_create(**key, defaults={"wanted_at": timezone.now()})
    if not made and (row.wanted_at is None or row.wanted_at > timezone.now()):
        row.wanted_at = timezone.now()
        row.save(update_fields=["wanted_at"])
    return row


# --- comparisons


def _stands() -> Q:
    """Those that were computed long enough ago for what they take."""
    now = timezone.now()
    found = Q()
    for took, stands in STANDS:
        found |= Q(comparison__took_ms__lt=took, comparison__computed_at__lte=now - stands)
    return found


def due_relays(limit: int) -> list[str]:
    """Relays whose comparison is missing, asked for, or older than what is stored of them: their names."""
    newer = Q(last_data_at__gt=F("comparison__computed_at")) | Q(progress_at__gt=F("comparison__computed_at"))
    # a relay that ended or waits is compared as it stands, whatever that takes
    turned = Q(status_at__gt=F("comparison__computed_at")) & ~Q(status=RelayStatus.RUNNING)
    found = Relay.objects.filter(
        Q(comparison__isnull=True, last_data_at__isnull=False)
        | Q(comparison__wanted_at__lte=timezone.now())
        | (newer & _stands())
        | turned
    )
    return list(found.order_by("last_data_at").values_list("pk", flat=True)[:limit])


def due_sessions(limit: int) -> list[int]:
    """The same of sessions: their keys."""
    found = Session.objects.filter(main_calls__gt=0, projected_at__isnull=False).filter(
        Q(comparison__isnull=True)
        | Q(comparison__wanted_at__lte=timezone.now())
        | (Q(projected_at__gt=F("comparison__computed_at")) & _stands())
    )
    return list(found.order_by("projected_at").values_list("pk", flat=True)[:limit])


def _relays(keys: Iterable[str]) -> None:
    for relay in Relay.objects.filter(pk__in=list(keys)):
        with _again_later(relay):
            compute_relay(relay)


def _sessions(keys: Iterable[int]) -> None:
    for session in Session.objects.filter(pk__in=list(keys)):
        with _again_later(session):
            compute_session(session)


@contextmanager
def _again_later(of: Relay | Session) -> Iterator[None]:
    """What fails is tried again, but not at once and for ever."""
    try:
        yield
    except Exception:
        key = {"relay": of} if isinstance(of, Relay) else {"session": of}
        Comparison.objects.update_or_create(**key, defaults={"wanted_at": timezone.now() + TRY_AGAIN})
        raise


def bring_up_relay(relay: Relay) -> Comparison:
    """One relay alone, whatever else is due: its days first, for they measure what its legs read again."""
    if legs := rollups.due_legs_of(relay.pk):
        rollups.cut_legs(legs)
    learned.bring_up()
    return compute_relay(Relay.objects.get(pk=relay.pk))


def compute_relay(relay: Relay) -> Comparison:
    """Compute and keep a relay's comparison, with its progress, its forecast and what was read again."""
    begun, now = time.monotonic(), timezone.now()
    values, ground = compare.figures(relay)
    seen = values["observed"]
    tokens = Buckets(**seen["tokens"])
    cost = compare.money(seen["cost"])
    values |= compare.progress_of(relay, tokens, cost)
    values |= _forecast(relay)
    values["faithful"] = faithful.of_relay(relay)
    return _keep(relay, begun, now, values, ground)


def compute_session(session: Session) -> Comparison:
    """The same of a session; nothing of its work is verified, so that it has no progress."""
    begun, now = time.monotonic(), timezone.now()
    values, ground = compare.figures(session)
    values["faithful"] = faithful.of_session(session)
    return _keep(session, begun, now, values, ground)


def _keep(
    of: Relay | Session, begun: float, now: datetime, values: dict[str, object], ground: Ground | None
) -> Comparison:
    took = int((time.monotonic() - begun) * 1_000)
    with rollups.serialised():
        row = compare.store(of, took, values, ground, computed_at=now, wanted_at=None)
        bump(rollups.COST, f"cost:{of.pk}" if isinstance(of, Relay) else f"cost:session:{of.pk}")
    return row


def _topics(of: Relay | Session) -> tuple[str, str]:
    """Its own pages, and the page of its cost, which listens to nothing else."""
    kind = f"relay:{of.pk}" if isinstance(of, Relay) else f"session:{of.pk}"
    return kind, f"cost:{of.pk}" if isinstance(of, Relay) else f"cost:session:{of.pk}"


def _forecast(relay: Relay) -> dict[str, object]:
    ended = Leg.objects.filter(relay=relay, state=LegState.ENDED).count()
    envelope = policy.from_snapshot(relay.policy).envelope
    found, why = forecast.reach(envelope, relay.spent, ended, relay.progress_total)
    return {
        "forecast": [
            {
                "axis": one.axis, "limit": plain(one.limit), "used": plain(one.used),
                "per_leg": plain(one.per_leg.quantize(compare.SIX)), "legs_left": one.legs_left,
                "progress_left": one.progress_left,
            }
            for one in found
        ],
        "forecast_why": why,
    }  # fmt: skip

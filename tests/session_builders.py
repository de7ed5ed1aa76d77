"""Sessions with files, calls, compactions, shadow legs and anomalies made straight through the models."""

import itertools
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from relays.models import (
    FullnessCount,
    Import,
    Session,
    SessionAnomaly,
    SessionBoundary,
    SessionCall,
    SessionFile,
    SessionLeg,
    SourceFile,
)

_number = itertools.count(1)
WINDOW = 200_000


def make_source(**values: Any) -> SourceFile:
    """A file that was read to its end."""
    n = next(_number)
    made: dict[str, Any] = {
        "path": f"/home/ann/.claude/projects/-srv-acme-orders/{n:08d}.jsonl",
        "agent": "claude-code",
        "form": "claude-session",
        "size": 40_000,
        "offset": 40_000,
        "lines": 120,
        "records": {"assistant text": [80, 20_000], "user text": [40, 20_000]},
        "read_at": timezone.now(),
        **values,
    }
    return SourceFile.objects.create(**made)


def make_session(**values: Any) -> Session:
    """A session of one model over `/srv/acme/orders`, without rows; every roll-up can be given."""
    n = next(_number)
    now = timezone.now()
    made: dict[str, Any] = {
        "agent": "claude-code",
        "sid": f"258c7280-ae70-4798-800f-{n:012d}",
        "cwd": "/srv/acme/orders",
        "branch": "main",
        "version": "2.1.226",
        "model_names": ["claude-opus-4-5"],
        "first_at": now - timedelta(hours=2),
        "last_at": now - timedelta(minutes=n % 50),
        "window_tokens": WINDOW,
        "projected_at": now,
        **values,
    }
    return Session.objects.create(**made)


def add_calls(
    session: Session, resident: Sequence[int], source: SourceFile | None = None, **values: Any
) -> list[SessionCall]:
    """Main calls with these resident tokens, line after line, and the roll-ups that they give."""
    file = source or make_source()
    SessionFile.objects.get_or_create(source=file, session=session)
    began = session.first_at or timezone.now()
    rows = [
        SessionCall(
            **{
                "source": file, "session": session, "key": f"{session.sid}-{n}", "line": n * 2, "chain": "main",
                "model": "claude-opus-4-5", "at": began + timedelta(seconds=n * 20), "input_tokens": 10,
                "cache_read": max(tokens - 1_010, 0), "cache_write_5m": 1_000, "output_tokens": 300,
                "resident": tokens, "tools": 2, "cost": Decimal("0.01"), **values,
            }
        )
        for n, tokens in enumerate(resident, start=1)
    ]  # fmt: skip
    SessionCall.objects.bulk_create(rows, batch_size=500)
    session.calls += len(rows)
    session.main_calls += len(rows)
    session.input_tokens += 10 * len(rows)
    session.cache_read += sum(row.cache_read for row in rows)
    session.cache_write_5m += 1_000 * len(rows)
    session.output_tokens += 300 * len(rows)
    session.max_resident = max([session.max_resident, *resident])
    session.cost = (session.cost or Decimal(0)) + Decimal("0.01") * len(rows)
    step = -(-len(resident) // 1_000)
    session.series = {"n": len(resident), "points": [[n, at, 0] for n, at in enumerate(resident, start=1)][::step]}
    session.save()
    return rows


def add_compaction(session: Session, source: SourceFile, after_call: int, **values: Any) -> SessionBoundary:
    """A compaction after the given main call, declared and measured."""
    made: dict[str, Any] = {
        "uid": f"{session.sid}-b{after_call}",
        "line": after_call * 2 + 1,
        "at": (session.first_at or timezone.now()) + timedelta(seconds=after_call * 20 + 5),
        "trigger": "auto",
        "declared_pre": 167_009,
        "declared_post": 17_692,
        "measured_before": 166_408,
        "measured_after": 64_513,
        "after_call": after_call,
        "duration_ms": 61_000,
        **values,
    }
    row = SessionBoundary.objects.create(session=session, source=source, **made)
    session.compactions = SessionBoundary.objects.filter(session=session, kind="compaction", counts=True).count()
    session.save(update_fields=["compactions"])
    return row


def add_leg(session: Session, number: int, first: int, last: int, ended: str, **values: Any) -> SessionLeg:
    made: dict[str, Any] = {"peak": 120_000, **values}
    return SessionLeg.objects.create(
        session=session, number=number, first_call=first, last_call=last, ended=ended, **made
    )


def add_anomaly(source: SourceFile, kind: str, session: Session | None = None, **values: Any) -> SessionAnomaly:
    return SessionAnomaly.objects.create(source=source, session=session, kind=kind, **values)


def add_fullness(session: Session, twentieth: int, tools: int, errors: int, model: str = "claude-opus-4-5") -> None:
    FullnessCount.objects.create(session=session, model=model, twentieth=twentieth, tools=tools, errors=errors)


def make_import(by: User, *paths: str, asked_at: datetime | None = None, **values: Any) -> Import:
    return Import.objects.create(paths=list(paths), asked_by=by, asked_at=asked_at or timezone.now(), **values)


def make_story() -> tuple[Session, SourceFile]:
    """A session of 60 main calls with one compaction after call 40 and one would-be rotation before it."""
    session = make_session()
    source = make_source()
    resident = [24_000 + 3_500 * n for n in range(41)] + [64_513 + 3_000 * n for n in range(19)]
    add_calls(session, resident, source)
    add_compaction(session, source, 41)
    add_leg(session, 0, 1, 28, "would_rotate", verified=9, dangling=0, unknown=1, judged_at=timezone.now())
    add_leg(session, 1, 29, 41, "compaction", peak=166_000)
    add_leg(session, 2, 42, 60, "end", peak=118_513)
    return session, source

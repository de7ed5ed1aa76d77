"""Relays, legs, calls and gates made straight through the models, for tests of pages and reports."""

import hashlib
import itertools
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import Group, User
from django.utils import timezone

from relays.models import Call, GateEpisode, GateState, Leg, LegState, Relay, RelayStatus, Topic

_number = itertools.count(1)


def make_user(name: str = "", *roles: str, password: str = "") -> User:
    """A user with the given roles; a transactional test has emptied the groups of migration 0002."""
    user = User.objects.create_user(name or f"user-{next(_number)}", password=password or None)
    for role in roles:
        user.groups.add(Group.objects.get_or_create(name=role)[0])
    return user


def make_relay(**values: Any) -> Relay:
    """A relay that runs over `/srv/acme/orders`, owned by a new operator; every field can be given."""
    n = next(_number)
    now = timezone.now()
    status = values.get("status", RelayStatus.RUNNING)
    final = status in (RelayStatus.DONE, RelayStatus.STOPPED)
    objective = values.get("objective", f"Close the open issues, number {n}")
    made: dict[str, Any] = {
        "id": f"RLY-20261130-{n:04d}",
        "status": status,
        "status_at": now,
        "ended_at": now if final else None,
        "ended_reason": {"done": "RELAY_GOAL_DONE", "stopped": "STOPPED"}.get(str(status), ""),
        "pin_id": f"pin-{n}",
        "objective": objective,
        "objective_digest": hashlib.sha256(objective.encode()).hexdigest(),
        "done_when": "issues:none open",
        "region": ["**"],
        "repo": "/srv/acme/orders",
        "git_dir": "/srv/acme/orders/.git",
        "branch": f"relay/RLY-20261130-{n:04d}",
        "worktree": f"/srv/worktrees/{n}",
        "start_sha": f"{n:040x}",
        "agent": "scripted",
        "created_at": now,
        "last_data_at": now,
        **values,
    }
    if "owner" not in made:
        made["owner"] = make_user("", "operator")
    return Relay.objects.create(**made)


def make_leg(relay: Relay, number: int = 0, *, resident: Sequence[int] = (), **values: Any) -> Leg:
    """A leg with one call a turn for each figure of `resident`; running unless `reason` (it ended) is given."""
    now = timezone.now()
    ended = bool(values.get("reason"))
    made: dict[str, Any] = {
        "state": LegState.ENDED if ended else LegState.RUNNING,
        "trace": f"tr-{relay.pk}-{number}",
        "window_tokens": 200_000,
        "mark_tokens": 120_000,
        "ceiling_tokens": 180_000,
        "started_at": now - timedelta(minutes=10),
        "ended_at": now if ended else None,
        "turns": len(resident),
        "resident_tokens": resident[-1] if resident else 0,
        "peak_tokens": max(resident, default=0),
        "calls": len(resident),
        "turns_digest": "1" * 64 if ended and resident else "",
        **values,
    }
    leg = Leg.objects.create(relay=relay, number=number, **made)
    Call.objects.bulk_create(
        Call(
            leg=leg,
            key=f"{leg.trace}-{turn}",
            turn=turn,
            resident_tokens=tokens,
            cost=None,
            at=now,
        )
        for turn, tokens in enumerate(resident, start=1)
    )
    if relay.legs_used < number + 1:
        Relay.objects.filter(pk=relay.pk).update(legs_used=number + 1)
        relay.legs_used = number + 1
    return leg


def make_gate(
    relay: Relay, token: str = "RELAY_PARKED_UNSAFE", *, opened_at: datetime | None = None, **values: Any
) -> GateEpisode:
    """A gate episode that waits."""
    opened = opened_at or timezone.now()
    made: dict[str, Any] = {
        "state": GateState.WAITING,
        "items": ["One dirty path could not be stored."],
        "opened_at": opened,
        "state_at": opened,
        **values,
    }
    return GateEpisode.objects.create(relay=relay, token=token, **made)


def make_fleet(count: int) -> list[Relay]:
    """Relays of every kind: they run, wait, idle, are parked at a gate, done and stopped."""
    statuses = [RelayStatus.RUNNING, RelayStatus.PARKED, RelayStatus.WAITING, RelayStatus.DONE, RelayStatus.IDLE]
    fleet = []
    for n in range(count):
        status = statuses[n % len(statuses)]
        relay = make_relay(status=status, spend_used=Decimal("0"), unpriced_calls=3)
        make_leg(relay, 0, resident=[20_000, 60_000], reason="RELAY_ROTATED", fidelity_verified=4, fidelity_dangling=0)
        if status == RelayStatus.RUNNING:
            make_leg(relay, 1, resident=[20_000, 50_000, 90_000])
        elif status == RelayStatus.PARKED:
            make_gate(relay, leg=make_leg(relay, 1, resident=[20_000], reason="RELAY_PARKED_UNSAFE", cause="ceiling"))
        fleet.append(relay)
    return fleet


def bump(*topics: str) -> None:
    """Raises the change number of topics, as a writer would."""
    for name in topics:
        row, _ = Topic.objects.get_or_create(name=name, defaults={"number": 0})
        Topic.objects.filter(pk=row.pk).update(number=row.number + 1)

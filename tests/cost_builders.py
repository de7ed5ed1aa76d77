"""Comparisons, day roll-ups and back-tests made straight through the models, in the shapes that the task stores."""

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from relays.core.faithful import judge
from relays.costs.faithful import as_json
from relays.models import BackTest, Comparison, DayCost, Leg, OwnerBudget, Relay, Session

TOKENS = {"input": 12_000, "cache_read": 3_400_000, "cache_write_5m": 260_000, "cache_write_1h": 0, "output": 48_000}


def parameter(value: float, low: float | None, high: float | None, provenance: str, source: str, unit: str) -> Any:
    return {"value": value, "low": low, "high": high, "provenance": provenance, "source": source, "unit": unit}


def baseline(policy: str = "compaction", cost: str | None = "11.20", **values: Any) -> dict[str, Any]:
    """One baseline as it is stored."""
    return {
        "policy": policy,
        "provenance": "SIMULATED",
        "cost": cost,
        "peak_tokens": 167_000,
        "events": 3,
        "cache_bust_tokens": 180_642,
        "hit_rate": 0.93,
        "exceeded_at": None,
        "band": ["9.90", "12.80"] if cost is not None else None,
        "parameters": {
            "trigger": parameter(0.835, 0.6, 0.95, "ASSUMED", "Claude Code: the window less 33,000", "part"),
            "residue": parameter(0.22, 0.11, 0.3, "OBSERVED", "8 compactions of 3 sessions", "part"),
            "reread": parameter(20_000, 10_000, 40_000, "ASSUMED", "nothing is measured", "tokens"),
        },
        **values,
    }


def make_comparison(of: Relay | Session, **values: Any) -> Comparison:
    """A comparison that says the relay was cheaper; `saving` below 0 and `verdict="dearer"` make it lose."""
    made: dict[str, Any] = {
        "computed_at": timezone.now(),
        "verdict": "cheaper",
        "saving": Decimal("2.9500"),
        "saving_low": Decimal("1.6500"),
        "saving_high": Decimal("4.5500"),
        "break_even": 61_000,
        "observed": {
            "cost": "8.2500", "calls": 120, "unpriced": 0, "unpriced_models": [], "peak_tokens": 118_400, "events": 4,
            "cache_bust_tokens": 24_000, "hit_rate": 0.91, "tokens": dict(TOKENS), "reported": None,
        },
        "baselines": [
            baseline(), baseline("context_editing", "9.80", events=6), baseline("sliding_window", "7.10", events=90),
            baseline("none", "14.60", events=0, exceeded_at=None),
        ],
        "sensitivity": [
            {"name": "trigger", "low": 0.6, "high": 0.95, "saving_low": "1.65", "saving_high": "3.60", "breaks": None},
            {"name": "residue", "low": 0.11, "high": 0.3, "saving_low": "2.10", "saving_high": "3.80", "breaks": None},
            {"name": "orientation", "low": 8_000, "high": 40_000, "saving_low": "1.20", "saving_high": "3.90",
             "breaks": 61_000},
        ],
        "line": [[10_000 * n, str(Decimal("3.9") - Decimal("0.64") * n)] for n in range(9)],
        "series": {
            "x": [1, 40, 80, 120], "observed": ["0.07", "2.70", "5.40", "8.25"],
            "base": ["0.06", "3.10", "6.80", "11.20"],
            "low": ["0.06", "2.90", "6.10", "9.90"], "high": ["0.06", "3.40", "7.70", "12.80"],
        },
        "legs": [
            {"leg": n, "calls": 30, "input": "0.04", "cache_read": "0.85", "cache_write": "0.81", "output": "0.36",
             "unpriced": 0, "peak": 118_400 - n}
            for n in range(4)
        ],
        "busts": [{"leg": n, "turn": 30, "tokens": 6_000} for n in range(4)],
        "orientation": {"n": 3, "median": 18_200, "values": [[1, 17_000], [2, 18_200], [3, 21_000]]},
        "prices": {"read": "0.5", "write": "6.25", "output": "25", "input": "5", "source": "genai-prices"},
        "progress": {"commits": 5, "issues": 4, "rows": 1, "units": 10},
        "money_per_unit": Decimal("0.825"),
        "tokens_per_unit": 372_000,
        "faithful": {**as_json(judge([], [])), "rows": []},
        "forecast": [{"axis": "spend", "limit": "20", "used": "8.25", "per_leg": "2.0625", "legs_left": 5,
                      "progress_left": 14}],
    }  # fmt: skip
    key = {"relay": of} if isinstance(of, Relay) else {"session": of}
    return Comparison.objects.create(**key, **{**made, **values})


def make_day(of: Leg | Session, day: date | None = None, *, cost: str = "2.50", **values: Any) -> DayCost:
    """One day of a leg or of a session by one model."""
    mine: dict[str, Any]
    if isinstance(of, Leg):
        mine = {
            "kind": "relay", "relay": of.relay, "leg": of, "agent": of.relay.agent, "repository": of.relay.repo,
            "owner": of.relay.owner,
        }  # fmt: skip
    else:
        mine = {"kind": "session", "session": of, "agent": of.agent, "repository": of.cwd}
    made: dict[str, Any] = {
        "day": day or timezone.now().date(), "model": "claude-opus-4-5", "calls": 40, "input_tokens": 3_000,
        "cache_read": 850_000, "cache_write_5m": 65_000, "output_tokens": 12_000,
        "units": int(Decimal(cost) * 10**10),
    }  # fmt: skip
    return DayCost.objects.create(**{**made, **mine, **values})


def make_backtest(session: Session, **values: Any) -> BackTest:
    made: dict[str, Any] = {
        "observed_cost": Decimal("12.40"), "predicted_cost": Decimal("12.10"), "error": 0.0242,
        "observed_compactions": 4, "predicted_compactions": 4, "observed_at": [60, 130, 190, 250],
        "predicted_at": [61, 128, 192, 251], "left_out_calls": 4,
        "learned": {"trigger": {"value": 0.83, "n": 9, "provenance": "OBSERVED", "source": "9 compactions"}},
        "at": timezone.now(),
    }  # fmt: skip
    return BackTest.objects.create(session=session, **{**made, **values})


def make_budget(owner: User, limit: str = "100", month: date | None = None, **values: Any) -> OwnerBudget:
    set_at = timezone.now() - timedelta(days=1)
    return OwnerBudget.objects.create(owner=owner, month=month, limit=Decimal(limit), set_at=set_at, **values)

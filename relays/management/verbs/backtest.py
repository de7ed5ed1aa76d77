"""`backtest`: how well the engine predicts sessions that really compacted, with parameters learned without each."""

import argparse
from typing import Any

from relays.management.cli import Exit, emit, table
from relays.models import BackTest


def configure(parser: argparse.ArgumentParser) -> None:
    del parser


def run(options: argparse.Namespace) -> int:
    from relays.costs import backtest, learned, rollups

    while sessions := rollups.due_sessions(20):
        rollups.cut_sessions(sessions)
    learned.bring_up()
    backtest.bring_up()
    rows = list(BackTest.objects.select_related("session").order_by("session__last_at", "pk"))
    found = backtest.summary()
    data = {
        "sessions": [_shape(row) for row in rows],
        "median_abs_error": found["median_abs_error"],
        "count_right": found["count_right"],
        "left_out_calls": found["left_out_calls"],
        "goal": {"median_abs_error": 0.05, "count_right": 0.9, "met": found["met"]},
    }
    emit(data, options.json, lambda: _words(data))
    return Exit.FINE


def _shape(row: BackTest) -> dict[str, Any]:
    from relays.core.pricing import plain

    return {
        "session": row.session.sid,
        "agent": row.session.agent,
        "version": row.session.version,
        "observed_cost": None if row.observed_cost is None else plain(row.observed_cost),
        "predicted_cost": None if row.predicted_cost is None else plain(row.predicted_cost),
        "error": row.error,
        "observed_compactions": row.observed_compactions,
        "predicted_compactions": row.predicted_compactions,
        "observed_at": row.observed_at,
        "predicted_at": row.predicted_at,
        "left_out_calls": row.left_out_calls,
        "counts": row.counts,
        "parameters": row.learned,
        "why": row.why or None,
    }


def _words(data: dict[str, Any]) -> str:
    if not data["sessions"]:
        return "not yet: no session that was imported has compacted; `relay import PATH` reads sessions"
    rows = [
        [
            one["session"][:13], f"{one['agent']} {one['version']}".strip(), _money(one["observed_cost"]),
            _money(one["predicted_cost"]), "not yet" if one["error"] is None else f"{one['error']:+.1%}",
            f"{one['observed_compactions']}", "not yet" if one["predicted_compactions"] is None
            else f"{one['predicted_compactions']}", one["why"] or "",
        ]
        for one in data["sessions"]
    ]  # fmt: skip
    lines = [table(rows, ["session", "agent", "observed", "predicted", "error", "compacted", "predicted", ""])]
    median, right = data["median_abs_error"], data["count_right"]
    lines.append("")
    lines.append(
        f"median absolute error of cost: {'not yet' if median is None else f'{median:.1%}'} (goal: at most 5 %); "
        f"right number of compactions: {'not yet' if right is None else f'{right:.0%}'} (goal: at least 90 %)"
    )
    if data["left_out_calls"]:
        lines.append(
            f"{data['left_out_calls']} compactions lack their own call in their files: it is left out on both sides"
        )
    lines.append("each session is predicted with parameters that were learned without it")
    return "\n".join(lines)


def _money(text: str | None) -> str:
    return "unpriced" if text is None else f"$ {float(text):,.2f}"

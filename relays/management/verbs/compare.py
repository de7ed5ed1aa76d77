"""`compare ID|SESSION`: what it cost, against other ways to carry the same work. Exit 0 whoever wins.

The figures are computed from the stored calls as they are now, and kept: the page shows the same.
"""

import argparse
from typing import Any

from relays.management.cli import Exit, emit, refuse, table
from relays.models import Comparison, Relay, Session


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID|SESSION", help="a relay, or an imported session by its id or its beginning")


def run(options: argparse.Namespace) -> int:
    from relays.costs import learned, refresh

    found = find(options.id)
    if isinstance(found, Relay):
        row = refresh.bring_up_relay(found)
    else:
        learned.bring_up()
        row = refresh.compute_session(found)
    data = shape(row, found)
    emit(data, options.json, lambda: _words(data, row))
    return Exit.FINE


def find(name: str) -> Relay | Session:
    """The relay or the session of that name; a session also by a beginning that no other one has. Refuses others."""
    if not name.isprintable():  # a NUL or a lone surrogate never reaches a database
        refuse("compare: the name holds a sign that no name has; `relay list` names relays", Exit.NOT_FOUND)
    relay = Relay.objects.filter(pk=name).first()
    if relay is not None:
        return relay
    exact = list(Session.objects.filter(sid=name)[:2])
    found = exact or list(Session.objects.filter(sid__startswith=name).order_by("pk")[:2] if len(name) >= 4 else [])
    if len(found) > 1:
        refuse(f"compare {name}: several sessions begin so; name one whole")
    if not found:
        refuse(
            f"compare {name}: no relay and no session of that name; `relay list` names relays, "
            "`relay import PATH` reads sessions",
            Exit.NOT_FOUND,
        )
    return found[0]


def shape(row: Comparison, of: Relay | Session) -> dict[str, Any]:
    """The JSON of interface.md, with more keys."""
    observed = row.observed
    return {
        "relay" if isinstance(of, Relay) else "session": of.pk if isinstance(of, Relay) else of.sid,
        "observed": {**observed, "provenance": "OBSERVED"},
        "baselines": [dict(one) for one in row.baselines],
        "verdict": row.verdict,
        "why": row.why or row.verdict_why,
        "saving": _text(row.saving),
        "saving_band": [_text(row.saving_low), _text(row.saving_high)] if row.saving_low is not None else None,
        "break_even_orientation_tokens": row.break_even,
        "sensitivity": row.sensitivity,
        "orientation": row.orientation,
        "scripted": row.scripted,
        "progress": row.progress or None,
        "money_per_unit": _text(row.money_per_unit),
        "tokens_per_unit": row.tokens_per_unit,
        "forecast": row.forecast,
        "forecast_why": row.forecast_why or None,
        "faithful": row.faithful,
    }


def _text(amount: Any) -> str | None:
    from relays.core.pricing import plain

    return None if amount is None else plain(amount)


def _words(data: dict[str, Any], row: Comparison) -> str:
    seen = data["observed"]
    scripted = " (scripted worker: no model's figures)" if row.scripted else ""
    lines = [f"{row.verdict}: {data['why'] or 'nothing to say yet'}{scripted}"]
    rows = [["observed", "OBSERVED", _cost(seen["cost"]), "", f"{seen['peak_tokens']:,}", str(seen["events"]),
             f"{seen['cache_bust_tokens']:,}"]]  # fmt: skip
    for one in data["baselines"]:
        band = f"{_cost(one['band'][0])} to {_cost(one['band'][1])}" if one["band"] else ""
        failed = f", full after call {one['exceeded_at']}" if one["exceeded_at"] else ""
        rows.append(
            [one["policy"].replace("_", " "), one["provenance"], _cost(one["cost"]) + failed, band,
             f"{one['peak_tokens']:,}", str(one["events"]), f"{one['cache_bust_tokens']:,}"]
        )  # fmt: skip
    lines += ["", table(rows, ["carried by", "provenance", "cost", "band", "peak", "cuts", "cache bust"])]
    if row.break_even is not None:
        lines.append(f"the relay loses when a fresh leg re-reads more than {row.break_even:,} tokens")
    if seen["unpriced"]:
        lines.append(f"partial: {seen['unpriced']:,} calls unpriced ({', '.join(seen['unpriced_models'])})")
    if data["progress"]:
        per = f"$ {data['money_per_unit']} a unit" if data["money_per_unit"] else "money a unit: not yet"
        lines.append(f"verified progress: {data['progress']['units']} units; {per}")
    return "\n".join(lines)


def _cost(text: str | None) -> str:
    return "unpriced" if text is None else f"$ {float(text):,.4f}"

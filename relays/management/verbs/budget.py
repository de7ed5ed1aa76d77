"""`budget [OWNER] [--month YYYY-MM] [--limit USD | --remove]`: what an owner's relays may cost in a month, and cost."""

import argparse
import re
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from relays.management.cli import Exit, emit, refuse, table
from relays.management.verbs._relays import acting, add_actor
from relays.models import OwnerBudget, OwnerMonth


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("owner", nargs="?", metavar="OWNER", help="whose relays; without it: every owner's budgets")
    parser.add_argument("--month", type=_month, metavar="YYYY-MM", help="that month alone; default: each month")
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--limit", type=_amount, metavar="USD", help="set the limit in dollars")
    change.add_argument("--remove", action="store_true", help="take the limit away")
    parser.add_argument("--warn-at", type=float, default=0.8, metavar="PART", help="warn from this part on (0.8)")
    add_actor(parser)


def _month(text: str) -> date:
    found = re.fullmatch(r"([0-9]{4})-([0-9]{2})", text)
    try:
        if found:
            return date(int(found[1]), int(found[2]), 1)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is no month: write it as 2026-05")


def _amount(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise argparse.ArgumentTypeError(f"{text!r} is no amount: write it in dollars, as 250 or 99.50") from None


def run(options: argparse.Namespace) -> int:
    from relays.actions import budget

    if options.limit is not None or options.remove:
        if options.owner is None:
            refuse("budget: name the OWNER whose limit is set; `relay list` shows the owners of relays")
        limit = None if options.remove else options.limit
        budget.set_limit(acting(options), options.owner, limit, month=options.month, warn_at=options.warn_at)
    elif options.owner is not None:
        budget.owner_or_refuse(options.owner)
    data = _standing(options.owner, options.month)
    emit(data, options.json, lambda: _words(data))
    return Exit.FINE


def _standing(owner: str | None, month: date | None) -> dict[str, Any]:
    """Budgets, and what months cost: newest first, at most 200."""
    from relays.core.pricing import plain
    from relays.costs.rollups import dollars

    budgets = OwnerBudget.objects.select_related("owner").order_by("owner__username", "month")
    months = OwnerMonth.objects.select_related("owner").order_by("-month", "owner__username")
    if owner is not None:
        budgets, months = budgets.filter(owner__username=owner), months.filter(owner__username=owner)
    if month is not None:
        months = months.filter(month=month)
    return {
        "budgets": [
            {
                "owner": one.owner.get_username(), "month": f"{one.month:%Y-%m}" if one.month else None,
                "limit": plain(one.limit), "currency": one.currency, "warn_at": one.warn_at,
            }
            for one in budgets[:200]
        ],
        "months": [
            {
                "owner": one.owner.get_username(), "month": f"{one.month:%Y-%m}", "spent": plain(dollars(one.units)),
                "unpriced_calls": one.unpriced, "limit": None if one.limit is None else plain(one.limit),
                "state": one.state, "warned_at": one.warned_at,
            }
            for one in months[:200]
        ],
    }  # fmt: skip


def _words(data: dict[str, Any]) -> str:
    lines = []
    for one in data["budgets"]:
        warns = f"warns from {one['warn_at']:.0%} on"
        lines.append(f"{one['owner']}, {one['month'] or 'each month'}: at most $ {one['limit']}, {warns}")
    rows = []
    for one in data["months"]:
        spent = f"$ {float(one['spent']):,.2f}" + (" (partial)" if one["unpriced_calls"] else "")
        limit = f"$ {one['limit']}" if one["limit"] else "no limit"
        rows.append([one["owner"], one["month"], spent, limit, one["state"]])
    if rows:
        lines += ["", table(rows, ["owner", "month", "spent", "limit", "state"])]
    return "\n".join(lines) or "no budget and no month with cost yet"

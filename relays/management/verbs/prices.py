"""`prices [MODEL] [--agent A] [--at TIME]`: the price that would be used; without MODEL, the models that were seen."""

import argparse
from datetime import UTC, datetime

from django.db.models import Count, Max, Min, Q
from django.utils import timezone

from relays.core.pricing import NOT_CALLED, Rate, plain
from relays.management.cli import Exit, emit, refuse, table
from relays.models import SessionCall
from relays.stores.prices import Price, book

AGENTS = ("claude-code", "codex", "gemini-cli", "opencode", "relay")
HEAD = ["model", "agent", "calls", "without price", "input", "cache read", "write 5m", "write 1h", "output", "source"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", nargs="?", metavar="MODEL", help="as an agent writes it, such as claude-opus-5")
    parser.add_argument(
        "--agent", choices=AGENTS, default="", metavar="A", help=f"whose name it is: {', '.join(AGENTS)}"
    )
    parser.add_argument(
        "--at", type=_time, metavar="TIME", help="at that time (ISO 8601, UTC if none is said); default: now"
    )


def _time(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time: write it as 2026-03-12 or 2026-03-12T18:00:00Z"
        ) from None
    try:
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is outside the calendar") from None


def run(options: argparse.Namespace) -> int:
    return _one(options) if options.model is not None else _seen(options)


def _one(options: argparse.Namespace) -> int:
    at = options.at or timezone.now()
    price = book().find(options.model, options.agent, at)
    if price is None:
        if options.json:
            emit({"model": options.model, "at": at, "price": None}, True, "")
            return Exit.NOT_FOUND
        refuse(
            f"{options.model}: unpriced: neither the site's table nor the price library has it; "
            "add a row to the file that SITE_PRICES names",
            Exit.NOT_FOUND,
        )
    emit({"model": options.model, "at": at, "price": _shape(price)}, options.json, lambda: _words(price))
    return Exit.FINE


def _seen(options: argparse.Namespace) -> int:
    """Every model of calls that count, most calls first. Its price is that of `--at`, else of its last call."""
    rows = (
        SessionCall.objects.filter(counts=True)
        .order_by()
        .values("model", "session__agent")
        .annotate(
            calls=Count("pk"), unpriced=Count("pk", filter=Q(cost=None)), first=Min("at"), last=Max("at")
        )
    )  # fmt: skip
    found = []
    lines = []
    for row in sorted(rows, key=lambda row: (-row["calls"], row["model"], row["session__agent"])):
        model, agent = row["model"], row["session__agent"]
        price = book().find(model, agent, options.at or row["last"] or timezone.now())
        found.append(
            {
                "model": model,
                "agent": agent,
                "calls": row["calls"],
                "calls_unpriced": row["unpriced"],
                "first": row["first"],
                "last": row["last"],
                "price": _shape(price) if price else None,
            }
        )
        named = model if model not in NOT_CALLED else f"{model or 'no name'} (no model)"
        rates = [_rate(rate) for rate in price.rates.used().values()] if price else ["unpriced", "", "", "", ""]
        lines.append([named, agent, str(row["calls"]), str(row["unpriced"]), *rates, price.source if price else ""])
    text = table(lines, HEAD) if lines else "no call was read yet: `relay import PATH` reads sessions"
    emit({"models": found}, options.json, text)
    return Exit.FINE


def _shape(price: Price) -> dict[str, object]:
    """`rates`: dollars per million tokens, those that are used: fall-backs filled in and named."""
    used = price.rates.used()
    return {
        "model": price.model,
        "provider": price.provider,
        "source": price.source,
        "since": price.since,
        "digest": price.digest,
        "rates": {
            name: {"base": plain(rate.base), "tiers": [{"above": at, "price": plain(of)} for at, of in rate.tiers]}
            for name, rate in used.items()
            if rate is not None
        },
        "own": [name for name in used if getattr(price.rates, name) is not None],
    }


def _words(price: Price) -> str:
    since = price.since.isoformat() if price.since else "always"
    lines = [
        f"{price.provider} {price.model}",
        f"source  {price.source}",
        f"since   {since}",
        "dollars per million tokens:",
    ]
    rows = []
    for name, rate in price.rates.used().items():
        why = "" if getattr(price.rates, name) is not None or rate is None else "no rate of its own: from input"
        rows.append([name.replace("_", " "), _rate(rate), why])
    return "\n".join([*lines, table(rows, ["tokens", "price", ""])])


def _rate(rate: Rate | None) -> str:
    if rate is None:
        return "no price"
    return "; ".join([plain(rate.base), *(f"{plain(price)} above {start:,}" for start, price in rate.tiers)])

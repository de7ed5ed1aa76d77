"""`/cost/`: what the fleet cost, with its filters in the address, and each of its tables as CSV."""

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from relays import access
from relays.charts import fleet_cost as chart
from relays.reports import fleet_ahead, fleet_csv, fleet_side
from relays.reports import fleet_cost as report
from relays.reports.fleet_query import Query, clean_query, fleet_day
from relays.reports.roles import READ
from relays.views.csvfile import csv_response
from relays.views.parts import part_response

TOPIC = "cost"
ROWS = 62  # days in the table of the page, the newest; the CSV has all


@require_safe
def fleet_cost(request: HttpRequest) -> HttpResponseBase:
    """The page, or with `?part=body|days` a region of it, or with `?format=csv&of=` a table."""
    access.require(request, READ)
    query = clean_query(request.GET.dict(), fleet_day())
    if request.GET.get("format") == "csv":
        return _csv(query, request.GET.get("of", "days"))
    part = request.GET.get("part")
    if part is None:
        return render(request, "relays/fleet_cost/page.html", {**_body(query), "choices": report.choices()})
    if part == "body":
        return part_response(request, "relays/fleet_cost/_body.html", lambda: _body(query), (TOPIC,))
    if part != "days":
        raise Http404(_("There is no such part of this page."))

    def build() -> dict[str, object]:
        return {"text": json.dumps(_chart(report.days(query)), separators=(",", ":"))}

    response: HttpResponse = part_response(request, "relays/relay/_chart.json", build, (TOPIC,))
    response["Content-Type"] = "application/json"
    return response


def _chart(days: Sequence[report.DayRow]) -> dict[str, object]:
    return {"figure": chart.figure(days).plain(), "alternative": chart.alternative(days)}


def _body(query: Query) -> dict[str, object]:
    now, today = timezone.now(), fleet_day()
    page = report.fleet(query)
    months = fleet_side.budgets(query, now, today)
    here = address(query)
    return {
        "fleet": page,
        "query": query,
        "problems": dict(query.problems),
        "here": here,
        "again": f"?{here}&" if here else "?",
        "ranges": _ranges(query, today),
        "table_days": tuple(reversed(page.days))[:ROWS],
        "chart": _chart(page.days) if any(row.day and row.all.units for row in page.days) else None,
        "legend": chart.models_of(page.days),
        "parked": fleet_side.parked(query, now),
        "envelopes": fleet_ahead.envelopes(query),
        "ways": fleet_ahead.other_ways(query),
        "months": months,
        "warnings": [row for row in months if row.warns and row.month == today.replace(day=1)],
        "belief": fleet_side.belief(),
        "before": address(query, page=page.page - 1) if page.page > 1 else "",
        "after": address(query, page=page.page + 1) if page.page < page.pages else "",
        "as_scripted": address(query, scripted="" if query.scripted else 1, page=""),
    }


def address(query: Query, **change: object) -> str:
    """The query as the part of an address behind `?`, without what is the default."""
    values: dict[str, object] = {
        "range": "all" if query.everything else "",
        "since": query.since.isoformat() if query.since else "",
        "until": query.until.isoformat() if query.until else "",
        "kind": query.kind,
        "model": query.model,
        "agent": query.agent,
        "repo": query.repo,
        "owner": query.owner,
        "scripted": 1 if query.scripted else "",
        "page": query.page if query.page > 1 else "",
        **change,
    }
    return urlencode({name: value for name, value in values.items() if value not in ("", None)})


def _ranges(query: Query, today: Any) -> list[tuple[str, str, bool]]:
    """(words, address, chosen) of the ranges that one mostly looks at."""
    found = []
    for days in (7, 30, 90):
        since = today - timedelta(days=days - 1)
        chosen = query.since == since and query.until is None
        found.append(
            (_("%(days)s days") % {"days": days}, address(query, range="", since=since, until="", page=""), chosen)
        )
    return [*found, (_("all"), address(query, range="all", since="", until="", page=""), query.everything)]


def _csv(query: Query, of: str) -> HttpResponseBase:
    makers: dict[str, Callable[[], fleet_csv.Rows]] = {
        **{name: _table(query, name) for name in fleet_csv.TABLES},
        "budgets": lambda: fleet_csv.budgets(fleet_side.budgets(query, timezone.now(), fleet_day())),
        "parked": lambda: fleet_csv.parked(fleet_side.parked(query, timezone.now())),
        "back-test": lambda: fleet_csv.tests(fleet_side.belief()),
        "learned": lambda: fleet_csv.learned(fleet_side.belief()),
    }
    if of not in makers:
        raise Http404(_("There is no such table; of is %(makers)s.") % {"makers": ", ".join(makers)})
    return csv_response(f"cost-{of}.csv", makers[of]())


def _table(query: Query, name: str) -> Callable[[], fleet_csv.Rows]:
    return lambda: fleet_csv.TABLES[name](query)

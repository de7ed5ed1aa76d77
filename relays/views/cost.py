"""`/relays/<id>/cost/` and `/sessions/<pk>/cost/`: what one of them cost, against other ways to carry its work."""

import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from django.http import Http404, HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from relays import access
from relays.charts import cost as chart
from relays.models import Relay, Session
from relays.reports import cost as report
from relays.reports import cost_csv, what_if
from relays.reports.forecast import forecast
from relays.views.csvfile import csv_response
from relays.views.parts import part_response

CHARTS = ("cumulative", "tornado", "line", "legs", "busts", "peaks", "faithful")


@require_safe
def relay_cost(request: HttpRequest, relay_id: str) -> HttpResponseBase:
    """The page of a relay; `?part=` a region of it, `?format=csv&of=` a table of it."""
    return _page(request, access.load_relay(request, relay_id))


@require_safe
def session_cost(request: HttpRequest, pk: int) -> HttpResponseBase:
    """The same for a session: what it cost, against the relay that it could have been."""
    return _page(request, access.load_session(request, pk))


def _page(request: HttpRequest, found: Relay | Session) -> HttpResponseBase:
    if request.GET.get("format") == "csv":
        return _csv(request, found)
    asked = what_if.asked(request.GET)
    part = request.GET.get("part")
    if part is None:
        page = what_if.page(found, asked)
        return render(
            request, "relays/cost/page.html", {**_body(found, page), "rights": access.rights_of(request.user)}
        )
    topic = report.topic_of(found)
    if part == "body":
        return part_response(
            request, "relays/cost/_body.html", lambda: _body(found, what_if.page(found, asked)), (topic,)
        )
    if part not in CHARTS:
        raise Http404(_("There is no such part of this page."))

    def build() -> dict[str, object]:
        made = figures(what_if.page(found, asked).shown, (part,))
        return {"text": json.dumps(made.get(part, {}), separators=(",", ":"))}

    response = part_response(request, "relays/relay/_chart.json", build, (topic,))
    response["Content-Type"] = "application/json"
    return response


def _body(found: Relay | Session, page: what_if.Page) -> dict[str, object]:
    kind = page.shown.subject.kind
    here = reverse(f"{kind}_cost", args=[found.pk])
    query = page.query
    return {
        "page": page,
        "cost": page.shown,
        "data": page.shown.data,
        "subject": page.shown.subject,
        "topic": report.topic_of(found),
        "here": here,
        "again": f"{here}?{query}&" if query else f"{here}?",
        "own_page": reverse(kind, args=[found.pk]),
        "charts": figures(page.shown, CHARTS),
        "forecast": forecast(page.shown.data),
        "busts": page.shown.data.busts[: report.LEG_ROWS],
    }


def figures(page: report.CostPage, names: Iterable[str]) -> dict[str, Any]:
    """Name of a chart -> its figure and its sentence; one that has nothing to draw is left out."""
    data, subject = page.data, page.subject
    own, base = (_("relay"), _("compaction")) if subject.kind == "relay" else (_("this session"), _("as a relay"))
    calls = _("main call of the whole goal") if subject.kind == "relay" else _("main call of the session")
    stretch = _("leg") if subject.kind == "relay" else _("stretch")
    makers: dict[str, tuple[bool, Callable[[], Any], Callable[[], str]]] = {
        "cumulative": (
            bool(data.series.x),
            lambda: chart.cumulative(data.series, base, own, calls),
            lambda: chart.cumulative_words(data.series, base, own),
        ),
        "tornado": (
            bool(data.sensitivity) and data.saving is not None,
            lambda: chart.tornado(
                sorted(data.sensitivity, key=lambda one: one.least - one.most), data.saving or Decimal(0),
                report.sensitive_labels(data),
            ),
            lambda: chart.words_of(data, "tornado"),
        ),
        "line": (
            len(data.line) > 1,
            lambda: chart.break_even(data.line, report.orientation_now(data), data.break_even),
            lambda: chart.words_of(data, "line"),
        ),
        "legs": (
            any(one.total for one in data.legs),
            lambda: chart.per_leg(data.legs[-chart.MOST_BARS :], stretch),
            lambda: chart.words_of(data, "legs"),
        ),
        "busts": (
            bool(data.busts),
            lambda: chart.busts(
                data.busts[-chart.MOST_BARS :], _("rotation") if subject.kind == "relay" else _("compaction")
            ),
            lambda: chart.words_of(data, "busts"),
        ),
        "peaks": (
            any(one.peak for one in data.legs),
            lambda: chart.peaks(data.legs[-chart.MOST_BARS :], data.first.peak if data.first else None, stretch, base),
            lambda: chart.words_of(data, "peaks"),
        ),
        "faithful": (
            any(part is not None for _, part, _ in data.faithful.rows),
            lambda: chart.faithful(data.faithful),
            lambda: chart.words_of(data, "faithful"),
        ),
    }  # fmt: skip
    return {
        name: {"figure": makers[name][1]().plain(), "alternative": makers[name][2]()}
        for name in names
        if makers[name][0]
    }


def _csv(request: HttpRequest, found: Relay | Session) -> HttpResponseBase:
    of = request.GET.get("of", "ways")
    page = what_if.page(found, what_if.asked(request.GET)).shown
    if of not in cost_csv.TABLES:
        raise Http404(_("There is no such table; of is %(TABLES)s.") % {"TABLES": ", ".join(cost_csv.TABLES)})
    name = found.pk if isinstance(found, Relay) else f"session-{found.pk}"
    return csv_response(f"{name}-cost-{of}.csv", cost_csv.TABLES[of](page))

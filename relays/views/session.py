"""`/sessions/<pk>/`: one session, its regions for live pages, and its calls as CSV."""

import json
from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from relays import access
from relays.charts import session as chart
from relays.models import Session, SessionBoundary, SessionLeg
from relays.reports import compared, session_calls, session_texts
from relays.reports import session as report
from relays.reports.as_relay import as_relay
from relays.reports.flat import reduced
from relays.reports.roles import rights_of
from relays.reports.signals import signals
from relays.views.csvfile import csv_response
from relays.views.parts import part_response

TABLE = 60  # rows of the table beside the graph
_PARTS = ("head", "kpis", "series", "chart", "found", "calls", "side")


@require_safe
def session(request: HttpRequest, pk: int) -> HttpResponse:
    """The page, or with `?part=` one region of it; `?after=` or `?before=` a place chooses the calls of the table."""
    found = access.load_session(request, pk)
    part = request.GET.get("part")
    if part is not None:
        return _part(request, found, part)
    legs, boundaries = _rows(found, request)
    graph = report.graph(found, boundaries, legs)
    context = {
        "rights": rights_of(request.user),
        **_head(found, legs),
        **_kpis(found, legs),
        **_series(found, graph),
        **_found(found, request, legs, boundaries),
        **_calls(found, request),
        **_side(found, legs),
        "chart": (drawn := _chart(graph)),
        "chart_data": _data("d-session", drawn),
    }
    return render(request, "relays/session/page.html", context)


def _part(request: HttpRequest, found: Session, part: str) -> HttpResponse:
    if part not in _PARTS:
        raise Http404(_("There is no such part of this page."))

    def graph() -> report.Graph:
        return report.graph(found, report.boundaries_of(found, 0), report.legs_of(found, 0))

    builders: dict[str, Callable[[], dict[str, object]]] = {
        "head": lambda: _head(found, report.legs_of(found, 0)),
        "kpis": lambda: _kpis(found, report.legs_of(found, 0)),
        "series": lambda: _series(found, graph()),
        "chart": lambda: {"text": json.dumps(_chart(graph()), separators=(",", ":"))},
        "found": lambda: _found(found, request, *_rows(found, request)),
        "calls": lambda: _calls(found, request),
        "side": lambda: _side(found, report.legs_of(found, 0)),
    }
    name = f"relays/session/_{part}.html" if part != "chart" else "relays/relay/_chart.json"
    response = part_response(request, name, builders[part], (f"session:{found.pk}",))
    if part == "chart":
        response["Content-Type"] = "application/json"
    return response


@require_safe
def calls(request: HttpRequest, pk: int) -> HttpResponseBase:
    """Every call of the session as CSV, streamed."""
    found = access.load_session(request, pk)
    return csv_response(f"session-{found.pk}-calls.csv", session_calls.calls_csv(found))


@require_safe
def texts(request: HttpRequest, pk: int, source: int) -> HttpResponse:
    """The kept lines of one file of the session; `?from=` a line."""
    found = access.load_session(request, pk)
    start = request.GET.get("from", "")
    page = session_texts.texts(
        found, source, int(start) if start.isascii() and start.isdecimal() and len(start) < 16 else 1
    )
    if page is None:
        raise Http404(_("This session was read from no such file."))
    return render(request, "relays/session_texts/page.html", {"session": found, "texts": page})


def _here(found: Session) -> dict[str, object]:
    return {"session": found, "here": reverse("session", args=[found.pk])}


def _rows(
    found: Session, request: HttpRequest
) -> tuple[list[SessionLeg | report.LegMark], list[SessionBoundary | report.BoundaryMark]]:
    """Legs and compactions, whole as far as the tables show them."""
    if request.GET.get("all") == "1":
        return report.legs_of(found), report.boundaries_of(found)
    return report.legs_of(found, report.FIRST), report.boundaries_of(found, report.FIRST)


def _head(found: Session, legs: list[SessionLeg | report.LegMark]) -> dict[str, object]:
    return {**_here(found), "head": report.head(found, legs)}


def _kpis(found: Session, legs: list[SessionLeg | report.LegMark]) -> dict[str, object]:
    return {**_here(found), "kpis": report.kpis(found, legs), "brief": compared.brief(found)}


def _chart(graph: report.Graph) -> dict[str, object]:
    return {"figure": chart.drawn(graph), "alternative": chart.alternative(graph)}


def _data(name: str, value: object) -> SafeString:
    """What the filter `json_script` writes: letter by letter, it would take a tenth of the page's time."""
    text = json.dumps(value, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04X}")
    return format_html('<script id="{}" type="application/json">{}</script>', name, mark_safe(text))  # noqa: S308


def _series(found: Session, graph: report.Graph) -> dict[str, object]:
    rows = reduced(graph.points, [point.tokens for point in graph.points], TABLE)
    return {
        **_here(found),
        "graph": graph,
        "rows": rows,
        "any_copied": any(point.copied for point in graph.points),
        "any_declared": any(row.declared_pre or row.declared_post for row in graph.boundaries),
    }


def _found(
    found: Session,
    request: HttpRequest,
    legs: list[SessionLeg | report.LegMark],
    boundaries: list[SessionBoundary | report.BoundaryMark],
) -> dict[str, object]:
    everything = request.GET.get("all") == "1"
    rows = report.leg_rows(legs)
    most = report.BOUNDARIES if everything else report.FIRST
    return {
        **_here(found),
        "everything": everything,
        "boundaries": boundaries[:most],
        "boundaries_cut": len(boundaries) > most,
        "boundaries_more": min(len(boundaries), report.BOUNDARIES) - most,
        "legs": rows.rows if everything else rows.rows[: report.FIRST],
        "common": rows.common,
        "why_unknown": rows.why,
        "legs_cut": len(legs) > (report.LEGS if everything else report.FIRST),
        "legs_more": min(len(legs), report.LEGS) - report.FIRST,
        "would": as_relay(found),
        "fill": report.fill(found),
        "helpers": session_calls.helpers(found, asked=request.GET.get("agents") == "1"),
        "side_calls": found.calls - found.main_calls,
    }


def _calls(found: Session, request: HttpRequest) -> dict[str, object]:
    after, before = (session_calls.place(request.GET.get(name, "")) for name in ("after", "before"))
    where = f"&before={before}" if before else f"&after={after}" if after else ""
    return {
        **_here(found),
        "calls": session_calls.calls(found, after=after, before=before),
        "calls_url": f"{reverse('session', args=[found.pk])}?part=calls{where}",
    }


def _side(found: Session, legs: list[SessionLeg | report.LegMark]) -> dict[str, object]:
    return {
        **_here(found),
        "files": report.files(found),
        "kpis": report.kpis(found, legs),
        "brief": compared.brief(found),
        "signals": signals(found),
    }

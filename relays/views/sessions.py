"""`/sessions/`: every session that was read, to search, filter, sort and page; below it the observed rot curve."""

import json
from datetime import date
from urllib.parse import urlencode

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from relays import access
from relays.charts import rot as rot_chart
from relays.reports import rot
from relays.reports import sessions as report
from relays.reports.roles import READ
from relays.views.parts import part_response

_PARTS = ("list", "rot", "chart")
#: column that sorts -> the order of a first press
_HEADS = {"agent": "", **dict.fromkeys(("calls", "peak", "full", "compactions", "tokens", "money", "last"), "-")}


@require_safe
def sessions(request: HttpRequest) -> HttpResponse:
    """The page, or with `?part=list|rot|chart` a region of it."""
    access.require(request, READ)
    query = report.clean_query(request.GET.dict())
    part = request.GET.get("part")
    if part is None:
        context = {**_list(query), **_rot(), "rights": access.rights_of(request.user)}
        context["keeps_texts"] = settings.KEEP_TRANSCRIPTS
        return render(request, "relays/sessions/page.html", context)
    if part not in _PARTS:
        raise Http404(_("There is no such part of this page."))
    if part == "list":
        return part_response(request, "relays/sessions/_list.html", lambda: _list(query), ("sessions",))
    if part == "rot":
        return part_response(request, "relays/sessions/_rot.html", _rot, ("sessions",))
    response = part_response(
        request, "relays/relay/_chart.json", lambda: {"text": json.dumps(_rot()["chart"])}, ("sessions",)
    )
    response["Content-Type"] = "application/json"
    return response


def _list(query: report.Query) -> dict[str, object]:
    page = report.sessions_page(query)
    return {
        "page": page,
        "heads": _heads(query),
        "here": _address(query),
        "before": _address(query, page=page.page - 1) if page.page > 1 else "",
        "after": _address(query, page=page.page + 1) if page.page < page.pages else "",
    }


def _rot() -> dict[str, object]:
    curves = rot.curves()
    chart = {"figure": json.loads(rot_chart.figure(curves).to_json()), "alternative": rot_chart.alternative(curves)}
    return {"curves": curves, "curve_rows": rot_chart.legend(curves), "chart": chart}


def _address(query: report.Query, **change: object) -> str:
    """The query as the part of an address behind `?`, without what is the default."""
    values: dict[str, object] = {
        "q": query.text,
        "agent": query.agent,
        "model": query.model,
        "repo": query.repo,
        "since": _iso(query.since),
        "until": _iso(query.until),
        "sort": query.sort if query.sort != report.DEFAULT_SORT else "",
        "page": query.page if query.page > 1 else "",
        **change,
    }
    return urlencode({name: value for name, value in values.items() if value not in ("", 1)})


def _iso(day: date | None) -> str:
    return day.isoformat() if day else ""


def _heads(query: report.Query) -> dict[str, dict[str, str]]:
    """For each column that sorts: the address of the next order, and the order now for screen readers."""
    heads = {}
    for word, first in _HEADS.items():
        now = query.sort if query.sort.removeprefix("-") == word else ""
        following = (word if now.startswith("-") else f"-{word}") if now else f"{first}{word}"
        heads[word] = {
            "href": "?" + _address(query, sort=following, page=""),
            "now": "" if not now else "descending" if now.startswith("-") else "ascending",
        }
    return heads

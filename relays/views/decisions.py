"""`/decisions/`: the audit of what people decided, to filter, page, verify and take away."""

from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from relays import access
from relays.actions import audit
from relays.actions.base import NotFound, Refused
from relays.reports import decisions as report
from relays.reports.roles import READ
from relays.views.csvfile import csv_response
from relays.views.parts import part_response
from relays.views.relay import actor_of


@require_safe
def decisions(request: HttpRequest) -> HttpResponseBase:
    """The page; `?part=list|audit` one region of it; `?format=csv|jsonl` all that match, whatever the page."""
    access.require(request, READ)
    query = report.clean_query(request.GET.dict())
    kind = request.GET.get("format")
    if kind is not None:
        return _export(query, kind)
    part = request.GET.get("part")
    if part is None:
        return render(request, "relays/decisions/page.html", {**_list(query), **_audit()})
    if part == "list":
        return part_response(request, "relays/decisions/_list.html", lambda: _list(query), ("relays", "inbox"))
    if part == "audit":
        return part_response(request, "relays/decisions/_audit.html", _audit, (audit.TOPIC,))
    raise Http404(_("There is no such part of this page."))


def _export(query: report.Query, kind: str) -> HttpResponseBase:
    if query.problems:
        raise BadRequest("; ".join(query.problems))
    name = f"decisions-{timezone.now():%Y%m%d-%H%M%S}"
    if kind == "csv":
        return csv_response(f"{name}.csv", report.table(query))
    if kind != "jsonl":
        raise Http404(_("There is no such export; take csv or jsonl."))
    response = StreamingHttpResponse(report.lines(query), content_type="application/x-ndjson; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.jsonl"'
    return response


def _list(query: report.Query) -> dict[str, object]:
    page = report.decisions_page(query)
    return {
        "page": page,
        "here": _address(query),
        "newest": _address(query, before="", after=""),
        "newer": _address(query, before="", after=page.newer) if page.newer else "",
        "older": _address(query, after="", before=page.older) if page.older else "",
        "csv": _address(query, before="", after="", format="csv"),
        "jsonl": _address(query, before="", after="", format="jsonl"),
    }


def _audit() -> dict[str, object]:
    runs = report.runs(timezone.now())
    return {"going": next((run for run in runs if run.ended_at is None), None),
            "ended": [run for run in runs if run.ended_at is not None]}  # fmt: skip


def _address(query: report.Query, **change: object) -> str:
    """The query as the part of an address behind `?`, without what is the default."""
    values: dict[str, object] = {
        "relay": query.relay, "actor": query.actor, "act": query.act, "since": query.since, "until": query.until,
        "before": query.before or "", "after": query.after or "", **change,
    }  # fmt: skip
    return urlencode({name: value for name, value in values.items() if value not in ("", None)})


@require_POST
def verify(request: HttpRequest) -> HttpResponse:
    """Begin a verification; a short chain is judged before the answer, a long one goes on in the background."""
    access.require(request, READ)
    run = audit.begin(actor_of(request))
    if run.ended_at is None:
        messages.info(request, _("Verification %(n)d goes on in the background; this page shows it.") % {"n": run.pk})
    return _back()


@require_POST
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    access.require(request, READ)
    try:
        audit.cancel(actor_of(request), pk)
    except NotFound as refusal:
        raise Http404(str(refusal)) from refusal
    except Refused as refusal:
        messages.error(request, str(refusal))
    return _back()


def _back() -> HttpResponse:
    response = HttpResponseRedirect(f"{reverse('decisions')}#audit")
    response.status_code = 303
    return response

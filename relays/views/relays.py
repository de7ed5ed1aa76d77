"""`/relays/`: every relay, to search, filter, sort and page."""

from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from relays import access
from relays.models import RelayStatus
from relays.reports import elsewhere
from relays.reports import relays as report
from relays.reports.roles import READ, rights_of
from relays.views.parts import part_response


@require_safe
def relays(request: HttpRequest) -> HttpResponse:
    """The page, or with `?part=list` its table."""
    access.require(request, READ)
    query = report.clean_query(request.GET.dict())
    part = request.GET.get("part")
    if part is None:
        context = {**_context(query), "rights": rights_of(request.user)}
        return render(request, "relays/relays/page.html", context)
    if part != "list":
        raise Http404(_("There is no such part of this page."))
    return part_response(request, "relays/relays/_list.html", lambda: _context(query), ("relays", "inbox"))


def _context(query: report.Query) -> dict[str, object]:
    page = report.relays_page(query)
    return {
        "page": page,
        "elsewhere": elsewhere.elsewhere(query.text if page.page == 1 else ""),
        "statuses": RelayStatus.values,
        "tokens": report.TOKENS,
        "heads": _heads(query),
        "here": _address(query),
        "before": _address(query, page=page.page - 1) if page.page > 1 else "",
        "after": _address(query, page=page.page + 1) if page.page < page.pages else "",
    }


def _address(query: report.Query, **change: object) -> str:
    """The query as the part of an address behind `?`, without what is the default."""
    values: dict[str, object] = {
        "q": query.text,
        "status": query.status,
        "token": query.token,
        "repo": query.repo,
        "agent": query.agent,
        "owner": query.owner,
        "sort": query.sort if query.sort != report.DEFAULT_SORT else "",
        "page": query.page if query.page > 1 else "",
        **change,
    }
    return urlencode({name: value for name, value in values.items() if value not in ("", 1)})


def _heads(query: report.Query) -> dict[str, dict[str, str]]:
    """For each column that sorts: the address of the next order, and the order now for screen readers."""
    heads = {}
    for word, first in (
        ("name", ""),
        ("status", ""),
        ("leg", "-"),
        ("context", "-"),
        ("progress", "-"),
        ("money", "-"),
        ("data", "-"),
        ("started", "-"),
    ):
        now = query.sort if query.sort.removeprefix("-") == word else ""
        following = (word if now.startswith("-") else f"-{word}") if now else f"{first}{word}"
        heads[word] = {
            "href": "?" + _address(query, sort=following, page=""),
            "now": "" if not now else "descending" if now.startswith("-") else "ascending",
        }
    return heads

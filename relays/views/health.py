"""`/health/`: what `relay doctor` finds, refreshed while it is open; each check that is not well says what to do."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from relays import access
from relays.reports import health as report
from relays.reports.roles import OPERATE, READ, rights_of
from relays.views.parts import part_response


@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """The page; `?part=checks` its region, made at most once in ten seconds for all who look."""
    access.require(request, READ)
    part = request.GET.get("part")
    if part is None:
        return render(request, "relays/health/page.html", _context(rights_of(request.user)))
    if part != "checks":
        raise Http404(_("There is no such part of this page."))
    return part_response(request, "relays/health/_checks.html", lambda: _context(rights_of(request.user)), ())


#: check -> the page where what it found is looked at
_PAGES = {
    "notices": "notifications",
    "prices": "fleet_cost",
    "records": "sessions",
    "hooks": "tokens",
    "worktrees": "maintenance",
    "regions": "relays",
    "tick": "relays",
    "supervisors": "relays",
}


def _context(rights: frozenset[str]) -> dict[str, object]:
    open_to = {check: name for check, name in _PAGES.items() if name != "maintenance" or OPERATE in rights}
    return {"page": report.page(), "links": {check: reverse(name) for check, name in open_to.items()}}

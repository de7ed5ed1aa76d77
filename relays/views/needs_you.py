"""`/`: what waits for a person."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from relays import access
from relays.reports import needs_you as report
from relays.reports.roles import READ, rights_of
from relays.views.parts import part_response

#: part -> its template and the topics that change it
_PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "count": ("shell/waiting.html", ("inbox",)),
    "inbox": ("relays/needs_you/_inbox.html", ("inbox", "relays")),
    "running": ("relays/needs_you/_running.html", ("inbox", "relays")),
}


@require_safe
def needs_you(request: HttpRequest) -> HttpResponse:
    """The page, or with `?part=` one region of it."""
    access.require(request, READ)
    part = request.GET.get("part")
    if part is None:
        context = {"page": report.needs_you(timezone.now()), "rights": rights_of(request.user)}
        return render(request, "relays/needs_you/page.html", context)
    if part not in _PARTS:
        raise Http404(_("There is no such part of this page."))
    template, topics = _PARTS[part]
    if part == "count":
        return part_response(request, template, lambda: {"waiting_count": report.waiting_count()}, topics)
    return part_response(request, template, lambda: {"page": report.needs_you(timezone.now())}, topics)

"""`/vocabulary/#TOKEN`: every token with its fix; each token on any page links here. `?q=` searches in it."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from relays import access
from relays.reports import vocabulary as report
from relays.reports.roles import READ


@require_safe
def vocabulary(request: HttpRequest) -> HttpResponse:
    access.require(request, READ)
    return render(request, "relays/vocabulary/page.html", {"found": report.search(request.GET.get("q", ""))})

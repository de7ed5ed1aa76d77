"""`/layout/`: how pages are laid out for the person who looks."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from relays import access
from relays.actions.base import Refused
from relays.actions.layout import choose
from relays.reports import layout as report
from relays.reports.relay import TABS
from relays.reports.roles import READ
from relays.views.relay import actor_of


@require_http_methods(["GET", "HEAD", "POST"])
def layout(request: HttpRequest) -> HttpResponse:
    """The choices as they stand, and a POST that changes them."""
    access.require(request, READ)
    if request.method == "POST":
        try:
            choose(
                actor_of(request),
                density=request.POST.get("density", ""),
                first_tab=request.POST.get("first_tab", ""),
                closed=request.POST.getlist("closed"),
            )
        except Refused as refusal:
            messages.error(request, str(refusal))
        else:
            messages.success(request, "Kept: pages are laid out so for you from now on.")
        response = HttpResponseRedirect(reverse("layout"))
        response.status_code = 303
        return response
    context = {"densities": report.DENSITIES, "panels": report.PANELS, "tabs": TABS, "chosen": report.of(request.user)}
    return render(request, "relays/layout/page.html", context)

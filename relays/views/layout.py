"""`/layout/`: how pages are laid out, and read, for the person who looks."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from relays import access
from relays.actions.base import Refused
from relays.actions.layout import choose, hints_done
from relays.reports import figures
from relays.reports import layout as report
from relays.reports.relay import TABS
from relays.reports.roles import READ
from relays.views import viewer
from relays.views.relay import actor_of

FIELDS = ("density", "first_tab", "language", "zone", "numbers", "theme", "keys")


@require_http_methods(["GET", "HEAD", "POST"])
def layout(request: HttpRequest) -> HttpResponse:
    """The choices as they stand, and a POST that changes them."""
    access.require(request, READ)
    if request.method == "POST":
        response = _to(reverse("layout"))
        try:
            given = {name: request.POST.get(name) for name in FIELDS}
            chosen = choose(actor_of(request), closed=request.POST.getlist("closed"), **given)
        except Refused as refusal:
            messages.error(request, str(refusal))
        else:
            viewer.remember(response, chosen)
            messages.success(request, _("Kept: pages are laid out so for you from now on."))
        return response
    context = {
        "densities": report.DENSITIES,
        "panels": report.PANELS,
        "tabs": TABS,
        "languages": report.languages(),
        "zones": report.zones(),
        "styles": figures.STYLES,
        "themes": report.THEMES,
        "keys": report.KEYS,
        "chosen": report.of(request.user),
    }
    return render(request, "relays/layout/page.html", context)


@require_POST
def hints(request: HttpRequest) -> HttpResponse:
    """The three hints were read or skipped; back to the page that showed them."""
    access.require(request, READ)
    hints_done(actor_of(request))
    target = request.POST.get("next", "")
    fine = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure())
    return _to(target if fine else reverse("needs_you"))


def _to(address: str) -> HttpResponse:
    response = HttpResponseRedirect(address)
    response.status_code = 303
    return response

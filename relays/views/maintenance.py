"""`/maintenance/`: park all, resume all, change the policy of many, clean up; for operators and admins."""

from collections.abc import Callable

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from relays import access
from relays.actions import maintenance as acting
from relays.actions.base import Actor, NotFound, NotPermitted, Refused, Usage
from relays.models import Maintenance
from relays.reports import maintenance as report
from relays.reports.roles import OPERATE
from relays.views.parts import part_response, whole_number
from relays.views.relay import actor_of

TOPICS = (report.TOPIC, "relays")


@require_http_methods(["GET", "HEAD", "POST"])
def maintenance(request: HttpRequest) -> HttpResponse:
    """The page; `?part=acts`, `title`, `turns`, `clean`, `earlier` live regions; a POST begins a confirmed `do`."""
    access.require(request, OPERATE)
    if request.method == "POST":
        return _act(request, lambda actor: _begin(request, actor))
    part = request.GET.get("part")
    if part is None:
        return render(request, "relays/maintenance/page.html", {"page": report.page()})
    if part not in ("acts", "title", "turns", "clean", "earlier"):
        raise Http404(_("There is no such part of this page."))
    return part_response(request, f"relays/maintenance/_{part}.html", lambda: {"page": report.page()}, TOPICS)


@require_safe
def one(request: HttpRequest, pk: int) -> HttpResponse:
    """One act with each relay or thing of it, also long after it ended."""
    access.require(request, OPERATE)
    try:
        row = acting.act_or_refuse(pk)
    except NotFound as refusal:
        raise Http404(str(refusal)) from refusal
    if request.GET.get("part") == "act":
        return part_response(
            request, "relays/maintenance/_one.html", lambda: {"act": report.one(row), "alone": True}, TOPICS
        )
    return render(request, "relays/maintenance/act.html", {"act": report.one(row)})


@require_POST
def confirm(request: HttpRequest, pk: int) -> HttpResponse:
    return _act(request, lambda actor: _begun(acting.confirm(actor, pk)))


@require_POST
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    def act(actor: Actor) -> str:
        return _("Maintenance %(n)d ends within seconds; what is done stays done.") % {"n": acting.cancel(actor, pk).pk}

    return _act(request, act)


def _begin(request: HttpRequest, actor: Actor) -> str:
    do, comment = request.POST.get("do", ""), request.POST.get("comment", "").strip()
    expected = whole_number(request.POST.get("expected", ""))
    if do == Maintenance.Kind.CLEAN:
        return _begun(acting.look(actor, comment=comment))
    if request.POST.get("sure") != "1":
        raise Usage(_("Nothing was changed: tick that you mean it."))
    if do == Maintenance.Kind.PARK_ALL:
        return _begun(acting.park_all(actor, comment=comment, expected=expected))
    if do == Maintenance.Kind.RESUME_ALL:
        return _begun(acting.resume_all(actor, comment=comment, expected=expected))
    if do == Maintenance.Kind.POLICY_ALL:
        sets, relays = [request.POST.get("sets", "")], request.POST.get("relays", "").split()
        made = acting.policy_all(
            actor, sets=sets, comment=comment, expected=None if relays else expected, relays=relays
        )
        return _begun(made)
    raise Usage(_("Say what is to be done."))


def _begun(row: Maintenance) -> str:
    return _("Maintenance %(n)d begins; this page shows how far it is.") % {"n": row.pk}


def _act(request: HttpRequest, act: Callable[[Actor], str]) -> HttpResponse:
    """Carry out one act and go back to the page, which says what follows or why nothing happened."""
    access.require(request, OPERATE)
    try:
        messages.success(request, act(actor_of(request)))
    except NotPermitted as refusal:
        raise PermissionDenied(str(refusal)) from refusal
    except NotFound as refusal:
        raise Http404(str(refusal)) from refusal
    except Refused as refusal:
        messages.error(request, str(refusal))
    response = HttpResponseRedirect(reverse("maintenance"))
    response.status_code = 303
    return response

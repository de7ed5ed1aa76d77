"""`/notifications/`: one's own subscriptions, and for an admin the channels of the site."""

from collections.abc import Callable

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from relays import access
from relays.actions import notifications as acting
from relays.actions.base import Actor, NotFound, NotPermitted, Refused
from relays.core import notify
from relays.reports import notifications as report
from relays.reports.roles import ADMINISTER, READ, may
from relays.reports.sentences import told
from relays.views.relay import actor_of


@never_cache
@require_safe
def notifications(request: HttpRequest) -> HttpResponse:
    """The page; `?part=told` what became of the newest notices; `?relay=` has a relay chosen in the form."""
    access.require(request, READ)
    part = request.GET.get("part")
    if part == "told":
        return render(
            request, "relays/notifications/_told.html", {"page": report.notifications(actor_of(request).user)}
        )
    if part is not None:
        raise Http404(_("There is no such part of this page."))
    return _page(request)


@never_cache
@require_POST
def channel(request: HttpRequest) -> HttpResponse:
    """Make a channel; the answer is the only page that shows the secret of a webhook."""
    access.require(request, ADMINISTER)
    typed = {"name": request.POST.get("name", ""), "url": request.POST.get("url", "")}
    try:
        made = acting.add_channel(actor_of(request), name=typed["name"], url=typed["url"])
    except Refused as refusal:
        return _page(request, refused=str(refusal), typed={"name": typed["name"]}, status=400)
    return _page(request, made=made)


@never_cache
@require_POST
def secret(request: HttpRequest, pk: int) -> HttpResponse:
    """Another secret; shown by the answer alone."""
    access.require(request, ADMINISTER)
    try:
        made = acting.new_secret(actor_of(request), pk)
    except NotFound as refusal:
        raise Http404(str(refusal)) from refusal
    except Refused as refusal:
        return _page(request, refused=str(refusal), status=400)
    return _page(request, made=made)


@require_POST
def remove_channel(request: HttpRequest, pk: int) -> HttpResponse:
    access.require(request, ADMINISTER)

    def act(actor: Actor) -> str:
        return _("Removed: nothing is sent to %(name)s any more.") % {"name": acting.remove_channel(actor, pk).name}

    return _act(request, act)


@require_POST
def test(request: HttpRequest, pk: int) -> HttpResponse:
    """Send a test and show what came back."""

    def act(actor: Actor) -> str:
        answer = acting.test(actor, pk)
        if not answer.sent:
            raise Refused(_("The test did not arrive: %(answer)s") % {"answer": told(answer.text)})
        return _("The test arrived: %(answer)s") % {"answer": told(answer.text)}

    return _act(request, act)


@require_POST
def subscribe(request: HttpRequest) -> HttpResponse:
    def act(actor: Actor) -> str:
        row = acting.subscribe(
            actor,
            request.POST.get("channel", ""),
            scope=request.POST.get("scope", ""),
            events=request.POST.getlist("event"),
            relay_id=request.POST.get("relay", ""),
        )
        return _("You are told on %(name)s from now on.") % {"name": row.channel.name}

    return _act(request, act)


@require_POST
def unsubscribe(request: HttpRequest, pk: int) -> HttpResponse:
    def act(actor: Actor) -> str:
        acting.unsubscribe(actor, pk)
        return _("You are not told there any more.")

    return _act(request, act)


@require_POST
def again(request: HttpRequest, pk: int) -> HttpResponse:
    def act(actor: Actor) -> str:
        return _("Delivery %(n)d is tried again within seconds.") % {"n": acting.again(actor, pk).pk}

    return _act(request, act)


def _act(request: HttpRequest, act: Callable[[Actor], str]) -> HttpResponse:
    """Carry out one act and go back to the page, which says what follows or why nothing happened."""
    access.require(request, READ)
    try:
        messages.success(request, act(actor_of(request)))
    except NotPermitted as refusal:
        raise PermissionDenied(str(refusal)) from refusal
    except Refused as refusal:
        messages.error(request, str(refusal))
    response = HttpResponseRedirect(reverse("notifications"))
    response.status_code = 303
    return response


def _page(
    request: HttpRequest,
    *,
    made: acting.Made | None = None,
    refused: str = "",
    typed: dict[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    user = actor_of(request).user
    context = {
        "page": report.notifications(user),
        "events": report.EVENTS.items(),
        "may_all": may(user, ADMINISTER),
        "made": made,
        "refused": refused,
        "typed": typed or {},
        "services": ", ".join(sorted(notify.APPRISE)),
        "relay_id": request.GET.get("relay", "")[:40],
    }
    return render(request, "relays/notifications/page.html", context, status=status)

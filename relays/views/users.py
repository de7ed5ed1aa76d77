"""`/users/`: people and their roles, one-time sign-in links, and who is let in no more. Admins only."""

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from relays import access
from relays.actions import people
from relays.actions.base import NotFound, NotPermitted, Refused
from relays.reports import users as report
from relays.reports.roles import ADMINISTER, ROLES
from relays.views.parts import whole_number
from relays.views.relay import actor_of

ABOUT = {
    "operator": gettext_lazy("start, park, stop and resume relays; import sessions"),
    "reviewer": gettext_lazy("approve or refuse what a gate waits for"),
    "manager": gettext_lazy("read everything; set budgets"),
    "admin": gettext_lazy("all of it, users and everybody's tokens"),
}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def users(request: HttpRequest) -> HttpResponse:
    """The list; a POST makes a person and answers with the only page that shows their sign-in link."""
    access.require(request, ADMINISTER)
    if request.method != "POST":
        return _page(request)
    typed = {"name": request.POST.get("name", ""), "role": request.POST.get("role", "")}
    try:
        user = people.make(actor_of(request), typed["name"], typed["role"])
        user, path = people.link(actor_of(request), user.pk)
    except Refused as refusal:
        return _page(request, refused=str(refusal), typed=typed, status=400)
    return _page(request, made={"user": user, "link": settings.PUBLIC_URL + path, "new": True})


@never_cache
@require_POST
def act(request: HttpRequest, pk: int, act: str) -> HttpResponse:
    """One act on one person: give and take (a `role`), deactivate, activate, link."""
    access.require(request, ADMINISTER)
    actor, role = actor_of(request), request.POST.get("role", "")
    try:
        if act == "link":
            user, path = people.link(actor, pk)
            return _page(request, made={"user": user, "link": settings.PUBLIC_URL + path, "new": False})
        if act == "give":
            said = _("%(name)s has the role %(role)s now.")
            user = people.give(actor, pk, role)
        elif act == "take":
            said = _("%(name)s has the role %(role)s no more.")
            user = people.take(actor, pk, role)
        elif act == "deactivate":
            said = _("%(name)s is let in no more; what they did and decided stays.")
            user = people.deactivate(actor, pk)
        elif act == "activate":
            said = _("%(name)s may sign in again.")
            user = people.activate(actor, pk)
        else:
            raise Http404(_("There is no such act."))
    except NotFound as refusal:
        raise Http404(str(refusal)) from refusal
    except NotPermitted as refusal:
        raise PermissionDenied(str(refusal)) from refusal
    except Refused as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, said % {"name": user.get_username(), "role": role})
    query = request.POST.get("back", "")
    response = HttpResponseRedirect(reverse("users") + (f"?{query}" if query.startswith(("q=", "page=")) else ""))
    response.status_code = 303
    return response


def _page(
    request: HttpRequest,
    *,
    made: dict[str, object] | None = None,
    refused: str = "",
    typed: dict[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    page = report.people(request.GET.get("q", ""), whole_number(request.GET.get("page", "")) or 1)
    context = {
        "page": page,
        "roles": [(role, ABOUT[role]) for role in ROLES],
        "made": made,
        "minutes": people.LINK_MINUTES,
        "refused": refused,
        "typed": typed or {},
    }
    return render(request, "relays/users/page.html", context, status=status)

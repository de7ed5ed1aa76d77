"""`/tokens/`: one's own API tokens (an admin: everybody's), making one, and revoking one."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from relays import access
from relays.actions import tokens as acting
from relays.actions.base import Actor, NotPermitted, Refused, Usage
from relays.reports import roles, signals
from relays.reports import tokens as report
from relays.reports.roles import ADMINISTER, READ
from relays.views.parts import whole_number

DAYS = 90


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def tokens(request: HttpRequest) -> HttpResponse:
    """The list, and a form. A POST makes one and answers with the only page that ever shows its secret."""
    access.require(request, READ)
    user = request.user
    if not user.is_authenticated:
        raise PermissionDenied(_("Sign in first."))
    typed = {name: request.POST.get(name, "") for name in ("name", "role", "days", "owner")}
    made, refused, status = None, "", 200
    if request.method == "POST":
        try:
            days = whole_number(typed["days"].strip())
            if days is None:
                raise Usage(_("token: %(days)s is no number of days") % {"days": repr(typed["days"][:40])})
            made = acting.add(
                Actor(user), name=typed["name"], role=typed["role"], days=days, owner=typed["owner"].strip()
            )
            typed = {}
        except NotPermitted as refusal:
            refused, status = str(refusal), 403
        except Refused as refusal:
            refused, status = str(refusal), 400
    now = timezone.now()
    context = {
        "page": report.page(user, now, whole_number(request.GET.get("page", "")) or 1),
        "roles": [role for role in roles.TOKEN_ROLES if roles.may_give(user, role)],
        "may_all": roles.may(user, ADMINISTER),
        "typed": typed,
        "days": typed.get("days") or DAYS,
        "made": made,
        "refused": refused,
        "tallies": signals.tallies(now) if roles.may(user, ADMINISTER) else None,
    }
    return render(request, "relays/tokens/page.html", context, status=status)


@require_POST
def revoke(request: HttpRequest, pk: int) -> HttpResponse:
    """End a token at once; of one that is not one's own, and of none, it says the same."""
    access.require(request, READ)
    user = request.user
    if not user.is_authenticated:
        raise PermissionDenied(_("Sign in first."))
    try:
        token = acting.revoke(Actor(user), pk)
    except Refused as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, _("Revoked: no call with %(start)s… is answered any more.") % {"start": token.start})
    page = whole_number(request.POST.get("page", "")) or 1
    response = HttpResponseRedirect(reverse("tokens") + (f"?page={page}" if page > 1 else ""))
    response.status_code = 303
    return response

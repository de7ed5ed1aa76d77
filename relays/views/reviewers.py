"""`/reviewers/`: the groups whose members alone decide on the gates of relays that name one."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from relays import access
from relays.actions import reviewers as acting
from relays.actions.base import NotLegalNow, NotPermitted, Refused
from relays.reports import reviewers as report
from relays.reports.roles import ADMINISTER, READ
from relays.views.relay import actor_of


@require_http_methods(["GET", "HEAD", "POST"])
def groups(request: HttpRequest) -> HttpResponse:
    """The groups; a POST of an admin makes one, or changes who is in it: `name`, `add` and `remove` (names)."""
    access.require(request, READ)
    if request.method != "POST":
        return _page(request)
    access.require(request, ADMINISTER)
    form = request.POST
    name, add, remove = form.get("name", "").strip(), form.get("add", "").split(), form.getlist("remove")
    try:
        decision = acting.change_group(actor_of(request), name, add=add, remove=remove, comment=form.get("comment", ""))
    except Refused as refusal:
        status = 403 if isinstance(refusal, NotPermitted) else 409 if isinstance(refusal, NotLegalNow) else 400
        typed = {"name": name, "add": form.get("add", ""), "comment": form.get("comment", "")}
        return _page(request, status=status, refused=str(refusal), typed=typed)
    messages.success(request, _("Recorded as decision %(n)d.") % {"n": decision.seq})
    response = HttpResponseRedirect(reverse("reviewers"))
    response.status_code = 303
    return response


def _page(request: HttpRequest, *, status: int = 200, **more: object) -> HttpResponse:
    context = {
        "rows": report.group_rows(),
        "able": report.names_of(None),
        "may_change": access.may(request.user, ADMINISTER),
        **more,
    }
    return render(request, "relays/reviewers/page.html", context, status=status)

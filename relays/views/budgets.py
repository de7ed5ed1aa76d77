"""`/budgets/`: managers set what an owner's relays may cost in a month; the same act as `relay budget`."""

import re
from datetime import date
from decimal import Decimal, InvalidOperation

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from relays import access
from relays.actions import budget as acting
from relays.actions.base import NotPermitted, Refused, Usage
from relays.reports import budgets as report
from relays.reports.roles import READ
from relays.views.relay import actor_of


@require_http_methods(["GET", "HEAD", "POST"])
def budgets(request: HttpRequest) -> HttpResponse:
    """The page; `?part=list` its live region; a POST sets (`limit`) or removes (`remove`) one budget."""
    access.require(request, READ)
    if request.method == "GET" and request.GET.get("part") == "list":
        may_set = report.may_set(actor_of(request).user)
        return render(request, "relays/budgets/_list.html", {"page": report.budgets(), "may_set": may_set})
    typed = {name: request.POST.get(name, "").strip() for name in ("owner", "month", "limit", "warn_at")}
    refused, status = "", 200
    if request.method == "POST":
        try:
            said = _set(request, typed)
        except NotPermitted as refusal:
            refused, status = str(refusal), 403
        except Refused as refusal:
            refused, status = str(refusal), 400
        else:
            messages.success(request, said)
            response = HttpResponseRedirect(reverse("budgets"))
            response.status_code = 303
            return response
    context = {
        "page": report.budgets(),
        "may_set": report.may_set(actor_of(request).user),
        "typed": typed,
        "refused": refused,
    }
    return render(request, "relays/budgets/page.html", context, status=status)


def _set(request: HttpRequest, typed: dict[str, str]) -> str:
    month = _month(typed["month"] or request.GET.get("month", ""))
    if request.POST.get("remove") == "1":
        acting.set_limit(actor_of(request), typed["owner"], None, month=month)
        return _("The budget of %(owner)s is taken away.") % {"owner": typed["owner"]}
    percent = _number(typed["warn_at"] or "80", _("warn at: a part of the limit in percent, such as 80"))
    limit = _number(typed["limit"], _("limit: dollars, such as 100"))
    acting.set_limit(actor_of(request), typed["owner"], limit, month=month, warn_at=float(percent) / 100)
    return _("The relays of %(owner)s may cost $%(limit)s; it warns and stops nothing.") % {
        "owner": typed["owner"],
        "limit": f"{limit:,.2f}",
    }


def _month(text: str) -> date | None:
    if not text:
        return None
    found = re.fullmatch(r"(20\d\d)-(0[1-9]|1[0-2])", text)
    if found is None:
        raise Usage(_("budget: %(month)s is no month: write it as 2026-11, or leave it empty for each month") % {
            "month": repr(text[:20])
        })  # fmt: skip
    return date(int(found[1]), int(found[2]), 1)


def _number(text: str, wants: str) -> Decimal:
    try:
        return Decimal(text.replace("$", "").replace(" ", ""))
    except InvalidOperation as error:
        raise Usage(_("budget: %(text)s: %(wants)s") % {"text": repr(text[:20]), "wants": wants}) from error

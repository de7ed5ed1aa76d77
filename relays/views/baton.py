"""`/relays/<id>/batons/<n>/`: the baton that leg `n` left, its ladder and pointers; verify again; download."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from relays import access
from relays.driver import reload
from relays.models import Baton
from relays.reports import baton as report
from relays.reports.roles import OPERATE, REVIEW, rights_of
from relays.views.parts import part_response, whole_number


def _key(request: HttpRequest, name: str) -> int | None:
    return whole_number(request.GET.get(name) or request.POST.get(name) or "")


@require_safe
def baton(request: HttpRequest, relay_id: str, n: int) -> HttpResponse:
    """The page; `?baton=` an earlier version, `?check=` an earlier check, `?download=1` the canonical bytes."""
    relay = access.load_relay(request, relay_id)

    def load() -> report.BatonPage:
        found = report.baton_page(relay, n, _key(request, "baton"), _key(request, "check"))
        if found is None:
            raise Http404(
                _("Leg %(n)s of %(pk)s has left no baton; one is written when a leg ends.") % {"n": n, "pk": relay.pk}
            )
        return found

    def build() -> dict[str, object]:
        return {"page": load(), "relay": relay, "here": reverse("baton", args=[relay.pk, n])}

    if request.GET.get("download"):
        return _download(load())
    part = request.GET.get("part")
    if part is None:
        may_verify = bool(rights_of(request.user) & {OPERATE, REVIEW})
        return render(request, "relays/baton/page.html", {**build(), "may_verify": may_verify})
    if part != "baton":
        raise Http404(_("There is no such part of this page."))
    return part_response(request, "relays/baton/_baton.html", build, (f"relay:{relay.pk}",))


def _download(page: report.BatonPage) -> HttpResponse:
    response = HttpResponse(page.baton.text.encode(), content_type="application/json")
    name = f"{page.relay.pk}-leg-{page.leg.number}.baton.json"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@require_POST
def verify(request: HttpRequest, relay_id: str, n: int) -> HttpResponse:
    """All pointers of the baton again, as a new record; never a command, never a lease."""
    relay = access.load_relay(request, relay_id)
    if not rights_of(request.user) & {OPERATE, REVIEW}:
        access.require(request, REVIEW)
    wanted = Baton.objects.filter(relay=relay, leg__number=n)
    key = _key(request, "baton")
    found = (wanted.filter(pk=key) if key else wanted).order_by("-id").first()
    if found is None:
        raise Http404(_("Leg %(n)s of %(pk)s has left no baton.") % {"n": n, "pk": relay.pk})
    row = reload.verify_again(found.pk)
    messages.success(
        request,
        (
            _("Checked again: %(outcome)s at step %(step)s, %(path)s.")
            % {"outcome": _(row.outcome), "step": row.step, "path": row.path}
            if row.path
            else _("Checked again: %(outcome)s.") % {"outcome": _(row.outcome)}
        ),
    )
    response = HttpResponseRedirect(f"{reverse('baton', args=[relay.pk, n])}?baton={found.pk}")
    response.status_code = 303
    return response

"""`/relays/<id>/legs/<n>/`: one leg with its turns, boundaries, facts, progress and tombstone."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from relays import access
from relays.reports import legs
from relays.views.parts import part_response, whole_number


@require_safe
def leg(request: HttpRequest, relay_id: str, n: int) -> HttpResponse:
    """The page; `?page=` or `?turn=` chooses the turns, `?part=leg` is the region that grows while the leg runs."""
    relay = access.load_relay(request, relay_id)
    page, turn = _count(request, "page"), _count(request, "turn")
    if turn:
        page = -(-turn // legs.TURNS)

    def build() -> dict[str, object]:
        found = legs.leg_page(relay, n, timezone.now(), page or 1)
        if found is None:
            raise Http404(f"{relay.pk} has no leg {n}.")
        return {"page": found, "relay": relay, "here": reverse("leg", args=[relay.pk, n]), "turn": turn}

    part = request.GET.get("part")
    if part is None:
        return render(request, "relays/leg/page.html", build())
    if part != "leg":
        raise Http404("There is no such part of this page.")
    return part_response(request, "relays/leg/_leg.html", build, (f"relay:{relay.pk}",))


def _count(request: HttpRequest, name: str) -> int:
    """What a column of turns can hold; 0 for anything else."""
    found = whole_number(request.GET.get(name, ""))
    return found if found is not None and found < 10**9 else 0

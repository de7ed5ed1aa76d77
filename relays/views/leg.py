"""`/relays/<id>/legs/<n>/`: one leg with its turns, boundaries, facts, progress, tombstone, window and log."""

import json
from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from relays import access
from relays.models import LIVE_STATES, Leg, Relay
from relays.reports import filled, leglog, legs
from relays.views.parts import part_response, whole_number
from relays.views.visible import SHOWN, UNSEEN

_PARTS = {"leg": "_leg.html", "window": "_window.html", "log": "_log.json"}


@require_safe
def leg(request: HttpRequest, relay_id: str, n: int) -> HttpResponse:
    """The page; `?page=` or `?turn=` chooses the turns; `?part=leg`, `window` and `log` grow while the leg runs."""
    relay = access.load_relay(request, relay_id)
    page, turn = _count(request, "page"), _count(request, "turn")
    if turn:
        page = -(-turn // legs.TURNS)

    def build() -> dict[str, object]:
        found = legs.leg_page(relay, n, timezone.now(), page or 1)
        if found is None:
            raise Http404(_("%(relay)s has no leg %(leg)s.") % {"relay": relay.pk, "leg": n})
        return {"page": found, "relay": relay, "here": reverse("leg", args=[relay.pk, n]), "turn": turn}

    part = request.GET.get("part")
    if part is None:
        context = build()
        one: Leg = context["page"].leg  # type: ignore[attr-defined]
        return render(request, "relays/leg/page.html", {**context, **_window(relay, one), **_log(relay, one)})
    if part not in _PARTS:
        raise Http404(_("There is no such part of this page."))
    builders: dict[str, Callable[[], dict[str, object]]] = {
        "leg": build,
        "window": lambda: _window(relay, _leg(relay, n)),
        "log": lambda: {"text": _log_text(relay, _leg(relay, n))},
    }
    response = part_response(request, f"relays/leg/{_PARTS[part]}", builders[part], (f"relay:{relay.pk}",))
    if part == "log":
        response["Content-Type"] = "application/json"
    return response


@require_safe
def log(request: HttpRequest, relay_id: str, n: int) -> HttpResponseBase:
    """The log alone, in pages: `?before=` or `?after=` a place in it, `?of=stderr`, `?format=text` all of it as text.

    `?after=N&format=json` is what a page asks for when it was left behind: 204 when nothing came since.
    """
    relay = access.load_relay(request, relay_id)
    one = _leg(relay, n)
    of = request.GET.get("of", "stream")
    if of not in leglog.FILES:
        raise Http404(_("A log is of stream or stderr."))
    file = leglog.path(relay.pk, n, of)
    if request.GET.get("format") == "text":
        pieces = (UNSEEN.sub(SHOWN, piece) for piece in leglog.whole(file))
        response = StreamingHttpResponse(pieces, content_type="text/plain; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="{relay.pk}-leg-{n}-{of}.log"'
        return response
    after, before = whole_number(request.GET.get("after", "")), whole_number(request.GET.get("before", ""))
    if request.GET.get("format") == "json":
        chunk = leglog.after(file, after or 0)
        if not chunk.lines:
            return HttpResponse(status=204)
        return JsonResponse(_visible(leglog.as_json(chunk, one.state in LIVE_STATES)))
    if after is not None:
        chunk = leglog.after(file, after)
    elif before is not None:
        chunk = leglog.before(file, before)
    else:
        chunk = leglog.tail(file, leglog.MORE)
    return render(
        request,
        "relays/leg/log.html",
        {"relay": relay, "leg": one, "chunk": chunk, "of": of, "here": reverse("leg_log", args=[relay.pk, n])},
    )


def _leg(relay: Relay, n: int) -> Leg:
    found = Leg.objects.filter(relay=relay, number=n).first()
    if found is None:
        raise Http404(_("%(relay)s has no leg %(leg)s.") % {"relay": relay.pk, "leg": n})
    return found


def _window(relay: Relay, one: Leg) -> dict[str, object]:
    return {
        "relay": relay,
        "leg": one,
        "filled": filled.filled(one),
        "here": reverse("leg", args=[relay.pk, one.number]),
    }


def _log(relay: Relay, one: Leg) -> dict[str, object]:
    said = leglog.tail(leglog.path(relay.pk, one.number))
    errors = leglog.tail(leglog.path(relay.pk, one.number, "stderr"), 1)
    return {
        "log": said,
        "log_url": reverse("leg_log", args=[relay.pk, one.number]),
        "log_errors": errors.size,
        "running": one.state in LIVE_STATES,
    }


def _log_text(relay: Relay, one: Leg) -> str:
    chunk = leglog.tail(leglog.path(relay.pk, one.number))
    return json.dumps(_visible(leglog.as_json(chunk, one.state in LIVE_STATES)), ensure_ascii=False)


def _visible(told: dict[str, object]) -> dict[str, object]:
    """As HTML has it: no character that a person cannot see and a browser obeys."""
    lines: list[list[object]] = told["lines"]  # type: ignore[assignment]
    clean = [[UNSEEN.sub(SHOWN, part) if isinstance(part, str) else part for part in line] for line in lines]
    return {**told, "lines": clean}


def _count(request: HttpRequest, name: str) -> int:
    """What a column of turns can hold; 0 for anything else."""
    found = whole_number(request.GET.get(name, ""))
    return found if found is not None and found < 10**9 else 0

"""`/relays/<id>/`: one relay, its regions for live pages, its tables as CSV, and what a person may do with it."""

import json
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from relays import access
from relays.actions import park as parking
from relays.actions import push as pushing
from relays.actions import restate as restating
from relays.actions import resume as resuming
from relays.actions import userfacts
from relays.actions.base import Actor, NotPermitted, Outcome, Refused, Usage
from relays.charts import flat as flat_chart
from relays.charts import scores as scores_chart
from relays.core import readout
from relays.models import Relay, RelayStatus
from relays.reports import advisory, diffs, evidence, flat, layout, legs, scores, timeline
from relays.reports import relay as report
from relays.reports import status as status_report
from relays.reports.acts import acts
from relays.reports.gate import branch_tip
from relays.reports.roles import OPERATE, REVIEW, rights_of
from relays.views.csvfile import csv_response
from relays.views.parts import part_response, whole_number

SERIES = 100
ACTS = ("park", "park_now", "resume", "stop", "stop_now")
_PARTS = ("head", "kpis", "series", "chart", "tail", "scores", "legs", "side", "records")
_JSON = ("chart", "tail", "scores")  # data of charts, not HTML


@require_safe
def relay(request: HttpRequest, relay_id: str) -> HttpResponseBase:
    """The page; `?part=` one region of it, `?format=csv&of=turns|legs` a table, `?format=text` the operator readout."""
    found = access.load_relay(request, relay_id)
    if request.GET.get("format") == "text" or _wants_text(request):
        lines = readout.lines(status_report.operator_readout(found))
        return HttpResponse("\n".join(lines) + "\n", content_type="text/plain; charset=utf-8")
    if request.GET.get("format") == "csv":
        return _csv(found, request.GET.get("of", "legs"))
    if request.GET.get("tab") == "cost" and "part" not in request.GET:
        return HttpResponseRedirect(reverse("relay_cost", args=[found.pk]))
    rights = rights_of(request.user)
    part = request.GET.get("part")
    if part is not None:
        return _part(request, found, rights, part)
    data = flat.flat(found.pk, _leg(request))
    marks = scores.scores(found.pk)
    context = {
        **_head(found, rights),
        **_kpis(found),
        **_series(found, data),
        **_legs(found, request),
        **_side(found, rights),
        **_records(found, request),
        "chart": _chart(data),
        "flat": data,
        "scores": marks,
        "scores_chart": _scores(marks),
        "forms": _forms(found, rights),
    }
    return render(request, "relays/relay/page.html", context)


def _wants_text(request: HttpRequest) -> bool:
    """Asked for in the header by a program; a browser names HTML first."""
    accepted = request.headers.get("Accept", "").partition(",")[0].partition(";")[0].strip()
    return accepted == "text/plain"


def _part(request: HttpRequest, found: Relay, rights: frozenset[str], part: str) -> HttpResponse:
    if part not in _PARTS:
        raise Http404(_("There is no such part of this page."))
    builders: dict[str, Callable[[], dict[str, object]]] = {
        "head": lambda: _head(found, rights),
        "kpis": lambda: _kpis(found),
        "series": lambda: _series(found, flat.flat(found.pk, _leg(request))),
        "chart": lambda: _as_text(_chart(flat.flat(found.pk, _leg(request)))),
        "tail": lambda: _as_text(flat_chart.tail(flat.tail(found.pk))),
        "scores": lambda: _as_text(_scores(scores.scores(found.pk))),
        "legs": lambda: _legs(found, request),
        "side": lambda: _side(found, rights),
        "records": lambda: _records(found, request),
    }
    name = f"_{part}.html" if part not in _JSON else "_chart.json"
    response = part_response(request, f"relays/relay/{name}", builders[part], (f"relay:{found.pk}",))
    if part in _JSON:
        response["Content-Type"] = "application/json"
    return response


def _here(found: Relay) -> dict[str, object]:
    return {"relay": found, "here": reverse("relay", args=[found.pk])}


def _head(found: Relay, rights: frozenset[str]) -> dict[str, object]:
    head = report.head(found)
    return {
        **_here(found),
        "head": head,
        "acts": acts(head, rights),
        "repo_name": PurePath(found.repo).name,
        "may_push": OPERATE in rights,
        "can_verify": head.baton_leg is not None and bool(rights & {OPERATE, REVIEW}),
    }


def _kpis(found: Relay) -> dict[str, object]:
    return {**_here(found), "kpis": report.kpis(found)}


def _chart(data: flat.Flat) -> dict[str, Any]:
    return {"figure": flat_chart.figure(data).plain(), "alternative": flat_chart.alternative(data)}


def _scores(data: scores.Scores) -> dict[str, Any]:
    return {"figure": scores_chart.figure(data).plain(), "alternative": scores_chart.alternative(data)}


def _as_text(content: object) -> dict[str, object]:
    return {"text": json.dumps(content, separators=(",", ":"))}


def _leg(request: HttpRequest) -> int | None:
    """The leg that the graph is zoomed into."""
    return whole_number(request.GET.get("leg", ""))


def _series(found: Relay, data: flat.Flat) -> dict[str, object]:
    return {
        **_here(found),
        "flat": data,
        "legend": flat_chart.events_named(data),
        "any_parked": any(leg.parked for leg in data.legs),
        "series_rows": data.legs[-SERIES:],
        "series_marks": [mark for mark in data.marks if data.focus is not None or not mark.held][-SERIES:],
        "series_left_out": len(data.legs) > SERIES,
    }


def _legs(found: Relay, request: HttpRequest) -> dict[str, object]:
    before = whole_number(request.GET.get("before", ""))
    return {**_here(found), "legs": legs.legs(found, timezone.now(), before=before), "before": before}


def _side(found: Relay, rights: frozenset[str]) -> dict[str, object]:
    lines, links = status_report.verdict_lines(found), evidence.addresses(found.pk)
    return {
        **_here(found),
        "side": report.side(found),
        "may_state": OPERATE in rights and not found.final,
        "advice": advisory.advice(found),
        "verdicts": list(lines.items()),
        "readout": [(*row, links[row[0]]) for row in report.readout_rows(status_report.operator_readout(found))],
    }


def _records(found: Relay, request: HttpRequest) -> dict[str, object]:
    tab, rows = request.GET.get("tab", ""), request.GET.get("rows", "")
    if not tab and "part" not in request.GET:
        tab = layout.of(request.user).first_tab
    held = request.GET.get("held") == "1"
    records = report.records(found, tab, before=rows, held_only=held)
    shown = evidence.evidence(found, request.GET.get("of", ""), rows) if records.tab == "evidence" else None
    log = timeline.timeline(found, whole_number(rows)) if tab == "log" else None
    diff = None
    if tab == "diff" and found.status == RelayStatus.DONE:
        tip, problem = branch_tip(found)
        diff = diffs.between(found, found.start_sha, tip, _("Diff of %s") % found.branch)
    wanted = {
        "tab": "diff" if diff else "log" if log else records.tab,
        "rows": rows if whole_number(rows) is not None else "",
        "held": "1" if held else "",
        "of": shown.kind if shown else "",
    }
    query = "".join(f"&{name}={value}" for name, value in wanted.items() if value)
    return {
        **_here(found),
        "records": records,
        "evidence": shown,
        "diff": diff,
        "log": log,
        "records_url": f"{reverse('relay', args=[found.pk])}?part=records{query}",
    }


def _csv(found: Relay, of: str) -> HttpResponseBase:
    if of == "turns":
        return csv_response(f"{found.pk}-turns.csv", flat.turns_csv(found.pk))
    if of == "legs":
        return csv_response(f"{found.pk}-legs.csv", legs.table_csv(found, timezone.now()))
    raise Http404(_("There is no such table; of is turns or legs."))


# ---- acts ---------------------------------------------------------------------------------------------------------


def _forms(found: Relay, rights: frozenset[str]) -> list[tuple[str, str]]:
    """Forms that stand for the whole life of the page; a button of a refreshed region names its form."""
    forms = [(name, reverse(f"relay_{name}", args=[found.pk])) for name in (*ACTS, "facts", "restate", "push")]
    verify = ("verify", reverse("baton_verify", args=[found.pk, 0]))
    return [*(forms if OPERATE in rights else ()), *((verify,) if rights & {OPERATE, REVIEW} else ())]


def _act(request: HttpRequest, relay_id: str, act: Callable[[Actor, str], Outcome], said: str = "") -> HttpResponse:
    """Carry out one act and go back to the page, which says what follows or why nothing happened."""
    found = access.load_relay(request, relay_id)
    access.require(request, OPERATE)
    try:
        outcome = act(actor_of(request), request.POST.get("comment", "").strip()[:500])
    except NotPermitted as refusal:
        raise PermissionDenied(str(refusal)) from refusal
    except Refused as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, said or _said(outcome))
    response = HttpResponseRedirect(reverse("relay", args=[found.pk]))
    response.status_code = 303
    return response


@require_POST
def facts(request: HttpRequest, relay_id: str) -> HttpResponse:
    """State a fact, pin a pointer, or take one back: `do` is fact, pin, or the kind and pointer of what goes."""
    found = access.load_relay(request, relay_id)
    access.require(request, OPERATE)
    do, text = request.POST.get("do", ""), request.POST.get("stated", "")
    try:
        kind, _blank, pointer = do.partition(" ")
        if kind not in ("fact", "pin"):
            raise Usage(_("%(found)s: say whether it is a fact or a pin") % {"found": found.pk})
        if pointer:
            userfacts.remove(actor_of(request), found.pk, "pin" if kind == "pin" else "fact", pointer)
        else:
            (userfacts.add_pin if kind == "pin" else userfacts.add_fact)(actor_of(request), found.pk, text)
    except NotPermitted as refusal:
        raise PermissionDenied(str(refusal)) from refusal
    except Refused as refusal:
        messages.error(request, str(refusal))
    else:
        messages.success(request, _("Recorded: the next leg is given what stands now."))
    response = HttpResponseRedirect(reverse("relay", args=[found.pk]))
    response.status_code = 303
    return response


@require_POST
def push(request: HttpRequest, relay_id: str) -> HttpResponse:
    """Send the branch of a relay that is done where its policy says; `seen` is the tip that the page showed."""
    found = access.load_relay(request, relay_id)
    access.require(request, OPERATE)
    comment, seen = request.POST.get("comment", "").strip()[:500], request.POST.get("seen", "")
    try:
        asked = pushing.push(actor_of(request), relay_id, seen=seen, comment=comment)
    except NotPermitted as refusal:
        raise PermissionDenied(str(refusal)) from refusal
    except Refused as refusal:
        messages.error(request, str(refusal))
    else:
        said = _("Recorded: %(branch)s is pushed to %(where)s by a worker; its result shows here.")
        messages.success(request, said % {"branch": asked.branch, "where": asked.where})
    response = HttpResponseRedirect(reverse("relay", args=[found.pk]))
    response.status_code = 303
    return response


@require_POST
def restate(request: HttpRequest, relay_id: str) -> HttpResponse:
    """A new objective, or other limits of the envelope, with a comment."""

    def act(actor: Actor, comment: str) -> Outcome:
        stated, sets = request.POST.get("objective", ""), request.POST.get("sets", "").split()
        return restating.restate(actor, relay_id, new_objective=stated, sets=sets, comment=comment)

    return _act(request, relay_id, act, _("Recorded: the next leg is given what stands now."))


def actor_of(request: HttpRequest) -> Actor:
    """The signed-in person as an actor; views are behind sign-in."""
    user = request.user
    if not user.is_authenticated:
        raise PermissionDenied(_("Sign in first."))
    return Actor(user)


def _said(outcome: Outcome) -> str:
    leg = _("leg %s") % outcome.leg if outcome.leg is not None else _("the leg")
    return {
        "drain": _("Asked: %(leg)s ends at its next safe point.") % {"leg": leg},
        "now": _("Asked: %(leg)s is ended at once.") % {"leg": leg},
        "start": _("Asked: a worker checks it first; the next leg starts unless it is done or may rest."),
    }.get(outcome.will, _("The relay is %(status)s.") % {"status": _(outcome.status)})


@require_POST
def park(request: HttpRequest, relay_id: str) -> HttpResponse:
    return _act(request, relay_id, lambda actor, comment: parking.park(actor, relay_id, comment=comment))


@require_POST
def park_now(request: HttpRequest, relay_id: str) -> HttpResponse:
    return _act(request, relay_id, lambda actor, comment: parking.park(actor, relay_id, now=True, comment=comment))


@require_POST
def stop(request: HttpRequest, relay_id: str) -> HttpResponse:
    return _act(request, relay_id, lambda actor, comment: parking.stop(actor, relay_id, comment=comment))


@require_POST
def stop_now(request: HttpRequest, relay_id: str) -> HttpResponse:
    return _act(request, relay_id, lambda actor, comment: parking.stop(actor, relay_id, now=True, comment=comment))


@require_POST
def resume(request: HttpRequest, relay_id: str) -> HttpResponse:
    return _act(request, relay_id, lambda actor, comment: resuming.resume(actor, relay_id, comment))

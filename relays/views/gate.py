"""`/gates/<id>/`: everything needed to decide on one page, and the decision bound to what was shown."""

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from relays import access
from relays.actions import decide as deciding
from relays.actions import reviewers as choosing
from relays.actions.base import ChangedSinceSeen, NotLegalNow, NotPermitted, Refused, Usage
from relays.core import settling
from relays.core.vocabulary import Ask
from relays.driver import reload
from relays.models import Baton, GateEpisode
from relays.reports import diffs, parked, reviewers
from relays.reports import gate as report
from relays.reports.asked import Subject
from relays.reports.roles import ADMINISTER, READ, REVIEW
from relays.views.parts import part_response
from relays.views.relay import actor_of

KEEP, OWN = "", "own"
FIELDS = ("comment", "next", "next_own", "region", "sets", "objective", "host_dead")


@require_safe
def gate(request: HttpRequest, pk: int) -> HttpResponse:
    """The page; `?part=state&seen=…` is its only region that refreshes: what one decides on never moves by itself."""
    found = access.load_gate(request, pk)
    part = request.GET.get("part")
    if part is None:
        return _page(request, found, {})
    if part != "state":
        raise Http404(_("There is no such part of this page."))
    return part_response(
        request,
        "relays/gate/_state.html",
        lambda: _state(found, request.GET.get("seen", ""), had_form=request.GET.get("form") == "1"),
        (f"relay:{found.relay_id}", "inbox"),
    )


def _state(found: GateEpisode, seen: str, *, had_form: bool) -> dict[str, object]:
    """`had_form`: the page that asks shows the buttons; decided elsewhere, they give way to a word that says so."""
    page = report.gate_page(found, timezone.now(), *report.branch_tip(found.relay))
    changed = page.waiting and seen != page.shown.digest
    return {"page": page, "seen": seen, "changed": changed, "here": _here(found), "had_form": had_form}


def _here(found: GateEpisode) -> str:
    return reverse("gate", args=[found.pk])


def _page(
    request: HttpRequest, found: GateEpisode, typed: Mapping[str, object], *, status: int = 200, **notice: object
) -> HttpResponse:
    page = report.gate_page(found, timezone.now(), *report.branch_tip(found.relay))
    relay, leg = found.relay, page.leg
    commits = stored = None
    tree = parked.parked(relay, "", "", page.dirty)
    if leg is not None:
        row = relay.legs.get(number=leg.number)
        base = row.end_sha or row.cursor_sha
        if row.cursor_sha and row.end_sha and row.cursor_sha != row.end_sha:
            label = _("Commits of leg %(leg)d") % {"leg": leg.number}
            commits = diffs.between(relay, row.cursor_sha, row.end_sha, label)
        if row.wip_sha:
            stored = diffs.between(relay, base, row.wip_sha, _("Parked work of leg %(leg)d") % {"leg": leg.number})
        tree = parked.parked(relay, base, row.wip_sha, page.dirty)
    context = {
        "page": page,
        "relay": relay,
        "here": _here(found),
        "seen": page.shown.digest,
        "changed": False,
        "typed": typed,
        "asked": _asked(page, typed.get("answers")),
        "subjects": _subjects(page, typed.get("said")),
        "commits": commits,
        "parked": stored,
        "tree": tree,
        "own_relay": relay.owner_id == request.user.pk,
        "approve_word": page.asked.approve if page.asked else _("Approve"),
        "refuse_word": page.asked.refuse if page.asked else _("Refuse"),
        **_viewer(request, page),
        **notice,
    }
    return render(request, "relays/gate/page.html", context, status=status)


def _viewer(request: HttpRequest, page: report.GatePage) -> dict[str, object]:
    """What this person may do here, and why not what they may not. The act itself judges again."""
    name, who = request.user.get_username(), page.deciders
    reviews, member = access.may(request.user, REVIEW), not who.group or name in who.names
    why_not = why_not_approve = ""
    if not reviews:
        why_not = _("A reviewer decides here; you can read.")
    elif not member:
        why_not = _("Only the group %(group)s decides on this relay: %(names)s. You can read.") % {
            "group": who.group,
            "names": ", ".join(who.names[:8]) or "—",
        }
    elif name == who.bound:
        why_not_approve = _("You started this relay, so another reviewer approves it (four eyes): %(names)s.") % {
            "names": ", ".join(who.approving[:8]) or "—"
        }
    elif any(one.name == name for one in page.approvals):
        why_not_approve = _("You have approved it; somebody else approves too.")
    admin = access.may(request.user, ADMINISTER)
    return {
        "may_decide": reviews and member,
        "why_not": why_not,
        "why_not_approve": why_not_approve,
        "may_give": page.waiting and (admin or (reviews and member and name != who.bound)),
        "groups": reviewers.groups(),
    }


def _asked(page: report.GatePage, answers: object) -> list[tuple[report.Question, str]]:
    """The questions that an answer can name, with what was typed for each."""
    typed = answers if isinstance(answers, dict) else {}
    return [(question, typed.get(question.ref, "")) for question in page.questions if question.durable]


def _subjects(page: report.GatePage, said: object) -> list[tuple[Subject, str, str]]:
    """What is decided one by one, with the way and the text that were chosen for each."""
    typed = said if isinstance(said, dict) else {}
    return [(one, *typed.get(one.ref, (one.ways[0][0], ""))) for one in (page.asked.subjects if page.asked else ())]


def _ways(form: QueryDict) -> dict[str, tuple[str, str]]:
    """Subject -> the way and the text that the form says."""
    found = {}
    for name in form:
        if name.startswith("subject-"):
            number = name.removeprefix("subject-")
            found[str(form[name])] = (form.get(f"way-{number}", ""), form.get(f"by-{number}", "").strip())
    return found


def _said(form: QueryDict) -> settling.Settling:
    ways = _ways(form)
    for ref, (way, text) in ways.items():
        if text and way != settling.SERVED:
            raise Usage(
                _("%(ref)s: a text was written, but another way is chosen; choose “I serve it”, or empty it")
                % {"ref": ref[:120]}
            )

    def chosen(wanted: str) -> list[str]:
        return [ref for ref, (way, _) in ways.items() if way == wanted]

    return settling.Settling(
        chosen(settling.CONFIRMED),
        chosen(settling.REFRESHED),
        {ref: text for ref, (way, text) in ways.items() if way == settling.SERVED},
        chosen(settling.WAIVED),
    )


@require_POST
def decide(request: HttpRequest, pk: int) -> HttpResponse:
    """Approve, refuse or reopen. What changed meanwhile comes back as a fresh page with all that was typed.

    The same form sent twice (a double click, a page that was sent again) is one decision: the second says which.
    `decision` verify decides nothing: all pointers of the baton are judged again, for who is about to decide on them.
    """
    found = access.load_gate(request, pk)
    access.require(request, REVIEW)
    form = request.POST
    typed = {name: form.get(name, "") for name in FIELDS} | {"answers": _answers(form), "said": _ways(form)}
    if form.get("decision") == "verify":
        return _verified(request, found, typed)
    wanted: dict[str, Any] = {}
    try:
        wanted = _wanted(found, form)
        outcome = _decide(request, found, form, wanted)
    except NotPermitted as refusal:
        return _page(request, access.load_gate(request, pk), typed, status=403, refused_line=str(refusal))
    except ChangedSinceSeen as change:
        return _again(request, found, form, wanted) or _page(
            request, access.load_gate(request, pk), typed, status=409, changed_line=str(change)
        )
    except NotLegalNow as refusal:
        return _again(request, found, form, wanted) or _page(
            request, access.load_gate(request, pk), typed, status=409, refused_line=str(refusal)
        )
    except Refused as refusal:
        return _page(request, access.load_gate(request, pk), typed, status=400, refused_line=str(refusal))
    said = _("Recorded as decision %(n)d: the gate is %(state)s.") % {"n": outcome.decision, "state": _(outcome.state)}
    if outcome.note:
        said = f"{said} {capfirst(outcome.note)}."
    if outcome.state == "waiting" and outcome.have < outcome.need and form.get("decision") == "approve":
        said += " " + _("%(have)d of %(need)d approvals.") % {"have": outcome.have, "need": outcome.need}
    messages.success(request, said)
    return _to(outcome.gate)


def _verified(request: HttpRequest, found: GateEpisode, typed: Mapping[str, object]) -> HttpResponse:
    """The page with what the stores say now, and with all that was typed."""
    baton = Baton.objects.filter(relay=found.relay_id, current=True).first()
    if baton is None:
        return _page(request, found, typed, status=409, refused_line=_("There is no baton yet, so nothing to verify."))
    row = reload.verify_again(baton.pk)
    return _page(request, found, typed, checked_line=_("Checked again: %(outcome)s.") % {"outcome": _(row.outcome)})


def _to(pk: int) -> HttpResponse:
    response = HttpResponseRedirect(reverse("gate", args=[pk]))
    response.status_code = 303
    return response


def _again(request: HttpRequest, found: GateEpisode, form: QueryDict, wanted: Mapping[str, Any]) -> HttpResponse | None:
    """Where this very form was decided on before: the way back to what it led to, else None."""
    before = report.decided_before(
        found, request.user.pk or 0, form.get("decision", ""), form.get("seen", ""), _comment(form),
        deciding.form_digest(**wanted),
    )  # fmt: skip
    if before is None:
        return None
    messages.info(request, _("That was recorded already, as decision %(n)d; it counts once.") % {"n": before})
    return _to(found.pk)


def _comment(form: QueryDict) -> str:
    """Browsers send line ends as two characters; what was typed is one."""
    return form.get("comment", "").replace("\r\n", "\n").strip()


@require_POST
def give(request: HttpRequest, pk: int) -> HttpResponse:
    """Another group decides on the gate's relay from now on."""
    found = access.load_gate(request, pk)
    access.require(request, READ)
    group, comment = request.POST.get("group", ""), _comment(request.POST)
    try:
        decision = choosing.give(actor_of(request), found.relay_id, group, comment)
    except Refused as refusal:
        status = 403 if isinstance(refusal, NotPermitted) else 409 if isinstance(refusal, NotLegalNow) else 400
        return _page(request, found, {}, status=status, give_line=str(refusal), give_comment=comment)
    messages.success(request, _("Recorded as decision %(n)d.") % {"n": decision.seq})
    return _to(pk)


def _wanted(found: GateEpisode, form: QueryDict) -> dict[str, Any]:
    """What the form carries beside comment and digest, as the act takes it."""
    decision = form.get("decision", "")
    written = form.get("next_own", "").strip()
    chosen = form.get("next", OWN if written else KEEP)
    if written and chosen != OWN:
        raise Usage(
            _("a next action was written, but another is chosen; choose “Write another one”, or empty the line")
        )
    next_action = written if chosen == OWN else chosen
    wanted: dict[str, Any] = {
        "next_action": next_action, "answers": {}, "region": [], "sets": [],
        "objective": form.get("objective", "").strip(),
    }  # fmt: skip
    if decision == "approve":
        return wanted | {
            "answers": _answers(form),
            "region": form.get("region", "").split(),
            "sets": form.get("sets", "").split(),
            "host_dead": form.get("host_dead") == "1",
            "said": _said(form),
        }
    # "not reached" may say what is missing; elsewhere what was chosen is for the approval that did not come
    keeps = decision == "refuse" and found.token == Ask.DONE_UNCONFIRMED
    return wanted | {
        "next_action": next_action if keeps else "",
        "objective": wanted["objective"] if decision == "refuse" else "",
        "then": "stop" if decision == "refuse_stop" else "",
    }


def _decide(
    request: HttpRequest, found: GateEpisode, form: QueryDict, wanted: Mapping[str, Any]
) -> deciding.GateOutcome:
    actor, seen, comment = actor_of(request), form.get("seen", ""), _comment(form)
    decision = form.get("decision", "")
    if decision == "approve":
        return deciding.approve(actor, found.pk, seen=seen, comment=comment, **wanted)
    if decision in ("refuse", "refuse_stop", "reopen"):
        return deciding.refuse(actor, found.pk, seen=seen, comment=comment, reopen=decision == "reopen", **wanted)
    raise Refused(_("gate %(found)s: nothing was decided; press Approve or Refuse") % {"found": found.pk})


def _answers(form: QueryDict) -> dict[str, str]:
    """Answers to questions by their reference; a question that is left empty stays open."""
    found: dict[str, str] = {}
    for name in form:
        if name.startswith("ref-"):
            answer = form.get(f"answer-{name.removeprefix('ref-')}", "").strip()
            if answer:
                found[str(form[name])] = answer
    return found

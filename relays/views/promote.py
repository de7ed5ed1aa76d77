"""`/sessions/<pk>/promote/`: a person starts a driven relay in the repository that a session worked in."""

import re
import secrets
from collections.abc import Mapping

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from relays import access
from relays.actions.base import Held, NotPermitted, Refused, Usage
from relays.actions.start import StartRequest, in_words, start
from relays.models import Relay, Session
from relays.reports import promote as report
from relays.reports.roles import OPERATE
from relays.views.relay import actor_of

#: the limits of the envelope that the form asks for: name, label, what is written there
LIMITS = (
    ("legs", "legs", "10"),
    ("turns", "turns", "400"),
    ("spend", "dollars", "25"),
    ("wall", "time", "8h"),
)
FIELDS = ("objective", "done_when", "region", "agent", "agent_args", *(name for name, _, _ in LIMITS))

_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,64}")


@require_http_methods(["GET", "HEAD", "POST"])
def promote(request: HttpRequest, pk: int) -> HttpResponse:
    """The form; POST `do=check` says what each field means, `do=start` starts. What was typed comes back as it was.

    The repository is the session's folder and no field of the form.
    """
    found = access.load_session(request, pk)
    access.require(request, OPERATE)
    if request.method != "POST":
        return _page(request, found, {"region": "**"}, secrets.token_urlsafe(16))
    form = request.POST
    # a browser ends the lines of a text area in its own way
    typed = {name: form.get(name, "").replace("\r\n", "\n").strip() for name in FIELDS}
    token = form.get("form", "") if _TOKEN.fullmatch(form.get("form", "")) else ""
    if form.get("do") != "start":
        return _page(request, found, typed, token, checked=True)
    try:
        relay = start(actor_of(request), _request(found, typed, token))
    except NotPermitted as refusal:
        return _page(request, found, typed, token, checked=True, status=403, refused=str(refusal))
    except Held as refusal:
        return _page(request, found, typed, token, checked=True, status=409, refused=str(refusal))
    except Refused as refusal:
        return _page(request, found, typed, token, checked=True, status=400, refused=str(refusal))
    messages.success(request, _said(relay))
    response = HttpResponseRedirect(reverse("relay", args=[relay.pk]))
    response.status_code = 303
    return response


def _said(relay: Relay) -> str:
    note = in_words(relay)
    words = _("%(pk)s is started in %(repo)s; a worker begins its first leg.") % {"pk": relay.pk, "repo": relay.repo}
    return f"{words} {note[0].upper()}{note[1:]}." if note else words


def _request(found: Session, typed: Mapping[str, str], token: str) -> StartRequest:
    if not token:
        raise Usage(_("start: the form has lost its own name; open the page anew, then start"))
    if not found.cwd:
        raise Usage(_("start: this session's files never named a folder; start with `relay start --repo DIR …`"))
    return StartRequest(
        repo=found.cwd,
        objective=typed["objective"],
        done_when=typed["done_when"],
        region=typed["region"].split(),
        agent=typed["agent"],
        agent_args=_pairs(typed["agent_args"]),
        sets=[f"envelope.{name}={typed[name]}" for name, _, _ in LIMITS if typed[name]],
        origin={"session": found.pk, "agent": found.agent, "sid": found.sid},
        form=token,
    )


def _pairs(text: str) -> dict[str, str]:
    """`name=value`, one a line; a line without `=` is refused."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise Usage(
                _("start: agent argument %(line)s: write it as name=value, one a line") % {"line": repr(line[:80])}
            )
        found[name.strip()] = value
    return found


def _page(
    request: HttpRequest,
    found: Session,
    typed: Mapping[str, str],
    token: str,
    *,
    checked: bool = False,
    status: int = 200,
    refused: str = "",
) -> HttpResponse:
    said: dict[str, report.Said] = {}
    if checked:
        try:
            pairs = _pairs(typed.get("agent_args", ""))
            said = report.checked(typed, typed.get("region", "").split(), pairs)
        except Usage as refusal:
            said = report.checked(typed, typed.get("region", "").split(), {}) | {
                "agent": report.Said(str(refusal).removeprefix("start: "), True)
            }
    context = {
        "page": report.promote_page(found),
        "session": found,
        "typed": typed,
        "token": token,
        "said": said,
        "refused": refused.removeprefix("start: "),
        "limits": [(name, label, example, typed.get(name, "")) for name, label, example in LIMITS],
    }
    return render(request, "relays/promote/page.html", context, status=status)

"""`/start/`: a person starts a relay; the form says what each field means while it is typed."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from relays import access
from relays.actions import policies as acting
from relays.actions.base import Held, NotPermitted, Refused, Usage
from relays.actions.start import DryRun, StartRequest, check_when, dry_run, in_words, start
from relays.core import policy, policytable, readout
from relays.core.vocabulary import Mode
from relays.models import PolicyVersion, Relay
from relays.reports import start as report
from relays.reports.roles import OPERATE, READ
from relays.reports.sentences import refused
from relays.views.relay import actor_of

#: the limits of the envelope that have a field of their own: name, what is written there
LIMITS = (("legs", "10"), ("turns", "400"), ("spend", "25"), ("wall", "8h"))
FIELDS = (
    *("repo", "objective", "done_when", "watch", "region", "agent", "model", "env", "agent_args"),
    *("policy", "sets", "mode", "reviewers", "at", "try_one", *(name for name, _example in LIMITS)),
)
#: what an address may fill in; the rest is typed
PREFILLED = frozenset({"repo", "objective", "done_when", "region", "agent", "policy"})
LONGEST = 16_384  # characters of one field
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,64}")


@dataclass(frozen=True, slots=True)
class Filled:
    """A form as typed, and what its fields give. `problems`: field -> why it could not be read."""

    typed: Mapping[str, str]
    token: str
    args: Mapping[str, str]
    sets: tuple[str, ...]
    version: PolicyVersion | None
    at: datetime | None
    problems: Mapping[str, str]

    @property
    def globs(self) -> list[str]:
        return _lines(self.typed["region"])

    def request(self) -> StartRequest:
        """Raises Usage for the first field that could not be read."""
        for field, why in self.problems.items():
            raise Usage(_("start: %(why)s") % {"why": why}, field)
        if not self.token:
            raise Usage(_("start: the form has lost its own name; open the page anew, then start"))
        return StartRequest(
            repo=self.typed["repo"],
            objective=self.typed["objective"],
            done_when=self.typed["done_when"],
            region=self.globs,
            agent=self.typed["agent"],
            agent_args=self.args,
            version=self.version,
            sets=self.sets,
            mode=self.typed["mode"],
            reviewers=self.typed["reviewers"],
            watch=self.typed["watch"] == "1",
            at=self.at,
            try_one=self.typed["try_one"] == "1",
            form=self.token,
        )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def start_relay(request: HttpRequest) -> HttpResponse:
    """The form. POST `do=check` says what each field means (also while typing), `do=dry` shows what a leg would begin

    with, `do=start` starts. What was typed comes back as it was; nothing is made but by `do=start`.
    """
    access.require(request, READ)
    access.require(request, OPERATE)
    if request.method != "POST":
        return _page(request, _filled(_first(request), secrets.token_urlsafe(16)), checked=bool(request.GET))
    filled = _posted(request)
    do = request.POST.get("do", "")
    if do not in ("start", "dry"):
        return _page(request, filled)
    found: DryRun | None = None
    try:
        if do == "dry":
            found = dry_run(actor_of(request), filled.request())
        else:
            return _started(request, start(actor_of(request), filled.request()))
    except NotPermitted as refusal:
        return _page(request, filled, status=403, refused=refusal)
    except Held as refusal:
        return _page(request, filled, status=409, refused=refusal)
    except Refused as refusal:
        return _page(request, filled, status=400, refused=refusal)
    return _page(request, filled, dry=found)


def _started(request: HttpRequest, relay: Relay) -> HttpResponse:
    note = in_words(relay)
    said = _("%(relay)s is started in %(repo)s; a worker begins its first leg.")
    if relay.next_at is not None:
        said = _("%(relay)s is planned in %(repo)s; its region is held from now on.")
    words = said % {"relay": relay.pk, "repo": relay.repo}
    messages.success(request, f"{words} {note[0].upper()}{note[1:]}." if note else words)
    response = HttpResponseRedirect(reverse("relay", args=[relay.pk]))
    response.status_code = 303
    return response


def _first(request: HttpRequest) -> dict[str, str]:
    """What an address fills in: single fields, or with `like=` all of a relay that is known here."""
    like = request.GET.get("like", "")
    values: dict[str, str] = {}
    if like:
        other = access.load_relay(request, like)
        args = {str(name): str(value) for name, value in other.agent_args.items()}
        values = {
            "repo": other.repo,
            "objective": other.objective,
            "done_when": other.done_when,
            "region": "\n".join(other.region),
            "agent": other.agent,
            "model": args.pop("model", ""),
            "env": args.pop("env", ""),
            "agent_args": "\n".join(f"{name}={value}" for name, value in args.items()),
            "policy": other.policy_version.name if other.policy_version else "",
            "watch": "1" if other.watch else "",
        }
    return values | {name: request.GET[name][:LONGEST] for name in PREFILLED if request.GET.get(name)}


def _posted(request: HttpRequest) -> Filled:
    form = request.POST
    # a browser ends the lines of a text area in its own way
    typed = {name: form.get(name, "").replace("\r\n", "\n").strip()[:LONGEST] for name in FIELDS}
    if (chosen := form.get("use_done", "").strip()) != "":
        typed["done_when"] = chosen[:500]
    if (chosen := form.get("use_region", "").replace("\r\n", "\n").strip()) != "":
        typed["region"] = _with_region(typed["region"], chosen)
    token = form.get("form", "")
    return _filled(typed, token if _TOKEN.fullmatch(token) else "")


def _with_region(typed: str, chosen: str) -> str:
    """A suggestion stands beside what was typed; everything stands alone."""
    before = [glob for glob in _lines(typed) if glob != "**"]
    return "**" if chosen == "**" else "\n".join(dict.fromkeys([*before, *_lines(chosen)]))


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _filled(values: Mapping[str, str], token: str) -> Filled:
    typed = {name: values.get(name, "") for name in FIELDS}
    problems: dict[str, str] = {}

    def note(field: str, why: str) -> None:
        problems.setdefault(field, why)

    args = {name: typed[name] for name in ("model", "env") if typed[name]}
    for line in _lines(typed["agent_args"]):
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            note("agent", _("%(line)s: write it as name=value, one a line") % {"line": repr(line[:80])})
        else:
            args[name.strip()] = value
    limits = [f"envelope.{name}={typed[name]}" for name, _example in LIMITS if typed[name]]
    version: PolicyVersion | None = None
    if typed["policy"]:
        try:
            version = acting.version_or_refuse(typed["policy"])
        except Refused as refusal:
            note("policy", str(refusal))
    at: datetime | None = None
    if typed["at"]:
        at = _moment(typed["at"])
        if at is None:
            note("at", _("%(at)s is no time; write it as 2026-12-24T18:00") % {"at": repr(typed["at"][:40])})
        try:
            check_when(at)
        except Usage as refusal:
            note("at", _plain(refusal))
    return Filled(typed, token, args, (*limits, *_lines(typed["sets"])), version, at, problems)


def _moment(text: str) -> datetime | None:
    """The time of the field, in the zone that the viewer reads."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else timezone.make_aware(found)


def _page(
    request: HttpRequest,
    filled: Filled,
    *,
    checked: bool = True,
    status: int = 200,
    refused: Refused | None = None,
    dry: DryRun | None = None,
) -> HttpResponse:
    typed = filled.typed
    found = _checked(filled) if checked else None
    said = dict(found.said) if found else {}
    for field, why in filled.problems.items():
        said[field] = report.Said(why, True)
    if isinstance(refused, Usage) and refused.field and not said.get(refused.field, report.Said()).wrong:
        said[refused.field] = report.Said(_plain(refused), True)
    context = {
        "form": report.form(),
        "typed": typed,
        "token": filled.token,
        "said": said,
        "checked": found,
        "modes": [str(mode) for mode in Mode],
        "limits": [(name, example, typed[name]) for name, example in LIMITS],
        "refused": _plain(refused) if refused else "",
        "marked": sum(one.wrong for one in said.values()),
        "dry": _dry(dry) if dry else None,
        "zone_here": timezone.get_current_timezone_name(),
    }
    return render(request, "relays/start/page.html", context, status=status)


def _plain(refused: Refused) -> str:
    return str(refused).removeprefix("start: ")


def _checked(filled: Filled) -> report.Checked:
    problem, table = "", dict[str, Any]()
    try:
        table = policytable.sets_table(filled.sets)
    except policy.PolicyError as error:
        problem = refused(error)
    if filled.typed["mode"]:
        table["mode"] = filled.typed["mode"]
    return report.checked(
        filled.typed,
        globs=filled.globs,
        agent_args=filled.args,
        args_problem=filled.problems.get("agent", ""),
        start_table=table,
        start_problem=filled.problems.get("policy", "") or problem,
        version_table=filled.version.table if filled.version else {},
    )


def _dry(found: DryRun) -> dict[str, object]:
    return {
        "relay": found.relay_id,
        "prompt": found.prompt.bytes.decode("utf-8", "replace"),
        "bytes": len(found.prompt.bytes),
        "digest": found.prompt.digest,
        "parts": [part.kind for part in found.prompt.contributors],
        "readout": list(readout.as_mapping(found.readout).items()),
        "holder": found.holder,
    }

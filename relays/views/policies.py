"""`/policies/`: named policies, their versions and who uses them; an editor; and `/relays/<id>/policy/`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from relays import access
from relays.actions import policies as acting
from relays.actions.base import NotPermitted, Refused, Usage
from relays.core import policy, policyfile, policytable
from relays.core.policytable import CHOICES, GROUPS
from relays.models import PolicyVersion
from relays.reports import policies as report
from relays.reports.roles import OPERATE, READ, may
from relays.reports.sentences import told
from relays.views.parts import whole_number
from relays.views.relay import actor_of

LONGEST = 2_100  # characters of one field of the form


@require_safe
def policies(request: HttpRequest) -> HttpResponse:
    """Every name with its newest version, and what the site's own table says."""
    access.require(request, READ)
    context = {"page": report.list_page(), "may_edit": may(request.user, OPERATE)}
    return render(request, "relays/policies/page.html", context)


@require_safe
def policy_version(request: HttpRequest, name: str, number: int | None = None) -> HttpResponse:
    """One version; without a number the newest."""
    access.require(request, READ)
    context = {"page": report.version_page(_load(name, number)), "may_edit": may(request.user, OPERATE)}
    return render(request, "relays/policies/version.html", context)


@require_safe
def diff(request: HttpRequest, name: str) -> HttpResponse:
    """`?from=1&to=2`: what another version says otherwise; without them the newest against the one before it."""
    access.require(request, READ)
    after = _load(name, _number(request, "to"))
    before = _load(name, _number(request, "from") or max(after.number - 1, 1))
    return render(request, "relays/policies/diff.html", {"page": report.diff_page(before, after)})


def _number(request: HttpRequest, field: str) -> int | None:
    return whole_number(request.GET.get(field, ""))


def _load(name: str, number: int | None) -> PolicyVersion:
    try:
        return acting.version_or_refuse(name if number is None else f"{name}@{number}")
    except Refused as refusal:
        raise Http404(str(refusal)) from refusal


@dataclass(frozen=True, slots=True)
class Field:
    """One key of the editor's form."""

    key: str
    value: str
    default: str
    meaning: str
    may: str
    why: str  # it cannot stand
    choices: tuple[str, ...]  # the words that it takes, () = others too


@dataclass(frozen=True, slots=True)
class Draft:
    """An editor as it was filled in: `typed` is its form, `text` its TOML; `problems`: key -> why it cannot stand."""

    known: PolicyVersion | None
    called: str
    comment: str
    as_text: bool
    text: str
    typed: Mapping[str, str]
    problem: str = ""
    problems: Mapping[str, str] = field(default_factory=dict)
    checked: bool = False  # it was judged, and stands

    @property
    def stands(self) -> bool:
        return not self.problem and not self.problems


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: HttpRequest, name: str = "") -> HttpResponse:
    """The editor, as form or as TOML text (`?as=text`); a POST saves the next version, or with `do=…` turns one into

    the other or checks. What was typed comes back as it was, each key that cannot stand with its reason.
    """
    access.require(request, READ)
    access.require(request, OPERATE)
    known = _load(name, _number(request, "from")) if name else None
    if request.method != "POST":
        text = known.text if known else "[relay]\n"
        return _editor(request, name, Draft(known, name, "", request.GET.get("as") == "text", text, _fields_of(text)))
    draft, do = _posted(request, known, name), request.POST.get("do", "check")
    if not draft.stands:
        # a form that does not stand cannot become text, and text that does not stand no form
        return _editor(request, name, draft, status=400 if do == "save" else 200)
    if do != "save":
        as_text = {"as_text": True, "as_form": False}.get(do, draft.as_text)
        return _editor(request, name, replace(draft, as_text=as_text, checked=True))
    try:
        saved = acting.save(actor_of(request), draft.called, draft.text, comment=draft.comment)
    except NotPermitted as refusal:
        return _editor(request, name, replace(draft, problem=str(refusal)), status=403)
    except Refused as refusal:
        return _editor(request, name, replace(draft, problem=_plain(refusal)), status=400)
    same = known is not None and saved.pk == known.pk
    words = _("%(policy)s says so already: no new version.") if same else _("%(policy)s is kept.")
    messages.success(request, words % {"policy": saved})
    response = HttpResponseRedirect(reverse("policy_version", args=[saved.name, saved.number]))
    response.status_code = 303
    return response


def _posted(request: HttpRequest, known: PolicyVersion | None, name: str) -> Draft:
    form = request.POST
    called, comment = name or form.get("name", "").strip(), form.get("comment", "")
    if form.get("as") == "text":
        text = form.get("text", "").replace("\r\n", "\n")[: policyfile.LARGEST_FILE + 1]
        return Draft(known, called, comment, True, text, _fields_of(text), problem=_why_not(text))
    typed = {key: form.get(f"key.{key}", "").strip()[:LONGEST] for key in _keys()}
    typed["baseline"] = form.get("key.baseline", "").replace("\r\n", "\n").strip()[:LONGEST]
    table = _table_of(typed)
    if problems := policytable.problems(table):
        return Draft(
            known,
            called,
            comment,
            False,
            "",
            typed,
            problems={key: told(why, typed=True) for key, why in problems.items()},
        )
    text = policytable.write(table)
    return Draft(known, called, comment, False, text, typed, problem=_why_not(text))


def _why_not(text: str) -> str:
    try:
        acting.checked(text)
    except Usage as refusal:
        return _plain(refusal)
    return ""


def _plain(refusal: Refused) -> str:
    return str(refusal).removeprefix("policy: ")


def _keys() -> list[str]:
    return [key for keys in GROUPS.values() for key in keys]


def _fields_of(text: str) -> dict[str, str]:
    """The fields of a table; empty where the text does not read."""
    try:
        table = policytable.canonical(policyfile.parse_toml_relay_table(text))
    except policy.PolicyError:
        return {}
    own = {key: policytable.word(value) for key, value in table.items() if not key.startswith("baseline.")}
    figures = [f"{key.removeprefix('baseline.')}={policytable.word(table[key])}" for key in table if key not in own]
    return own | {"baseline": "\n".join(figures)}


def _table_of(typed: Mapping[str, str]) -> dict[str, Any]:
    """A field that is empty says nothing, so that the layer under it holds."""
    table: dict[str, Any] = {key: value for key, value in typed.items() if value and key != "baseline"}
    for line in filter(None, map(str.strip, typed.get("baseline", "").split("\n"))):
        key, _sign, value = line.partition("=")
        table[f"baseline.{key.strip()}"] = value.strip()
    return table


def _editor(request: HttpRequest, name: str, draft: Draft, status: int = 200) -> HttpResponse:
    defaults, _none = report.effective([])
    rows = {row.key: row for group in defaults for row in group.rows}
    groups = [
        (
            title,
            [
                Field(
                    key,
                    draft.typed.get(key, ""),
                    rows[key].default,
                    meaning,
                    rows[key].may,
                    draft.problems.get(key, ""),
                    CHOICES.get(key, ()),
                )
                for key, meaning in keys.items()
            ],
        )
        for title, keys in GROUPS.items()
    ]
    elsewhere = [f"{key}: {why}" for key, why in draft.problems.items() if key not in rows]
    context = {
        "draft": draft,
        "name": name,
        "groups": groups,
        "baseline": draft.typed.get("baseline", ""),
        "problem": draft.problem or "; ".join(elsewhere),
        "refused": len(draft.problems),
        "lines": max(18, min(draft.text.count("\n") + 3, 60)),
    }
    return render(request, "relays/policies/edit.html", context, status=status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def relay_policy(request: HttpRequest, relay_id: str) -> HttpResponse:
    """One relay's policy as it holds, each decision that changed it, and a form that makes another one."""
    found = access.load_relay(request, relay_id)
    typed = {name: request.POST.get(name, "") for name in ("policy", "sets", "comment")}
    refused, status = "", 200
    if request.method == "POST":
        access.require(request, OPERATE)
        try:
            version = acting.version_or_refuse(typed["policy"]) if typed["policy"] else None
            sets = [line.strip() for line in typed["sets"].split("\n") if line.strip()]
            acting.change(actor_of(request), found.pk, sets=sets, version=version, comment=typed["comment"])
        except NotPermitted as refusal:
            refused, status = str(refusal), 403
        except Usage as refusal:
            refused, status = str(refusal), 400
        except Refused as refusal:
            refused, status = str(refusal), 409
        else:
            messages.success(request, _("Recorded: it holds from the next boundary on."))
            response = HttpResponseRedirect(reverse("relay_policy", args=[found.pk]))
            response.status_code = 303
            return response
    context = {
        "page": report.relay_policy(found),
        "relay": found,
        "typed": typed,
        "refused": refused.removeprefix(_("policy of %(relay)s") % {"relay": found.pk} + ": "),
        "may_change": may(request.user, OPERATE) and not found.final,
    }
    return render(request, "relays/relay_policy/page.html", context, status=status)

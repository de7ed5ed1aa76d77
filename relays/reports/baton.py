"""One baton with its checks: the ladder step by step, each pointer's verdict, the difference to the baton before.

Mission: "The baton is the least trusted thing in the system … Every pointer in it is checked again when it is read."
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from relays.core import fidelity
from relays.core.baton import read
from relays.core.reload import pointers_of
from relays.models import Baton, Check, Leg, Relay, Verification

STEPS = {
    1: gettext_noop("JSON, keys, types, bounds"),
    2: gettext_noop("No “claimed” at any depth"),
    3: gettext_noop("Schema"),
    4: gettext_noop("Objective digest"),
    5: gettext_noop("Tombstone reason"),
    6: gettext_noop("Git anchors are on the branch"),
    7: gettext_noop("Other pointers, objective, region"),
    8: gettext_noop("Is the goal done?"),
    9: gettext_noop("Region lease"),
}
BAD = ("refused", "dangling")
SHOWN = 5  # lines of evidence a step shows by itself; the pointers table has them all
CHANGES = 40


@dataclass(frozen=True, slots=True)
class LadderStep:
    """One step: `verdict` is passed, refused, unknown, left_out or "not reached"; `tone` is ok, bad or rest."""

    number: int
    name: str
    verdict: str
    tone: str
    evidence: tuple[tuple[str, str], ...]  # (path, line)
    more: int


@dataclass(frozen=True, slots=True)
class PointerRow:
    """A pointer with every place it stands in; one verdict, as the store gave it."""

    kind: str
    ref: str
    used_as: tuple[str, ...]
    verdict: str
    evidence: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the canonical text; `hit`: what it names did not resolve."""

    text: str
    hit: bool


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the difference to the baton before: `kind` is add, del or same."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class BatonPage:
    """Everything of the newest (or the asked) baton of one closing leg."""

    relay: Relay
    leg: Leg
    baton: Baton
    versions: tuple[Baton, ...]
    verification: Verification | None
    verifications: tuple[Verification, ...]
    steps: tuple[LadderStep, ...]
    pointers: tuple[PointerRow, ...]
    score: fidelity.Score | None
    lines: tuple[Line, ...]
    previous: Baton | None
    changes: tuple[Change, ...]
    mapping: Mapping[str, Any]

    @property
    def headline(self) -> str:
        """The finding in one sentence."""
        leg, check = self.leg.number, self.verification
        if check is None:
            return _("The baton of leg %(leg)s has not been checked yet") % {"leg": leg}
        at = _(" at step %(step)s") % {"step": check.step} if check.step else ""
        where = f": {check.path}" if check.path else ""
        both = {"at": at, "where": where}
        return {
            "fresh": _("Fresh: every step passed, leg %(leg)s may trust it") % {"leg": leg + 1},
            "stale": _("Stale%(at)s%(where)s does not match ground truth") % {"at": at, "where": where},
            "invalid": _("Invalid%(at)s%(where)s") % both,
            "unknown": _("Unknown%(at)s%(where)s: a store did not answer") % {"at": at, "where": where},
            "done": _("Done: done_when holds in the durable store"),
            "held": _("Held%(at)s: another relay holds the region") % {"at": at},
        }.get(check.outcome, check.outcome)

    @property
    def then(self) -> str:
        """What followed from the check, from its record."""
        check = self.verification
        if check is None:
            return _("Nothing yet: the successor checks every step before its agent starts.")
        if check.purpose == "verify":
            return _("Checked at a person's wish; nothing follows from it by itself.")
        return {
            "fresh": _("The successor started from it."),
            "stale": _("Dropped. ")
            + (
                _("The cursor was rebuilt and a fresh baton written; no person was needed.")
                if check.rebuilt
                else _("The cursor could not be rebuilt.")
            ),
            "invalid": _("Refused: it drives nothing."),
            "unknown": _("No leg starts until the store answers; it is tried again with back-off."),
            "done": _("The relay ended; no leg follows."),
            "held": _("The relay waits for the holder."),
        }.get(check.outcome, "")

    @property
    def reread(self) -> dict[str, Sequence[Any]]:
        """What was read anew after the cursor: commits, issues, ledger rows."""
        plan = self.verification.plan if self.verification else None
        found = plan.get("reread") if isinstance(plan, Mapping) else None
        return (
            {key: found.get(key) or [] for key in ("commits", "issues", "ledger")} if isinstance(found, Mapping) else {}
        )

    @property
    def next_action_then(self) -> str:
        plan = self.verification.plan if self.verification else None
        return str(plan.get("next_action") or "") if isinstance(plan, Mapping) else ""

    @property
    def culprits(self) -> int:
        return sum(1 for row in self.pointers if row.verdict == "dangling")


def baton_page(
    relay: Relay, number: int, baton_id: int | None = None, verification_id: int | None = None
) -> BatonPage | None:
    """The baton that leg `number` left (the newest one, or the one named); None where there is none. Six queries."""
    versions = list(Baton.objects.filter(relay=relay, leg__number=number).select_related("leg").order_by("-id")[:20])
    baton = next((one for one in versions if baton_id is None or one.pk == baton_id), None)
    if baton is None:
        return None
    runs = list(Verification.objects.filter(baton=baton).select_related("leg").order_by("-id")[:20])
    chosen = next((one for one in runs if one.pk == verification_id), runs[0] if runs else None)
    checks = list(Check.objects.filter(verification=chosen).order_by("number")) if chosen else []
    previous = Baton.objects.filter(relay=relay, pk__lt=baton.pk).select_related("leg").order_by("-id").first()
    bad = {check.path for check in checks if check.verdict == "dangling" or (check.verdict == "refused" and check.path)}
    mapping = _mapping(baton.text)
    return BatonPage(
        relay=relay, leg=baton.leg, baton=baton, versions=tuple(versions), verification=chosen,
        verifications=tuple(runs),
        steps=ladder(checks) if chosen else (), pointers=tuple(pointer_rows(baton.text, checks)),
        score=fidelity.score([check.verdict for check in checks if check.pointer]) if chosen else None,
        lines=tuple(lines(baton.text, bad)), previous=previous,
        changes=tuple(changes(_mapping(previous.text), mapping)[:CHANGES]) if previous else (), mapping=mapping,
    )  # fmt: skip


def _mapping(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def ladder(checks: Sequence[Check]) -> tuple[LadderStep, ...]:
    """All nine steps in their order, those that were not reached included."""
    return tuple(
        _step(number, _(name), [check for check in checks if check.step == number]) for number, name in STEPS.items()
    )


def _step(number: int, name: str, checks: Sequence[Check]) -> LadderStep:
    if not checks:
        return LadderStep(number, name, "not reached", "rest", (), 0)
    verdicts = {check.verdict for check in checks}
    pointers = [check for check in checks if check.pointer]
    good = sum(check.verdict == "verified" for check in pointers)
    if verdicts & set(BAD):
        verdict, tone = "refused", "bad"
    elif "unknown" in verdicts:
        verdict, tone = "unknown", "ok"
    elif verdicts == {"left_out"}:
        verdict, tone = "left_out", "rest"
    else:
        verdict, tone = "passed", "ok"
    telling = [check for check in checks if check.verdict in (*BAD, "unknown")] or [
        check for check in checks if not check.pointer
    ]
    lines = [(check.path, check.evidence) for check in telling[:SHOWN]]
    if pointers:
        lines.append(("", _("%(good)s of %(pointers)s pointers resolve") % {"good": good, "pointers": len(pointers)}))
    return LadderStep(number, name, verdict, tone, tuple(lines), max(0, len(telling) - SHOWN))


def pointer_rows(text: str, checks: Sequence[Check]) -> Iterator[PointerRow]:
    """One row per pointer, dangling first, then unknown; a pointer that stands in several fields is one row."""
    baton = read(text).baton
    named = {at.path: at for at in pointers_of(baton)} if baton else {}
    rows: dict[tuple[str, str, str], list[Check]] = {}
    for check in checks:
        if check.pointer:
            at = named.get(check.path)
            kind, ref = (str(at.pointer.kind), at.pointer.ref) if at and at.pointer else (at.special if at else "", "")
            rows.setdefault((kind, ref or _value(text, check.path), check.verdict), []).append(check)
    order = {"dangling": 0, "unknown": 1}
    for (kind, ref, verdict), found in sorted(rows.items(), key=lambda item: order.get(item[0][2], 2)):
        yield PointerRow(kind, ref, tuple(check.path for check in found), verdict, found[0].evidence, found[0].at)


def _value(text: str, path: str) -> str:
    found: Any = _mapping(text)
    for part in re.findall(r"[^.\[\]]+", path):
        if isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
            found = found[int(part)]
        else:
            return path
    return found if isinstance(found, str) else path


# ---- the text, as it is, with line breaks -------------------------------------------------------------------------

_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^"{}\[\],:]+')


def lines(text: str, bad: Iterable[str] = ()) -> Iterator[Line]:
    """The canonical text cut into lines at its first two levels; joined, without indents, it is the text again."""
    wrong = tuple(bad)
    depth, index, line, path, top = 0, 0, "", "", ""
    listing = key = False
    for part in _PART.findall(text):
        if key and part.startswith('"'):
            key = False
            top, path = (part[1:-1], part[1:-1]) if depth == 1 else (top, f"{top}.{part[1:-1]}")
        line += part
        if part == "{":
            depth += 1
            key = depth <= 2
            listing = listing and depth > 2
        elif part == "[":
            depth += 1
            if depth == 2:
                listing, index, path = True, 0, f"{top}[0]"
        elif part in ("}", "]"):
            depth -= 1
        elif part == "," and depth in (1, 2):
            yield Line(line, _hit(path, wrong))
            line = " " * depth
            if depth == 2 and listing:
                index += 1
                path = f"{top}[{index}]"
            else:
                key = True
    if line:
        yield Line(line, _hit(path, wrong))


def _hit(path: str, wrong: Sequence[str]) -> bool:
    return any(one == path or one.startswith((f"{path}.", f"{path}[")) for one in wrong)


# ---- against the baton before -------------------------------------------------------------------------------------

_FIELDS = (
    ("progress_cursor", "start_sha"), ("progress_cursor", "ledger_ref"), ("progress_cursor", "wip_tree"),
    ("", "next_action"), ("tombstone", "reason"), ("tombstone", "note"),
)  # fmt: skip
_STEADY = (("", "objective"), ("", "done_when"), ("progress_cursor", "held_region"))
_LISTS = ("open_questions", "do_not_rederive", "artifacts")


def _get(mapping: Mapping[str, Any], group: str, key: str) -> Any:
    inner = mapping.get(group) if group else mapping
    return inner.get(key) if isinstance(inner, Mapping) else None


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{value.get('kind', '')}:{value.get('ref', '')}"
    return str(value)


def _pin(value: Any) -> Any:
    return value.get("text") if isinstance(value, Mapping) else value


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """The difference in the baton's own fields; what must stay equal and did is named in one line."""
    found: list[Change] = []
    for group, key in _FIELDS:
        old, new = _get(before, group, key), _get(after, group, key)
        if old != new:
            found += [Change("del", f"- {key}  {old}")] if old else []
            found += [Change("add", f"+ {key}  {new}")] if new else []
    steady = []
    for group, key in _STEADY:
        old, new = _get(before, group, key), _get(after, group, key)
        if old == new:
            steady.append(key)
        else:
            found += [Change("del", f"- {key}  {_pin(old)}"), Change("add", f"+ {key}  {_pin(new)}")]
    for key in _LISTS:
        old_items = [_text(item) for item in before.get(key) or []]
        new_items = [_text(item) for item in after.get(key) or []]
        found += [
            Change("del", f"- {key}  {item}") for item in old_items if item not in new_items and key != "artifacts"
        ]
        found += [Change("add", f"+ {key}  {item}") for item in new_items if item not in old_items]
    if steady:
        found.append(Change("same", _("  %(steady)s  unchanged") % {"steady": ", ".join(steady)}))
    return found

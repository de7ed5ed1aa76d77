"""The records behind each line of the operator readout, so that a person can check every figure of it.

Mission: "a long run can show the current objective, remaining budget envelope, active resident view, unresolved
assumptions, last reset transaction, and recent memory-promotion decisions without asking the user to read the whole
prompt." Interface, page 3: "evidence (assumptions, promotions, page faults, resident view, reset transactions,
budgets)".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from relays.core import budget, reset
from relays.core.baton import read
from relays.core.objective import reconcile
from relays.models import Assumption, Baton, Call, Decision, Leg, PageFault, Promotion, Relay, ResetTransaction, ToolUse
from relays.reports import resident, seed
from relays.reports.cells import Cell, amount_of
from relays.reports.figures import whole
from relays.reports.rules import AXES, rules_of

SHOWN = 50

#: kind of records -> what it is called, and what it says
KINDS: dict[str, tuple[str, str]] = {
    "objective": (
        "Objective",
        "the pin in every baton, against the one before it and the relay's own",
    ),
    "budget": (
        "Budgets",
        "over all legs; nothing gives a spent one back but a recorded decision",
    ),
    "view": (
        "Resident view",
        "what the newest leg has in its window, what it has not, why, and the way back",
    ),
    "faults": ("Page faults", "records that were needed and not resident"),
    "assumptions": ("Assumptions", "scored before use"),
    "resets": (
        "Reset transactions",
        "what crossed each rotation, what did not, what the budgets carried over",
    ),
    "memory": ("Promotions", "why an observation did or did not become memory"),
    "cache": ("Cache", "cost only: nothing is decided by it"),
    "tool": ("Query tool", "what legs asked and told, each use in its order"),
}
#: line of the readout -> the kind of records that it rests on
LINES: dict[str, str] = {
    "objective": "objective", "budget": "budget", "resident_view": "view", "assumptions": "assumptions",
    "reset": "resets", "memory": "memory", "cache": "cache",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Evidence:
    """One kind of records, newest first. `older` is what `before` asks for next; `note`: a line above the table."""

    kind: str
    kinds: tuple[tuple[str, str], ...]
    what: str
    rows: tuple[tuple[Cell, ...], ...]
    older: str = ""
    note: str = ""

    @property
    def heads(self) -> tuple[Cell, ...]:
        return self.rows[0] if self.rows else ()


def addresses(relay_id: str) -> dict[str, str]:
    """Line of the readout -> where its records are shown."""
    page = reverse("relay", args=[relay_id])
    return {line: f"{page}?tab=evidence&of={kind}#records" for line, kind in LINES.items()}


def evidence(relay: Relay, kind: str = "", before: str = "") -> Evidence:
    """The asked kind; an unknown name is the first one. A constant number of queries, whatever the relay's size."""
    kind = kind if kind in KINDS else next(iter(KINDS))
    number = int(before) if before.isascii() and before.isdecimal() and len(before) < 18 else None
    rows, older, note = _READERS[kind](relay, number)
    kinds = tuple((name, _(title)) for name, (title, _what) in KINDS.items())
    return Evidence(kind, kinds, _(KINDS[kind][1]), tuple(rows), older, note)


Read = tuple[Sequence[tuple[Cell, ...]], str, str]


def _page(rows: QuerySet[Any], before: int | None) -> tuple[list[Any], str]:
    found = list((rows if before is None else rows.filter(pk__lt=before)).order_by("-pk")[: SHOWN + 1])
    return found[:SHOWN], str(found[SHOWN - 1].pk) if len(found) > SHOWN else ""


def _objective(relay: Relay, before: int | None) -> Read:
    rows, older = _page(Baton.objects.filter(relay=relay).select_related("leg"), before)
    carried = [read(row.text).baton for row in rows]
    cells = []
    for place, (row, baton) in enumerate(zip(rows, carried, strict=True)):
        earlier = carried[place + 1] if place + 1 < len(carried) else None
        pin = baton.objective if baton else None
        found = reconcile(earlier.objective if earlier else None, pin) if place + 1 < len(rows) or not older else ""
        cells.append((
            Cell("leg", row.leg.number, "leg"), Cell("why", row.why, "word"),
            Cell("pin", pin.pin_id if pin else "", "mono"),
            Cell("digest", row.pin_digest, "sha"), Cell("against the one before", str(found) or "not yet", "outcome"),
            Cell("objective", pin.text[:200] if pin else _("the baton does not read"), wide=True),
            Cell("at", row.at, "clock"),
        ))  # fmt: skip
    decided = Decision.objects.filter(Q(act="objective") | Q(act="start"), relay=relay).count()
    times = ngettext("Stated by people %(n)s time", "Stated by people %(n)s times", decided)
    stated = times % {"n": whole(decided)} if decided else _("Stated at the start")
    return cells, older, f"{stated}: {relay.objective[:300]}"


def _budget(relay: Relay, before: int | None) -> Read:
    shown = []
    for axis in budget.left(rules_of(relay).envelope, relay.spent):
        plain = axis.plain
        shown.append((
            Cell("axis", AXES[axis.axis], "word"), Cell("limit", amount_of(plain.get("limit"), axis.axis), "num"),
            Cell("used", amount_of(plain.get("used"), axis.axis), "num"),
            Cell("left", _("unknown") if axis.unknown else amount_of(plain.get("left"), axis.axis), "num"),
            Cell("state", _state(axis), "word"),
        ))  # fmt: skip
    changed = Decision.objects.filter(relay=relay, act="limit").count()
    said = ngettext(
        "Limits were changed by %(n)s recorded decision.", "Limits were changed by %(n)s recorded decisions.", changed
    )
    return shown, "", said % {"n": whole(changed)}


def _state(axis: budget.AxisLeft) -> str:
    if axis.spent or axis.low:
        return gettext_noop("spent") if axis.spent else gettext_noop("low")
    return "" if axis.limit is None else "holds"


def _view(relay: Relay, before: int | None) -> Read:
    found = resident.view(relay, before)
    if found is None:
        return (), "", ""
    rows = [
        (
            Cell("leg", span.leg, "leg"), Cell("state", gettext_noop("selected"), "word"),
            Cell("span", f"{span.role}: {span.what}", wide=True),
            Cell("spans", span.count, "num"), Cell("digest", span.digest, "sha"), 
            Cell("why", gettext_noop("resident"), "word"),
            Cell("way back", "", "mono", wide=True),
        )
        for span in (found.selected if before is None else ())
    ]  # fmt: skip
    rows += [
        (
            Cell("leg", span.leg, "leg"), Cell("state", gettext_noop("elided"), "word"),
            Cell("span", (_("turn %s") if span.count == 1 else _("turns from %s")) % span.index, wide=True),
            Cell("spans", span.count, "num"), Cell("digest", span.digest, "sha"), Cell("why", span.reason, "told"),
            Cell("way back", span.handle, "mono", wide=True),
        )
        for span in found.elided
    ]  # fmt: skip
    note = _("The way back is for people: the leg's page has its log. A leg recalls records of durable stores only.")
    return rows, found.older, note


def _faults(relay: Relay, before: int | None) -> Read:
    rows, older = _page(PageFault.objects.filter(leg__relay=relay).select_related("leg"), before)
    return [
        (
            Cell("leg", row.leg.number, "leg"), Cell("record", f"{row.kind}:{row.ref}", "mono", wide=True),
            Cell("required", gettext_noop("yes") if row.required else gettext_noop("no"), "word"),
            Cell("outcome", row.outcome, "outcome"),
            Cell("why", getattr(row, "reason", ""), "told", wide=True), Cell("at", row.at, "clock"),
        )
        for row in rows
    ], older, ""  # fmt: skip


def _assumptions(relay: Relay, before: int | None) -> Read:
    rows, older = _page(Assumption.objects.filter(leg__relay=relay).select_related("leg"), before)
    return [
        (
            Cell("leg", row.leg.number, "leg"), Cell("key", row.key, "mono"),
            Cell("statement", row.statement, wide=True),
            Cell("source", row.source, "word"),
            Cell("confidence", _("not given") if row.confidence is None else row.confidence),
            Cell("action", row.action, "outcome"), Cell("at", row.at, "clock"),
        )
        for row in rows
    ], older, ""  # fmt: skip


def _resets(relay: Relay, before: int | None) -> Read:
    rows, older = _page(
        ResetTransaction.objects.filter(old_leg__relay=relay).select_related("old_leg", "new_leg"), before
    )
    cells = []
    for place, row in enumerate(rows):
        # the newest one as the readout says it: another baton may have been written before its leg began
        seeded = seed.of(row) if place == 0 and before is None else None
        rearm = row.rearm if isinstance(row.rearm, dict) else {}
        left = [f"{axis} {one.get('left')}" for axis, one in rearm.items() if one.get("limit") is not None]
        cells.append((
            Cell("leg", row.new_leg.number, "leg"), Cell("old trace", row.old_trace, "sha"),
            Cell("new trace", row.new_trace, "sha"), Cell("seed", seeded.digest if seeded else row.seed_digest, "sha"),
            Cell("seed bytes", seeded.size if seeded else reset.recorded_size(row.contributors or ()), "num"),
            Cell("made of", ", ".join(str(part.get("kind")) for part in row.contributors or ()), wide=True),
            Cell("omitted", reset.omitted_total(row.omitted or ()), "num"),
            Cell("left for it", ", ".join(left) or _("no limit"), wide=True), Cell("at", row.at, "clock"),
        ))  # fmt: skip
    return cells, older, ""


def _memory(relay: Relay, before: int | None) -> Read:
    rows, older = _page(Promotion.objects.filter(leg__relay=relay).select_related("leg"), before)
    return [
        (
            Cell("leg", row.leg.number, "leg"), Cell("slug", row.slug, "mono", wide=True),
            Cell("class", row.durability or gettext_noop("none given"), "word"),
            Cell("evidence", getattr(row, "evidence", ""), "mono"),
            Cell("outcome", row.outcome, "outcome"), Cell("why", getattr(row, "reason", ""), "told", wide=True),
            Cell("at", row.at, "clock"),
        )
        for row in rows
    ], older, ""  # fmt: skip


def _cache(relay: Relay, before: int | None) -> Read:
    newest = Leg.objects.filter(relay=relay, calls__gt=0).order_by("-number").first()
    rows, older = (
        _page(Call.objects.filter(leg=newest, main=True).select_related("leg"), before) if newest else ([], "")
    )
    return [
        (
            Cell("leg", row.leg.number, "leg"), Cell("turn", row.turn, "num"),
            Cell("resident", row.resident_tokens, "num"),
            Cell("cache read", row.cache_read if row.cache_reported else _("not reported"), "num"),
            Cell("written", row.cache_write_5m + row.cache_write_1h, "num"), Cell("at", row.at, "clock"),
        )
        for row in rows
    ], older, _("Calls of the newest leg; warm: the last one read half of its resident tokens or more.")  # fmt: skip


def _tool(relay: Relay, before: int | None) -> Read:
    rows, older = _page(ToolUse.objects.filter(leg__relay=relay).select_related("leg"), before)
    return [
        (
            Cell("leg", row.leg.number, "leg"), Cell("use", row.number, "num"), Cell("verb", row.verb, "mono"),
            Cell("about", row.about, "mono", wide=True),
            Cell("answer", "refused" if row.refused else "passed", "outcome"),
            Cell("words", row.words, "told", wide=True),
            Cell("bytes", row.answer_bytes, "num"), Cell("at", row.at, "clock"),
        )
        for row in rows
    ], older, ""  # fmt: skip


_READERS: dict[str, Callable[[Relay, int | None], Read]] = {
    "objective": _objective, "budget": _budget, "view": _view, "faults": _faults, "assumptions": _assumptions,
    "resets": _resets, "memory": _memory, "cache": _cache, "tool": _tool,
}  # fmt: skip

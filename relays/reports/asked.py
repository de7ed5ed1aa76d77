"""What one ask rests on, and what a person may say to it: the evidence on its gate's page.

Mission: "fak should ask the user […] when the expensive error is a silent wrong assumption". Each of the seven asks has
its own evidence and its own ways out; the stops (parked unsafe, no progress) have the page's other panels.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from relays.core import budget, settling
from relays.core.baton import Baton
from relays.core.objective import pin_digest, reconcile
from relays.core.pointers import one_line, parse_entry
from relays.core.vocabulary import Ask
from relays.models import Assumption, Check, GateEpisode, MemoryOperation, PageFault, Promotion, Relay
from relays.reports.cells import Cell, amount_of
from relays.reports.rules import AXES, rules_of

SHOWN = 60


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing that is asked about. `ways`: what may be said to it (value, words); `text`: one wants a text."""

    ref: str
    words: str
    ways: tuple[tuple[str, str], ...]
    text: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """The evidence as a table, and what is decided one by one."""

    title: str
    what: str
    rows: tuple[tuple[Cell, ...], ...]
    subjects: tuple[Subject, ...]
    approve: str  # the word on the button
    refuse: str
    means: str  # what approving leads to, in one line

    @property
    def heads(self) -> tuple[Cell, ...]:
        return self.rows[0] if self.rows else ()


def asked(gate: GateEpisode, carried: Baton | None, checks: Sequence[Check]) -> Asked | None:
    """None for a stop, which asks nothing but to look. At most two queries."""
    make = _OF.get(gate.token)
    return make(gate, gate.relay, carried, checks) if make else None


def _drift(gate: GateEpisode, relay: Relay, carried: Baton | None, checks: Sequence[Check]) -> Asked:
    found = reconcile(carried.objective if carried else None, relay.pin)
    own = pin_digest(relay.pin_id, relay.objective) == relay.objective_digest
    rows = [(
        Cell(_("whose"), _("the relay's own")), Cell(_("pin"), relay.pin_id, "mono"),
        Cell(_("digest"), relay.objective_digest, "sha"),
        Cell(_("its digest"), "verified" if own else "refused", "outcome"),
        Cell(_("objective"), relay.objective, wide=True),
    )]  # fmt: skip
    if carried:
        pin = carried.objective
        rows.append((
            Cell(_("whose"), _("in the baton")), Cell(_("pin"), pin.pin_id, "mono"),
            Cell(_("digest"), pin.digest, "sha"),
            Cell(_("its digest"), str(found), "outcome"), Cell(_("objective"), pin.text, wide=True),
        ))  # fmt: skip
    return Asked(
        _("Objective"), _("carried against stated: %(found)s") % {"found": found}, tuple(rows), (),
        _("Confirm the objective"), _("Refuse"),
        _("A person's word makes the new pin: the relay's own as it stands here, or the one that you state."),
    )  # fmt: skip


def _assumptions(gate: GateEpisode, relay: Relay, carried: Baton | None, checks: Sequence[Check]) -> Asked:
    ways = ((settling.CONFIRMED, _("it holds")), (settling.REFRESHED, _("read it again")))
    rows, subjects = [], []
    for key, row in list(_leaned_on(gate).items())[:SHOWN]:
        subjects.append(Subject(key, row.statement if row else _("never recorded as an assumption"), ways))
        rows.append((
            Cell(_("key"), key, "mono"), Cell(_("statement"), row.statement if row else _("never recorded"), wide=True),
            Cell(_("source"), row.source if row else "unknown", "word"),
            Cell(_("confidence"), _("not given") if row is None or row.confidence is None else row.confidence),
            Cell(_("action"), row.action if row else "query", "outcome"),
        ))  # fmt: skip
    return Asked(
        _("Assumptions"), _("too weak for the step that leans on them"), tuple(rows), tuple(subjects),
        _("Confirm") if rows else _("Approve"), _("Refuse"),
        _("What holds is stated by you from then on; what is to be read again stays barred until a leg has read it."),
    )  # fmt: skip


def _leaned_on(gate: GateEpisode) -> dict[str, Assumption | None]:
    """What the lines of the episode lean on: key -> its newest record, None where it has none. One query."""
    found: dict[str, Assumption | None] = dict.fromkeys(settling.assumptions_of(gate.items))
    for row in Assumption.objects.filter(leg__relay=gate.relay_id).order_by("pk") if found else ():
        name = one_line(row.key, settling.KEY_BYTES)
        if name in found:
            found[name] = row
    return found


def _promotions(gate: GateEpisode, relay: Relay, carried: Baton | None, checks: Sequence[Check]) -> Asked:
    slugs = [item.removeprefix("memory:") for item in gate.items if item.startswith("memory:")]
    found = Promotion.objects.filter(leg__relay=relay, slug__in=slugs).select_related("leg").order_by("-pk")
    rows = tuple(
        (
            Cell(_("leg"), row.leg.number, "leg"), Cell(_("slug"), row.slug, "mono", wide=True),
            Cell(_("class"), row.durability or gettext_noop("none given"), "word"),
            Cell(_("evidence"), row.evidence or _("none"), "mono", wide=True),
            Cell(_("outcome"), row.outcome, "outcome"), Cell(_("why"), row.reason, "told", wide=True),
            Cell(_("what it says"), row.text[:300] or _("its text lies with the agent"), wide=True),
        )
        for row in found[:SHOWN]
    )  # fmt: skip
    return Asked(
        _("Promotions"), _("useful, and not earned yet"), rows, (), _("Let it be remembered"), _("Not to memory"),
        _("Approving is the consent that makes it durable; refusing leaves it to expire. No leg waits for either."),
    )  # fmt: skip


def _budget(gate: GateEpisode, relay: Relay, carried: Baton | None, checks: Sequence[Check]) -> Asked:
    rows = tuple(
        (
            Cell(_("axis"), _(AXES[axis.axis])), Cell(_("limit"), amount_of(axis.plain.get("limit"), axis.axis), "num"),
            Cell(_("used"), amount_of(axis.plain.get("used"), axis.axis), "num"),
            Cell(_("left"), _("unknown") if axis.unknown else amount_of(axis.plain.get("left"), axis.axis), "num"),
            Cell(_("state"), "spent" if axis.spent else "holds", "outcome"),
        )
        for axis in budget.left(rules_of(relay).envelope, relay.spent)
        if axis.limit is not None or budget.STOP_REASONS[axis.axis] in gate.items
    )  # fmt: skip
    return Asked(
        _("Envelope"), _("over all legs of the relay"), rows, (), _("Extend the budget"), _("Refuse"),
        _("What was used stays used: the new limit counts from the start. “Refuse and stop” ends the relay."),
    )  # fmt: skip


def _faults(gate: GateEpisode, relay: Relay, carried: Baton | None, checks: Sequence[Check]) -> Asked:
    needed = settling.faults_of(gate.items)
    kinds = {one.partition(":")[0] for one in needed}
    recorded = PageFault.objects.filter(leg__relay=relay, kind__in=kinds).select_related("leg").order_by("-pk")[:SHOWN]
    rows = [
        (
            Cell(_("record"), f"{row.kind}:{row.ref}", "mono", wide=True),
            Cell(_("where"), _("needed by leg %(leg)d") % {"leg": row.leg.number}),
            Cell(_("found"), row.outcome, "outcome"), Cell(_("evidence"), row.reason, "told", wide=True),
        )
        for row in recorded
        if f"{row.kind}:{row.ref}" in needed
    ]  # fmt: skip
    served, waived = (settling.SERVED, _("I serve it:")), (settling.WAIVED, _("go on without it"))
    again = ("", _("try again"))
    subjects = [Subject(name, _("needed by a leg"), (again, waived, served), text=True) for name in needed[:SHOWN]]
    optional = _optional(carried)
    for check in checks:
        if check.verdict == "verified":
            continue
        ref = optional.get(check.path, "")
        where = _("in the baton, optional") if ref else _("in the baton, an anchor")
        rows.append((
            Cell(_("record"), ref or check.path, "mono", wide=True), Cell(_("where"), where),
            Cell(_("found"), check.verdict, "outcome"), Cell(_("evidence"), check.evidence, "told", wide=True),
        ))  # fmt: skip
        if ref and ref not in needed:
            subjects.append(Subject(ref, _("optional pointer of the baton"), (again, waived)))
    return Asked(
        _("Records that did not come"), _("asked of their stores, and not served"), tuple(rows), tuple(subjects),
        _("Go on"), _("Refuse"),
        _("Every record that you neither serve nor waive is asked of its store again; an anchor always."),
    )  # fmt: skip


def _optional(carried: Baton | None) -> Mapping[str, str]:
    """Path of an optional pointer in the baton, as the ladder names it -> the pointer."""
    if carried is None:
        return {}
    found = {f"artifacts[{n}].ref": f"{one.kind}:{one.ref}" for n, one in enumerate(carried.artifacts)}
    for name, entries in (("open_questions", carried.open_questions), ("do_not_rederive", carried.do_not_rederive)):
        for n, entry in enumerate(entries):
            if pointer := parse_entry(entry)[0]:
                found[f"{name}[{n}]"] = str(pointer)
    return found


def _memory(gate: GateEpisode, relay: Relay, carried: Baton | None, checks: Sequence[Check]) -> Asked:
    found = MemoryOperation.objects.filter(relay=relay, item__in=gate.items).select_related("leg").order_by("-pk")
    rows = tuple(
        (
            Cell(_("leg"), row.leg.number, "leg"), Cell(_("operation"), row.act, "word"),
            Cell(_("memory"), row.slug or _("all of it"), "mono", wide=True), Cell(_("state"), row.state, "word"),
            Cell(_("new text"), row.text[:300], wide=True),
        )
        for row in found[:SHOWN]
    )  # fmt: skip
    return Asked(
        _("Operations on memory"), _("beyond what an agent may do"), rows, (), _("Allow it"), _("Refuse it"),
        _(
            "Nothing was changed yet, but where a leg did it in its commits: refused, that is taken back. Allowed, it "
            "is carried out once; git keeps what was there."
        ),
    )  # fmt: skip


def _done(gate: GateEpisode, relay: Relay, carried: Baton | None, checks: Sequence[Check]) -> Asked:
    rows = ((
        Cell(_("goal"), relay.done_when, wide=True), Cell(_("verified progress"), relay.progress_total, "num"),
        Cell(_("legs"), relay.legs_used, "num"), Cell(_("branch"), relay.branch, "mono"),
    ),)  # fmt: skip
    return Asked(
        _("Goal"), _("in prose: no store can say that it is reached"), rows, (),
        _("Confirm that it is reached"), _("Not reached"),
        _("Confirming ends the relay with RELAY_GOAL_DONE; no leg follows."),
    )  # fmt: skip


_OF: dict[str, Callable[[GateEpisode, Relay, Baton | None, Sequence[Check]], Asked]] = {
    Ask.OBJECTIVE_DRIFT: _drift,
    Ask.LOW_CONFIDENCE_ASSUMPTION: _assumptions,
    Ask.AMBIGUOUS_MEMORY_PROMOTION: _promotions,
    Ask.BUDGET_EXHAUSTED: _budget,
    Ask.UNSERVED_PAGE_FAULT: _faults,
    Ask.DESTRUCTIVE_MEMORY_OPERATION: _memory,
    Ask.DONE_UNCONFIRMED: _done,
}

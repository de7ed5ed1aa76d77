"""What a decision on a gate may carry: a next action, answers, a narrowed region, a new limit, a new objective.

rules.md: "A decision that changes one of them (or the next action) writes, in its own transaction, a new current baton
of the same closing leg: same cursor and tombstone, the new values, a `ledger` artifact that mirrors the decision".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from relays.actions.base import Held, NotLegalNow, Usage
from relays.core import baton, budget, objective, pointers, policy, region, safepoint
from relays.core.vocabulary import Extra
from relays.driver import budgets, leases, rebaton
from relays.models import Baton, Decision, Fact, GateEpisode, Relay

ANSWER_BYTES = 500
#: what a relay stands on from its start: who decides, and where it works
NO_LIMITS = frozenset({"approvals", "four_eyes", "workspace"})


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of one decision, all checked."""

    next_action: str
    answers: Mapping[str, str]
    region: tuple[str, ...]
    policy: policy.Policy | None
    sets: tuple[str, ...]
    objective: objective.Pin | None

    @property
    def detail(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.next_action:
            found["next_action"] = self.next_action
        if self.answers:
            found["answers"] = dict(self.answers)
        if self.region:
            found["region"] = list(self.region)
        if self.policy:
            found["policy"] = policy.to_snapshot(self.policy)
            found["sets"] = list(self.sets)
        if self.objective:
            found["objective_digest"] = self.objective.digest
        return found

    @property
    def mirror(self) -> dict[str, Any]:
        """What the next leg is told of the decision; the objective and the policy themselves it has by pointer."""
        return {key: value for key, value in self.detail.items() if key != "policy"}


def check(
    gate: GateEpisode,
    relay: Relay,
    next_action: str,
    answers: Mapping[str, str],
    new_region: Sequence[str],
    sets: Sequence[str],
    new_objective: str,
) -> Changes:
    """Check every change before anything is written."""
    chosen = ""
    if next_action.strip():
        choice = safepoint.choose_next_action([next_action])
        if choice.text is None or not choice.text.isprintable():
            raise Usage("--next-action must be one line of at most 200 bytes")
        chosen = choice.text
    try:
        globs = region.check_region(tuple(new_region)) if new_region else ()
        limits = policy.with_sets(budgets.policy_of(relay), sets) if sets else None
        pin = objective.make_pin(relay.pin_id, new_objective) if new_objective.strip() else None
        if globs or pin:
            bounds = budgets.policy_of(relay).baton
            rebaton.check_room(pin or relay.pin, relay.done_when, globs or relay.region, bounds)
    except (region.RegionError, policy.PolicyError, objective.ObjectiveError, baton.BatonError) as error:
        raise Usage(f"decision: {error}") from error
    for glob in globs:
        if not _within(glob, relay.region):
            raise Usage(
                f"--region {glob}: not within the relay's region {' '.join(relay.region)[:200]}; only narrow it"
            )
    for text in sets:
        if (key := policy.parse_set(text)[0]) in NO_LIMITS:
            raise Usage(f"--set {key}: no limit, and fixed when a relay starts; a decision changes limits only")
    said = _answers(gate, relay, answers)
    if (chosen or said) and not Baton.objects.filter(relay=relay, current=True).exists():
        raise NotLegalNow(f"approve {gate.pk}: no leg of {relay.pk} has ended, so no baton can carry it; approve alone")
    return Changes(chosen, said, tuple(globs), limits, tuple(sets), pin)


def _within(glob: str, held: Sequence[str]) -> bool:
    """Whether all that `glob` matches is seen to lie in the region: by its own text, or in a folder that is held."""
    literal = not set(glob) & set("*?[")
    for own in held or region.EVERYTHING:
        folder = own.removesuffix("/**").rstrip("/")
        inside = "/" in own and not set(folder) & set("*?[") and glob.startswith(f"{folder}/")
        if own in ("**", glob) or inside or (literal and region.glob_matches(own, glob)):
            return True
    return False


def _answers(gate: GateEpisode, relay: Relay, answers: Mapping[str, str]) -> dict[str, str]:
    """The answers by the reference that the gate's page shows: a question's pointer, or its text where it has none."""
    if not answers:
        return {}
    asked = _questions(gate, relay)
    found: dict[str, str] = {}
    for given, answer in answers.items():
        ref = _canonical(given)
        if ref not in asked:
            known = ", ".join(sorted(asked)[:8]) or "none"
            raise Usage(f"--answer {given[:200]}: no open question of gate {gate.pk}; open are: {known}")
        if not answer.strip() or not answer.isprintable() or len(answer.encode()) > ANSWER_BYTES:
            raise Usage(f"--answer {given[:200]}: an answer is one line of at most {ANSWER_BYTES} bytes")
        found[ref] = answer.strip()
    return found


def _questions(gate: GateEpisode, relay: Relay) -> set[str]:
    current = Baton.objects.filter(relay=relay, current=True).first()
    found = set()
    for entry in rebaton.read(current).open_questions if current else ():
        pointer, label = pointers.parse_entry(entry)
        found.add(str(pointer) if pointer else label)
    if gate.leg:
        rows = Fact.objects.filter(leg=gate.leg, kind=Fact.Kind.OPEN_QUESTION).values_list("backing", "label")
        found.update(_canonical(backing or label) for backing, label in rows)
    return found


def _canonical(ref: str) -> str:
    try:
        return str(pointers.parse_pointer(ref))
    except pointers.PointerError:
        return ref


def needs_limit(gate: GateEpisode, relay: Relay, rules: policy.Policy, changes: Changes) -> None:
    """rules.md: "after `BUDGET_EXHAUSTED` it needs a new limit", one that leaves something."""
    if changes.policy is None or changes.policy.envelope == rules.envelope:
        raise Usage(f"approve {gate.pk}: {gate.token} needs a new limit, such as --set envelope.turns=200")
    over = budget.forbids_leg(changes.policy.envelope, relay.spent)
    if over:
        raise Usage(f"approve {gate.pk}: with that limit {', '.join(over)} still holds; give a higher one in --set")


def hold_region(relay: Relay, changes: Changes, moment: datetime) -> None:
    """Before the decision is recorded: a start takes region and decision chain in this order too."""
    if changes.region:
        holder = leases.acquire(relay, changes.region, moment)
        if holder:
            raise Held(
                f"decision: {Extra.COLLISION_RISK}: {holder} holds a region that overlaps {' '.join(changes.region)}; "
                f"narrow --region, or wait until {holder} is done or stopped"
            )


def apply(relay: Relay, changes: Changes, decision: Decision, moment: datetime) -> None:
    """Carry changes into the relay and into a new current baton, in the decision's own transaction."""
    fields: dict[str, Any] = {}
    if changes.policy:
        fields |= {"policy": policy.to_snapshot(changes.policy), "mode": changes.policy.mode, "warned_axes": []}
    if changes.region:
        fields["region"] = list(changes.region)
    if changes.objective:
        fields |= {"objective": changes.objective.text, "objective_digest": changes.objective.digest}
    if fields:
        Relay.objects.filter(pk=relay.pk).update(**fields)
        relay.refresh_from_db()
    current = Baton.objects.filter(relay=relay, current=True).first()
    if changes.mirror and current is not None:
        rebaton.after_decision(
            relay,
            current,
            decision_seq=decision.seq,
            mirror=changes.mirror,
            next_action=changes.next_action,
            answers=changes.answers,
            now=moment,
        )

"""What leans on an assumption, and what wants to become memory: judged from records, asked where they do not settle it.

rules.md: "An effectful step (a fact, decision, ledger row or memory that cites it […]) needs all `use`, else the ask
opens"; "Promotion to memory: […] else `ambiguous` (ask) or `refused` […] All outcomes are kept".
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from relays.core import assumptions, promotion, questions, settling
from relays.core.lines import recorded
from relays.core.pointers import Pointer, PointerError, Verdict, one_line, parse_pointer
from relays.core.promotion import Outcome
from relays.core.vocabulary import Ask
from relays.driver import gates, settled
from relays.models import NEXT_LEG, OPEN_GATES, Assumption, Event, GateEpisode, GateState, Leg, Promotion
from relays.stores.bundle import Stores

#: the step that waits for an ambiguous promotion; no leg does
REMEMBERING = recorded("promotion to memory")


def judged(leg: Leg, cited: Sequence[str]) -> assumptions.EffectVerdict:
    """May an effect of this leg lean on these assumptions, as they are recorded up to here?"""
    if not cited:
        return assumptions.EffectVerdict(True, (), None)
    rows = Assumption.objects.filter(leg=leg, key__in=cited)
    assessed = {row.key: assumptions.assess(row.source, row.confidence) for row in rows}
    if any(found.action is not assumptions.Action.USE for found in assessed.values()) or len(assessed) < len(cited):
        assessed |= settled.confirmed(leg.relay_id, cited)
    return assumptions.effect(cited, assessed)


def admitted(leg: Leg, kind: str, payload: Mapping[str, Any], now: datetime) -> bool:
    """Whether this effect may lean on the assumptions that it cites; else a person is asked, before the next leg.

    In the caller's transaction, with the leg's assumptions recorded up to here.
    """
    cited = [str(key) for key in payload.get("assumes") or ()]
    if not cited:
        return True
    verdict = judged(leg, cited)
    what = one_line(str(payload.get("label") or payload.get("note") or payload.get("slug") or ""), 120)
    for key, action, reason in verdict.blocking:
        line = recorded(
            "%(step_word)s %(what)s leans on %(key)s: %(action_word)s, %(reason)s",
            step_word=kind.replace("_", " "),
            what=repr(what),
            key=repr(one_line(key, 120)),
            action_word=action,
            reason=reason,
        )
        ask(leg, Ask.LOW_CONFIDENCE_ASSUMPTION, line, NEXT_LEG, now)
    return verdict.admit


def judge_promotions(leg: Leg, stores: Stores | None) -> dict[int, Outcome]:
    """The outcome of each promotion that was not settled when it was asked for; asks the stores, writes nothing."""
    # one with a digest came through the query tool, which judged it and asked when it was said
    open_ones = list(Promotion.objects.filter(leg=leg, outcome=Outcome.AMBIGUOUS, digest="").order_by("seq"))
    if not open_ones:
        return {}
    asked = Event.objects.filter(leg=leg, kind="promotion", seq__in=[row.seq for row in open_ones])
    payloads = dict(asked.values_list("seq", "payload"))
    named: dict[int, Pointer | None] = {}
    for row in open_ones:
        evidence = payloads.get(row.seq, {}).get("evidence")
        try:
            named[row.pk] = parse_pointer(str(evidence)) if evidence else None
        except PointerError:
            named[row.pk] = None
    answers = stores.resolve([one for one in named.values() if one is not None]) if stores is not None else {}
    found: dict[int, Outcome] = {}
    for row in open_ones:
        payload, pointer = payloads.get(row.seq, {}), named[row.pk]
        answer = answers.get(pointer) if pointer is not None else None
        # what is named and is no pointer resolves to nothing, whoever answers
        unread = Verdict.DANGLING if payload.get("evidence") and pointer is None else Verdict.UNKNOWN
        found[row.pk] = promotion.outcome_of(payload, str(answer.verdict if answer else unread))
    return found


def keep_promotions(leg: Leg, judged: Mapping[int, Outcome], now: datetime) -> None:
    """Write the outcomes, and ask about those that stay ambiguous; in the caller's transaction."""
    for row in Promotion.objects.filter(pk__in=judged).order_by("seq"):
        Promotion.objects.filter(pk=row.pk).update(outcome=judged[row.pk])
        if judged[row.pk] is Outcome.AMBIGUOUS:
            ask(leg, Ask.AMBIGUOUS_MEMORY_PROMOTION, f"memory:{row.slug}", REMEMBERING, now)


def restated(leg: Leg, key: str, statement: str) -> None:
    """Before an assumption is written: where a person is asked about its key, another statement is looked at anew."""
    gate = GateEpisode.objects.filter(
        relay=leg.relay_id, token=Ask.LOW_CONFIDENCE_ASSUMPTION, state=GateState.WAITING
    ).first()
    if gate is None or one_line(key, settling.KEY_BYTES) not in settling.assumptions_of(gate.items):
        return
    rows = Assumption.objects.filter(leg__relay=leg.relay_id, key=key).order_by("-at", "-pk")
    before = rows.values_list("statement", flat=True).first()
    if before != statement:
        gates.shown_anew(gate.pk)


def ask(leg: Leg, token: Ask, line: str, blocks: str, now: datetime) -> int:
    """Open the relay's episode of that kind, or add to the open one; its number. In the caller's transaction."""
    standing = GateEpisode.objects.filter(relay=leg.relay_id, token=token, state__in=OPEN_GATES).first()
    item = questions.joins(standing.items if standing else [], line)
    return gates.open_episode(leg.relay_id, token, leg=leg, items=[item], now=now, blocks=blocks).pk

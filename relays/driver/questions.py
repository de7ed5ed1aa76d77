"""A question of a leg to a person: debited, written to the ledger, and asked; refused where the budget is spent.

rules.md, Budgets never reset by accident: clarification queries are an axis of the envelope, and
"`BUDGET_QUERIES_EXHAUSTED` (refuses the question and asks)".
"""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import F

from relays.core import budget, questions
from relays.core.lines import recorded
from relays.core.pointers import Kind, Pointer, Verdict, one_line
from relays.core.vocabulary import Ask, StopReason
from relays.driver import budgets, gates
from relays.driver.changes import lock
from relays.models import NEXT_LEG, OPEN_GATES, Fact, GateEpisode, LedgerRow, Leg, Relay

STEP_BYTES = 40


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of a question. `pointer`: where it stands, "" where it was refused; `gate`: the episode that asks."""

    admitted: bool
    gate: int
    pointer: str


def ask(leg: Leg, number: int, question: str, *, about: str, step: str, now: datetime, name: str = "") -> Asked:
    """Ask a person, in the caller's transaction. `number`: of the question in its leg; said again, nothing happens.

    An admitted question is durable by being asked: it is a ledger row (`name`, else `q<number>`), and the next baton
    points at it as an open question until a person answers it or the row is gone. `step`: what waits for the answer,
    "" = the next leg.
    """
    relay = lock(leg.relay_id)
    text = questions.line(question)
    row_id = f"{relay.pk}.{leg.number}.{name or f'q{number}'}"
    pointer = str(Pointer(Kind.LEDGER, row_id))
    token = questions.ABOUT[about]
    if LedgerRow.objects.filter(pk=row_id).exists():
        before = GateEpisode.objects.filter(relay=relay, token=token).order_by("-pk").values_list("pk", flat=True)
        return Asked(True, before.first() or 0, pointer)
    if budget.refuses_query(budgets.policy_of(relay).envelope, relay.spent):
        refused = _open(
            relay, Ask.BUDGET_EXHAUSTED, leg, recorded("refused question: %(what)s", what=text), questions.FURTHER, now
        )
        return Asked(False, refused, "")
    Relay.objects.filter(pk=relay.pk).update(queries_used=F("queries_used") + 1)
    LedgerRow.objects.create(
        id=row_id,
        relay=relay,
        leg=leg,
        refs=[pointer],
        note=f"asked: {text}"[:500],
        by="driver",  # asking is no progress, and the answer is a person's
        at=now,
    )
    Fact.objects.get_or_create(
        leg=leg,
        seq=number,
        kind=Fact.Kind.OPEN_QUESTION,
        defaults={
            "label": text[:500],
            "durability": "durable",
            "backing": pointer,
            "verdict": Verdict.VERIFIED,
            "evidence": recorded("a person was asked; the ledger has the question"),
            "at": now,
        },
    )
    return Asked(True, _open(relay, token, leg, text, one_line(step, STEP_BYTES) or NEXT_LEG, now), pointer)


def _open(relay: Relay, token: Ask, leg: Leg, text: str, blocks: str, now: datetime) -> int:
    standing = GateEpisode.objects.filter(relay=relay, token=token, state__in=OPEN_GATES).first()
    items = [str(StopReason.QUERIES)] if token is Ask.BUDGET_EXHAUSTED else []
    items.append(questions.joins(standing.items if standing else [], text))
    return gates.open_episode(relay.pk, token, leg=leg, items=items, now=now, blocks=blocks).pk

"""Events of a leg into the database: appended once, projected into calls, facts and roll-ups in one transaction."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils import timezone

from relays.core import assumptions, pricing, promotion, residency, usage
from relays.core.events import TOLD, UNREAD
from relays.core.events import Event as CoreEvent
from relays.core.legview import CallView, LegView
from relays.core.lines import recorded
from relays.core.pointers import PointerError, one_line, parse_pointer
from relays.core.vocabulary import Ask
from relays.driver import budgets, effects, findings, questions, tools
from relays.driver.changes import INBOX, RELAYS, bump, topic
from relays.driver.claim import Claim
from relays.driver.heard import Heard
from relays.driver.recalling import Judged
from relays.models import (
    NEXT_LEG,
    Assumption,
    Call,
    Event,
    Fact,
    LedgerRow,
    Leg,
    PageFault,
    Promotion,
    Relay,
    statements,
)
from relays.stores import prices

FACT_KINDS = {"fact", "decision", "open_question", "dead_end"}
#: what must not lean on a weak assumption
TOOLS = {"tool_asked", "tool_started"}
EFFECTS = {*FACT_KINDS, "ledger", "promotion"}
REFS_PER_ROW = 64
FAULTS = 2000  # page faults of a leg that the stores are asked about; a flood of them is not


class Ingest:
    """Holds what came since the last flush; one flush is one transaction under the fence."""

    def __init__(self, relay: Relay, leg: Leg, claim: Claim, view: LegView) -> None:
        self.relay, self.leg, self.claim, self.view = relay, leg, claim, view
        self.waiting: list[tuple[CoreEvent, datetime]] = []
        view.price = self._list_price
        self.flushed_calls: dict[str, CallView] = {}
        self.flushed_turns = 0
        self.rolled: dict[str, Any] = {}  # the leg's columns as the last flush wrote them
        self.heard = Heard(leg.number)
        self.refused = False  # of the last event that was not taken: it was no replay
        self.touched: set[str] = set()  # message ids whose call grew since the last flush
        self.fault_of: Callable[[Mapping[str, Any]], Judged] | None = None  # asks the stores, outside a transaction
        self.faults: dict[int, Judged] = {}  # by number, until they are written
        self.judged_faults = 0
        self.settled: dict[int, dict[str, Any]] = {}  # promotions that were judged before they are written

    def _list_price(self, model: str, buckets: usage.Buckets) -> Decimal | None:
        """By the price list, now: "An unknown model is `unpriced`, never 0". A scripted call costs nothing real."""
        if model.startswith("scripted"):
            return None
        found = prices.book().find(model, self.relay.agent, timezone.now())
        cost = pricing.cost(found.rates, buckets) if found is not None else None
        return None if cost is None else pricing.kept(cost)

    def resume_from_records(self) -> None:
        """After a crash: what is stored is what was seen; fold it again in its order."""
        self.view.window = self.leg.window_tokens
        for row in Event.objects.filter(leg=self.leg).order_by("pk").iterator(chunk_size=500):
            event = CoreEvent(kind=row.kind, seq=row.seq, at=row.at, payload=row.payload, known=row.known)
            self.view.apply(event)
            self.heard.taken(event)
        self.flushed_calls = dict(self.view.calls)
        self.flushed_turns = self.view.turns

    def take(self, event: CoreEvent, now: datetime) -> bool:
        """Fold one event; False when its number was seen already (a replay changes nothing) or jumped too far ahead."""
        if event.seq < 0:
            event = replace(event, seq=UNREAD + self.view.unread)
        self.view.window = self.leg.window_tokens
        if not self.view.apply(event):
            self.refused = self.heard.not_taken(event, self.view.seen)
            return False
        self.heard.taken(event)
        if event.known and event.kind == "usage":
            self.touched.add(event.payload["message_id"])
        if event.known and event.kind == "page_fault":
            self._judge_fault(event)
        self.waiting.append((event, now))
        return True

    def _judge_fault(self, event: CoreEvent) -> None:
        if self.fault_of is not None and event.seq not in self.faults and self.judged_faults < FAULTS:
            self.judged_faults += 1
            self.faults[event.seq] = self.fault_of(event.payload)

    def flush(self, now: datetime, last: bool = False) -> None:
        """Write all that waits. Raises LostClaim."""
        said = self.heard.news(self.view.seen, last)
        if not self.waiting and said is None:
            return
        batch, self.waiting = self.waiting, []
        with transaction.atomic():
            self.claim.hold(now)
            if said is not None:
                findings.put(self.relay.pk, self.heard.prefix, said)
            statements.insert(
                [
                    Event(leg_id=self.leg.pk, seq=e.seq, kind=e.kind[:40], known=e.known, payload=e.payload, at=at)
                    for e, at in batch
                ]
            )
            for event, at in batch:
                self._project(event, at)
            self._roll_up(now, self._calls(now))
            if budgets.limited(self.relay):  # as it was last polled: a new limit counts from then on
                budgets.warn(self.relay.pk)
            bump(topic(self.relay.pk), RELAYS)

    def _project(self, event: CoreEvent, at: datetime) -> None:
        payload = event.payload
        admitted = event.kind not in EFFECTS or effects.admitted(self.leg, event.kind, payload, at)
        if event.kind in FACT_KINDS:
            backing = payload.get("backing") if event.kind == "fact" else payload.get("pointer")
            Fact.objects.get_or_create(
                leg=self.leg,
                seq=event.seq,
                kind=event.kind,
                defaults={
                    "label": str(payload["label"])[:500],
                    "durability": str(payload.get("class", "durable"))[:40],
                    "backing": str(backing or "")[:500],
                    "at": at,
                },
            )
        elif event.kind == "artifact":
            Fact.objects.get_or_create(
                leg=self.leg,
                seq=event.seq,
                kind="artifact",
                defaults={
                    "label": f"{payload['kind']}:{payload['ref']}"[:500],
                    "durability": "durable",
                    "backing": f"{payload['kind']}:{payload['ref']}"[:500],
                    "at": at,
                },
            )
        elif event.kind == "ledger":
            if admitted:
                self._ledger_row(event, at)
        elif event.kind == "ask":
            about, step = str(payload.get("about") or "assumption"), str(payload.get("step") or "")
            name = _row_name(event.seq, "q")
            questions.ask(self.leg, event.seq, str(payload["question"]), about=about, step=step, now=at, name=name)
            bump(INBOX)
        elif event.kind == "assumption":
            effects.restated(self.leg, str(payload["key"])[:200], str(payload["statement"]))
            found = assumptions.assess(payload["source"], payload.get("confidence"))
            Assumption.objects.update_or_create(
                leg=self.leg,
                key=str(payload["key"])[:200],
                defaults={
                    "statement": str(payload["statement"]),
                    "source": str(payload["source"])[:20],
                    "confidence": payload.get("confidence"),
                    "action": str(found)[:10],
                    "at": at,
                },
            )
        elif event.kind in TOOLS and not tools.admitted(self.leg, budgets.policy_of(self.relay), payload, at):
            bump(INBOX)
        elif event.kind == "promotion":
            self._promotion(event, at, admitted)
        elif event.kind == "page_fault":
            self._page_fault(event, at)

    def _promotion(self, event: CoreEvent, at: datetime, admitted: bool) -> None:
        payload = event.payload
        outcome = promotion.outcome_of(payload, consent=None if admitted else False)
        settled = self.settled.pop(event.seq, {}) if admitted else {}
        Promotion.objects.get_or_create(
            leg=self.leg,
            seq=event.seq,
            defaults={
                "slug": str(payload["slug"])[:200],
                "durability": str(payload.get("class") or "")[:40],
                "outcome": str(outcome)[:12],
                "evidence": str(payload.get("evidence") or "")[:500],
                "at": at,
                **settled,
            },
        )

    def _page_fault(self, event: CoreEvent, at: datetime) -> None:
        """The outcome as the stores gave it; a required record that cannot come is a person's to bring or to waive."""
        payload = event.payload
        found = self.faults.pop(event.seq, None)
        fault = found.fault if found else residency.judge_fault(residency.unasked(payload))
        _, new = PageFault.objects.get_or_create(
            leg=self.leg,
            seq=event.seq,
            defaults={
                "kind": str(payload["kind"])[:20],
                "ref": str(payload["ref"])[:500],
                "required": bool(payload["required"]),
                "outcome": str(fault.outcome)[:24],
                "reason": one_line(f"{fault.reason}{f': {found.evidence}' if found else ''}", 200),
                "at": at,
            },
        )
        if new and fault.ask is Ask.UNSERVED_PAGE_FAULT:
            what = one_line(f"{payload['kind']}:{payload['ref']}", 250).replace(" ", "?")  # as an entry writes it
            line = recorded(
                "page fault: %(what)s: %(outcome_word)s, %(reason)s",
                what=what,
                outcome_word=fault.outcome,
                reason=one_line(found.evidence if found else fault.reason, 200),
            )
            effects.ask(self.leg, Ask.UNSERVED_PAGE_FAULT, line, NEXT_LEG, at)
            bump(INBOX)

    def _ledger_row(self, event: CoreEvent, at: datetime) -> None:
        """The row `<relay>.<leg>.e<seq>`: references that are no pointers are left out of it, never stored as text."""
        refs = []
        for ref in list(event.payload.get("refs", []))[:REFS_PER_ROW]:
            try:
                refs.append(str(parse_pointer(str(ref))))
            except PointerError:
                continue
        LedgerRow.objects.get_or_create(
            id=f"{self.relay.pk}.{self.leg.number}.{_row_name(event.seq, 'e')}",
            defaults={
                "relay": self.relay,
                "leg": self.leg,
                "refs": refs,
                "note": str(event.payload.get("note") or "")[:500],
                "by": "agent",
                "at": at,
            },
        )

    def _calls(self, now: datetime) -> dict[str, Any]:
        """New and grown calls, and what they add to the leg and the relay: the sums reconcile exactly.

        Returns the changes of the leg's sums.
        """
        rows: list[Call] = []
        added = dict.fromkeys(("input_tokens", "cache_read", "cache_write_5m", "cache_write_1h", "output_tokens"), 0)
        spend, unpriced, calls = Decimal(0), 0, 0
        for key in self.touched:
            call = self.view.calls.get(key)
            before = self.flushed_calls.get(key)
            if call is None or before == call:
                continue
            tokens = _tokens(call)
            rows.append(
                Call(
                    leg_id=self.leg.pk,
                    key=f"{self.leg.trace}:{key}",
                    turn=call.turn,
                    model=call.model[:120],
                    main=call.main,
                    resident_tokens=usage.resident(call.buckets) if call.main else 0,
                    cache_reported=call.cache_reported,
                    cost=call.cost,
                    listed=call.listed,
                    scripted=call.model.startswith("scripted"),
                    at=now,
                    **tokens,
                )
            )
            was = _tokens(before) if before else {}
            for name, count in tokens.items():
                added[name] += count - was.get(name, 0)
            spend += (call.cost or Decimal(0)) - ((before.cost or Decimal(0)) if before else Decimal(0))
            unpriced += (call.cost is None) - (before is not None and before.cost is None)
            calls += before is None
            self.flushed_calls[key] = call
        self.touched.clear()
        turns = self.view.turns - self.flushed_turns
        self.flushed_turns = self.view.turns
        if rows:
            statements.insert(rows, else_update="key")
        debits: dict[str, Any] = {
            "turns_used": turns,
            "output_used": added["output_tokens"],
            "spend_used": spend,
            "unpriced_calls": unpriced,
        }
        statements.change(
            Relay, self.relay.pk, {"last_data_at": now}, {name: value for name, value in debits.items() if value}
        )
        sums: dict[str, Any] = {"calls": calls, "spend": spend, "unpriced_calls": unpriced, **added}
        return {name: value for name, value in sums.items() if value}

    def _roll_up(self, now: datetime, sums: dict[str, Any]) -> None:
        view = self.view
        rolled: dict[str, Any] = {
            "turns": view.turns,
            "resident_tokens": view.resident,
            "peak_tokens": view.peak,
            "peak_turn": view.peak_turn,
            "last_growth": view.last_growth,
            "largest_result": view.largest_result,
            "tool_calls": view.tool_calls,
            "tool_errors": view.tool_errors,
            "fullness": {str(tenth): list(counts) for tenth, counts in sorted(view.fullness.items())},
            "unknown_events": view.unknown_events,
            "model": view.model[:120],
            "scripted": view.scripted,
        }
        # nobody else writes these: what is as it was last written costs nothing
        changed = {name: value for name, value in rolled.items() if self.rolled.get(name, ...) != value}
        statements.change(Leg, self.leg.pk, {"last_event_at": now, **changed}, sums)
        self.rolled = rolled


def _row_name(seq: int, letter: str) -> str:
    """How a ledger row names what it came from: event `e<seq>`, question `q<seq>`, or use `t<n>` of the query tool."""
    return f"t{seq - TOLD}" if TOLD <= seq < UNREAD else f"{letter}{seq}"


def _tokens(call: CallView) -> dict[str, int]:
    """A call's five buckets under the names of the tables' columns."""
    return {
        "input_tokens": call.buckets.input,
        "cache_read": call.buckets.cache_read,
        "cache_write_5m": call.buckets.cache_write_5m,
        "cache_write_1h": call.buckets.cache_write_1h,
        "output_tokens": call.buckets.output,
    }

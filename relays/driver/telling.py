"""What an agent declares through the query tool: told to its own leg as an event, in its order, under the fence.

Interface: `ledger_append` `fact` `decision` `next_action` `open_question` `dead_end` `assume` `remember` `ask`
`externalized`. Each is the event of that name; the answer says what became of it.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from pydantic import ValidationError

from relays.core import assumptions, memory, promotion, querytool, region
from relays.core.eventforms import SCHEMAS
from relays.core.events import TOLD, Event, first_problem, one_line_problem
from relays.core.lines import recorded
from relays.core.pointers import Answer, Kind, Pointer, PointerError, Verdict, check_ref, parse_pointer
from relays.core.promotion import Outcome
from relays.core.querytool import QueryRefused
from relays.core.vocabulary import Ask
from relays.driver import effects, gates, memories, reload
from relays.driver.changes import lock
from relays.driver.ingest import Ingest
from relays.models import GateEpisode, LedgerRow, Leg, Promotion, Relay
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.git import GitStore

WAITING = ("waiting",)


class Telling:
    """The declaring verbs of one leg."""

    def __init__(self, relay: Relay, leg: Leg, ingest: Ingest, store: GitStore) -> None:
        self.relay, self.leg, self.ingest, self.store = relay, leg, ingest, store

    def tell(self, verb: str, said: querytool.Arguments, now: datetime) -> dict[str, Any]:
        """Carry out one verb. Raises QueryRefused, and LostClaim."""
        match said:
            case querytool.Fact():
                return self._declare(verb, said, said.backing, {"class": said.class_, "backing": said.backing}, now)
            case querytool.Declared():
                return self._declare(verb, said, said.pointer, {"pointer": said.pointer}, now)
            case querytool.LedgerAppend():
                return self._ledger(said, now)
            case querytool.NextAction():
                return self._next_action(said.text, now)
            case querytool.Assume():
                return self._assume(said, now)
            case querytool.Ask():
                return self._ask(said, now)
            case querytool.Remember():
                return self._remember(said, now)
        self._event("externalized", {}, now)
        return {
            "recorded": "externalized",
            "note": "a later fact, decision, question, dead end, commit or tool call voids it",
        }

    # --- one event

    def _event(
        self, kind: str, payload: Mapping[str, Any], now: datetime, settled: dict[str, Any] | None = None
    ) -> int:
        """Fold and store one event; its number. Raises QueryRefused for what no event may hold."""
        whole = {**payload, "through": "query tool"}
        try:
            SCHEMAS[kind].model_validate(dict(payload))
        except ValidationError as error:
            raise QueryRefused(one_line_problem(f"{kind}: {first_problem(error)}")) from error
        number = TOLD + self.ingest.view.told
        if settled is not None:
            self.ingest.settled[number] = settled
        self.ingest.take(Event(kind, number, now, whole), now)
        self.ingest.flush(now)
        return number

    def _leaning(self, assumes: list[str]) -> list[str]:
        """Why an effect may not lean on what it cites, one line each."""
        found = effects.judged(self.leg, assumes)
        return [f"{key}: {action}, {reason}" for key, action, reason in found.blocking]

    def _judge(self, pointer: str | None) -> Answer | None:
        if not pointer:
            return None
        try:
            parsed = parse_pointer(pointer)
        except PointerError as error:
            raise QueryRefused(
                f"{error.why}; name it as kind:ref with kind commit, issue, memory, ledger or file"
            ) from error
        try:
            return reload.stores_for(self.relay, self.store).resolve([parsed])[parsed]
        except StoreUnavailable as error:
            return Answer(Verdict.UNKNOWN, error.evidence)

    # --- the verbs

    def _declare(
        self, verb: str, said: Any, pointer: str | None, fields: dict[str, Any], now: datetime
    ) -> dict[str, Any]:
        answer = self._judge(pointer)
        self._event(verb, {"label": said.label, "assumes": said.assumes, **fields}, now)
        passes = answer is not None and answer.verdict is Verdict.VERIFIED
        ephemeral = fields.get("class") == "turn"
        told: dict[str, Any] = {
            "recorded": verb,
            "verdict": str(answer.verdict) if answer else None,
            "evidence": answer.evidence if answer else recorded("it names no pointer"),
            "passes_the_gate": passes or ephemeral,
        }
        if not told["passes_the_gate"]:
            told["do"] = (
                "commit, file or ledger it, then declare it again under the same label with a pointer that resolves"
            )
        return told | self._asked(said.assumes)

    def _asked(self, assumes: list[str]) -> dict[str, Any]:
        blocking = self._leaning(assumes)
        return {"leans_on": blocking, "asked": str(Ask.LOW_CONFIDENCE_ASSUMPTION)} if blocking else {}

    def _ledger(self, said: querytool.LedgerAppend, now: datetime) -> dict[str, Any]:
        verdicts = [self._judge(ref) for ref in said.refs]
        blocking = self._leaning(said.assumes)
        payload = {"refs": said.refs, "note": said.note or None, "assumes": said.assumes}
        number = self._event("ledger", payload, now)
        row = f"{self.relay.pk}.{self.leg.number}.t{number - TOLD}"
        kept = LedgerRow.objects.filter(pk=row).exists()
        return {
            "recorded": "ledger_append" if kept else "nothing: it leans on what must not be used",
            "row": row if kept else None,
            "pointer": f"ledger:{row}" if kept else None,
            "refs": [
                {"ref": ref, "verdict": str(answer.verdict if answer else "")}
                for ref, answer in zip(said.refs, verdicts, strict=True)
            ],
        } | ({"leans_on": blocking, "asked": str(Ask.LOW_CONFIDENCE_ASSUMPTION)} if blocking else {})

    def _next_action(self, text: str, now: datetime) -> dict[str, Any]:
        line = text.strip()
        if not line.isprintable() or len(line.encode()) > 200:
            raise QueryRefused("next_action: one line of at most 200 bytes, without control characters")
        self._event("next_action", {"text": line}, now)
        return {"recorded": "next_action", "stands": line}

    def _assume(self, said: querytool.Assume, now: datetime) -> dict[str, Any]:
        payload = {"key": said.key, "statement": said.statement, "source": said.source, "confidence": said.confidence}
        self._event("assumption", payload, now)
        found = assumptions.assess(said.source, said.confidence)
        advice = {
            "use": "cite its key where you lean on it",
            "query": "do not lean on it: find a witness and assume it again, or ask",
            "refresh": "read it again from its source, then assume it again",
        }
        return {"recorded": "assume", "action": str(found.action), "why": found.reason, "do": advice[str(found.action)]}

    def _ask(self, said: querytool.Ask, now: datetime) -> dict[str, Any]:
        used = Relay.objects.values_list("queries_used", flat=True)
        before = used.get(pk=self.relay.pk)
        payload: dict[str, Any] = {"question": said.question, "about": said.about}
        number = self._event("ask", payload | ({"step": said.step} if said.step else {}), now)
        admitted = used.get(pk=self.relay.pk) > before
        if not admitted:
            return {
                "recorded": "nothing: the query budget is spent",
                "asked": str(Ask.BUDGET_EXHAUSTED),
                "pointer": None,
            }
        row = f"{self.relay.pk}.{self.leg.number}.t{number - TOLD}"
        gate = GateEpisode.objects.filter(relay=self.relay, state__in=WAITING).order_by("-state_at").first()
        return {
            "recorded": "ask",
            "pointer": f"ledger:{row}",
            "blocks": gate.blocks if gate else "next leg",
            "note": "a person answers later; what does not depend on it can go on",
        }

    # --- memory

    def _remember(self, said: querytool.Remember, now: datetime) -> dict[str, Any]:
        if said.act != "remember":
            return self._destructive(said.act, said.slug, now)
        try:
            check_ref(Kind.MEMORY, said.slug)
        except PointerError as error:
            raise QueryRefused(f"remember: {error.why}") from error
        if not said.text.strip():
            raise QueryRefused("remember: text must not be empty")
        evidence = self._judge(said.evidence)
        found = promotion.judge(said.class_, str(evidence.verdict) if evidence else None)
        stores, rewrites = self._profile(said.slug, found.outcome)
        until = memory.expiry(said.class_, said.expires_days, now) if said.class_ in promotion.LASTING else None
        by = f"{self.relay.pk} leg {self.leg.number}"
        content = memory.page(
            said.slug,
            said.text,
            durability=said.class_,
            evidence=said.evidence or "",
            by=by,
            at=now,
            until=until,
        )
        outcome = Outcome.AMBIGUOUS if rewrites else found.outcome
        leaning = self._leaning(said.assumes)
        where = ""
        if outcome is Outcome.PROMOTED and not leaning and stores is not None:
            try:
                where = memories.write(stores, said.slug, content)
            except StoreUnavailable as error:
                raise QueryRefused(f"remember: {error.evidence}; nothing was recorded") from error
        settled: dict[str, Any] = {
            "outcome": str(outcome),
            "reason": recorded("a standing profile: a person allows its rewriting") if rewrites else found.reason[:200],
            "digest": memories.digest(content) if outcome is not Outcome.EXPIRED else "",
            # an observation that expires with its leg is not kept in a row either
            "text": said.text if outcome is Outcome.AMBIGUOUS else "",
            "expires_at": until,
        }
        fields = {"slug": said.slug, "class": said.class_, "evidence": said.evidence, "assumes": said.assumes}
        told = fields | {"text_sha256": hashlib.sha256(said.text.encode()).hexdigest()}
        with transaction.atomic():
            number = self._event("promotion", told, now, settled)
            row = Promotion.objects.get(leg=self.leg, seq=number)
            return self._became(row, where, rewrites, evidence, now) | self._asked(said.assumes)

    def _profile(self, slug: str, outcome: Outcome) -> tuple[Stores | None, bool]:
        """The stores, and whether a person has to allow that this memory is written over."""
        if outcome not in (Outcome.PROMOTED, Outcome.AMBIGUOUS):
            return None, False
        try:
            stores = reload.stores_for(self.relay, self.store)
            return stores, memories.is_profile(self.leg, stores, slug)
        except StoreUnavailable as error:
            raise QueryRefused(
                f"remember: the memory folder does not answer: {error.evidence}; nothing was recorded"
            ) from error

    def _became(
        self, row: Promotion, where: str, rewrites: bool, evidence: Answer | None, now: datetime
    ) -> dict[str, Any]:
        told: dict[str, Any] = {
            "recorded": "remember",
            "outcome": row.outcome,
            "why": row.reason,
            "evidence": evidence.evidence if evidence else recorded("it names no evidence"),
            "expires_at": row.expires_at.isoformat() if row.expires_at else None,
        }
        if row.outcome == Outcome.PROMOTED:
            memories.supersede(self.relay, row.slug, now, but=row.pk)
            pointer = str(Pointer(Kind.MEMORY, row.slug))
            return told | {"pointer": pointer, "file": where, "do": self._commit_it(where)}
        if row.outcome != Outcome.AMBIGUOUS:
            return told
        earlier = Promotion.objects.filter(leg__relay=self.relay, slug=row.slug, outcome=Outcome.AMBIGUOUS)
        again = earlier.exclude(pk=row.pk).update(
            outcome=Outcome.EXPIRED, text="", reason=recorded("said anew before it was decided")
        )
        token, line = Ask.AMBIGUOUS_MEMORY_PROMOTION, f"memory:{row.slug}"
        if rewrites:
            token = Ask.DESTRUCTIVE_MEMORY_OPERATION
            line, gate = memories.ask_for(self.leg, "rewrite", row.slug, now, content=row.text, promotion=row)
        else:
            gate = effects.ask(self.leg, token, line, effects.REMEMBERING, now)
        if again:
            gates.shown_anew(gate)
        return told | {"asked": str(token), "item": line, "gate": gate}

    def _commit_it(self, where: str) -> str:
        """A commit with a path outside the region is no progress, so a memory file there goes apart from the work."""
        if any(region.glob_matches(glob, where) for glob in self.relay.region or region.EVERYTHING):
            return "commit that file with your work"
        return "commit that file by itself: it lies outside the region, where no commit counts as progress"

    def _destructive(self, act: str, slug: str, now: datetime) -> dict[str, Any]:
        if act != "reset":
            try:
                check_ref(Kind.MEMORY, slug)
            except PointerError as error:
                raise QueryRefused(f"remember: {act}: {error.why}") from error
        with transaction.atomic():
            self.ingest.claim.hold(now)
            lock(self.relay.pk)
            line, gate = memories.ask_for(self.leg, act, slug if act != "reset" else "", now)
        return {
            "recorded": "nothing was done",
            "asked": str(Ask.DESTRUCTIVE_MEMORY_OPERATION),
            "item": line,
            "gate": gate,
            "note": "a person allows it or leaves it; go on without it",
        }

"""Pins and explicit facts: a person gives every leg to come a pointer or a statement, and takes it back.

rules.md, Objective: "A person may set a new objective, add or remove pins and explicit facts: recorded decisions that
the next leg gets by pointer." Both stand in the seed of each leg until they are removed.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.actions.base import Actor, NotLegalNow, Usage, check_comment, lock, need, record, relay_or_refuse
from relays.core import userfacts
from relays.core.pointers import Pointer, PointerError, Verdict, parse_pointer
from relays.core.userfacts import FactKind, UserFact
from relays.driver import rebaton, reload, travel
from relays.driver import userfacts as standing
from relays.driver.changes import RELAYS, bump, topic
from relays.models import Baton, Decision, Leg, Relay
from relays.reports.sentences import told
from relays.stores.base import StoreUnavailable


@dataclass(frozen=True, slots=True)
class Stated:
    """What stands after the act. `decision` is None where it stood so already: nothing was recorded."""

    relay: str
    decision: int | None
    facts: tuple[UserFact, ...]


def add_fact(actor: Actor, relay_id: str, text: str, comment: str = "") -> Stated:
    """State a fact in one line: a ledger row holds it, and every leg from the next one on is given its pointer."""
    relay = _relay(actor, relay_id, "fact", comment)
    said = text.strip()
    if not said or not said.isprintable():
        raise Usage(_("fact %(relay_id)s: --add must be one line of plain text") % {"relay_id": relay_id})
    if json.loads(rebaton.mirrored({"decision": 10**9, "fact": said})).get("fact") != said:
        raise Usage(
            _("fact %(relay_id)s: --add is too long for a ledger row; keep it under 400 characters")
            % {"relay_id": relay_id}
        )
    return _change(actor, relay, "fact_add", {"fact": said}, lambda one: one.text == said, comment)


def add_pin(actor: Actor, relay_id: str, ref: str, comment: str = "") -> Stated:
    """Pin a pointer into a durable store: every leg from the next one on is given it. One that dangles is refused."""
    relay = _relay(actor, relay_id, "pin", comment)
    try:
        pointer = parse_pointer(ref.strip())
    except PointerError as error:
        raise Usage(
            _("pin %(relay_id)s: --add %(ref)s: %(why)s; write it as kind:ref or #n")
            % {"relay_id": relay_id, "ref": repr(ref[:200]), "why": told(error.why)}
        ) from error
    verdict, evidence = _judge(relay, pointer)
    if verdict is Verdict.DANGLING:
        raise Usage(
            _("pin %(relay_id)s: %(pointer)s does not resolve (%(evidence)s); commit or file it first")
            % {"relay_id": relay_id, "pointer": pointer, "evidence": told(evidence)}
        )
    changed = {"pin": str(pointer), "verdict": str(verdict)}
    return _change(actor, relay, "pin_add", changed, lambda one: one.pointer == str(pointer), comment)


def remove(actor: Actor, relay_id: str, kind: FactKind, what: str, comment: str = "") -> Stated:
    """Take one back, named by its pointer or by a fact's own words; earlier legs had it, later ones do not."""
    relay = _relay(actor, relay_id, kind, comment)
    named = what.strip()
    try:
        ref = str(parse_pointer(named))
    except PointerError:
        ref = named
    found = [one for one in standing.of(relay_id) if one.kind == kind and ref in (one.pointer, one.text)]
    if not found:
        known = ", ".join(one.pointer for one in standing.of(relay_id) if one.kind == kind) or _("none")
        raise Usage(
            _("%(kind)s %(relay_id)s: --remove %(named)s: no such %(kind)s stands; standing are: %(known)s")
            % {"kind": _(kind), "relay_id": relay_id, "named": repr(named[:200]), "known": known}
        )
    gone = found[-1]
    changed = {"removed": gone.pointer, **({"fact": gone.text} if gone.text else {})}
    return _change(actor, relay, f"{kind}_remove", changed, None, comment)


def _relay(actor: Actor, relay_id: str, act: str, comment: str) -> Relay:
    relay = relay_or_refuse(relay_id)
    need(actor, "operate", f"{_(act)} {relay_id}")
    check_comment(f"{_(act)} {relay_id}", comment)
    return relay


def _judge(relay: Relay, pointer: Pointer) -> tuple[Verdict, str]:
    """What the stores say of it now; asked before the transaction, since no git runs inside one."""
    try:
        answer = reload.stores_for(relay).resolve([pointer])[pointer]
    except StoreUnavailable as error:
        return Verdict.UNKNOWN, error.evidence
    return answer.verdict, answer.evidence


def _change(actor: Actor, relay: Relay, act: str, changed: dict[str, Any], same: Any, comment: str) -> Stated:
    moment: datetime = timezone.now()
    kind = act.partition("_")[0]
    with transaction.atomic():
        lock(relay)
        if relay.final:
            raise NotLegalNow(
                _("%(kind)s %(relay)s: it is %(status)s; no leg follows that could be given it")
                % {"kind": _(kind), "relay": relay.pk, "status": _(relay.status)}
            )
        before = standing.of(relay.pk)
        if same is not None:
            if any(one.kind == kind and same(one) for one in before):
                return Stated(relay.pk, None, before)
            if len(before) >= userfacts.MOST:
                raise NotLegalNow(
                    _("%(kind)s %(relay)s: %(before)s pins and facts stand, and a seed holds no more")
                    % {"kind": _(kind), "relay": relay.pk, "before": len(before)}
                )
        elif changed["removed"] not in {one.pointer for one in before}:
            return Stated(relay.pk, None, before)  # somebody else took it back meanwhile
        current = Baton.objects.filter(relay=relay, current=True).select_related("leg", "relay").first()
        decision = _recorded(actor, relay, act, changed, current.leg if current else None, comment, moment)
        _tell(relay, current, rebaton.Mirror(decision.seq, changed, str(changed.get("pin", ""))), moment)
        travel.owe(relay.pk, moment)
        bump(topic(relay.pk), RELAYS)
    return Stated(relay.pk, decision.seq, standing.of(relay.pk))


def _recorded(
    actor: Actor, relay: Relay, act: str, changed: dict[str, Any], leg: Leg | None, comment: str, moment: datetime
) -> Decision:
    """The decision, which names the row that mirrors it: taken back and recorded anew where that name is not free."""
    row = rebaton.mirror_head(relay, leg, 0)  # of no decision: they are numbered from 1
    while True:
        with transaction.atomic():
            decision = record(actor, act, now=moment, relay=relay, comment=comment, detail={**changed, "row": row})
            free = rebaton.mirror_head(relay, leg, decision.seq)
            if free == row:
                return decision
            transaction.set_rollback(True)
        row = free


def _tell(relay: Relay, current: Baton | None, mirror: rebaton.Mirror, moment: datetime) -> None:
    """The mirror, and the baton that points at it: of the closing leg, or of the first that will end."""
    if current is None:
        rebaton.mirror(relay, None, [mirror], moment)
        return
    try:
        rebaton.after_decision(relay, current, mirrors=[mirror], next_action="", answers={}, now=moment)
    except ValueError as error:
        raise NotLegalNow(
            _("%(relay)s: its stored baton does not read, so it can carry nothing; stop the relay")
            % {"relay": relay.pk}
        ) from error

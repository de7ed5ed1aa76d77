"""Why a leg drains: a person's park or stop, a spent envelope, the ceiling, or the house going down."""

from django.db import transaction

from relays.core import budget
from relays.core.policy import Policy
from relays.driver import budgets
from relays.driver.changes import RELAYS, bump, change_leg, topic
from relays.driver.claim import Claim
from relays.models import Leg, LegState, Relay

PEOPLE = ("park", "stop")


class Drain:
    """Keeps the leg's drain in step with what is wished for. `shutdown` is set by a signal."""

    def __init__(self, relay: Relay, leg: Leg, claim: Claim) -> None:
        self.relay, self.leg, self.claim = relay, leg, claim
        self.shutdown = False

    def follow(self, policy: Policy, turns: int) -> None:
        """Begin, change or withdraw the drain; `turns`: of the leg so far. Raises LostClaim."""
        wish = self._wish(policy)
        now = self.leg.drain_reason
        if wish and not now:
            self._write([LegState.RUNNING], LegState.DRAINING, wish, turns)
        elif now in (*PEOPLE, "shutdown") and self._envelope_spent(policy):
            # whoever asked for the drain, a spent envelope ends it after `drain_turns`
            self._write([], "", "envelope", turns)
        elif not wish and now in PEOPLE:
            self._write([LegState.DRAINING], LegState.RUNNING, "", 0)

    def at_ceiling(self, turns: int) -> None:
        """No further model call passes, and tools still run: the leg drains until they have ended."""
        if not self.leg.drain_reason:
            self._write([LegState.RUNNING], LegState.DRAINING, "ceiling", turns)

    def over(self, policy: Policy, turns: int) -> bool:
        """A spent envelope has used its last turns: no further model call passes."""
        return self.leg.drain_reason == "envelope" and turns - self.leg.drain_turn >= policy.drain_turns

    def _wish(self, policy: Policy) -> str:
        if self.relay.stop:
            return "stop"
        if self.relay.parks_now:
            return "park"
        if self._envelope_spent(policy):
            return "envelope"
        return "shutdown" if self.shutdown else ""

    def _envelope_spent(self, policy: Policy) -> bool:
        spent = self.relay.spent
        unknown = budget.spend_unknown(policy.envelope, spent) and budgets.SPEND_UNKNOWN not in self.relay.warned_axes
        return bool(budget.drains(policy.envelope, spent)) or unknown

    def _write(self, frm: list[str], to: str, reason: str, turns: int) -> None:
        with transaction.atomic():
            self.claim.hold()
            if to:
                change_leg(self.leg.pk, to, frm=frm, drain_reason=reason, drain_turn=turns)
            else:
                Leg.objects.filter(pk=self.leg.pk, state=LegState.DRAINING).update(
                    drain_reason=reason, drain_turn=turns
                )
            bump(topic(self.relay.pk), RELAYS)
        self.leg.refresh_from_db()

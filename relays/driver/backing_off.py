"""A leg in back-off: the relay waits and says until when, no running time is debited, and the same leg comes back.

states.md, Leg: "running | … `backoff`: overload, network"; Relay: "running | `waiting`: … the leg in back-off" and
"waiting | `running`: the leg's back-off is over".
"""

import time
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from relays.core import backoff
from relays.core.legview import LegView
from relays.core.policy import Policy
from relays.driver import starts
from relays.driver.changes import RELAYS, bump, change_leg, change_relay, topic
from relays.driver.claim import Claim
from relays.driver.ending import charge_wall
from relays.models import Leg, LegState, Relay, RelayStatus


class BackOff:
    """Keeps leg and relay in step with what the agent says of its tries."""

    def __init__(self, relay: Relay, leg: Leg, claim: Claim, view: LegView) -> None:
        self.relay, self.leg, self.claim, self.view = relay, leg, claim, view
        self.since: float | None = None  # since when the model does not answer, by the clock that only goes forward
        self.tries = 0  # of which the relay's line tells
        self.due = 0.0  # when the agent said that it tries again

    @property
    def patient_until(self) -> float:
        """Until then an agent is not silent: it said that it tries again only later."""
        return self.due if self.view.trouble else 0.0

    def heard(self) -> None:
        """After each event that was taken. Raises LostClaim."""
        if not self.view.trouble:
            self.since = None
            if self.leg.state == LegState.BACKOFF:
                self._over()
            return
        if self.view.tries == self.tries and self.since is not None:
            return
        self.due = time.monotonic() + self._step().total_seconds()
        if self.since is None:
            self.since = time.monotonic()
            if self.leg.state == LegState.RUNNING and backoff.passes(self.view.trouble):
                self._begin()
        self.tries = self.view.tries

    def taken_over(self) -> None:
        """Another supervisor's agent went on in its back-off: the patience with it began when the relay's wait did."""
        if self.view.trouble:
            waits = self.relay.status == RelayStatus.WAITING
            gone = timezone.now() - self.relay.status_at if waits else timedelta(0)
            self.since = time.monotonic() - max(gone.total_seconds(), 0.0)
            self.due, self.tries = time.monotonic() + self._step().total_seconds(), self.view.tries

    def tick(self) -> None:
        """The relay's line and its `next_at` follow the tries, however many came since the last look."""
        if self.leg.state != LegState.BACKOFF or self.since is None:
            return
        now, due = timezone.now(), self._due()
        why = backoff.why(self.view.trouble, self.view.tries)
        if self.relay.next_at is not None and now < self.relay.next_at and why == self.relay.status_why:
            return
        with transaction.atomic():
            self.claim.hold(now)
            Relay.objects.filter(pk=self.relay.pk, status=RelayStatus.WAITING).update(
                status_why=why, next_at=backoff.look_at(now, due)
            )
            bump(topic(self.relay.pk), RELAYS)
        self.relay.refresh_from_db()

    def retries_over(self, policy: Policy) -> bool:
        """The model has not answered for longer than what does not answer is waited for."""
        if self.since is None or not backoff.passes(self.view.trouble):
            return False
        return backoff.retries_over(timedelta(seconds=time.monotonic() - self.since), policy.unknown_patience)

    def _begin(self) -> None:
        now = timezone.now()
        with transaction.atomic():
            self.claim.hold(now)
            if not change_leg(self.leg.pk, LegState.BACKOFF, frm=[LegState.RUNNING]):
                return
            # "pauses and waiting excluded": what ran until now is debited, what it waits is not
            charge_wall(self.relay.pk, self.leg.pk, now, self.leg.charged_until)
            change_relay(
                self.relay.pk,
                RelayStatus.WAITING,
                frm=[RelayStatus.RUNNING],
                now=now,
                why=backoff.why(self.view.trouble, self.view.tries),
                next_at=backoff.look_at(now, self._due()),
            )
            bump(topic(self.relay.pk), RELAYS)
        self._read()

    def _over(self) -> None:
        with transaction.atomic():
            self.claim.hold()
            change_leg(self.leg.pk, LegState.RUNNING, frm=[LegState.BACKOFF])
            starts.runs_again(self.relay.pk, self.leg.pk, timezone.now())
            bump(topic(self.relay.pk), RELAYS)
        self._read()

    def _read(self) -> None:
        self.leg.refresh_from_db()
        self.relay.refresh_from_db()

    def _step(self) -> timedelta:
        said = self.view.retry_in_ms
        return backoff.step(self.view.tries, None if said is None else timedelta(milliseconds=said))

    def _due(self) -> datetime:
        return timezone.now() + timedelta(seconds=self.due - time.monotonic())

"""rules.md, Reset transaction: the page and the readout show the digest of what the leg really began with.

Between a rotation and the next leg's start a decision, a rebuilt cursor or a watch that wakes may write another baton.
"""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from relays.core import baton as batons
from relays.core import reset
from relays.core.baton import Cursor, TombstoneRecord
from relays.core.objective import make_pin
from relays.driver import rebaton, successor
from relays.models import Baton, Leg, Relay, ResetTransaction
from relays.reports import legs, seed, status
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db

SHA = "a" * 40
NOON = timezone.now().replace(microsecond=0) - timedelta(hours=3)


def at(minutes: int) -> datetime:
    return NOON + timedelta(minutes=minutes)


@pytest.fixture
def relay() -> Relay:
    pin = make_pin("pin-1", "Work through every part of it.")
    return make_relay(pin_id=pin.pin_id, objective=pin.text, objective_digest=pin.digest)


@pytest.fixture
def rotation(relay: Relay) -> ResetTransaction:
    """Leg 0 rotated at noon; leg 1 is pending."""
    old = make_leg(relay, 0, reason="RELAY_ROTATED")
    handed = batons.Baton(
        relay_id=relay.pk, leg=0, parent_trace=old.trace, objective=relay.pin, done_when=relay.done_when,
        cursor=Cursor(start_sha=SHA, held_region=tuple(relay.region)), next_action="Go on.", open_questions=(),
        artifacts=(), do_not_rederive=(), tombstone=TombstoneRecord("RELAY_ROTATED", SHA),
    )  # fmt: skip
    leg = successor.make(relay, old, rebaton.store(relay, old, handed, "rotation", at(0)), at(0))
    return ResetTransaction.objects.get(new_leg=leg)


def current(relay: Relay) -> Baton:
    return Baton.objects.select_related("leg", "relay").get(relay=relay, current=True)


def digest_of(row: Baton) -> str:
    return reset.seed(reset.PREAMBLE, row.relay.pin, row.text.encode()).digest


def size_of(row: Baton) -> int:
    return len(reset.seed(reset.PREAMBLE, row.relay.pin, row.text.encode()).bytes)


def shown(relay: Relay) -> str:
    """The digest of the readout; the leg page shows the same."""
    line = status.status(relay.pk)["readout"]["reset"]
    found = legs.leg_page(relay, 1, timezone.now())
    assert found is not None and found.seed is not None
    assert f" seed_digest={found.seed.digest} " in line
    return found.seed.digest


def test_what_was_handed_over_is_what_the_leg_began_with(relay: Relay, rotation: ResetTransaction) -> None:
    assert seed.of(rotation) == seed.Seeded(rotation.seed_digest, "", size_of(current(relay)))
    assert shown(relay) == rotation.seed_digest == digest_of(current(relay))


def test_a_baton_that_was_written_before_the_start_is_the_seed(relay: Relay, rotation: ResetTransaction) -> None:
    rebaton.after_idle(relay, current(relay), "Restore the invariant in done_when.", at(5))
    woken = current(relay)
    assert seed.of(rotation) == seed.Seeded(digest_of(woken), "a watch that woke", size_of(woken))
    change = rebaton.Mirror(7, {"next_action": "Look at the stub."})
    rebaton.after_decision(relay, woken, mirrors=[change], next_action="Look at the stub.", answers={}, now=at(10))
    decided = current(relay)
    assert seed.of(rotation) == seed.Seeded(digest_of(decided), "a decision", size_of(decided))
    rebaton.after_stale(relay, decided, cursor="b" * 40, verified_paths=frozenset(), now=at(15))
    rebuilt = current(relay)
    assert seed.of(rotation) == seed.Seeded(digest_of(rebuilt), "a rebuilt cursor", size_of(rebuilt))
    assert len({rotation.seed_digest, digest_of(woken), digest_of(decided), digest_of(rebuilt)}) == 4
    assert shown(relay) == digest_of(rebuilt)


def test_what_is_written_after_the_start_changes_nothing(relay: Relay, rotation: ResetTransaction) -> None:
    Leg.objects.filter(pk=rotation.new_leg_id).update(started_at=at(7), state="running")
    rebaton.after_idle(relay, current(relay), "Go on with the next part.", at(5))
    began = digest_of(current(relay))
    rebaton.after_idle(relay, current(relay), "Do something else.", at(10))
    assert shown(relay) == began not in (rotation.seed_digest, digest_of(current(relay)))


def test_a_baton_that_does_not_read_proves_no_seed(relay: Relay, rotation: ResetTransaction) -> None:
    old = rotation.old_leg
    Baton.objects.filter(relay=relay).update(current=False)
    Baton.objects.create(
        relay=relay, leg=old, text="{}", digest="0" * 64, pin_digest="", size=2, current=True, why="decision", at=at(5)
    )
    assert seed.of(rotation) is None
    assert status.status(relay.pk)["readout"]["reset"] == "not yet"
    found = legs.leg_page(relay, 1, timezone.now())
    assert found is not None and found.reset is not None and found.seed is None

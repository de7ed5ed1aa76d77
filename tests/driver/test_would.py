"""rules.md, Advisory before enforcement: would-be batons are judged "at the following leg"; a reload stays as cheap as
before, however many legs were watched."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.utils import timezone

from relays.core import baton as batons
from relays.core.baton import Artifact, Cursor, TombstoneRecord
from relays.core.objective import make_pin
from relays.core.pointers import Answer, Kind, Verdict
from relays.driver import would
from relays.driver.claim import Claim
from relays.models import Boundary, WouldBe
from relays.stores.bundle import Stores
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db

SHA = "a" * 40
HELD = cast(Claim, SimpleNamespace(hold=lambda now=None: None))


def test_a_reload_judges_the_ends_of_the_legs_before_it_and_reads_no_history() -> None:
    pin = make_pin("pin-1", "Work through every part of it.")
    relay = make_relay(pin_id=pin.pin_id, objective=pin.text, objective_digest=pin.digest, mode="shadow")
    text = batons.canonical(
        batons.Baton(
            relay_id=relay.pk, leg=0, parent_trace="tr-0", objective=relay.pin, done_when=relay.done_when,
            cursor=Cursor(start_sha=SHA, held_region=("**",)), next_action="Go on.", open_questions=(),
            artifacts=(Artifact(Kind.ISSUE, "#1"),), do_not_rederive=(),
            tombstone=TombstoneRecord("RELAY_ROTATED", SHA),
        )
    ).decode()  # fmt: skip
    now, legs = timezone.now(), would.REACH + 5
    for number in range(legs):
        leg = make_leg(relay, number, reason="RELAY_ROTATED")
        at = Boundary.objects.create(leg=leg, number=0, seq=1, turn=1, at=now, resident_tokens=1, answer="go")
        WouldBe.objects.create(leg=leg, boundary=at, reason="RELAY_ROTATED", text=text, digest="0" * 64, at=now)
    make_leg(relay, legs, state="pending")
    asked: list[int] = []

    def resolve(pointers: Any) -> dict[Any, Answer]:
        found = {one: Answer(Verdict.VERIFIED, "there") for one in pointers}
        asked.append(len(found))
        return found

    stores = cast(Stores, SimpleNamespace(resolve=resolve))
    assert would.judge(relay, stores, HELD, now) == would.REACH
    assert asked == [2], "one batch, each pointer once"
    judged = WouldBe.objects.filter(judged_at__isnull=False).order_by("leg__number")
    assert list(judged.values_list("leg__number", flat=True)) == list(range(5, legs))
    assert would.judge(relay, stores, HELD, now) == 0

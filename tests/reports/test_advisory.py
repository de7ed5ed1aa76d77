"""rules.md, Advisory before enforcement: the score of a watched relay as status, page and a person read it."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from relays.models import Boundary, Leg, Relay, WouldBe
from relays.reports import advisory, status
from relays.reports.advisory import Act
from tests.reading import marked
from tests.web_builders import make_leg, make_relay, make_user

pytestmark = pytest.mark.django_db

RIGHT, WRONG, OPEN, UNKNOWN = (9, 0, 0), (8, 1, 0), (None, None, None), (8, 0, 1)


def watched(relay: Relay, number: int, *, reason: str = "RELAY_ROTATED", **values: Any) -> Leg:
    """A leg that closed as advice; it runs where `reason` is ""."""
    return make_leg(relay, number, reason=reason, advisory=bool(reason), **values)


def would(
    leg: Leg, counts: tuple[int | None, ...] = OPEN, *, reason: str = "RELAY_ROTATED", hold: str = "", text: str = ""
) -> WouldBe:
    number = Boundary.objects.filter(leg=leg).count()
    now = timezone.now()
    boundary = Boundary.objects.create(
        leg=leg, number=number, seq=number + 1, turn=number + 5, at=now, resident_tokens=130_000, armed=True, hold=hold,
        answer="go",
    )  # fmt: skip
    verified, dangling, unknown = counts
    return WouldBe.objects.create(
        leg=leg, boundary=boundary, reason=reason, hold=hold, cause="ceiling" if hold else "", text=text,
        digest="d" * 64 if text else "", verified=verified, dangling=dangling, unknown=unknown,
        judged_at=None if verified is None else now + timedelta(minutes=5), at=now,
    )  # fmt: skip


def test_twelve_right_one_wrong_one_not_yet() -> None:
    relay = make_relay(mode="shadow")
    leg = watched(relay, 0, reason="")
    for counts in [RIGHT] * 12 + [WRONG, OPEN]:
        would(leg, counts)
    found = advisory.advice(relay)
    assert found is not None
    assert found.said == "would have rotated 14 times: 12 right, 1 wrong, 1 not yet"
    assert found.score[Act.DONE].text == "not yet", "never a part of nothing"
    assert [line.outcome for line in found.newest[:3]] == ["not yet", "wrong", "right"]
    assert [line.pointers for line in found.newest[:3]] == ["", "8/9", "9/9"]


def test_the_end_of_a_leg_that_closed_as_advice_is_scored_by_its_own_baton() -> None:
    relay = make_relay(mode="shadow")
    for number, (reason, counts) in enumerate(
        [("RELAY_ROTATED", RIGHT), ("RELAY_ROTATED", WRONG), ("RELAY_ROTATED", UNKNOWN), ("RELAY_GOAL_DONE", RIGHT)]
    ):
        verified, dangling, unknown = counts
        watched(
            relay, number, reason=reason, fidelity_verified=verified, fidelity_dangling=dangling,
            fidelity_unknown=unknown,
        )  # fmt: skip
    watched(relay, 4, reason="RELAY_PARKED_UNSAFE")
    found = advisory.as_mapping(advisory.advice(relay))
    assert found is not None
    assert found["rotated"] == {"times": 3, "right": 1, "wrong": 1, "not_yet": 1}
    assert found["done"] == {"times": 1, "right": 1, "wrong": 0, "not_yet": 0}
    assert found["asked"]["times"] == 0, "that it ended without a safe point is a fact, and no forecast"
    assert found["said"].startswith("would have rotated 3 times: 1 right, 1 wrong, 1 not yet; would have ended as done")


def test_asking_a_person_is_scored_by_what_became_of_the_leg() -> None:
    relay = make_relay(mode="advise")
    unsafe = {"reason": "RELAY_PARKED_UNSAFE", "hold": "TREE_DIRTY_UNPARKED"}
    came_free = watched(relay, 0, reason="RELAY_PARKED_UNSAFE")
    would(came_free, **unsafe)
    would(came_free, RIGHT)
    stood = watched(relay, 1, reason="RELAY_PARKED_UNSAFE")
    would(stood, RIGHT)
    would(stood, **unsafe)
    empty = watched(relay, 2, reason="RELAY_NO_PROGRESS", progress=0)
    would(empty, reason="RELAY_NO_PROGRESS")
    runs = watched(relay, 3, reason="")
    would(runs, **unsafe)
    found = advisory.as_mapping(advisory.advice(relay))
    assert found is not None and found["asked"] == {"times": 4, "right": 2, "wrong": 1, "not_yet": 1}
    assert found["holds"] == {"TREE_DIRTY_UNPARKED": 3}


def test_a_relay_that_was_never_only_watched_has_no_score() -> None:
    relay = make_relay()
    make_leg(relay, 0, reason="RELAY_ROTATED")
    assert advisory.advice(relay) is None
    assert status.status(relay.pk)["advisory"] is None
    fresh = make_relay(mode="shadow")
    said = status.status(fresh.pk)["advisory"]
    assert (said["said"], said["legs"], said["holds"]) == ("not yet", 0, {})


def test_what_enforce_did_before_and_after_is_not_in_it() -> None:
    relay = make_relay(mode="shadow")
    make_leg(relay, 0, reason="RELAY_ROTATED", armed=True)
    watched(relay, 1, armed=True)
    found = advisory.advice(relay)
    assert found is not None and (found.legs, found.armed) == (1, 1)


def test_the_number_of_queries_does_not_grow(django_assert_max_num_queries: Any) -> None:
    relay = make_relay(mode="advise")
    for number in range(6):
        leg = watched(relay, number, reason="RELAY_ROTATED" if number < 5 else "")
        for _ in range(4):
            would(leg, RIGHT)
    with django_assert_max_num_queries(5):
        assert advisory.advice(relay) is not None


def test_the_page_shows_the_score_and_agent_text_as_text(client: Client) -> None:
    relay = make_relay(mode="advise")
    leg = watched(relay, 0, reason="")
    hostile = json.dumps({"next_action": "<script>alert(1)</script>"})
    would(leg, WRONG, text=hostile)
    Boundary.objects.create(
        leg=leg, number=9, seq=99, turn=40, at=timezone.now(), resident_tokens=1, answer="wind_down TREE_DIRTY_UNPARKED"
    )
    client.force_login(make_user("", "reviewer"))
    page = marked(client.get(f"/relays/{relay.pk}/"))
    assert "Advice" in page and "once: 0 right, 1 wrong, 0 not yet" in page
    told = '<span class="name">now told</span><span class="mono">wind_down TREE_DIRTY_UNPARKED</span>'
    assert told in page, "the page is told what the agent is told"
    assert "<script>alert(1)" not in page and "&lt;script&gt;alert(1)" in page
    Relay.objects.filter(pk=relay.pk).update(mode="shadow")
    assert "now told" not in marked(client.get(f"/relays/{relay.pk}/"))
    plain = make_relay()
    assert 'aria-label="Advice"' not in marked(client.get(f"/relays/{plain.pk}/"))

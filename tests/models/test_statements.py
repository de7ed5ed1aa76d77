"""What is said at every boundary writes and reads what the ORM would, on either database, in as few statements."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.db.models import F

from relays.models import Boundary, Call, Event, Leg, Relay, statements
from relays.models.statements import Followed
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db
AT = datetime(2026, 11, 3, 10, 14, 3, 123456, tzinfo=UTC)
CALL: dict[str, Any] = {"turn": 1, "model": "m", "input_tokens": 5, "at": AT, "cost": Decimal("0.0000000123")}


@pytest.fixture
def leg() -> Leg:
    return make_leg(make_relay(), 0)


def values(model: type[Any]) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k != "id"} for row in model.objects.order_by("pk").values()]


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        (Event, {"seq": 7, "kind": "fact", "payload": {"label": "é\u2028<&>", "n": [1, None, 2.5]}, "at": AT}),
        (Call, {**CALL, "key": "one"}),
        (Call, {**CALL, "key": "two", "cost": None, "main": False}),
        (Boundary, {"number": 0, "seq": 3, "at": AT, "turn": 2, "resident_tokens": 9, "axes": {"context": [0.5, 1]}}),
    ],
)
def test_a_row_is_inserted_as_the_orm_inserts_it(leg: Leg, model: type[Any], columns: dict[str, Any]) -> None:
    model.objects.create(leg=leg, **columns)
    (wanted,) = values(model)
    model.objects.all().delete()
    statements.insert([model(leg_id=leg.pk, **columns)])
    assert values(model) == [wanted]


def test_many_rows_are_inserted_and_those_that_are_there_stay(leg: Leg) -> None:
    Event.objects.create(leg=leg, seq=1, kind="first", payload={}, at=AT)
    rows = [Event(leg_id=leg.pk, seq=seq, kind="again", payload={"seq": seq}, at=AT) for seq in (0, 1, 2)]
    statements.insert(rows)
    statements.insert(rows)
    statements.insert([])
    assert list(Event.objects.values_list("seq", "kind")) == [(0, "again"), (1, "first"), (2, "again")]


def test_a_call_that_grew_is_overwritten(leg: Leg) -> None:
    statements.insert([Call(leg_id=leg.pk, key=key, **CALL) for key in ("a", "b")], else_update="key")
    statements.insert([Call(leg_id=leg.pk, key="a", **{**CALL, "input_tokens": 9, "cost": None})], else_update="key")
    assert list(Call.objects.order_by("key").values_list("key", "input_tokens", "cost")) == [
        ("a", 9, None),
        ("b", 5, Decimal("0.0000000123")),
    ]


def test_a_row_is_changed_as_the_orm_changes_it(leg: Leg) -> None:
    other = make_leg(make_relay(), 0)
    to: dict[str, Any] = {"fullness": {"3": [1, 0]}, "model": "m", "scripted": True, "last_event_at": AT}
    add: dict[str, Any] = {"turns": 3, "spend": Decimal("0.0000000123"), "calls": -1}
    for row in (leg, other):
        Leg.objects.filter(pk=row.pk).update(calls=5, spend=Decimal("1.1"), model="before")
    for _ in range(3):
        Leg.objects.filter(pk=leg.pk).update(**to, **{name: F(name) + value for name, value in add.items()})
        assert statements.change(Leg, other.pk, to, add) == 1
    columns = [*to, *add]
    found = Leg.objects.values(*columns)
    assert found.get(pk=other.pk) == found.get(pk=leg.pk)
    assert statements.change(Leg, 0, to, add) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"status": "waiting", "status_why": "x"},
        {"policy": {"leg": {"turns": 3}}, "region": ["a/**"]},
        {"spend_used": Decimal("3.1400000001"), "wall_used": timedelta(seconds=1.5), "turns_used": 7},
        {"next_at": AT, "watch": True, "warned_axes": ["spend"]},
        {},
    ],
)
def test_a_followed_row_is_read_as_the_orm_reads_it(
    change: dict[str, Any], django_assert_num_queries: Callable[[int], Any]
) -> None:
    made = make_relay()
    followed = Followed(Relay.objects.get(pk=made.pk))
    followed.refresh()
    if change:
        Relay.objects.filter(pk=made.pk).update(**change)
    followed.row.objective = "set here, and written nowhere"  # type: ignore[attr-defined]
    with django_assert_num_queries(1):
        followed.refresh()
    wanted = Relay.objects.get(pk=made.pk)
    for field in Relay._meta.concrete_fields:
        is_, was = getattr(followed.row, field.attname), getattr(wanted, field.attname)
        assert (type(is_), is_) == (type(was), was), field.attname


def test_only_what_changed_is_converted_anew() -> None:
    made = make_relay()
    followed = Followed(made)
    followed.refresh()
    policy = made.policy
    Relay.objects.filter(pk=made.pk).update(turns_used=9)
    followed.refresh()
    assert made.turns_used == 9 and made.policy is policy


def test_a_row_that_is_gone_is_said_to_be(leg: Leg) -> None:
    followed = Followed(leg)
    followed.refresh()
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM relays_leg WHERE id = %s", [leg.pk])
    with pytest.raises(Leg.DoesNotExist):
        followed.refresh()

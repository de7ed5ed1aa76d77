"""rules.md, Budgets never reset by accident, over a change of host; Policy is data: what a repository may not set."""

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core import policy, travel
from relays.core.budget import Spent

SHA = "a" * 40


def record(**values: Any) -> travel.Record:
    return travel.read(text(**values))


def text(**values: Any) -> bytes:
    whole = {
        "form": travel.FORM,
        "relay": "RLY-1",
        "status": "parked",
        "branch": "relay/RLY-1",
        "start_sha": SHA,
        "agent": "scripted",
        **values,
    }
    return json.dumps(whole).encode()


def taken(limits: dict[str, Any], *, site: Any = (), repository: Any = None, sets: Any = ()) -> Any:
    return travel.build_policy(dict(site), repository, record(policy=limits), {}, sets)


def test_it_reads_back_what_it_wrote_and_the_same_is_always_the_same() -> None:
    one = record(spent={"turns": 3, "spend": "1.25", "wall": 60.5, "legs": 2}, gates=[{"token": "BUDGET_EXHAUSTED"}])
    assert travel.read(travel.write(one)) == one
    assert travel.write(travel.read(travel.write(one))) == travel.write(one)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        text(form="relaysite.travel.v2"),
        text(status="flying"),
        text(start_sha="HEAD"),
        text(start_sha=SHA + "\n"),
        text(agent="a\x1b[31m"),
        text(branch="x" * 251),
        text(agent_args={"argv": ["sh"]}),
        text(spent={"turns": -1}),
        text(spent={"turns": 1.5}),
        text(spent={"turns": True}),
        text(spent={"turns": 10**16}),
        text(spent={"spend": "-1"}),
        text(spent={"spend": "1e9"}),
        text(spent={"spend": "NaN"}),
        text(spent={"wall": float("nan")}),
        text(spent={"wall": -1.0}),
        text(spent={"legs": 2**31}),
        text(gates=[{"token": "x"}] * 17),
        text(watch="yes"),
        text(relay="x" * 501),
        text(policy="none"),
        b" " * (travel.LARGEST + 1),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(raw: bytes) -> None:
    with pytest.raises(travel.TravelError) as refusal:
        travel.read(raw)
    assert "\n" not in str(refusal.value) and str(refusal.value).isprintable()


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_bytes_break_the_reader(raw: bytes) -> None:
    with pytest.raises(travel.TravelError):
        travel.read(raw)


def test_a_kind_of_gate_that_is_not_known_asks_nothing() -> None:
    found = record(gates=[{"token": "BUDGET_EXHAUSTED", "items": ["turns"]}, {"token": "MADE_UP"}])
    assert [gate.token for gate in found.asks] == ["BUDGET_EXHAUSTED"]


@pytest.mark.parametrize("status", ["ready", "running", "waiting", "idle"])
def test_who_would_go_on_without_a_person(status: str) -> None:
    assert record(status=status).goes_on_by_itself and not record(status=status).ended
    assert not record(status="parked").goes_on_by_itself
    assert record(status="done").ended and record(status="stopped").ended


def test_what_was_spent_stays_spent_and_legs_are_never_fewer_than_the_batons_prove() -> None:
    spent = {"turns": 7, "output_tokens": 9, "spend": "1.5", "unpriced_calls": 2, "wall": 90.5, "legs": 1, "queries": 3}
    assert travel.spent(record(spent=spent), 4) == Spent(
        turns=7,
        output_tokens=9,
        spend=Decimal("1.5"),
        unpriced_calls=2,
        wall=timedelta(seconds=90.5),
        legs=5,
        queries=3,
    )
    assert travel.spent(record(spent={**spent, "legs": 9}), 4).legs == 9
    assert travel.spent(record(), 0).legs == 1


def test_the_limits_of_the_start_go_with_the_relay() -> None:
    here = policy.to_snapshot(policy.build({}, None, {}, ["envelope.turns=50", "envelope.wall=2h", "leg.turns=12"]))
    built, left_out = taken(here)
    assert (built.envelope.turns, built.envelope.wall, built.leg.turns) == (50, timedelta(hours=2), 12)
    assert left_out == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rotations_per_hour", 60),
        ("rotations_per_hour", 0),
        ("no_progress_legs", 0),
        ("ceiling", 1.0),
        ("min_progress", 0),
        ("tool_limit", "2 h"),
        ("drain_turns", 99),
        ("host_patience", "9 h"),
        ("done_check_every", "9 h"),
        ("nonsense", 1),
        ("ceiling", "much"),
        ("envelope.turns", -4),
        ("envelope.nonsense", 4),
        ("mode", "anarchy"),
        ("mode", "shadow"),
        ("mode", "advise"),
        ("mode", ["enforce"]),
        ("memory_root", "/etc"),
        ("memory_root", "../.."),
    ],
)
def test_what_would_loosen_or_is_not_understood_stays_out_and_is_named(key: str, value: object) -> None:
    group, dot, name = key.partition(".")
    built, left_out = taken({group: {name: value}} if dot else {key: value})
    assert built == policy.build({}, None, {})
    assert left_out == (key,)


@pytest.mark.parametrize(
    "hostile",
    [
        {"green": "touch /tmp/canary"},
        {"four_eyes": False},
        {"approvals": 0},
        {"resume": "by_nobody"},
        {"workspace": "in_place"},
        {"gate_expiry": "1s"},
    ],
)
def test_commands_and_approvals_never_come_from_a_repository(hostile: dict[str, Any]) -> None:
    built, left_out = taken(hostile)
    assert built == policy.build({}, None, {})
    assert left_out == (("green",) if "green" in hostile else ())


def test_hostile_keys_are_neither_shown_nor_kept() -> None:
    hostile = {"\x1b[31m": 1, "\ud800": 1, "a\0b": 1, "x" * 5000: 1, **{f"key{n}": 1 for n in range(5000)}}
    built, left_out = taken(hostile)
    assert built == policy.build({}, None, {})
    assert len(left_out) == travel.SHOWN + 1 and left_out[0] == "a key that is none"
    assert all(key.isprintable() and len(key) < 80 for key in left_out)


@given(
    st.dictionaries(st.text(max_size=20), st.none() | st.integers() | st.text(max_size=20) | st.booleans(), max_size=5)
)
def test_no_policy_of_a_record_breaks_the_house(limits: dict[str, Any]) -> None:
    built, left_out = travel.build_policy({}, None, record().model_copy(update={"policy": limits}), {}, ())
    assert built.four_eyes and built.approvals == 1 and built.green == ""
    assert all(key.isprintable() for key in left_out)


def test_the_house_and_its_people_have_the_last_word() -> None:
    limits = {"envelope": {"turns": 50, "legs": 9}, "leg": {"turns": 12}}
    built, _ = taken(limits, site={"envelope": {"turns": 10}})
    assert (built.envelope.turns, built.envelope.legs) == (10, 9), "the lower of two limits"
    built, left_out = taken(limits, site={"envelope": {"turns": 10}}, sets=["envelope.turns=70", "leg.turns=40"])
    assert (built.envelope.turns, built.leg.turns) == (70, 40)
    assert left_out == ("envelope.turns",)
    started, _ = travel.build_policy({}, None, record(policy=limits), {"envelope": {"turns": 5}}, ())
    assert (started.envelope.turns, started.envelope.legs) == (5, 9)
    with pytest.raises(policy.PolicyError):
        taken(limits, sets=["nonsense=1"])


def test_a_record_may_bring_enforcement_and_never_switch_it_off() -> None:
    assert taken({"mode": "enforce"}, site={"mode": "shadow"})[0].mode == "enforce"
    assert taken({"mode": "advise"}, site={"mode": "shadow"})[0].mode == "advise"
    assert taken({"mode": "shadow"}, site={"mode": "advise"}) == (policy.build({"mode": "advise"}, None, {}), ("mode",))
    started, _ = travel.build_policy({}, None, record(policy={"mode": "shadow"}), {"mode": "shadow"}, ())
    assert started.mode == "shadow", "a person may say so"


def test_the_repositorys_own_table_still_tightens() -> None:
    built, _ = taken({"leg": {"turns": 12}}, repository={"leg": {"turns": 8}})
    assert built.leg.turns == 8
    built, _ = taken({"leg": {"turns": 5}}, repository={"leg": {"turns": 8}})
    assert built.leg.turns == 5


def test_without_a_record_the_house_decides() -> None:
    built, left_out = travel.build_policy({"envelope": {"legs": 4}}, None, None, {}, ["leg.turns=9"])
    assert (built.envelope.legs, built.leg.turns, left_out) == (4, 9, ())

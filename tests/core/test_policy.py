"""Policy as data: keys, values, layers, tightening, snapshot."""

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.policy import (
    KEYS,
    Policy,
    PolicyError,
    build,
    check_goal,
    from_snapshot,
    parse_set,
    to_snapshot,
    value_of,
    window_for,
    with_sets,
)
from relays.core.policyfile import parse_toml_relay_table
from relays.core.vocabulary import Mode


def refusal(
    site: dict[str, Any] | None = None,
    repository: dict[str, Any] | None = None,
    start: dict[str, Any] | None = None,
    sets: tuple[str, ...] = (),
) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        build(site or {}, repository, start or {}, sets)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()
    return caught.value


def test_defaults_are_those_of_the_rules() -> None:
    policy = build({}, None, {})
    assert (policy.mark.context, policy.mark.turns, policy.ceiling) == (0.60, 0.80, 0.90)
    assert (policy.mark.wall, policy.mark.spend, policy.mark.output_tokens) == (0.80, 0.80, 0.80)
    assert policy.mark.context_tokens is None
    assert policy.tool_limit == timedelta(minutes=15)
    assert (policy.min_progress, policy.no_progress_legs, policy.rotations_per_hour) == (1, 3, 6)
    assert (policy.drain_turns, policy.silence_limit) == (3, timedelta(minutes=10))
    assert policy.host_patience == timedelta(minutes=10)
    assert (policy.done_check_every, policy.unknown_patience) == (timedelta(seconds=60), timedelta(minutes=30))
    assert (policy.memory_root, policy.on_crash, policy.green) == (".relay/memory", "continue", "")
    assert (policy.workspace, policy.approvals, policy.four_eyes) == ("worktree", 1, True)
    assert (policy.resume, policy.gate_expiry, policy.mode) == ("on_approve", None, Mode.ENFORCE)
    assert policy.retention == timedelta(days=30)
    assert policy.baton.total == 16 * 1024
    unset = [key for key in KEYS if key.startswith(("leg.", "envelope."))] + ["window_tokens", "every"]
    assert all(value_of(policy, key) is None for key in unset)


def test_the_later_layer_wins() -> None:
    site = {"leg": {"turns": 50}, "min_progress": 2, "ceiling": 0.8}
    repository = {"leg": {"turns": 40}, "ceiling": 0.7}
    start = {"leg": {"turns": 60}}
    policy = build(site, repository, start, ["ceiling=0.95"])
    assert (policy.leg.turns, policy.min_progress, policy.ceiling) == (60, 2, 0.95)


def test_none_unsets_a_limit() -> None:
    assert build({"leg": {"turns": 50}}, None, {}, ["leg.turns=none"]).leg.turns is None
    assert build({"leg": {"turns": 50}}, None, {"leg": {"turns": None}}).leg.turns is None


def test_dotted_keys_are_keys_too() -> None:
    assert (
        build({}, None, {"leg.turns": 5, "leg": {"spend": "2"}}).leg
        == build({}, None, {}, ["leg.turns=5", "leg.spend=2"]).leg
    )


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ({"colour": 1}, "colour"),
        ({"leg": {"trns": 4}}, "leg.trns"),
        ({"envelope": {"money": 4}}, "envelope.money"),
        ({"baton": {"claimed": 4}}, "baton.claimed"),
        ({"mark": {"context": {"deep": 1}}}, "mark.context"),
        ({"colour": {"deep": 1}}, "colour"),
        ({"leg": 5}, "leg"),
        ({"baton": 5}, "baton"),
        ({"baseline": 5}, "baseline"),
        ({"": 5}, ""),
        ({"bad\nname": 5}, "bad name"),
    ],
)
def test_an_unknown_key_is_named(table: dict[str, Any], key: str) -> None:
    assert refusal(site=table).key == key
    assert refusal(start=table).key == key
    assert refusal(repository=table).key == key


def test_a_near_miss_is_suggested() -> None:
    assert "leg.turns" in refusal(sets=("leg.trns=4",)).why


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[(f"mark.{axis}", mark) for axis in ("context", "wall") for mark in (0, -0.1, 1.5, "nan", float("nan"), True)],
        ("ceiling", 0),
        ("ceiling", 1.01),
        ("ceiling", float("inf")),
        ("leg.turns", 0),
        ("leg.turns", -1),
        ("leg.turns", True),
        ("leg.turns", 4.0),
        ("leg.turns", "4.5"),
        ("leg.turns", "٤"),
        ("leg.turns", 10**30),
        ("leg.wall", "0s"),
        ("leg.wall", "fast"),
        ("leg.wall", "5 parsecs"),
        ("leg.wall", "1h x"),
        ("leg.wall", -5),
        ("leg.wall", 1e300),
        ("leg.wall", float("nan")),
        ("leg.wall", "99999999999d"),
        ("leg.wall", []),
        ("envelope.spend", "-1"),
        ("envelope.spend", "NaN"),
        ("envelope.spend", "1e9"),
        ("envelope.spend", float("inf")),
        ("envelope.spend", "1_000"),
        ("envelope.spend", "0.12345678901"),
        ("envelope.spend", True),
        ("envelope.legs", "-1"),
        ("tool_limit", 0),
        ("tool_limit", "none"),
        ("rotations_per_hour", -1),
        ("approvals", 0),
        ("four_eyes", "maybe"),
        ("four_eyes", 1),
        ("mode", "force"),
        ("on_crash", "explode"),
        ("workspace", "elsewhere"),
        ("resume", "always"),
        ("memory_root", "/etc"),
        ("memory_root", "a/../../b"),
        ("memory_root", "-x"),
        ("memory_root", ".git/x"),
        ("memory_root", "a\nb"),
        ("memory_root", ""),
        ("memory_root", "/"),
        ("green", "a\nb"),
        ("green", 5),
        ("baton.total", 0),
        ("baseline.trigger", True),
        ("baseline.trigger", float("nan")),
        ("baseline.trigger", 10**400),
        ("baseline.trigger", []),
        ("baseline.a b", 1),
    ],
)
def test_a_value_that_a_key_does_not_take_names_the_key(key: str, value: object) -> None:
    assert refusal(start={key: value}).key == key


@pytest.mark.parametrize("key", ["rotations_per_hour", "no_progress_legs", "min_progress", "drain_turns"])
def test_nought_is_legal_where_it_means_off(key: str) -> None:
    assert value_of(build({}, None, {key: 0}), key) == 0


@pytest.mark.parametrize("name", ["legs", "turns", "output_tokens", "queries", "spend", "wall"])
def test_an_envelope_of_nought_is_kept_and_is_not_none(name: str) -> None:
    value = value_of(build({}, None, {}, [f"envelope.{name}=0"]), f"envelope.{name}")
    assert value is not None
    assert not value


def test_one_is_a_legal_mark() -> None:
    assert build({}, None, {"mark": {"context": 1}, "ceiling": 1.0}).mark.context == 1.0


# --- texts from outside


def test_sets() -> None:
    assert parse_set("leg.turns=40") == ("leg.turns", "40")
    assert parse_set(" green = make test A=1 ") == ("green", "make test A=1")
    assert build({}, None, {}, ["green=make test A=1"]).green == "make test A=1"
    assert build({}, None, {}, ["four_eyes=false"]).four_eyes is False


@pytest.mark.parametrize("text", ["leg.turns", "=4", "", "  =  "])
def test_a_set_without_key_or_value_says_how_it_is_written(text: str) -> None:
    assert "key=value" in refusal(sets=(text,)).why


def test_toml() -> None:
    table = parse_toml_relay_table(
        '[relay]\nceiling = 0.8\n[relay.leg]\nspend = "2.5"\nwall = "20 min"\n[other]\nx = 1\n'
    )
    policy = build(table, None, {})
    assert (policy.ceiling, policy.leg.spend, policy.leg.wall) == (0.8, Decimal("2.5"), timedelta(minutes=20))
    assert parse_toml_relay_table("") == {}
    assert parse_toml_relay_table("[other]\nx = 1") == {}


@pytest.mark.parametrize(
    "text",
    [
        "relay = 5",
        "relay = [1]",
        "[relay",
        "[relay]\nx = 1\nx = 2",
        "[relay]\nx = \x00",
        "x = " + "[" * 5000,
        "x = " + "9" * 5000,
        "#" * 70_000,
    ],
)
def test_toml_that_is_refused_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_toml_relay_table(text)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


@given(st.text(max_size=60))
def test_any_text_is_a_table_or_a_refusal(text: str) -> None:
    try:
        build({}, parse_toml_relay_table("[relay]\n" + text), {}, [text])
    except PolicyError as error:
        assert str(error).isprintable()


# --- the snapshot

EVERYTHING: dict[str, Any] = {
    "leg": {"turns": 20, "wall": "20m", "spend": "2.00", "output_tokens": 2000},
    "mark": {"context_tokens": 100_000},
    "window_tokens": 150_000,
    "envelope": {"legs": 20, "spend": "25.10", "wall": "2h30m", "turns": 900, "output_tokens": 10**6, "queries": 0},
    "every": 90.5,
    "gate_expiry": "2 days",
    "green": "make check",
    "mode": "shadow",
    "four_eyes": False,
    "baton": {"artifacts": 64},
    "baseline": {"claude": {"trigger": 0.835}, "residue": "learned", "orientation": 20_000},
    "memory_root": "notes/memory/",
}


def test_the_snapshot_round_trips_exactly_through_json() -> None:
    policy = build(EVERYTHING, None, {})
    again = from_snapshot(json.loads(json.dumps(to_snapshot(policy))))
    assert again == policy
    assert to_snapshot(again) == to_snapshot(policy)
    assert str(again.envelope.spend) == "25.10"
    assert again.every == timedelta(seconds=90, milliseconds=500)
    assert again.baseline == {"claude.trigger": 0.835, "residue": "learned", "orientation": 20_000}
    assert again.memory_root == "notes/memory"


@given(
    st.decimals(0, 10**6, places=10),
    st.timedeltas(timedelta(microseconds=1), timedelta(days=3660)),
    st.floats(0, 1, exclude_min=True),
    st.integers(1, 10**15),
)
def test_no_amount_is_changed_by_its_snapshot(money: Decimal, wait: timedelta, mark: float, count: int) -> None:
    policy = build({}, None, {"envelope.spend": money, "every": wait, "ceiling": mark, "leg.turns": count})
    assert (policy.envelope.spend, policy.every, policy.ceiling, policy.leg.turns) == (money, wait, mark, count)
    assert from_snapshot(json.loads(json.dumps(to_snapshot(policy)))) == policy


def test_a_damaged_snapshot_is_refused_by_its_key() -> None:
    snapshot = to_snapshot(build({}, None, {}))
    for key, value in (("colour", 1), ("ceiling", 2), ("leg", None)):
        with pytest.raises(PolicyError) as caught:
            from_snapshot({**snapshot, key: value})
        assert caught.value.key == key
    with pytest.raises(PolicyError, match=r"envelope\.money"):
        from_snapshot({**snapshot, "envelope": {"money": 1}})


def test_a_policy_does_not_change_in_place() -> None:
    policy = build({}, None, {})
    with pytest.raises(ValueError, match="frozen"):
        policy.ceiling = 0.5


def test_a_decision_carries_a_new_limit() -> None:
    policy = build(EVERYTHING, None, {})
    changed = with_sets(policy, ["envelope.spend=50", "envelope.wall=none"])
    assert (changed.envelope.spend, changed.envelope.wall) == (Decimal(50), None)
    assert changed.baseline == policy.baseline
    assert with_sets(policy, []) == policy
    with pytest.raises(PolicyError, match="colour"):
        with_sets(policy, ["colour=1"])


# --- what rules ask of it


def test_window() -> None:
    assert window_for(Policy(), "any model") == 200_000
    assert window_for(build({}, None, {"window_tokens": 50_000}), "any model") == 50_000
    assert window_for(Policy(), "gemini-2.5-flash") == 1_048_576
    assert window_for(build({}, None, {"window_tokens": 50_000}), "gemini-2.5-flash") == 50_000


def test_prose_and_watch_need_an_envelope_limit() -> None:
    bare, limited = build({}, None, {}), build({}, None, {"envelope.legs": 0})
    for prose, watch in ((True, False), (False, True), (True, True)):
        with pytest.raises(PolicyError, match="envelope"):
            check_goal(bare, prose=prose, watch=watch, has_cmd=False)
        check_goal(limited, prose=prose, watch=watch, has_cmd=False)
    check_goal(bare, prose=False, watch=False, has_cmd=True)


def test_a_watch_with_a_command_says_how_often_it_looks() -> None:
    limited = build({}, None, {"envelope.legs": 5})
    with pytest.raises(PolicyError, match="every"):
        check_goal(limited, prose=False, watch=True, has_cmd=True)
    check_goal(with_sets(limited, ["every=10m"]), prose=False, watch=True, has_cmd=True)


@pytest.mark.parametrize(
    ("given_", "named"),
    [
        (["Bash", "mcp__*"], ("Bash", "mcp__*")),
        ("Bash, mcp__*,Bash", ("Bash", "mcp__*")),
        ([], ()),
        (["a b"], None),
        ("", ()),
        ("a,", None),
        (["x\n"], ("x",)),
        (["x\ny"], None),
        ([1], None),
        ({"a": 1}, None),
        (["a"] * 65, None),
        (["a" * 201], None),
        (["[ab]"], None),
    ],
)
def test_the_list_of_effectful_tools(given_: Any, named: tuple[str, ...] | None) -> None:
    if named is None:
        with pytest.raises(PolicyError) as refused:
            build({}, None, {"effectful_tools": given_})
        assert refused.value.key == "effectful_tools"
        return
    policy = build({}, None, {"effectful_tools": given_})
    assert policy.effectful_tools == named
    assert from_snapshot(to_snapshot(policy)) == policy

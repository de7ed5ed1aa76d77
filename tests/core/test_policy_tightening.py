"""A repository may only tighten: key by key, and whatever it says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.policy import KEYS, TIGHTER, PolicyError, Tighter, build, tighter, to_snapshot, value_of


def refusal(site: dict[str, Any], repository: dict[str, Any]) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        build(site, repository, {})
    assert str(caught.value).isprintable()
    return caught.value


LOOSER_AND_TIGHTER = {
    "window_tokens": (1_000_000, 100_000),
    "leg.turns": (21, 19),
    "leg.wall": ("21m", "19m"),
    "leg.spend": ("2.01", "1.99"),
    "leg.output_tokens": (2001, 1999),
    "mark.context": (0.7, 0.5),
    "mark.context_tokens": (100_001, 99_999),
    "mark.turns": (0.9, 0.7),
    "mark.wall": (0.9, 0.7),
    "mark.spend": (0.9, 0.7),
    "mark.output_tokens": (0.9, 0.7),
    "ceiling": (0.95, 0.8),
    "tool_limit": ("16m", "14m"),
    "min_progress": (0, 2),
    "no_progress_legs": (0, 2),
    "rotations_per_hour": (0, 5),
    "drain_turns": (4, 2),
    "silence_limit": ("11m", "9m"),
    "unknown_patience": ("31m", "29m"),
    "on_crash": ("continue", "park"),
}
SITE: dict[str, Any] = {
    "leg": {"turns": 20, "wall": "20m", "spend": "2.00", "output_tokens": 2000},
    "mark": {"context_tokens": 100_000},
}


def test_the_table_of_tightening_names_real_keys_and_is_whole_here() -> None:
    assert set(TIGHTER) <= set(KEYS)
    assert set(TIGHTER) == set(LOOSER_AND_TIGHTER)


@pytest.mark.parametrize("key", LOOSER_AND_TIGHTER)
def test_a_repository_may_tighten_and_may_not_loosen(key: str) -> None:
    looser, tighter_value = LOOSER_AND_TIGHTER[key]
    site = {**SITE, "on_crash": "park"} if key == "on_crash" else SITE
    assert refusal(site, {key: looser}).key == key
    tightened = value_of(build(SITE, {key: tighter_value}, {}), key)
    assert tightened == value_of(build({}, None, {key: tighter_value}), key)


@pytest.mark.parametrize("key", LOOSER_AND_TIGHTER)
def test_a_repository_may_say_again_what_holds(key: str) -> None:
    holds = to_snapshot(build(SITE, None, {}))
    for part in key.split("."):
        holds = holds[part]
    assert build(SITE, {key: holds}, {}) == build(SITE, None, {})


@pytest.mark.parametrize("key", [key for key in TIGHTER if key.startswith("leg.")])
def test_a_repository_may_set_a_limit_and_not_lift_one(key: str) -> None:
    assert value_of(build({}, {key: 5}, {}), key) is not None
    assert refusal(SITE, {key: "none"}).key == key


@pytest.mark.parametrize("key", ["rotations_per_hour", "no_progress_legs"])
def test_off_is_loosest(key: str) -> None:
    assert value_of(build({key: 0}, {key: 100}, {}), key) == 100


NEVER = [key for key in KEYS if tighter(key) is Tighter.NEVER]


def test_what_is_never_the_repositorys_to_say() -> None:
    assert {
        "green",
        "done_check_every",
        "approvals",
        "four_eyes",
        "resume",
        "workspace",
        "push_to",
        "pull_request",
        "memory_root",
        "mode",
        "gate_expiry",
        "retention",
        "every",
        "host_patience",
        "effectful_tools",
        *[key for key in KEYS if key.startswith("envelope.")],
        "baseline",
    } == set(NEVER)


@pytest.mark.parametrize("key", [*[key for key in NEVER if key != "baseline"], "baseline.trigger"])
def test_a_repository_never_sets_them_not_even_to_what_holds(key: str) -> None:
    nested: dict[str, Any] = {key: value_of(build({}, None, {}), key)}
    error = refusal({}, nested)
    assert error.key == key
    assert "repository" in error.why


def test_a_repository_may_lower_a_bound_of_the_baton() -> None:
    assert build({}, {"baton": {"artifacts": 10}}, {}).baton.artifacts == 10
    assert refusal({}, {"baton": {"artifacts": 1000}}).key == "baton.artifacts"


repository_tables = st.fixed_dictionaries(
    {},
    optional={
        **{key: st.none() | st.integers(-1, 300_000) for key in TIGHTER if key.startswith(("leg.", "window", "min"))},
        **{key: st.floats(-0.5, 1.5) for key in TIGHTER if key.startswith(("mark", "ceil"))},
        **{key: st.integers(-1, 30) for key in ("no_progress_legs", "rotations_per_hour", "drain_turns")},
        "on_crash": st.sampled_from(["continue", "park"]),
        "envelope.turns": st.none() | st.integers(0, 5),
        "green": st.just("true"),
    },
)


@given(repository_tables)
def test_nothing_a_repository_says_loosens_anything(table: dict[str, Any]) -> None:
    before = build(SITE, None, {})
    try:
        after = build(SITE, table, {})
    except PolicyError as error:
        assert error.key in table
        return
    for key in KEYS:
        was: Any = value_of(before, key)
        now: Any = value_of(after, key)
        if was == now:
            continue
        assert key in table
        if key == "min_progress":
            assert now > was
        elif key == "on_crash":
            assert now == "park"
        elif key == "window_tokens":
            assert now <= 200_000
        else:
            assert now is not None
            assert was is None or now < was or was == 0
            assert now != 0 or key == "drain_turns"

"""What measured compactions teach without the one that is to be predicted, and how far predictions are believed."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.backtest import Predicted, predict, trust
from relays.core.baselines import defaults, published
from relays.core.carryover import Step, Work, play
from relays.core.carryover_prices import PUBLISHED
from relays.core.learning import LEAST, PUBLIC, Learned, MeasuredCut, apply, learn, middle, orientation
from relays.core.shadow import Provenance

D = Decimal


def cut(source: str = "a", before: int = 166_000, after: int | None = 62_000, **more) -> MeasuredCut:
    told = {"window": 200_000, "base": 22_000, "kept": 21_000, "reread": 9_000, "automatic": True, **more}
    return MeasuredCut(source, told.pop("agent", "claude-code"), told.pop("version", "2.1.226"), before, after, **told)


def claude(base: int = 22_000, window: int = 200_000):
    return defaults("claude-code", window).given("base", base)


def test_the_middle_of_what_was_measured_with_n_and_range():
    found = learn([cut(before=166_000 + more, after=60_000 + more) for more in (0, 400, 900)], "claude-code", "2.1.226",
                  claude())  # fmt: skip
    assert found["trigger"] == Learned("trigger", 166_400, 166_000, 166_900, 3, "claude-code 2.1.226")
    assert found["residue"] == Learned("residue", 38_400, 38_000, 38_900, 3, "claude-code 2.1.226")
    assert (found["reread"].value, found["kept"].value) == (9_000, 21_000)
    parameter = found["trigger"].parameter()
    assert (parameter.provenance, parameter.source) == (
        Provenance.OBSERVED, "3 measured compactions of claude-code 2.1.226",
    )  # fmt: skip
    assert (parameter.low, parameter.high) == (166_000, 166_900)


def test_a_session_is_left_out_wherever_its_compactions_stand():
    mine = [cut("mine", 150_000 + more, 40_000) for more in range(3)]
    others = [cut("other", 160_000 + more, 50_000) for more in range(3)]
    copied = [cut("public", 150_000 + more, 40_000) for more in range(3)]
    own = {(150_000 + more, 40_000) for more in range(3)}
    found = learn([*mine, *others, *copied], "claude-code", "2.1.226", claude(), without="mine", own=own)
    assert found["trigger"].value == 160_001
    assert found["trigger"].n == 3


def test_a_compaction_that_was_published_and_imported_teaches_once():
    rows = [cut("mine"), cut("public"), cut("other", before=165_000)]
    assert learn(rows, "claude-code", "2.1.226", claude())["residue"].n == 2


def test_nearest_versions_teach_first_and_whole():
    rows = [
        *[cut("a", 160_000 + n, version="2.1.20") for n in range(2)],
        *[cut("b", 170_000 + n, version="2.1.226") for n in range(4)],
        *[cut("c", 180_000 + n, version="1.0.9") for n in range(9)],
    ]
    found = learn(rows, "claude-code", "2.1.39", claude())
    assert (found["trigger"].n, found["trigger"].scope) == (6, "claude-code 2.1.20 to 2.1.226")
    assert (found["residue"].n, found["residue"].scope) == (2, "claude-code 2.1.20")
    assert learn(rows, "claude-code", "1.0.9", claude())["trigger"].scope == "claude-code 1.0.9"
    assert learn(rows, "claude-code", "", claude())["trigger"].n == 15
    assert learn([cut("a", version=""), cut("b", 1_000, version="")], "claude-code", "", claude())["residue"].scope == (
        "claude-code"
    )


def test_too_few_teach_nothing():
    assert learn([cut()], "claude-code", "2.1.226", claude()) == {}
    assert set(learn([cut(), cut("b", 165_000)], "claude-code", "2.1.226", claude())) == {"residue", "reread", "kept"}
    assert learn([cut(before=n) for n in range(1, 9)], "codex", "0.142", defaults("codex")) == {}
    assert orientation([1, 2], "this relay") is None
    assert orientation([3, 1, 2], "this relay").parameter().source == "3 measured legs of this relay"


def test_only_compactions_that_the_agent_began_show_where_it_begins_them():
    rows = [
        *[cut("a", 160_000 + n) for n in range(3)],
        *[cut("b", 90_000 + n, automatic=False) for n in range(9)],
        *[cut("c", 80_000 + n, automatic=None) for n in range(9)],
    ]
    assert learn(rows, "claude-code", "2.1.226", claude())["trigger"].value == 160_001
    silent = [cut("a", 230_000 + n, agent="codex", window=258_400, automatic=None) for n in range(3)]
    assert learn(silent, "codex", "0.142", defaults("codex"))["trigger"].value == D("0.8901")


def test_a_trigger_is_carried_to_another_window_as_the_agent_counts():
    rows = [cut("a", 166_000 + n, came=1_000) for n in range(3)]
    assert learn(rows, "claude-code", "2.1.226", claude(window=1_000_000))["trigger"].value == 967_001
    over = [cut("a", 203_312), cut("b", 333_253), cut("c", 160_000, window=None)]
    assert "trigger" not in learn(over, "claude-code", "2.1.226", claude())  # their window was another one


def test_a_residue_is_over_the_base_that_there_was():
    rows = [cut("a", after=60_000, base=None), cut("b", 165_000, after=50_000, base=None)]
    assert learn(rows, "claude-code", "2.1.226", claude(base=30_000))["residue"].value == 20_000
    assert learn(rows, "claude-code", "2.1.226", claude(base=55_000))["residue"].value == 0


def test_what_was_learned_takes_the_place_of_what_was_assumed():
    rows = [cut("a", 166_000 + n, kept=25_000) for n in range(3)]
    setting = apply(claude(), learn(rows, "claude-code", "2.1.226", claude()))
    assert setting["trigger"] == 166_001
    assert (setting["kept"], setting.parameters["kept"].high) == (22_000, 22_000)  # never more than the base
    assert setting.parameters["residue"].provenance is Provenance.OBSERVED
    assert setting.parameters["orientation"].provenance is Provenance.ASSUMED
    assert play(Work(22_000, 200_000, (Step(9_000),) * 60), setting.policy("compaction"), PUBLISHED).events


def test_what_a_measured_residue_holds_is_not_added_once_more():
    """To assume 20,000 tokens beside it would count them twice, in favour of the relay."""
    rows = [cut("a", 166_000 + n, reread=None) for n in range(3)]
    setting = apply(claude(), learn(rows, "claude-code", "2.1.226", claude()))
    assert (setting["reread"], setting.parameters["reread"].high) == (0, 20_000)
    assert apply(claude(), {})["reread"] == 20_000
    both = apply(claude(), learn([cut("a", 166_000 + n) for n in range(3)], "claude-code", "2.1.226", claude()))
    assert both["reread"] == 9_000


def test_the_public_rows_teach_where_a_site_has_nothing():
    found = learn(PUBLIC, "claude-code", "2.1.226", claude())
    assert 160_000 < found["trigger"].value < 168_000
    assert found["residue"].n >= LEAST["residue"]
    codex = learn(PUBLIC, "codex", "0.142.5", defaults("codex"))
    assert D("0.86") < codex["trigger"].value < D("0.93")
    assert codex["residue"].value < 20_000
    without = {(one.before, one.after) for one in PUBLIC if one.source == "public C"}
    assert "trigger" not in learn(PUBLIC, "claude-code", "2.1.226", claude(), own=without)


def test_of_many_the_middle_half_is_the_range():
    found = middle("residue", [*range(1, 10), 1_000], "x")
    assert (found.value, found.low, found.high, found.n) == (5, 3, 8, 10)
    with pytest.raises(ValueError, match="nothing was measured"):
        middle("residue", [], "x")


@given(st.lists(st.builds(cut, st.sampled_from("abc"), st.integers(1, 200_000), st.integers(0, 90_000),
                          version=st.sampled_from(["2.1.20", "2.1.226", "", "x"]),
                          automatic=st.sampled_from([True, False, None])), max_size=20),
       st.sampled_from(["2.1.20", "2.1.226", "9", ""]))  # fmt: skip
def test_leaving_out_is_as_if_it_had_never_been(rows, version):
    without = learn(rows, "claude-code", version, claude(), without="a")
    assert without == learn([one for one in rows if one.source != "a"], "claude-code", version, claude())
    for one in without.values():
        assert one.low <= one.value <= one.high
        assert one.n >= LEAST[one.name]


# --- predictions beside what happened


def test_a_session_that_did_what_the_engine_says_is_predicted_exactly():
    setting = published().given("summary_call", 500)
    work = Work(4_000, 200_000, (Step(6_000, 100),) * 80)
    real = play(work, setting.policy("compaction"), setting.prices())
    found = predict(work, setting, setting.prices(), real.money, real.events, own_calls=True)
    assert (found.error, found.count_right, found.off_by) == (0.0, True, (0, 0, 0))


def test_a_summary_that_its_file_lacks_is_left_out_on_both_sides():
    setting = published().given("summary_call", 500)
    work = Work(4_000, 200_000, (Step(6_000, 100),) * 80)
    real = play(work, setting.policy("compaction"), setting.prices())
    without = real.money - real.extra
    assert predict(work, setting, setting.prices(), without, real.events).error == 0.0
    assert predict(work, setting, setting.prices(), without, real.events, own_calls=True).error > 0


def test_what_is_off_is_said():
    setting = published()
    work = Work(4_000, 200_000, (Step(6_000),) * 80)
    found = predict(work, setting.given("trigger", D("0.5")), PUBLISHED, D(1_605_897), (31, 53, 75))
    assert found.error < 0
    assert not found.count_right
    assert found.off_by[0] == min(abs(31 - point) for point in found.predicted_points)
    none = predict(work, setting.given("trigger", D(1)), PUBLISHED, D(0), (31,))
    assert (none.error, none.predicted_points, none.off_by) == (None, (33, 56, 79), (2,))
    assert Predicted(D(1), D(1), (3,), (), False, found.carried).off_by == (None,)


def test_trust_is_the_median_of_all_and_the_part_that_is_right():
    found = trust([0.02, -0.04, None, 0.09], [True, True, False, True])
    assert (found.sessions, found.median_abs_error, found.count_right, found.met) == (4, 0.04, 0.75, False)
    assert trust([0.02, -0.05], [True, True]).met is True
    assert trust([0.06], [True]).met is False
    assert trust([], []).met is None
    assert trust([None], [True]).met is None

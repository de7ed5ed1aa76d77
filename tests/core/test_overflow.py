"""baton.md, Bounds: what moves out of a new baton, what stays, and that nothing is lost on the way."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relays.core import overflow
from relays.core.baton import Artifact, Baton, BatonError, Bounds, canonical, check_new
from relays.core.batonform import Cursor, TombstoneRecord
from relays.core.objective import make_pin
from relays.core.pointers import Kind

HEAD = Artifact(Kind.LEDGER, "RLY-20260701-0001.3.d4")
PLAIN = Bounds()
SHA = "0" * 40


def baton(artifacts: Sequence[Artifact] = (), questions: Sequence[str] = (), dead_ends: Sequence[str] = ()) -> Baton:
    return Baton(
        relay_id="RLY-20260701-0001",
        leg=7,
        parent_trace="tr-7",
        objective=make_pin("pin-1", "Drain it."),
        done_when="issues:none open",
        cursor=Cursor(start_sha=SHA, held_region=("**",)),
        next_action="Go on.",
        open_questions=tuple(questions),
        artifacts=tuple(artifacts),
        do_not_rederive=tuple(dead_ends),
        tombstone=TombstoneRecord("RELAY_ROTATED", SHA),
    )


def issues(count: int) -> list[Artifact]:
    return [Artifact(Kind.ISSUE, f"#{number + 1}") for number in range(count)]


def entries(count: int, label: str = "a label", first: int = 1) -> list[str]:
    return [f"issue:#{first + number} {label}" for number in range(count)]


def texts(one: Baton) -> list[str]:
    return [f"{a.kind}:{a.ref}" for a in one.artifacts] + [*one.open_questions, *one.do_not_rederive]


def test_what_has_room_stays_as_it_is() -> None:
    one = baton(issues(3), entries(2), entries(2, first=50))
    assert overflow.fit(one, PLAIN) == overflow.Fitted(one, ())


def test_a_list_at_its_bound_is_full_and_no_more() -> None:
    one = baton(issues(128), entries(64, ""), entries(100, "", first=900))
    assert overflow.fit(one, PLAIN).moved == ()


@pytest.mark.parametrize("name", ["artifacts", "open_questions", "do_not_rederive"])
def test_over_a_full_list_the_oldest_move_and_the_newest_stay(name: str) -> None:
    made = {
        "artifacts": baton(artifacts=issues(130)),
        "open_questions": baton(questions=entries(66, "")),
        "do_not_rederive": baton(dead_ends=entries(130, "")),
    }[name]
    fitted = overflow.fit(made, PLAIN)
    everything = texts(made)
    # one of the 128 artifacts is the row's own pointer
    assert list(fitted.moved) == everything[: 3 if name == "artifacts" else 2]
    assert texts(fitted.baton) == everything[len(fitted.moved) :]
    pointed = fitted.pointing_at(HEAD)
    assert pointed.artifacts[0] == HEAD
    check_new(pointed)


def test_at_twelve_kibibytes_the_oldest_of_the_largest_list_move() -> None:
    made = baton(issues(5), entries(3), [f"memory:tried-{number} {'x' * 110}" for number in range(100)])
    assert len(canonical(made)) > 12 * 1024
    fitted = overflow.fit(made, PLAIN)
    assert list(fitted.moved) == list(made.do_not_rederive[: len(fitted.moved)])
    assert len(canonical(fitted.pointing_at(HEAD))) <= 12 * 1024
    assert fitted.baton.artifacts == made.artifacts and fitted.baton.open_questions == made.open_questions


def test_a_baton_that_keeps_all_it_has_goes_on_pointing_at_the_newest_row() -> None:
    fitted = overflow.fit(baton(issues(2)), PLAIN, head=HEAD)
    assert fitted.moved == () and fitted.baton.artifacts == (HEAD, *issues(2))
    again = overflow.fit(fitted.baton, PLAIN, head=HEAD)
    assert again == fitted, "it is pointed at once, and moves itself never"


def test_the_row_itself_takes_the_place_of_one_artifact() -> None:
    fitted = overflow.fit(baton(issues(128)), PLAIN, head=HEAD)
    assert fitted.moved == ("issue:#1",) and HEAD not in fitted.baton.artifacts
    check_new(fitted.pointing_at(HEAD))


def test_what_earlier_legs_handed_over_stays_small() -> None:
    """ "The size stays flat after 1,000 legs as after 10": what a relay learns in every leg does not add up."""
    old, young = entries(40, "an old dead end of some length"), entries(2, "a young one", first=500)
    fitted = overflow.fit(baton(dead_ends=[*old, *young]), PLAIN, carried=frozenset(old))
    kept = [entry for entry in fitted.baton.do_not_rederive if entry in old]
    assert set(young) <= set(fitted.baton.do_not_rederive), "the closing leg's own entries stay"
    assert kept == old[len(old) - len(kept) :] and kept, "the youngest of the others too"
    assert sum(len(entry) + 3 for entry in kept) <= PLAIN.total // 20, "down to the half: no row for every leg"


def test_an_open_question_gives_way_after_every_dead_end() -> None:
    questions, dead_ends = entries(25, "which parser is it, and why"), entries(25, "tried, it deadlocks", first=100)
    fitted = overflow.fit(baton((), questions, dead_ends), PLAIN, carried=frozenset([*questions, *dead_ends]))
    assert fitted.baton.open_questions == tuple(questions)
    assert set(fitted.moved) <= set(dead_ends) and fitted.moved
    many = entries(60, "which parser is it, and why")
    fitted = overflow.fit(baton((), many, dead_ends), PLAIN, carried=frozenset([*many, *dead_ends]))
    assert fitted.baton.do_not_rederive == () and fitted.baton.open_questions == tuple(
        many[-len(fitted.baton.open_questions) :]
    )
    assert fitted.baton.open_questions


def test_a_fixed_part_that_has_no_room_is_refused_and_never_cut() -> None:
    one = baton(issues(3))
    fitted = overflow.fit(one, Bounds(total=300))
    assert fitted.baton.artifacts == () and fitted.baton.objective == one.objective
    with pytest.raises(BatonError):
        check_new(fitted.baton, Bounds(total=300))


LABELS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=30)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 300), max_size=200),
    st.lists(st.tuples(st.integers(1, 300), LABELS), max_size=120),
    st.lists(st.tuples(st.integers(1, 300), LABELS), max_size=200),
    st.sampled_from([None, HEAD]),
    st.integers(0, 400),
)
def test_whatever_it_holds_it_fits_and_nothing_is_lost(
    artifacts: list[int],
    questions: list[tuple[int, str]],
    dead_ends: list[tuple[int, str]],
    head: Artifact | None,
    carried: int,
) -> None:
    made = baton(
        [Artifact(Kind.ISSUE, f"#{number}") for number in artifacts],
        [f"issue:#{number} {label}".rstrip() for number, label in questions],
        [f"issue:#{number} {label}".rstrip() for number, label in dead_ends],
    )
    old = frozenset([*made.open_questions, *made.do_not_rederive][:carried])
    fitted = overflow.fit(made, PLAIN, head=head, carried=old)
    whole = fitted.pointing_at(HEAD) if fitted.moved else fitted.baton
    check_new(whole)
    assert len(canonical(whole)) <= PLAIN.total * 3 // 4
    assert {*texts(made)} <= {*fitted.moved, *texts(whole)}
    assert head is None or head in whole.artifacts
    assert overflow.fit(made, PLAIN, head=head, carried=old) == fitted, "the same baton, the same result"

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.baton import digest, read
from relays.core.donewhen import DoneVerdict, Truth, evaluate, parse
from relays.core.objective import make_pin
from relays.core.pointers import Answer, Kind, Pointer, Verdict
from relays.core.reload import (
    Candidate,
    Expected,
    Reread,
    choose_cursor,
    climb,
    plan_bytes,
    plan_mapping,
    pointers_of,
)
from relays.core.vocabulary import Reason
from tests.core.batons import OTHER, SHA, plain, text_of

FULL = plain()
FULL["progress_cursor"] |= {"ledger_ref": "L-1", "wip_tree": OTHER, "session_image": "img"}
READING = read(text_of(FULL))
BATON = READING.baton
assert BATON is not None

GOOD = {one.path: Answer(Verdict.VERIFIED, f"{one.path} found") for one in pointers_of(BATON)}
OWN = Expected(BATON.objective, BATON.done_when, BATON.cursor.held_region)
CLOSED = parse("issue:#12 closed")


def done(truth):
    return evaluate(CLOSED, {CLOSED.clauses[0]: (truth, f"it is {truth}")})


def ladder(answers=None, *, expected=OWN, goal=None, holder=None, leave_out=frozenset(), **said):
    given_answers = {**GOOD, **(answers or {})}
    return climb(
        READING,
        answers={**given_answers, **said},
        expected=expected,
        done=goal or done(Truth.FALSE),
        holder=holder,
        leave_out=leave_out,
    )


def says(path, verdict):
    return {path: Answer(verdict, f"{path} is {verdict}")}


def verdicts(made):
    return {one.path: one.verdict for one in made.checks if one.step >= 6}


def test_what_is_judged_and_in_which_step():
    assert [
        (one.step, one.path, str(one.pointer) if one.pointer else "", one.special) for one in pointers_of(BATON)
    ] == [
        (6, "progress_cursor.start_sha", f"commit:{SHA}", ""),
        (6, "tombstone.at_sha", f"commit:{SHA}", ""),
        (6, "artifacts[1].ref", f"commit:{SHA}", ""),
        (7, "progress_cursor.ledger_ref", "ledger:L-1", ""),
        (7, "artifacts[0].ref", "issue:#12", ""),
        (7, "progress_cursor.wip_tree", f"commit:{OTHER}", "wip_tree"),
        (7, "progress_cursor.session_image", "", "session_image"),
        (7, "open_questions[0]", "issue:#5", ""),
        (7, "do_not_rederive[0]", "memory:tried-x", ""),
    ]


def test_fresh_keeps_a_record_of_every_step():
    made = ladder()
    assert (made.outcome, made.step, made.path, made.reason) == ("fresh", None, None, None)
    assert [one.step for one in made.checks] == [1, 2, 3, 4, 5, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 9]
    assert all(one.evidence for one in made.checks)
    # fidelity counts the pointers: anchors, artifacts, ledger ref, wip, questions, dead ends
    assert sum(one.pointer for one in made.checks) == 8


def test_a_session_image_is_kept_unknown_and_stops_nothing():
    assert verdicts(ladder())["progress_cursor.session_image"] == "unknown"
    assert ladder().outcome == "fresh"


@pytest.mark.parametrize("path", [path for path in GOOD if path != "progress_cursor.session_image"])
def test_one_dangling_pointer_makes_it_stale_with_that_culprit(path):
    made = ladder(says(path, Verdict.DANGLING))
    step = next(one.step for one in pointers_of(BATON) if one.path == path)
    assert (made.outcome, made.step, made.path, made.reason) == ("stale", step, path, Reason.BATON_STALE)
    assert made.evidence == f"{path} is dangling"


@pytest.mark.parametrize("path", [path for path in GOOD if path != "progress_cursor.session_image"])
def test_one_silent_store_makes_it_unknown_and_never_stale(path):
    made = ladder(says(path, Verdict.UNKNOWN))
    assert (made.outcome, made.path, made.reason) == ("unknown", path, None)
    missing = {one: said for one, said in GOOD.items() if one != path}
    made = climb(READING, answers=missing, expected=OWN, done=done(Truth.FALSE), holder=None)
    assert (made.outcome, made.path) == ("unknown", path)


def test_dangling_beats_unknown_whatever_stands_first():
    made = ladder(
        {**says("progress_cursor.start_sha", Verdict.UNKNOWN), **says("do_not_rederive[0]", Verdict.DANGLING)}
    )
    assert (made.outcome, made.step, made.path) == ("stale", 7, "do_not_rederive[0]")


def test_every_pointer_is_judged_after_the_first_that_dangles():
    made = ladder({**says("tombstone.at_sha", Verdict.DANGLING), **says("artifacts[0].ref", Verdict.DANGLING)})
    assert made.path == "tombstone.at_sha"
    said = verdicts(made)
    assert said["artifacts[0].ref"] == "dangling"
    assert said["do_not_rederive[0]"] == "verified"
    assert (said["done_when"], made.checks[-2].step, made.checks[-2].verdict) == ("left_out", 8, "left_out")
    assert "not reached" in made.checks[-1].evidence


@pytest.mark.parametrize(
    ("expected", "path"),
    [
        (Expected(make_pin("pin-1", "Drain half."), OWN.done_when, OWN.region), "objective"),
        (Expected(make_pin("pin-2", "Drain it."), OWN.done_when, OWN.region), "objective"),
        (Expected(OWN.pin, "issue:#13 closed", OWN.region), "done_when"),
        (Expected(OWN.pin, OWN.done_when, ("docs/**", "src/**")), "progress_cursor.held_region"),
    ],
)
def test_what_is_not_the_relays_own_is_stale_with_that_culprit(expected, path):
    made = ladder(expected=expected)
    assert (made.outcome, made.step, made.path) == ("stale", 7, path)


def test_a_relay_that_is_not_known_here_is_not_compared():
    made = ladder(expected=None)
    assert made.outcome == "fresh"
    assert [one.verdict for one in made.checks if one.path == "objective"] == ["left_out"]


def test_a_goal_that_is_reached_ends_the_relay():
    made = ladder(goal=done(Truth.TRUE), holder="RLY-2")
    assert (made.outcome, made.step, made.path, made.reason) == ("done", 8, "done_when", Reason.GOAL_DONE)
    assert "it is true" in made.evidence
    assert made.checks[-1].verdict == "left_out"


def test_a_goal_is_not_judged_on_a_stale_baton():
    assert ladder(says("tombstone.at_sha", Verdict.DANGLING), goal=done(Truth.TRUE)).outcome == "stale"


def test_a_goal_whose_store_does_not_answer_is_unknown():
    made = ladder(goal=done(Truth.UNKNOWN))
    assert (made.outcome, made.step, made.path) == ("unknown", 8, "done_when")


def test_a_command_that_was_left_out_stops_nothing_and_ends_nothing():
    line = parse('issue:#12 closed and cmd:"make test"')
    made = ladder(goal=evaluate(line, {line.clauses[0]: (Truth.TRUE, "closed")}))
    assert made.outcome == "fresh"
    assert made.checks[-2].verdict == "left_out"


def test_prose_is_not_done():
    made = ladder(goal=DoneVerdict(Truth.FALSE, (), True))
    assert made.outcome == "fresh"
    assert "prose" in made.checks[-2].evidence


def test_a_held_region_names_its_holder():
    made = ladder(holder="RLY-2")
    assert (made.outcome, made.step, made.path) == ("held", 9, "progress_cursor.held_region")
    assert "RLY-2" in made.evidence


def test_from_outside_no_lease_is_taken():
    made = ladder(holder="RLY-2", leave_out=frozenset({9}))
    assert made.outcome == "fresh"
    assert made.checks[-1].verdict == "left_out"


def test_without_stores_the_steps_are_named_as_left_out():
    made = climb(READING, answers=None, expected=None, done=None, holder=None)
    assert (made.outcome, made.step, made.path) == ("unknown", None, None)
    assert {one.step for one in made.checks if one.verdict == "left_out"} == {6, 7, 8, 9}
    assert {one.verdict for one in made.checks if one.step >= 6} == {"left_out"}


def test_an_invalid_text_stops_at_its_step():
    made = climb(read(text_of(plain(schema="x"))), answers=GOOD, expected=OWN, done=None, holder=None)
    assert (made.outcome, made.step, made.path) == ("invalid", 3, "schema")
    assert [one.step for one in made.checks] == [1, 2, 3]
    made = climb(read("[]"), answers=None, expected=None, done=None, holder=None)
    assert (made.outcome, made.step, made.path) == ("invalid", 1, "")


def test_an_entry_without_a_pointer_is_vouched_for_by_nobody():
    reading = read(text_of(plain(do_not_rederive=["the parser is slow"])))
    assert reading.baton is not None
    at = pointers_of(reading.baton)[-1]
    assert (at.pointer, at.special) == (None, "no_pointer")
    answers = {one.path: Answer(Verdict.VERIFIED, "found") for one in pointers_of(reading.baton)}
    made = climb(reading, answers=answers, expected=None, done=None, holder=None)
    assert (made.outcome, made.path) == ("unknown", "do_not_rederive[0]")
    assert not made.checks[-6].pointer


def test_a_long_pointer_of_another_writer_is_still_asked_about():
    reading = read(text_of(plain(open_questions=["file:" + "a" * 900])))
    assert reading.baton is not None
    assert Pointer(Kind.FILE, "a" * 900) in [one.pointer for one in pointers_of(reading.baton)]


@given(st.data())
def test_no_outcome_is_better_than_its_worst_answer(data):
    answers = {path: Answer(data.draw(st.sampled_from(list(Verdict))), "said") for path in GOOD}
    made = climb(READING, answers=answers, expected=OWN, done=done(Truth.FALSE), holder=None)
    judged = {answers[path].verdict for path in GOOD if path != "progress_cursor.session_image"}
    if Verdict.DANGLING in judged:
        assert made.outcome == "stale"
    elif Verdict.UNKNOWN in judged:
        assert made.outcome == "unknown"
    else:
        assert made.outcome == "fresh"
    assert {one.path: one.verdict for one in made.checks if one.pointer} == {
        path: str(answers[path].verdict) for path in GOOD if path != "progress_cursor.session_image"
    }


@pytest.mark.parametrize(
    ("said", "choice"),
    [
        (("verified", "verified", "verified"), ("a", "merge-base")),
        (("dangling", "verified", "verified"), ("b", "cursor of leg 2")),
        (("unknown", "dangling", "verified"), ("c", "start")),
        (("unknown", "dangling", "unknown"), (None, "")),
    ],
)
def test_the_cursor_is_rebuilt_at_the_first_that_verifies(said, choice):
    sources = ("merge-base", "cursor of leg 2", "start")
    candidates = [Candidate(sha, source, Verdict(one)) for sha, source, one in zip("abc", sources, said, strict=True)]
    made = choose_cursor(candidates)
    assert (made.sha, made.source) == choice


def test_nothing_to_choose_from_is_no_cursor():
    assert choose_cursor([]).sha is None


def plan(made):
    return plan_bytes(
        plan_mapping(
            made,
            baton_digest=digest(BATON),
            branch="relay/RLY-1",
            tip=SHA,
            cursor=SHA,
            rebuilt=False,
            reread=Reread(commits=(OTHER,), issues=("#12",), ledger=("L-1",)),
            next_action="Close <#12>.",
        )
    )


def test_the_same_store_and_baton_give_the_same_plan():
    assert plan(ladder()) == plan(ladder())
    assert plan(ladder()) != plan(ladder(says("tombstone.at_sha", Verdict.DANGLING)))


def test_the_plan_has_the_shape_that_scripts_rely_on():
    raw = plan(ladder())
    made = json.loads(raw)
    assert list(made) == ["outcome", "baton_digest", "branch", "tip", "checks", "cursor", "reread", "next_action"]
    assert list(made["checks"][0]) == ["step", "path", "verdict", "evidence"]
    assert made["cursor"] == {"sha": SHA, "rebuilt": False}
    assert made["reread"] == {"commits": [OTHER], "issues": ["#12"], "ledger": ["L-1"]}
    assert b"\\u003c#12\\u003e" in raw


def test_the_shape_of_a_check_from_outside():
    made = ladder(says("progress_cursor.start_sha", Verdict.DANGLING)).as_mapping()
    assert list(made) == ["outcome", "step", "path", "checks"]
    assert (made["outcome"], made["step"], made["path"]) == ("stale", 6, "progress_cursor.start_sha")


def test_a_step_that_a_caller_may_not_take_is_named_and_stops_nothing():
    """baton.md, The reader's ladder: every step "is kept as a record", also one that was left out."""
    made = ladder(leave_out=frozenset({7, 8, 9}))
    assert made.outcome == "fresh"
    left = [one for one in made.checks if one.verdict == "left_out"]
    assert {one.step for one in left} == {7, 8, 9}
    assert all(one.verdict == "verified" for one in made.checks if one.step == 6)
    assert sum(one.pointer for one in left) == sum(at.step == 7 and at.pointer is not None for at in pointers_of(BATON))


def test_an_entry_whose_pointer_is_hostile_is_vouched_for_by_nobody():
    """A baton that was accepted once under other bounds is read again; what is no pointer is never asked about."""
    strange = replace(BATON, open_questions=("file:../secret which",))
    assert [(at.path, at.pointer, at.special) for at in pointers_of(strange) if at.path.startswith("open")] == [
        ("open_questions[0]", None, "no_pointer")
    ]

"""rules.md, No progress and watch: "True and nothing pending (no open issue in scope, no open question; unknown is not
idle)", and what a leg does that a watch starts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core import donewhen, watch
from relays.core.donewhen import DoneVerdict, Truth
from relays.core.vocabulary import Reason

ISSUES = {1: "closed", 2: "open", 3: "open"}


def judged(text: str, *truths: Truth) -> DoneVerdict:
    """The verdict of a line, with the truth of each of its clauses."""
    done = donewhen.parse(text)
    return donewhen.evaluate(
        done, {clause: (truth, str(truth)) for clause, truth in zip(done.clauses, truths, strict=True)}
    )


@pytest.mark.parametrize(
    ("text", "issues", "pending"),
    [
        ("file:README.md", ISSUES, ("open in scope: #2, #3",)),
        ("issues:none open", ISSUES, ("open in scope: #2, #3",)),
        ("issue:#1 closed", ISSUES, ()),
        ("issue:#2 closed", ISSUES, ("open in scope: #2",)),
        ("issue:#1 closed and issues:none open", ISSUES, ("open in scope: #2, #3",)),
        ("issue:#1 closed and file:README.md", ISSUES, ()),
        ("issue:acme/orders#2 closed", ISSUES, ()),
        ('cmd:"make test"', {}, ()),
        ("file:README.md", dict.fromkeys(range(1, 9), "open"), ("open in scope: #1, #2, #3, #4, #5 and 3 more",)),
    ],
)
def test_the_issues_that_are_named_are_in_scope_and_all_of_them_where_none_is(
    text: str, issues: dict[int, str], pending: tuple[str, ...]
) -> None:
    found = watch.pending(donewhen.parse(text), issues, "", ())
    assert found.items == pending
    assert found.quiet is not bool(pending)


def test_an_open_question_is_pending() -> None:
    found = watch.pending(donewhen.parse("file:a"), {}, "", ("issue:#4 May it?", "issue:#4 May it?", "issue:#5 Why?"))
    assert found.items == ("2 open questions",) and not found.quiet
    assert watch.pending(donewhen.parse("file:a"), {}, "", ("issue:#4 May it?",)).items == ("1 open question",)


def test_unknown_is_not_idle() -> None:
    """A store that cannot tell of all issues, and one whose answers are all there because each issue is named."""
    blind = watch.pending(donewhen.parse("file:a"), {1: "closed"}, "line 2 is malformed", ())
    assert (blind.items, blind.unknown, blind.quiet) == ((), "line 2 is malformed", False)
    holds = judged("file:a", Truth.TRUE)
    found = watch.verdict(holds, blind)
    assert found.truth is Truth.UNKNOWN
    assert watch.why(found, Truth.UNKNOWN) == "nothing pending: line 2 is malformed"
    assert watch.pending(donewhen.parse("issue:#1 closed"), {1: "closed"}, "line 2 is malformed", ()).quiet


def test_it_may_rest_only_where_it_holds_with_nothing_pending() -> None:
    quiet, busy = watch.Pending(), watch.Pending(("1 open question",))
    assert watch.verdict(judged("file:a", Truth.TRUE), quiet).truth is Truth.TRUE
    found = watch.verdict(judged("file:a", Truth.TRUE), busy)
    assert found.truth is Truth.FALSE
    assert [clause.text for clause, truth, _ in found.clauses if truth is Truth.FALSE] == ["nothing pending"]
    for truth in (Truth.FALSE, Truth.UNKNOWN):
        own = judged("file:a", truth)
        assert watch.verdict(own, quiet) is own and watch.verdict(own, busy) is own
    # a command that was not run here is unknown, whatever is pending
    left_out = donewhen.evaluate(donewhen.parse('cmd:"x"'), {})
    assert watch.verdict(left_out, quiet) is left_out


def test_a_broken_invariant_is_restored_and_what_is_pending_is_settled() -> None:
    assert watch.RESTORE == "Restore the invariant in done_when."
    both = "file:a and file:b"
    assert watch.next_action(judged(both, Truth.TRUE, Truth.FALSE)) == watch.RESTORE
    busy = watch.verdict(judged(both, Truth.TRUE, Truth.TRUE), watch.Pending(("1 open question",)))
    assert watch.next_action(busy) == watch.SETTLE


ENDS = st.sampled_from([Reason.IDLE_PARKED, Reason.ROTATED, Reason.PARKED_UNSAFE, Reason.NO_PROGRESS])


@given(st.integers(0, 9), st.none() | st.integers(0, 3), ENDS)
def test_an_idle_end_neither_adds_to_the_run_nor_resets_it_but_progress_does(
    run: int, made: int | None, reason: Reason
) -> None:
    after = watch.empty_run(reason, run, made)
    if made:
        assert after == 0, "verified progress resets the run, whatever the token"
    else:
        assert after == (run if reason is Reason.IDLE_PARKED else run + 1)

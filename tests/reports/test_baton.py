"""The baton page's text: broken into lines without changing a byte of it, and marked where it does not resolve."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core import baton as batons
from relays.core import fidelity
from relays.core.objective import make_pin
from relays.core.pointers import Kind
from relays.models import Baton
from relays.reports import baton as report
from tests.report_builders import Story

words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30).map(str.strip).filter(bool)
SHA = "a" * 40


def made(text: str, questions: list[str], artifacts: int) -> batons.Baton:
    return batons.Baton(
        relay_id="RLY-1", leg=3, parent_trace="tr", objective=make_pin("pin", text), done_when="issues:none open",
        cursor=batons.Cursor(start_sha=SHA, ledger_ref="row1", held_region=("a/**", "b/**")), next_action=text,
        open_questions=tuple(questions),
        artifacts=tuple(batons.Artifact(Kind.ISSUE, f"#{n + 1}") for n in range(artifacts)),
        do_not_rederive=(), tombstone=batons.TombstoneRecord("RELAY_ROTATED", SHA, "note, {with} [marks]"),
    )  # fmt: skip


@given(words, st.lists(words, max_size=4), st.integers(0, 4))
def test_the_lines_are_the_text(text: str, questions: list[str], artifacts: int) -> None:
    canonical = batons.canonical(made(text, questions, artifacts)).decode()
    shown = list(report.lines(canonical))
    indents = [len(line.text) - len(line.text.lstrip(" ")) for line in shown]
    joined = "".join(
        line.text[min(indent, 2) if n else 0 :] for n, (line, indent) in enumerate(zip(shown, indents, strict=True))
    )
    assert joined == canonical
    assert not any(line.hit for line in shown)


def test_what_dangles_is_marked_and_nothing_else() -> None:
    text = batons.canonical(made("Go on.", ["issue:#1 why", "issue:#12 how"], 12)).decode()
    shown = list(report.lines(text, ["artifacts[1].ref", "open_questions[0]", "tombstone.at_sha"]))
    marked = [line.text.strip() for line in shown if line.hit]
    assert marked == ['"open_questions":["issue:#1 why",', '{"kind":"issue","ref":"#2"},', f'"at_sha":"{SHA}",']


@pytest.mark.django_db
def test_the_page_of_a_stale_baton(tmp_path: Path) -> None:
    story = Story(tmp_path / "repo")
    story.leg(turns=3)
    story.leg(turns=3)
    first = Baton.objects.get(leg__number=0)
    story.reloaded(first, story.legs[1], dangling=("progress_cursor.start_sha", "artifacts[0].ref"))
    page = report.baton_page(story.relay, 0)
    assert page is not None
    assert page.headline == "Stale at step 6: progress_cursor.start_sha does not match ground truth"
    assert [step.verdict for step in page.steps] == ["passed"] * 5 + ["refused", "passed", "not reached", "not reached"]
    assert page.pointers[0].verdict == "dangling"
    assert page.pointers[0].used_as == ("progress_cursor.start_sha", "artifacts[0].ref")
    assert page.score == fidelity.score_of(4, 2, 0)
    assert [change.kind for change in page.changes] == []
    second = report.baton_page(story.relay, 1)
    assert second is not None
    assert second.previous == first
    assert "+ next_action  Close issue 3." in [change.text for change in second.changes]
    assert second.changes[-1].text == "  objective, done_when, held_region  unchanged"
    assert (second.steps, second.score, second.headline) == ((), None, "The baton of leg 1 has not been checked yet")


@pytest.mark.django_db
def test_unknown_is_never_refused_and_never_verified(tmp_path: Path) -> None:
    story = Story(tmp_path / "repo")
    story.leg(turns=3)
    story.leg(turns=3)
    story.reloaded(Baton.objects.get(leg__number=0), story.legs[1], unknown=("artifacts[1].ref",))
    page = report.baton_page(story.relay, 0)
    assert page is not None
    assert page.steps[6].verdict == "unknown"
    assert page.score is not None
    assert (page.score.unknown, page.score.dangling) == (1, 0)

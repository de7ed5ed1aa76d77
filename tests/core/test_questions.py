"""Mission: "When fak Asks Instead Of Guessing"; rules.md, Asks: one open episode "can hold several items"."""

from relays.core import questions
from relays.core.budget import Spent, refuses_query
from relays.core.policy import Envelope
from relays.core.vocabulary import GATE_TOKENS


def test_every_kind_of_question_opens_an_ask() -> None:
    assert set(questions.ABOUT.values()) <= GATE_TOKENS and len(set(questions.ABOUT.values())) == 3


def test_a_question_is_one_short_line() -> None:
    assert questions.line(" Which\nport?\0 ") == "Which port?"
    assert len(questions.line("é" * 10_000).encode()) <= questions.QUESTION_BYTES


def test_an_episode_takes_so_many_lines_and_then_one_that_says_so() -> None:
    full = [str(number) for number in range(questions.ITEMS)]
    assert questions.joins(full[:-1], "more") == "more"
    assert questions.joins(full, "more") == questions.MORE
    assert questions.joins(full, "7") == "7", "what stands there is nothing new"


def test_queries_are_refused_from_the_limit_on_and_never_without_one() -> None:
    assert [refuses_query(Envelope(queries=2), Spent(queries=n)) for n in (0, 1, 2, 3)] == [False, False, True, True]
    assert refuses_query(Envelope(queries=0), Spent()) and not refuses_query(Envelope(), Spent(queries=10**6))

"""rules.md, Budgets never reset by accident: over any sequence of legs, crashes, pauses and restarts.

"Every leg debits; what is left goes to the successor: a spent budget stays spent (0 left is never 'no budget'). Wall
clock counts running time over restarts, pauses and waiting excluded."
"""

import json
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from relays.core.budget import Spent, drains, exhausted, forbids_leg, left, newly_low, rearm
from relays.core.events import Event, parse_line
from relays.core.legview import LegView
from relays.core.policy import Envelope

limits = st.builds(
    Envelope,
    legs=st.none() | st.integers(0, 6),
    spend=st.none() | st.integers(0, 300).map(lambda cents: Decimal(cents) / 100),
    wall=st.none() | st.integers(0, 600).map(lambda seconds: timedelta(seconds=seconds)),
    turns=st.none() | st.integers(0, 25),
    output_tokens=st.none() | st.integers(0, 2000),
    queries=st.none() | st.integers(0, 3),
)


@dataclass
class Ledger:
    """What stands in the records: the legs that closed, and the stored events of the one that runs."""

    closed: Spent = field(default_factory=Spent)
    stored: list[Event] = field(default_factory=list)
    waiting: list[Event] = field(default_factory=list)  # read from the agent, not stored yet
    running: bool = False
    wall: timedelta = timedelta(0)
    queries: int = 0
    legs: int = 0
    seq: int = 0

    def of_the_leg(self) -> LegView:
        """rules.md, The driver: "judged from records": folded anew each time, as a restarted supervisor does."""
        view = LegView()
        for event in self.stored:
            view.apply(event)
        return view

    @property
    def spent(self) -> Spent:
        view = self.of_the_leg()
        return Spent(
            self.closed.turns + view.turns,
            self.closed.output_tokens + view.total.output,
            self.closed.spend + view.spend,
            self.closed.unpriced_calls + view.unpriced,
            self.wall,
            self.legs,
            self.queries,
        )


def starts(book, _):
    if not book.running:
        book.running, book.legs, book.seq = True, book.legs + 1, 0


def calls(book, value):
    """A row of usage; the same message again with other numbers is the same call, priced later or not."""
    if book.running:
        message, output, cost = value
        book.seq += 1
        row = {
            "kind": "usage",
            "seq": book.seq,
            "model": "m",
            "message_id": f"m{message}",
            "input": output * 2,
            **dict.fromkeys(("cache_read", "cache_write_5m", "cache_write_1h"), 0),
            "output": output,
            "chain": "main",
        }
        parsed = parse_line(json.dumps(row | ({} if cost is None else {"cost": cost})).encode())
        assert parsed.event, parsed.problem
        book.waiting.append(parsed.event)


def is_stored(book, _):
    book.stored += book.waiting
    book.waiting.clear()


def crashes(book, _):
    """What was not stored is lost; the leg is taken up from its records."""
    book.waiting.clear()
    book.seq = max([event.seq for event in book.stored], default=0)


def comes_again(book, _):
    """An agent that is adopted again sends what it sent before."""
    book.stored += book.stored[:3]


def closes(book, _):
    if book.running:
        is_stored(book, None)
        spent = book.spent
        book.closed, book.stored, book.running = spent, [], False


def runs_on(book, seconds):
    if book.running:
        book.wall += timedelta(seconds=seconds)


def pauses(book, _):
    """Time goes by while no leg runs, and nothing is debited."""


def asks(book, _):
    book.queries += 1


ACTS = st.one_of(
    st.tuples(st.just(starts), st.none()),
    st.tuples(
        st.just(calls),
        st.tuples(st.integers(0, 9), st.integers(0, 200), st.none() | st.sampled_from([0, 0.01, 0.25, 1])),
    ),
    st.tuples(st.sampled_from([is_stored, crashes, comes_again, closes, pauses, asks]), st.none()),
    st.tuples(st.just(runs_on), st.integers(0, 120)),
)


@settings(max_examples=150)
@given(limits, st.lists(ACTS, min_size=10, max_size=60))
def test_no_axis_ever_grows(envelope, acts):
    book = Ledger()
    known = {axis.axis: axis.left for axis in left(envelope, book.spent)}
    stopped = set(exhausted(envelope, book.spent))
    warned: list[str] = []
    for act, value in acts:
        act(book, value)
        spent = book.spent
        for axis in left(envelope, spent):
            if axis.limit is None:
                assert axis.left is None and not axis.spent, "no limit is never spent"
            elif axis.left is None:
                assert axis.axis == "spend" and axis.unknown, "only money can be unknown, where a call has no price"
            else:
                assert axis.left >= type(axis.left)(0)
                assert known[axis.axis] is None or axis.left <= known[axis.axis], axis.axis
                known[axis.axis] = axis.left
        now = set(exhausted(envelope, spent))
        assert stopped <= now, "a spent budget stays spent"
        assert set(drains(envelope, spent)) <= now
        assert set(forbids_leg(envelope, spent)) <= now
        stopped = now
        low = newly_low(envelope, spent, warned)
        assert not set(low) & set(warned), "one warning when an axis first falls under a fifth"
        warned += low
        shown = rearm(envelope, spent)
        assert {name: one["left"] is None for name, one in shown.items()} == {
            axis.axis: axis.left is None for axis in left(envelope, spent)
        }

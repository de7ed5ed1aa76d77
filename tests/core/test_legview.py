import json
import os
import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core import legview
from relays.core.events import TOLD, Event, parse_line
from relays.core.legview import LegView
from relays.core.usage import Buckets, resident, warmth


class Stream:
    """Writes lines as an agent does and folds them in."""

    def __init__(self):
        self.view = LegView()
        self.seq = 0

    def __call__(self, kind, **fields):
        self.seq += 1
        parsed = parse_line(json.dumps({"kind": kind, "seq": self.seq, **fields}).encode())
        assert parsed.event, parsed.problem
        assert self.view.apply(parsed.event)
        return self.view

    def call(self, message, *, chain="main", model="m", **buckets):
        zero = dict.fromkeys(("input", "cache_read", "cache_write_5m", "cache_write_1h", "output"), 0)
        return self("usage", model=model, message_id=message, chain=chain, **{**zero, **buckets})

    def tool(self, name, tokens=10, ok=True):
        self("tool_started", id=name, name="edit")
        return self("tool_ended", id=name, ok=ok, result_tokens=tokens)


@pytest.fixture
def leg():
    return Stream()


# --- tokens


def test_resident_is_of_the_last_main_call_only(leg):
    leg.call("a", input=10, cache_read=20, cache_write_5m=30, cache_write_1h=40, output=999)
    assert leg.view.resident == 100
    leg.call("b", input=5, cache_read=100)
    assert (leg.view.resident, leg.view.last_growth, leg.view.peak, leg.view.peak_turn) == (105, 5, 105, 2)
    leg.call("side", chain="sub", input=50_000, output=7)
    assert (leg.view.resident, leg.view.peak, leg.view.turns) == (105, 105, 2)
    assert leg.view.total == Buckets(50_015, 120, 30, 40, 1006)
    assert not leg.view.calls["side"].main


def test_the_first_call_has_no_growth_and_a_shrunken_window_none_below_zero(leg):
    assert leg.call("a", input=100).last_growth == 0
    assert leg.call("b", input=150).last_growth == 50
    assert leg.call("c", input=40).last_growth == 0
    assert (leg.view.resident, leg.view.peak, leg.view.peak_turn) == (40, 150, 2)


def test_rows_of_one_call_count_once_by_field_wise_maximum(leg):
    leg.call("a", input=100, output=1)
    leg.call("b", input=120, output=1, cache_read=3)
    leg.call("b", input=110, output=30)
    assert leg.view.total == Buckets(input=220, cache_read=3, output=31)
    assert (leg.view.resident, leg.view.output, leg.view.last_growth, leg.view.turns) == (123, 30, 23, 2)
    leg.call("a", input=500)  # a late row of an earlier call: its peak counts, the window is the last call's
    assert (leg.view.resident, leg.view.peak, leg.view.peak_turn, leg.view.turns) == (123, 500, 1, 2)


def test_what_keeps_the_answer_away_stands_until_the_model_answers(leg):
    def told():
        return leg.view.trouble, leg.view.tries, leg.view.retry_in_ms

    leg.call("a", input=100, cost=1)
    leg("retry", cause="overload")
    leg("retry", cause="network", retry_in_ms=700)
    assert told() == ("network", 2, 700)
    leg("turn_started")
    leg("fact", label="said while it tries")
    leg.call("a", input=100, cost=1)  # a late row of the call before: nothing new was answered
    assert told() == ("network", 2, 700) and leg.view.spend == 1
    for answer in (lambda: leg.call("b"), lambda: leg.tool("t"), lambda: leg("boundary", next_actions=[], final=False)):
        leg("retry", cause="overload", retry_in_ms=0)
        assert told()[0] == "overload"
        answer()
        assert told() == ("", 0, None)


def test_the_peak_is_of_the_first_turn_that_reached_it(leg):
    for message in ("a", "b", "c"):
        leg.call(message, input=100)
    assert (leg.view.peak, leg.view.peak_turn, leg.view.turns) == (100, 1, 3)


def test_cost_is_the_maximum_of_a_call_and_a_call_without_one_is_unpriced(leg):
    leg(
        "usage",
        model="m",
        message_id="a",
        input=1,
        cache_read=None,
        cache_write_5m=0,
        cache_write_1h=0,
        output=1,
        chain="main",
    )
    assert (leg.view.spend, leg.view.unpriced) == (Decimal(0), 1)
    for cost in (0.1, "0.30", 0.2):
        leg.call("a", cost=cost)
    leg.call("b", cost=1)
    assert (leg.view.spend, leg.view.unpriced) == (Decimal("1.3"), 0)
    assert leg.view.calls["a"].cost == Decimal("0.3")


def test_a_call_whose_agent_reports_no_cost_costs_what_the_list_says_as_it_grows(leg):
    leg.view.price = lambda model, buckets: Decimal(buckets.output) / 100 if model == "m" else None
    leg.call("a", output=1)
    leg.call("a", output=30)
    leg.call("b", output=5, model="unknown")
    assert (leg.view.spend, leg.view.unpriced) == (Decimal("0.3"), 1)
    assert leg.view.calls["a"].listed and not leg.view.calls["b"].listed
    leg.call("a", cost="0.02")  # the agent's own word, even where it is less
    assert (leg.view.spend, leg.view.calls["a"].cost, leg.view.calls["a"].listed) == (Decimal("0.02"),) * 2 + (False,)
    leg.view.price = lambda model, buckets: None if buckets.output > 9 else Decimal(1)
    leg.call("c", output=1)
    leg.call("c", output=10)  # no price for so much
    assert (leg.view.spend, leg.view.unpriced) == (Decimal("0.02"), 2)


def test_new_results_are_those_since_the_last_new_main_call(leg):
    leg.call("a", input=1)
    leg.tool("t1", 100)
    leg("tool_started", id="t2", name="read")
    leg("tool_ended", id="t2", ok=True, result_bytes=401)
    assert (leg.view.new_results, leg.view.largest_result) == (201, 101)
    leg.call("a", input=1, output=9)  # a later row of the same call does not take them into the window
    leg.call("side", chain="sub", input=1)
    assert leg.view.new_results == 201
    leg.call("b", input=300)
    assert (leg.view.new_results, leg.view.largest_result) == (0, 101)


def test_turns_are_counted_by_turn_started_or_by_a_main_call_without_one(leg):
    leg("turn_started")
    leg.call("a", input=1)
    assert leg.view.turns == 1
    leg.call("b", input=1)
    assert leg.view.turns == 2
    leg("turn_started")
    leg.call("side", chain="sub", input=1)
    leg.call("c", input=1)
    assert (leg.view.turns, leg.view.calls["c"].turn) == (3, 3)


def test_cache_state_changes_nothing_that_a_rule_reads():
    warm, cold = Stream(), Stream()
    for stream, bucket in ((warm, "cache_read"), (cold, "input")):
        stream.call("a", **{bucket: 1000}, output=5)
        stream.tool("t")
        stream.call("b", **{bucket: 1500}, output=5)
        stream("boundary", next_actions=["go on"], final=False)
    assert [warmth(stream.view.calls["b"].buckets) for stream in (warm, cold)] == ["warm", "cold"]
    read = ("turns", "resident", "last_growth", "output", "new_results", "largest_result", "peak", "peak_turn")
    for name in (*read, "next_actions", "final", "externalized", "tree_parked", "in_flight", "spend", "unpriced"):
        assert getattr(warm.view, name) == getattr(cold.view, name), name


def test_a_cache_that_is_not_reported_is_told_from_a_cold_one(leg):
    leg.call("a", input=10, cache_read=None)
    assert not leg.view.calls["a"].cache_reported
    leg.call("b", input=10, cache_read=0)
    assert leg.view.calls["b"].cache_reported


def test_scripted_usage_is_labelled(leg):
    leg.call("a", model="real")
    assert not leg.view.scripted
    leg.call("b", model="scripted worker")
    assert (leg.view.scripted, leg.view.model) == (True, "scripted worker")


# --- tools and boundaries


def test_in_flight_is_started_minus_ended(leg):
    leg("tool_started", id="t1", name="edit")
    leg("tool_started", id="t2", name="run")
    leg("tool_ended", id="t1", ok=False, result_tokens=0)
    assert leg.view.in_flight == {"t2": "run"}
    leg("tool_ended", id="t2", ok=True, result_tokens=0)
    leg("tool_ended", id="t9", ok=False, result_tokens=5)  # never started
    assert leg.view.in_flight == {}
    assert (leg.view.tool_calls, leg.view.tool_errors, leg.view.new_results) == (2, 1, 5)


@pytest.mark.parametrize("starts", ["turn_started", "usage"])
def test_a_boundary_stands_until_a_later_turn(leg, starts):
    leg.call("a", input=1)
    leg("boundary", next_actions=["one", "two"], final=True)
    leg.call("a", input=2)
    assert (leg.view.next_actions, leg.view.final) == (("one", "two"), True)
    if starts == "usage":
        leg.call("b", input=1)
    else:
        leg("turn_started")
    assert (leg.view.next_actions, leg.view.final) == ((), False)


VOIDING = [
    ("fact", {"label": "x", "class": "durable", "backing": None}),
    ("decision", {"label": "x"}),
    ("open_question", {"label": "x"}),
    ("dead_end", {"label": "x"}),
    ("artifact", {"ref": "commit:" + "a" * 40}),
    ("tool_started", {"id": "t", "name": "edit"}),
]
STANDING = [
    ("turn_started", {}),
    ("artifact", {"ref": "file:a.md"}),
    ("boundary", {"next_actions": [], "final": False}),
    ("park_tree", {}),
    ("ledger", {"refs": ["file:a.md"]}),
    ("dance", {}),
]


@pytest.mark.parametrize(("kind", "fields", "stands"), [(*v, False) for v in VOIDING] + [(*s, True) for s in STANDING])
def test_the_statement_covers_what_came_before_it(leg, kind, fields, stands):
    leg(kind, **fields)
    leg("externalized")
    assert leg.view.externalized
    leg(kind, **fields)
    assert leg.view.externalized is stands


@pytest.mark.parametrize(
    ("kind", "fields"), [("tool_started", {"id": "t", "name": "x"}), ("file_written", {"path": "a"})]
)
def test_a_parked_tree_is_not_parked_after_more_work(leg, kind, fields):
    leg("park_tree")
    leg("turn_started")
    assert leg.view.tree_parked
    leg(kind, **fields)
    assert not leg.view.tree_parked


# --- what is declared


def test_declarations_are_kept_with_their_backing(leg):
    leg("fact", label=" the port ", **{"class": "durable"}, backing="file:notes.md")
    leg("decision", label="sqlite", pointer="ledger:r1")
    leg("open_question", label="why?")
    leg("dead_end", label="threads", pointer=None)
    leg("artifact", ref="issue:#3")
    found = [*leg.view.facts, *leg.view.decisions, *leg.view.questions, *leg.view.dead_ends, *leg.view.artifacts]
    assert [(one.seq, one.kind, one.label, one.durability, one.backing) for one in found] == [
        (1, "fact", "the port", "durable", "file:notes.md"),
        (2, "decision", "sqlite", "", "ledger:r1"),
        (3, "open_question", "why?", "", ""),
        (4, "dead_end", "threads", "", ""),
        (5, "artifact", "issue:#3", "", "issue:#3"),
    ]


def test_a_fact_declared_again_takes_its_new_backing(leg):
    leg("fact", label="x", **{"class": "durable"}, backing=None)
    leg("fact", label="x", **{"class": "durable"}, backing="file:a.md")
    assert [(fact.seq, fact.backing) for fact in leg.view.facts] == [(2, "file:a.md")]


def test_a_load_bearing_fact_is_not_talked_away_as_ephemeral(leg):
    leg("fact", label="x", **{"class": "durable"}, backing=None)
    leg("fact", label="x", **{"class": "turn"}, backing=None)
    assert [fact.durability for fact in leg.view.facts] == ["durable"]
    leg("fact", label="y", **{"class": "turn"}, backing=None)
    leg("fact", label="y", **{"class": "durable"}, backing=None)
    assert leg.view.facts[1].durability == "durable"


def test_long_labels_that_begin_alike_are_two_facts(leg):
    leg("fact", label="x" * 600 + "a", **{"class": "durable"}, backing=None)
    leg("fact", label="x" * 600 + "b", **{"class": "durable"}, backing="file:a.md")
    assert [fact.backing for fact in leg.view.facts] == ["", "file:a.md"]
    assert {len(fact.label) for fact in leg.view.facts} == {500}


def test_a_backing_too_long_to_keep_backs_nothing(leg):
    leg("fact", label="x", **{"class": "durable"}, backing="file:" + "a" * 496)
    assert leg.view.facts[0].backing == ""


def test_more_facts_than_fit_leave_one_that_refuses(leg, monkeypatch):
    monkeypatch.setattr(legview, "RECORDS", 3)
    for number in range(9):
        leg("fact", label=f"f{number}", **{"class": "turn"}, backing="file:a.md")
        leg("todo", id=f"d{number}", open=True)
        leg("tool_started", id=f"t{number}", name="x")
    for number in range(9):
        leg("todo", id=f"d{number}", open=False)
        leg("tool_ended", id=f"t{number}", ok=True, result_tokens=0)
    assert [(fact.durability, fact.backing) for fact in leg.view.facts[3:]] == [("", "")]
    assert list(leg.view.todos_open) == list(leg.view.in_flight) == [legview.OVERFLOW]


def test_more_files_than_fit_leave_a_fact_that_refuses(leg, monkeypatch):
    monkeypatch.setattr(legview, "FILES", 2)
    for path in ("a", "b", "a", "c", "d"):
        leg("file_written", path=path)
    assert leg.view.files_written == ["a", "b"]
    assert [(fact.durability, fact.backing) for fact in leg.view.facts] == [("", "")]


def test_totals_survive_calls_that_do_not_fit(leg, monkeypatch):
    monkeypatch.setattr(legview, "CALLS", 2)
    for number in range(5):
        leg.call(f"m{number}", input=10, cost=1)
    assert (len(leg.view.calls), leg.view.total.input, leg.view.spend) == (2, 50, Decimal(5))


def test_open_tasks(leg):
    leg("todo", id="1", open=True, label="write the test")
    leg("todo", id="2", open=True)
    leg("todo", id="1", open=False)
    assert leg.view.todos_open == {"2": "2"}


def test_unknown_kinds_are_counted(leg):
    leg("dance")
    leg("dance", x=1)
    assert (leg.view.unknown_events, leg.view.last_seq) == (2, 2)


# --- rules.md, Computed verdicts: tool errors "over how full the window was"


def test_a_tool_call_belongs_to_the_tenth_of_the_window_that_was_full_when_it_started(leg):
    leg.view.window = 1000
    leg.tool("before the first call")
    leg.call("a", input=99)
    leg.tool("t", ok=False)
    leg.call("b", input=100)
    leg("tool_started", id="long", name="x")
    leg.call("c", input=950)
    leg("tool_ended", id="long", ok=False, result_tokens=1)
    leg.tool("t")
    leg.call("d", input=5000)
    leg.tool("over", ok=False)
    assert leg.view.fullness == {0: [2, 1], 1: [1, 1], 9: [2, 1]}
    assert (leg.view.tool_calls, leg.view.tool_errors) == (5, 3)


def test_a_tool_that_starts_twice_or_never_is_counted_once_or_not(leg):
    leg.view.window = 10
    leg("tool_started", id="t", name="x")
    leg("tool_started", id="t", name="x")
    leg("tool_ended", id="t", ok=False, result_tokens=1)
    leg("tool_ended", id="t", ok=False, result_tokens=1)
    assert leg.view.fullness == {0: [1, 1]}


def test_without_a_window_nothing_is_said_about_fullness(leg):
    leg.tool("t", ok=False)
    assert leg.view.fullness == {}


# --- properties

ids = st.sampled_from(["a", "b", "c"])
tokens = st.integers(0, 1000)
one_event = st.one_of(
    st.just(("turn_started", {})),
    st.builds(
        lambda m, i, r, o, chain, cost: (
            "usage",
            {
                "model": "m",
                "message_id": m,
                "input": i,
                "cache_read": r,
                "cache_write_5m": 0,
                "cache_write_1h": 0,
                "output": o,
                "chain": chain,
                "cost": cost,
            },
        ),
        ids,
        tokens,
        tokens,
        tokens,
        st.sampled_from(["main", "sub"]),
        st.none() | st.integers(0, 9),
    ),
    st.builds(lambda t: ("tool_started", {"id": t, "name": "x"}), ids),
    st.builds(lambda t, ok, n: ("tool_ended", {"id": t, "ok": ok, "result_tokens": n}), ids, st.booleans(), tokens),
    st.builds(lambda label, b: ("fact", {"label": label, "class": "durable", "backing": b}), ids, st.none() | ids),
    st.builds(lambda t, o: ("todo", {"id": t, "open": o}), ids, st.booleans()),
    st.just(("park_tree", {})),
    st.just(("externalized", {})),
    st.builds(lambda f: ("boundary", {"next_actions": ["n"], "final": f}), st.booleans()),
    st.just(("dance", {"x": 1})),
)
streams = st.lists(one_event, max_size=25)


def events_of(stream, start=0):
    return [Event(kind, start + place, None, payload, kind != "dance") for place, (kind, payload) in enumerate(stream)]


def fold(events):
    view = LegView(window=1000)
    for event in events:
        view.apply(event)
    return view


@given(streams, st.data())
def test_replaying_a_prefix_changes_nothing(stream, data):
    events = events_of(stream)
    cut = data.draw(st.integers(0, len(events)))
    again = fold(events[:cut])
    assert not any(again.apply(event) for event in events[:cut])
    for event in events:
        again.apply(event)
    assert again == fold(events)


@given(streams)
def test_the_same_calls_under_new_numbers_are_never_counted_twice(stream):
    calls = [one for one in stream if one[0] == "usage"]
    once, twice = fold(events_of(calls)), fold(events_of(calls + calls))
    for name in (
        "total",
        "spend",
        "unpriced",
        "resident",
        "peak",
        "peak_turn",
        "turns",
        "output",
        "last_growth",
        "calls",
    ):
        assert getattr(once, name) == getattr(twice, name), name


@given(streams)
def test_figures_are_those_of_their_parts(stream):
    view = fold(events_of(stream))
    total = Buckets()
    for call in view.calls.values():
        total = Buckets(
            *(a + b for a, b in zip(total.as_mapping().values(), call.buckets.as_mapping().values(), strict=True))
        )
    assert view.total == total
    assert view.spend == sum((call.cost or 0 for call in view.calls.values()), Decimal(0))
    assert view.unpriced == sum(call.cost is None for call in view.calls.values())
    assert view.peak == max((resident(call.buckets) for call in view.calls.values() if call.main), default=0)
    assert view.last_growth >= 0
    assert view.tool_errors <= view.tool_calls
    assert sum(calls for calls, _ in view.fullness.values()) == view.tool_calls
    assert sum(errors for _, errors in view.fullness.values()) == view.tool_errors


def test_another_process_folds_the_same_view(tmp_path):
    """Recovery reads the events back as JSON in a process with another hash seed."""
    leg = Stream()
    lines = []
    for number in range(6):
        lines.append(
            (
                "usage",
                {
                    "model": "m",
                    "message_id": f"m{number}",
                    "input": number,
                    "cache_read": 7,
                    "cache_write_5m": 0,
                    "cache_write_1h": 0,
                    "output": 3,
                    "chain": "main",
                    "cost": 0.1,
                },
            )
        )
        lines.append(("tool_started", {"id": f"t{number}", "name": "x"}))
        lines.append(("fact", {"label": f"f{number % 4}", "class": "durable", "backing": None}))
        lines.append(("file_written", {"path": f"p{number}"}))
    for kind, fields in lines:
        leg(kind, **fields)
    stored = tmp_path / "events.json"
    stored.write_text(json.dumps(lines))
    program = (
        "import json, sys\n"
        "from relays.core.events import Event\n"
        "from relays.core.legview import LegView\n"
        "view = LegView()\n"
        "for place, (kind, payload) in enumerate(json.load(open(sys.argv[1])), 1):\n"
        "    view.apply(Event(kind, place, None, payload, True))\n"
        "print(repr(view), end='')\n"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program, str(stored)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == repr(leg.view)


def test_a_next_action_that_was_named_apart_stands_at_later_boundaries_until_another_is_named():
    view = LegView()
    for seq, (kind, payload) in enumerate(
        [
            ("next_action", {"text": "First."}),
            ("turn_started", {}),
            ("boundary", {"next_actions": [], "final": False}),
        ]
    ):
        view.apply(Event(kind, seq, None, payload))
    assert view.next_actions == ("First.",)
    view.apply(Event("next_action", TOLD, None, {"text": "Second."}))
    view.apply(Event("boundary", 3, None, {"next_actions": [], "final": True}))
    assert view.next_actions == ("Second.",) and view.told == 1
    view.apply(Event("boundary", 4, None, {"next_actions": ["At the boundary."], "final": True}))
    assert view.next_actions == ("At the boundary.",), "what is named at the boundary itself is newer"


def test_what_the_tool_is_told_takes_no_number_of_the_agent():
    view = LegView()
    view.apply(Event("turn_started", 0, None, {}))
    view.apply(Event("fact", TOLD, None, {"label": "x", "backing": None}))
    assert view.last_seq == 0 and view.seen.missing == (0, None) and [fact.label for fact in view.facts] == ["x"]
    view.apply(Event("turn_started", 1, None, {}))
    assert view.turns == 2

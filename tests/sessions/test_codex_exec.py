"""`codex exec --json`: usage is the thread's running total, over turns, resumes and files."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from relays.core.meter import Extract
from relays.core.replay import turns
from relays.core.usage import Buckets, resident
from tests.sessions.cuts import lines, read

START = {"type": "thread.started", "thread_id": "thread-one"}


def completed(read_: int, cached: int, output: int) -> dict[str, Any]:
    usage = {"input_tokens": read_, "cached_input_tokens": cached, "output_tokens": output}
    return {"type": "turn.completed", "usage": usage}


def item(kind: str, event: str = "item.completed", **more: Any) -> dict[str, Any]:
    return {"type": event, "item": {"id": "item_0", "type": kind, **more}}


def inputs(found: Extract) -> list[int]:
    return [resident(call.buckets) for call in found.calls.values()]


def test_t16_a_turn_is_what_it_added_to_the_thread() -> None:
    found = read(
        "codex-exec", lines(START, completed(16504, 0, 9), completed(85681, 60000, 20), completed(103779, 70000, 31))
    )
    assert inputs(found) == [16504, 69177, 18098]
    assert [call.buckets.output for call in found.calls.values()] == [9, 11, 11]
    # cost, and no word about the window
    assert {(call.chain, call.window) for call in found.calls.values()} == {("aux", None)}


def test_t16_a_repeated_total_is_no_turn_and_threads_are_kept_apart() -> None:
    other = {"type": "thread.started", "thread_id": "thread-two"}
    stream = lines(
        START, completed(100, 0, 1), completed(100, 0, 1), other, completed(70, 0, 1), START, completed(130, 0, 2)
    )
    found = read("codex-exec", stream)
    assert [(call.session, resident(call.buckets)) for call in found.calls.values()] == [
        ("thread-one", 100),
        ("thread-two", 70),
        ("thread-one", 30),
    ]


def test_t16_a_resumed_thread_in_another_file_is_judged_with_the_first_one() -> None:
    first = read("codex-exec", lines(START, completed(16504, 0, 9)))
    resumed = read("codex-exec", lines(START, completed(85681, 60000, 20)))
    added = turns(call.vector for found in (resumed, first, first) for call in found.calls.values())
    assert list(added.values()) == [
        Buckets(input=16504, output=9),
        Buckets(input=9177, cache_read=60000, output=11),
    ]
    (again,) = read("codex-exec", lines(START, completed(16504, 0, 9))).calls.values()
    assert again.key in {call.key for call in first.calls.values()}


def test_tools_and_what_they_did() -> None:
    commit = item(
        "command_execution", command="bash -lc 'git commit -m x'", aggregated_output="[main 1a2b3c4] x", exit_code=0
    )
    stream = lines(
        START,
        {"type": "turn.started"},
        item("command_execution", "item.started", command="ls", status="in_progress"),
        commit,
        item("command_execution", command="ls /none", exit_code=2, status="failed"),
        item("file_change", changes=[{"path": "a.py", "kind": "add"}], status="completed"),
        item("file_change", changes=[{"path": "b.py", "kind": "add"}], status="failed"),
        item("agent_message", text="done"),
        completed(10, 0, 1),
    )
    found = read("codex-exec", stream)
    (turn,) = found.calls.values()
    assert (turn.tools, turn.tool_errors) == (4, 2)
    assert {(act.kind, act.ref) for act in found.acts.values()} == {("commit", "1a2b3c4"), ("file", "a.py")}


def test_what_is_not_known_is_counted_and_shown() -> None:
    found = read(
        "codex-exec", lines(START, b"{cut", {"type": "odd.thing"}, item("odd"), {"type": "error", "message": "x"})
    )
    assert sorted((one.kind.value, one.detail) for one in found.anomalies.values()) == [
        ("broken_line", ""),
        ("unknown_type", "item/odd"),
        ("unknown_type", "odd.thing"),
    ]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 500), st.integers(0, 50)), max_size=12),
    st.sets(st.integers(1, 24)),
)
def test_any_cutting_gives_the_same(steps: list[tuple[int, int, int]], cuts: set[int]) -> None:
    records: list[dict[str, Any]] = []
    for thread, total, output in steps:
        records += [
            {"type": "thread.started", "thread_id": f"t{thread}"},
            item("web_search"),
            completed(total, total // 3, output),
        ]
    content = lines(*records)
    assert read("codex-exec", content, cuts) == read("codex-exec", content)

"""Codex rollouts: real samples to the last token, forks, epochs, compactions, tools, and any cutting."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relays.core.meter import AnomalyKind, Extract, Seen
from relays.core.replay import Row, split
from relays.core.usage import resident
from relays.sessions.reader import FORMS, Context
from tests.sessions.cuts import SAMPLES, lines, read

EXPECTED = {
    row["file"].removeprefix("codex/"): row
    for row in json.loads((SAMPLES / "expected.json").read_text())["files"]
    if row["agent"] == "codex"
}
PARENT, CHILD = "019d7d08-46c9-7f73-affe-4e6ca9852d56", "019d7e30-2f7a-7f60-a942-c59ab0be98d9"


def sample(name: str) -> bytes:
    return (SAMPLES / "codex" / name).read_bytes()


def own(found: Extract) -> list[Seen]:
    return [call for call in found.calls.values() if not call.copied]


def meta(thread: str = "thread-one", **more: Any) -> dict[str, Any]:
    payload = {"id": thread, "timestamp": "2026-05-01T10:00:00.000Z", "cwd": "/work", "cli_version": "0.150.0", **more}
    return {"timestamp": "2026-05-01T10:00:00.000Z", "type": "session_meta", "payload": payload}


def usage(read: int, cached: int, output: int, reasoning: int = 0) -> dict[str, int]:
    return {
        "input_tokens": read,
        "cached_input_tokens": cached,
        "output_tokens": output,
        "reasoning_output_tokens": reasoning,
        "total_tokens": read + output,
    }


def count(total: dict[str, int], last: dict[str, int] | None = None, **info: Any) -> dict[str, Any]:
    figures = {"total_token_usage": total, **info} | ({"last_token_usage": last} if last else {})
    return event("token_count", info=figures)


def event(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-05-01T10:00:01.000Z", "type": "event_msg", "payload": {"type": kind, **payload}}


def item(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-05-01T10:00:01.000Z", "type": "response_item", "payload": {"type": kind, **payload}}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_each_sample_alone_has_its_own_calls_to_the_last_token(name: str) -> None:
    found, right = read("codex-rollout", sample(name)), EXPECTED[name]
    calls = own(found)
    assert len(calls) == right["calls"]
    assert sum(call.buckets.input for call in calls) == right["tokens"]["input_tokens"]
    assert sum(call.buckets.cache_read for call in calls) == right["tokens"]["cache_read_input_tokens"]
    assert sum(call.buckets.output for call in calls) == right["tokens"]["output_tokens"]
    assert sum(call.reasoning for call in calls) == right["reasoning_output_tokens"]
    assert max(resident(call.buckets) for call in calls) == right["max_resident_tokens"]
    assert sorted({call.model for call in calls if call.model}) == right["models"]
    assert sorted({call.window for call in calls if call.window}) == right["context_windows"]
    assert found.records.get("token_count new epoch", [0])[0] == right["counter_resets"]
    assert found.records.get("token_count without figures", [0])[0] == right["info_null"]
    assert {call.chain for call in calls} == {"main"}
    assert not found.anomalies


def test_compactions_keep_what_was_declared_beside_what_was_measured() -> None:
    found = read("codex-rollout", sample("three-compactions.jsonl"))
    boundaries = sorted(found.compactions.values(), key=lambda one: one.line)
    right = EXPECTED["three-compactions.jsonl"]["compactions"]
    assert [(one.line, one.declared_post) for one in boundaries] == [(row["line"], row["post"]) for row in right]
    assert {(one.declared_pre, one.trigger) for one in boundaries} == {(None, "unknown")}
    calls = sorted(found.calls.values(), key=lambda call: call.line)
    for boundary, row in zip(boundaries, right, strict=True):
        before = [call for call in calls if call.line < boundary.line][-1]
        assert resident(before.buckets) + before.buckets.output == row["pre"]


def test_t15_a_fork_counts_only_what_it_did_itself_with_and_without_its_parent() -> None:
    parent = list(read("codex-rollout", sample("fork-parent.jsonl")).calls.values())
    found = read("codex-rollout", sample("fork-child.jsonl"))
    child = list(found.calls.values())
    as_rows = [Row(call.vector, call.turn, call.copied) for call in child]
    assert split(as_rows, [Row(call.vector, call.turn, call.copied) for call in parent]) == (54, "parent's totals")
    assert split(as_rows, None) == (54, "estimated")
    assert [call.copied for call in child] == ["estimated"] * 54 + [""] * 29
    native = sum(resident(call.buckets) + call.buckets.output for call in own(found))
    assert native == EXPECTED["fork-child.jsonl"]["native_total"]
    about = found.about[CHILD]
    assert (about.parent, about.copy_hint, set(found.about)) == (PARENT, True, {CHILD})


def test_t15_times_of_turns_prove_a_repetition_over_several_seconds() -> None:
    found = read("codex-rollout", sample("replay-multisecond.jsonl"))
    assert [call.copied for call in found.calls.values()] == ["replay", "replay", ""]
    assert found.about["multi-leaf"].parent == "multi-parent"


def test_t15_what_neither_times_nor_ids_say_is_estimated_by_the_burst() -> None:
    header = meta("child", forked_from_id="old")
    calls = [count(usage(n, 0, n)) for n in (100, 300)]
    later = count(usage(400, 0, 400)) | {"timestamp": "2026-05-01T10:05:00.000Z"}
    found = read("codex-rollout", lines(header, meta("old"), *calls, later))
    assert [call.copied for call in found.calls.values()] == ["estimated", "estimated", ""]


def test_a_child_without_its_parents_history_is_all_its_own() -> None:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "old", "depth": 1}}}
    turn = event("task_started", turn_id="t", started_at=1777629600)  # the second the session was made in
    found = read("codex-rollout", lines(meta("child", source=spawned), turn, count(usage(100, 0, 10))))
    assert [call.copied for call in found.calls.values()] == [""]
    assert (found.about["child"].parent, found.about["child"].copy_hint) == ("old", False)


def test_what_the_parent_did_is_not_the_childs_deed() -> None:
    patch = event("patch_apply_end", call_id="c", success=True, changes={"/srv/a.py": {}})
    old = event("task_started", turn_id="t1", started_at=1)
    new = event("task_started", turn_id="t2", started_at=1777629700)
    mine = event("patch_apply_end", call_id="d", success=True, changes={"/srv/b.py": {}})
    found = read("codex-rollout", lines(meta("child", forked_from_id="old"), meta("old"), old, patch, new, mine))
    assert [act.ref for act in found.acts.values()] == ["/srv/b.py"]


def test_t14_an_unchanged_total_is_no_call_and_a_fall_begins_a_new_epoch() -> None:
    first, fallen = usage(1000, 800, 100, 40), usage(300, 200, 50)
    found = read("codex-rollout", lines(meta(), count(first, first), count(first, first), count(fallen, fallen)))
    assert [(call.buckets.input, call.buckets.cache_read, call.buckets.output) for call in found.calls.values()] == [
        (200, 800, 100),
        (100, 200, 50),
    ]
    assert found.records["token_count repeated"][0] == found.records["token_count new epoch"][0] == 1
    assert [call.key for call in found.calls.values()] == ["codex:thread-one:1", "codex:thread-one:2"]


def test_t17_odd_windows_stay_as_they_are_and_are_not_clamped() -> None:
    big = usage(5000, 0, 10)
    found = read("codex-rollout", lines(meta(), count(big, big, model_context_window=2432)))
    (call,) = found.calls.values()
    assert (resident(call.buckets), call.window) == (5000, 2432)


def test_t17_after_a_compaction_there_is_no_call_of_nothing() -> None:
    before = usage(9000, 0, 10)
    declared = {"input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "total_tokens": 700}
    compacted = {"timestamp": "2026-05-01T10:00:02Z", "type": "compacted", "payload": {"message": "", "window_id": "w"}}
    found = read("codex-rollout", lines(meta(), count(before, before), compacted, count(before, declared)))
    assert len(found.calls) == 1
    assert found.compactions["thread-one", "w"].declared_post == 700


def test_t17_a_compaction_that_only_an_event_tells_is_one_and_both_together_are_one() -> None:
    before = usage(9000, 0, 10)
    told = event("context_compacted")
    record = {"timestamp": "2026-05-01T10:00:02Z", "type": "compacted", "payload": {"message": ""}}
    only_event = read("codex-rollout", lines(meta(), count(before, before), told))
    both = read("codex-rollout", lines(meta(), count(before, before), record, told))
    swapped = read("codex-rollout", lines(meta(), count(before, before), told, record))
    assert [len(one.compactions) for one in (only_event, both, swapped)] == [1, 1, 1]


def test_t17_impossible_counts_are_said_and_never_negative() -> None:
    odd = usage(100, 150, 5)
    found = read("codex-rollout", lines(meta(), count(odd, odd), count(usage(200, -7, 9) | {"total_tokens": 1})))
    assert {kind for kind, _, _ in found.anomalies} == {AnomalyKind.IMPLAUSIBLE_USAGE, AnomalyKind.IDENTITY_MISMATCH}
    first = found.calls["thread-one", "codex:thread-one:1"].buckets
    assert (first.input, first.cache_read) == (0, 150)


def test_t19_a_boundary_that_says_nothing_says_unknown() -> None:
    record = {"timestamp": "2026-05-01T10:00:02Z", "type": "compacted", "payload": {}}
    (boundary,) = read("codex-rollout", lines(meta(), record)).compactions.values()
    assert (boundary.trigger, boundary.declared_pre, boundary.declared_post) == ("unknown", None, None)
    assert boundary.uid == "codex::thread-one:line:2"


def test_tools_belong_to_the_call_that_asked_and_failures_are_counted() -> None:
    first, second = usage(1000, 0, 10), usage(2100, 900, 30)
    asked = [
        item("function_call", name="exec_command", call_id=name, arguments=json.dumps({"cmd": command}))
        for name, command in (("a", "git commit -m 'Close #12'"), ("b", "false"))
    ]
    ended = event("exec_command_end", call_id="b", exit_code=1)
    output = "Process exited with code 0\nOutput:\n[main 1a2b3c4] Close #12\n 1 file changed"
    found = read(
        "codex-rollout",
        lines(
            meta(),
            item("message", role="user"),
            *asked,
            item("function_call_output", call_id="a", output=output),  # before its call is counted
            count(first, first),
            ended,
            item("function_call_output", call_id="b", output=""),
            count(second, usage(1100, 900, 20)),
        ),
    )
    one, two = found.calls.values()
    assert (one.tools, one.tool_errors, two.tools) == (2, 1, 0)
    assert set(one.fill) == {"user text"}
    assert set(two.fill) == {"tool call", "tool result exec_command"}
    assert {(act.kind, act.ref, act.call) for act in found.acts.values()} == {
        ("commit", "1a2b3c4", one.key),
        ("issue", "#12", one.key),
    }


@pytest.mark.parametrize(
    "output",
    [
        '{"output":"no","metadata":{"exit_code":2}}',
        {"content": "no", "success": False},
        "Exit code: 127\nWall time: 0",
        [{"type": "input_text", "text": "Process exited with code 1"}],
    ],
)
def test_every_way_of_saying_that_a_tool_failed(output: object) -> None:
    asked = item("custom_tool_call", name="apply_patch", call_id="a", input="*** Begin Patch\n*** Add File: x.py\n")
    answer = item("custom_tool_call_output", call_id="a", output=output)
    found = read("codex-rollout", lines(meta(), asked, answer, count(usage(10, 0, 1))))
    (call,) = found.calls.values()
    assert (call.tools, call.tool_errors, len(found.acts)) == (1, 1, 0)


def test_a_patch_that_succeeded_names_its_files_once() -> None:
    asked = item("custom_tool_call", name="apply_patch", call_id="a", input="*** Begin Patch\n*** Add File: x.py\n")
    answer = item("custom_tool_call_output", call_id="a", output="ok")
    ended = event("patch_apply_end", call_id="a", success=True, changes={"/srv/x.py": {}})
    assert [act.ref for act in read("codex-rollout", lines(meta(), asked, answer)).acts.values()] == ["x.py"]
    assert [act.ref for act in read("codex-rollout", lines(meta(), asked, ended, answer)).acts.values()] == [
        "/srv/x.py"
    ]


def test_what_is_not_known_is_counted_and_shown() -> None:
    found = read(
        "codex-rollout",
        lines(b'{"type":', meta(), {"type": "brand_new", "payload": {}, "extra": 1}, event("odd"), item("odd"), b"[]"),
        path="sessions/rollout-2026-05-01T10-00-00-019f2016-8a7a-7440-a3d7-85ddf269a3d6.jsonl",
    )
    assert sorted((one.kind.value, one.detail, one.line) for one in found.anomalies.values()) == [
        ("broken_line", "", 1),
        ("broken_line", "", 6),
        ("unknown_key", "extra", 3),
        ("unknown_type", "brand_new", 3),
        ("unknown_type", "event_msg/odd", 4),
        ("unknown_type", "response_item/odd", 5),
    ]
    assert found.records["broken line"][0] == 2


def test_a_file_without_its_header_is_named_by_its_name() -> None:
    name = "sessions/rollout-2026-05-01T10-00-00-019f2016-8a7a-7440-a3d7-85ddf269a3d6.jsonl"
    found = read("codex-rollout", lines(count(usage(10, 0, 1))), path=name)
    assert list(found.calls) == [
        ("019f2016-8a7a-7440-a3d7-85ddf269a3d6", "codex:019f2016-8a7a-7440-a3d7-85ddf269a3d6:1")
    ]


CONTENT = {
    # the beginning of the fork, where marks change, and the stretch around a compaction
    "fork-child.jsonl": b"".join(line + b"\n" for line in sample("fork-child.jsonl").split(b"\n")[:430:3]),
    "three-compactions.jsonl": b"".join(
        line + b"\n" for line in [sample("three-compactions.jsonl").split(b"\n")[0]]
        + sample("three-compactions.jsonl").split(b"\n")[760:850]
    ),
    "replay-multisecond.jsonl": sample("replay-multisecond.jsonl"),
    "counter-reset-epochs.jsonl": sample("counter-reset-epochs.jsonl"),
}  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(CONTENT)), st.sets(st.integers(1, 160), max_size=40))
def test_any_cutting_gives_the_same(name: str, cuts: set[int]) -> None:
    assert read("codex-rollout", CONTENT[name], cuts) == read("codex-rollout", CONTENT[name])


def test_the_state_stays_small() -> None:
    reader = FORMS["codex-rollout"].make(Context(Path("x.jsonl")))
    largest = 0
    for number, raw in enumerate(sample("three-compactions.jsonl").split(b"\n"), 1):
        reader.line(number, raw)
        if number % 100 == 0:
            largest = max(largest, len(json.dumps(reader.state())))
    assert largest < 16_000

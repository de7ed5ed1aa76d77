"""Claude Code's session files: real samples to the last token, layouts, accounts, and any cutting."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relays.core.meter import AnomalyKind, Extract, Seen
from relays.core.usage import Buckets, resident
from relays.sessions.claude import ClaudeSession
from relays.sessions.reader import Context
from relays.sessions.recent import KEPT, Recent
from tests.sessions.claude_lines import SESSION, answer, asks, boundary, record, result, said, stamp, usage
from tests.sessions.cuts import SAMPLES, lines, merge, read

EXPECTED = {
    row["file"]: row for row in json.loads((SAMPLES / "expected.json").read_text())["files"] if "claude" in row["agent"]
}
CHILD = f"projects/x/{SESSION}/subagents/agent-a1.jsonl"


def session(*records: Any, cuts: Any = (), path: str = f"projects/x/{SESSION}.jsonl") -> Extract:
    return read("claude-session", lines(*records), cuts, path)


def call(found: Extract, key: str = "m1", sid: str = SESSION) -> Seen:
    return found.calls[sid, key]


def noted(found: Extract, kind: AnomalyKind) -> dict[str, int]:
    return {anomaly.detail: anomaly.count for anomaly in found.anomalies.values() if anomaly.kind == kind}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_sample_gives_exactly_its_figures(name: str) -> None:
    expected = EXPECTED[name]
    found = read("claude-session", (SAMPLES / name).read_bytes(), path=str(SAMPLES / name))
    calls = found.calls.values()
    five, hour = sum(c.buckets.cache_write_5m for c in calls), sum(c.buckets.cache_write_1h for c in calls)
    assert len({c.key for c in calls}) == expected["calls"]
    assert expected["tokens"] == {
        "input_tokens": sum(c.buckets.input for c in calls),
        "cache_creation_input_tokens": five + hour,
        "cache_read_input_tokens": sum(c.buckets.cache_read for c in calls),
        "output_tokens": sum(c.buckets.output for c in calls),
    }
    assert expected["ephemeral"] == {"5m": five, "1h": hour}
    main = [c for c in calls if c.chain == "main"]
    assert len(main) == expected["turns"]
    assert max((resident(c.buckets) for c in main), default=0) == expected["max_resident_tokens"]
    assert [
        {"line": c.line, "trigger": c.trigger, "pre": c.declared_pre, "post": c.declared_post}
        for c in found.compactions.values()
    ] == expected["compactions"]
    assert len(found.about) == expected["session_ids"]
    assert sum(noted(found, AnomalyKind.BROKEN_LINE).values()) == expected["broken_lines"]
    assert not noted(found, AnomalyKind.UNKNOWN_TYPE) and not noted(found, AnomalyKind.UNKNOWN_KEY)
    assert {a.version for a in found.about.values()} <= set(expected["versions"])
    assert sum(count for count, _ in found.records.values()) == expected["lines"]


@pytest.mark.parametrize("name", sorted(EXPECTED))
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_a_sample_cut_anywhere_gives_the_same(name: str, data: st.DataObject) -> None:
    content = (SAMPLES / name).read_bytes()
    cuts = data.draw(st.sets(st.integers(1, content.count(b"\n")), max_size=6))
    assert read("claude-session", content, cuts) == read("claude-session", content)


PIECES: list[Any] = [
    said(1),
    answer(2, "m1", usage(100, 1, long=5), asks("t1", "Bash", command="git commit -m 'fix #3'"), stop=None),
    answer(3, "m1", usage(100, 9, long=5), asks("t2", "Edit", file_path="/a.py")),
    result(4, "t1", "[main abc1234] fix\n 1 file changed"),
    result(5, "t2", failed=True),
    answer(6, "m2", usage(200, 3), version="2.1.40", stop=None),
    boundary(7, {"trigger": "auto", "preTokens": 500}),
    said(8, "summary", isCompactSummary=True),
    answer(9, "m3", usage(50, 3), isSidechain=True, parentUuid="nowhere"),
    answer(2, "m1", usage(100, 1, long=5), stop=None),
    record("progress", 10, data={"type": "agent_progress", "agentId": "a9", "message": answer(11, "m4", usage(7, 7))}),
    answer(12, "m5", usage(9, 9), sessionId="another"),
    answer(13, "m6", usage(9, 9), session_id="older", sessionKind="bg"),
    {"type": "cost-state", "totalCostUSD": 1.25, "sessionId": SESSION},
    {"type": "continued-in", "continuedInSessionId": "later", "sessionId": SESSION},
    {"type": "new-thing", "newKey": 1, "sessionId": SESSION},
    b'{"type":"assist{"type":"user"}',
    record("attachment", 14, attachment={"type": "skill_listing", "content": "x" * 40}),
    answer(15, "m7", usage(-1, 5)),
    answer(16, "m8", usage(0, 0, plain=0)),
    record("system", 17, subtype="microcompact_boundary", microcompactMetadata={"preTokens": 9, "tokensSaved": 4}),
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30), st.sets(st.integers(1, 30)), st.booleans())
def test_records_in_any_order_cut_anywhere_give_the_same(pieces: list[Any], cuts: set[int], sub: bool) -> None:
    path = CHILD if sub else f"projects/x/{SESSION}.jsonl"
    assert session(*pieces, cuts=cuts, path=path) == session(*pieces, path=path)


def test_many_calls_cut_anywhere_give_the_same_though_only_the_last_stay_open() -> None:
    records: list[Any] = []
    for n in range(1, 300, 3):
        records += [
            answer(n, f"m{n}", usage(n, 1), asks(f"t{n}", "Read")),
            answer(n + 1, f"m{n % 40}", usage(n, 5), asks(f"u{n}", "Grep"), isSidechain=n % 2 == 0),
            result(n + 2, f"t{n - 9}" if n % 4 else f"t{n}", failed=n % 5 == 0),
        ]
    assert session(*records, cuts=range(1, 301, 7)) == session(*records)


def test_chains_are_told_apart_in_all_layouts() -> None:
    one = answer(1, "m1", usage())
    assert call(session(one)).chain == "main"
    assert call(session(one | {"isSidechain": True})).chain == "sub"
    assert call(session(one | {"agentId": "a7"})).agent_id == "a7"
    for path in (CHILD, "projects/x/agent-a1.jsonl", f"p/{SESSION}/subagents/workflows/wf_1/agent-a1.jsonl"):
        assert (call(session(one, path=path)).chain, call(session(one, path=path)).agent_id) == ("sub", "a1")
    own = call(session(one, path=f"p/{SESSION}/subagents/agent-acompact-1f.jsonl"))
    assert (own.chain, own.agent_id) == ("aux", "acompact-1f")
    assert call(session(one, path="home/subagents/projects/x/file.jsonl")).chain == "main"


def test_a_nameless_sidechain_is_named_by_its_first_record() -> None:
    side = {"isSidechain": True}
    found = session(
        answer(1, "main", usage()),
        said(2, parentUuid=None, **side),
        answer(3, "a", usage(), **side),
        said(4, parentUuid=None, **side),
        answer(5, "b", usage(), **side),
        answer(6, "c", usage(), parentUuid="uuid-3", **side),
    )
    assert [call(found, key).agent_id for key in "abc"] == ["uuid-2", "uuid-4", "uuid-2"]


def test_a_record_without_a_session_belongs_to_the_one_before_it_or_to_the_files_own() -> None:
    bare = {key: value for key, value in answer(1, "m1", usage()).items() if key != "sessionId"}
    assert set(session(bare).calls) == {(SESSION, "m1")}
    assert set(session(bare, path=CHILD).calls) == {(SESSION, "m1")}
    assert set(session(answer(1, "m0", usage(), sessionId="s"), bare | {"uuid": "u2"}).calls) == {
        ("s", "m0"),
        ("s", "m1"),
    }


def test_a_key_is_the_messages_id_else_the_requests_else_the_uuid() -> None:
    found = session(
        answer(1, None, usage(), requestId="req"),
        answer(2, None, usage(), requestId="req"),
        answer(3, None, usage()),
        {key: value for key, value in answer(4, None, usage()).items() if key != "uuid"},
    )
    assert {"req", "uuid-3"} < {key for _, key in found.calls}
    assert len(found.calls) == 3


def test_a_call_without_any_id_is_known_by_its_content_at_whatever_line() -> None:
    said = [{key: value for key, value in answer(n, None, usage()).items() if key != "uuid"} for n in (1, 2)]
    whole, shifted = session(*said), session({"type": "summary"}, said[1], said[1])
    assert len(whole.calls) == 2 and len(shifted.calls) == 1 and shifted.calls.keys() < whole.calls.keys()


def test_rows_that_are_no_calls_are_left_out() -> None:
    nested = usage(0, 0, plain=0) | {"cache_creation": {"ephemeral_1h_input_tokens": 87}}
    found = session(answer(1, "m1", nested), answer(2, "m2", usage(), model="<synthetic>"), answer(3, "m3", None))
    assert not found.calls


def test_the_cache_writes_of_a_row_are_the_larger_of_total_and_lifetimes() -> None:
    def writes(total: int, short: int, long: int) -> Buckets:
        row = usage() | {
            "cache_creation_input_tokens": total,
            "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
        }
        return call(session(answer(1, "m1", row))).buckets

    assert (writes(0, 3, 4).cache_write_5m, writes(0, 3, 4).cache_write_1h) == (3, 4)
    assert (writes(10, 3, 4).cache_write_5m, writes(10, 3, 4).cache_write_1h) == (6, 4)
    unsplit = {key: value for key, value in usage(short=9).items() if key != "cache_creation"}
    assert call(session(answer(1, "m1", unsplit))).buckets.cache_write_5m == 9


def test_iterations_are_never_added_and_thinking_is_part_of_the_output() -> None:
    row = usage(100, 50, iterations=[usage(100, 50)], output_tokens_details={"thinking_tokens": 30})
    seen = call(session(answer(1, "m1", row)))
    assert (seen.buckets.output, seen.buckets.cache_read, seen.reasoning) == (50, 100, 30)


@pytest.mark.parametrize(
    ("version", "stop", "bound"),
    [
        ("2.1.39", None, True),
        ("2.1.39", "tool_use", False),
        ("1.0.108", None, True),
        ("2.1.124", None, True),
        ("2.1.125", None, False),
        ("2.2.0", None, False),
        ("3.0.0-beta.1", None, False),
        ("odd", None, True),
        (None, None, True),
    ],
)
def test_output_is_a_lower_bound_until_a_row_knows_why_it_stopped(version: Any, stop: Any, bound: bool) -> None:
    assert call(session(answer(1, "m1", usage(), version=version, stop=stop))).lower_bound is bound


def test_one_final_row_makes_the_output_exact() -> None:
    old = {"version": "2.1.39"}
    rows = [answer(1, "m1", usage(100, 1), stop=None, **old), answer(2, "m1", usage(100, 9), **old)]
    assert not call(session(*rows)).lower_bound
    assert not call(session(*rows[::-1])).lower_bound


def test_impossible_figures_are_said_and_not_counted() -> None:
    found = session(answer(1, "m1", usage(-5, 10**15)), answer(2, "m2", usage(-5, 3)), answer(3, "m2", usage(-5, 3)))
    assert noted(found, AnomalyKind.IMPLAUSIBLE_USAGE) == {"cache_read_input_tokens": 3, "output_tokens": 1}
    assert call(found, "m2").buckets == Buckets(1, 0, 0, 0, 3)


def test_results_of_tools_count_for_the_call_that_asked() -> None:
    found = session(
        answer(1, "m1", usage(), asks("t1", "Bash", command="ls"), asks("t2", "Read", file_path="/a")),
        result(2, "t1", failed=True),
        answer(3, "m2", usage(), asks("t3", "Grep")),
        result(4, "t2"),
        result(5, "t3"),
        result(6, "never asked"),
        result(7, "t3"),
        cuts=range(1, 7),
    )
    assert [(call(found, key).tools, call(found, key).tool_errors) for key in ("m1", "m2")] == [(2, 1), (1, 0)]
    assert {kind: entry[0] for kind, entry in found.records.items() if "result" in kind} == {
        "tool result Bash": 1,
        "tool result Read": 1,
        "tool result Grep": 1,
        "tool result": 2,
    }


def test_a_task_of_many_calls_still_answers_the_call_that_asked() -> None:
    inner = [answer(n, f"s{n}", usage(), isSidechain=True) for n in range(2, 90)]
    found = session(answer(1, "m1", usage(), asks("t1", "Task")), *inner, result(90, "t1"), cuts=range(1, 90, 11))
    assert call(found).tools == 1


def test_the_window_is_filled_by_what_stands_between_two_calls_of_the_main_chain() -> None:
    found = session(
        said(1, "x" * 30),
        answer(2, "m1", usage(), {"type": "text", "text": "y" * 20}, stop=None),
        answer(3, "m1", usage(), asks("t1", "Bash", command="ls")),
        answer(4, "s1", usage(), {"type": "text", "text": "not in the window"}, isSidechain=True),
        result(5, "t1", [{"type": "text", "text": "zä" * 5}]),
        record("attachment", 6, attachment={"type": "text", "text": "w" * 7}),
        answer(7, "m2", usage(), {"type": "thinking", "thinking": "hm", "signature": "s"}),
        boundary(8),
        said(9, "v" * 11, isCompactSummary=True),
        answer(10, "m3", usage()),
        cuts=(2, 3, 5, 8),
    )
    assert call(found, "m1").fill == {"user text": 30}
    assert call(found, "m2").fill == {
        "assistant text": 20,
        "tool call": len('{"command":"ls"}'),
        "tool result Bash": 15,
        "attachment text": 7,
    }
    assert call(found, "m3").fill == {"assistant thinking": 2, "compact summary": 11}
    assert call(found, "s1").fill == {}


def test_what_a_session_durably_did() -> None:
    found = session(
        answer(1, "m1", usage(), asks("t1", "Bash", command="git commit -am 'Fix #12' && git push")),
        result(2, "t1", "[main abc1234] Fix #12\nTo host\n   0000000..def5678  main -> main"),
        answer(
            3,
            "m2",
            usage(),
            asks("t2", "Write", file_path="/w/a.py"),
            asks("t3", "NotebookEdit", notebook_path="/w/b.ipynb"),
        ),
        result(4, "t2"),
        result(5, "t3"),
        answer(6, "m3", usage(), asks("t4", "Edit", file_path="/w/refused.py")),
        result(7, "t4", failed=True),
        answer(8, "m4", usage(), asks("t5", "Bash", command="gh issue close 7 --repo o/n")),
        answer(9, "m5", usage(), asks("t6", "Bash", command="cat log")),
        result(10, "t6", "[main 9999999] only quoted"),
    )
    assert {(act.kind, act.ref): act.call for act in found.acts.values()} == {
        ("commit", "abc1234"): "m1",
        ("commit", "def5678"): "m1",
        ("issue", "#12"): "m1",
        ("file", "/w/a.py"): "m2",
        ("file", "/w/b.ipynb"): "m2",
        ("issue", "o/n#7"): "m4",
    }


def test_what_the_file_says_of_its_session() -> None:
    found = session(
        said(5),
        said(3, cwd="/srv/other", gitBranch="next"),
        {"type": "cost-state", "totalCostUSD": 0.146907, "sessionId": SESSION},
        {"type": "continued-in", "continuedInSessionId": "later", "sessionId": SESSION},
    )
    about = found.about[SESSION]
    assert (about.cwd, about.branch, about.version) == ("/srv/other", "next", "2.1.226")
    assert (about.first_at, about.last_at, about.reported_cost) == (stamp(3), stamp(5), "0.146907")
    assert (about.copy_hint, about.parent) == (False, "")
    assert (found.about["later"].copy_hint, found.about["later"].parent) == (True, SESSION)


def test_only_what_says_that_it_is_a_copy_is_taken_for_one() -> None:
    background = {"sessionKind": "bg"}
    assert not session(said(1, **background), said(2, **background)).about[SESSION].copy_hint
    assert session(said(1), said(2, **background), cuts=[1]).about[SESSION].copy_hint
    copied = session(said(1, session_id="first"), said(2, session_id="second"), said(3, session_id=SESSION)).about[
        SESSION
    ]
    assert (copied.copy_hint, copied.parent) == (True, "second")
    forked = session(said(1, forkedFrom={"sessionId": "first", "messageUuid": "u"})).about[SESSION]
    assert (forked.copy_hint, forked.parent) == (True, "first")


def test_a_sub_agents_compaction_is_not_the_sessions() -> None:
    found = session(boundary(1, {"preTokens": 5}), path=CHILD)
    assert not found.compactions
    assert found.records["system compact_boundary"][0] == 1


def test_a_microcompaction_declares_what_it_saved() -> None:
    said_of_it = {"trigger": "auto", "preTokens": 78208, "tokensSaved": 38535, "compactedToolIds": []}
    (one,) = session(
        record("system", 1, subtype="microcompact_boundary", microcompactMetadata=said_of_it)
    ).compactions.values()
    assert (one.kind, one.trigger, one.declared_pre, one.declared_post) == ("microcompact", "auto", 78208, 39673)


def test_names_are_bounded_however_many_a_file_has() -> None:
    records = [{"type": f"type-{n}", f"key-{n}": n, "sessionId": SESSION} for n in range(500)]
    found = session(*records)
    assert len(found.records) < 130 and len(found.anomalies) < 260
    assert noted(found, AnomalyKind.UNKNOWN_TYPE)["(others)"] + len(noted(found, AnomalyKind.UNKNOWN_TYPE)) - 1 == 500
    assert session(*records, cuts=range(1, 500, 50)) == found


def test_state_stays_small_however_long_the_file_is() -> None:
    reader = ClaudeSession(Context(Path("a.jsonl")))
    sizes = []
    for n in range(1, 3 * KEPT + 1):
        reader.line(n, json.dumps(answer(n, f"m{n}", usage(n), asks(f"t{n}", "Write", file_path=f"/{n}"))).encode())
        if n % KEPT == 0:
            sizes.append(len(json.dumps(reader.state())))
            reader.take()
    assert max(sizes) < 64_000


def test_a_record_is_known_again_within_the_window_that_is_promised() -> None:
    recent = Recent()
    for n in range(KEPT):
        assert not recent.add("user", f"u{n}")
    later = Recent(json.loads(json.dumps(recent.state())))
    for one in (recent, later):
        assert one.add("user", "u0") and one.add("user", f"u{KEPT - 1}")
        assert not one.add("assistant", "u5") and one.add("assistant", "u5") and one.add("user", "u5")
        assert one.knows("u7") and not one.knows("never")
        for n in range(KEPT, 3 * KEPT):
            assert not one.add("user", f"u{n}")
        assert not one.knows("u7")


def test_half_a_letter_or_a_very_long_text_does_not_lose_a_call() -> None:
    half = json.dumps(answer(1, "m1", usage(), {"type": "text", "text": "\ud83d"})).encode()
    assert call(session(half)).buckets.output == 10
    odd = json.dumps(answer(1, "m1", usage())).encode().replace(b"done", b"\xff\xfe")
    assert call(session(odd)).buckets.output == 10
    long = said(1, "é" + 'x\\" ' * 1_500_000)
    found = session(long, answer(2, "m1", usage()))
    assert 4_500_000 < call(found).fill["user text"] < 12_000_000
    assert found.records["user text"][1] == len(lines(long)) - 1


def test_parts_of_a_file_add_up_when_merged_twice() -> None:
    found = session(*PIECES)
    again = merge([session(*PIECES), session(*PIECES)])
    assert again.calls == found.calls and again.compactions == found.compactions and again.acts == found.acts

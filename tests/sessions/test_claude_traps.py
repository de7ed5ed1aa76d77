"""Each public report of a meter that was wrong on Claude Code's files (sessions.md, 6), as a test of its reader."""

from typing import Any

from relays.core.meter import AnomalyKind, Extract
from relays.core.usage import Buckets, resident
from tests.sessions.claude_lines import SESSION, answer, asks, boundary, record, result, said, stamp, usage
from tests.sessions.cuts import SAMPLES, lines, read
from tests.sessions.test_claude import CHILD, call, noted, session


def total(found: Extract) -> Buckets:
    both = found.calls.values()
    return Buckets(*(sum(c.buckets.as_mapping()[name] for c in both) for name in Buckets().as_mapping()))


def test_t01_rows_of_one_call_give_their_maximum_once() -> None:
    rows = [answer(n, "m1", usage(100, output, long=7), stop=None) for n, output in enumerate((1, 40, 26), 1)]
    for order in (rows, rows[::-1]):
        assert total(session(*order)) == Buckets(1, 100, 0, 7, 40)


def test_t02_a_missing_request_id_changes_nothing() -> None:
    rows = [answer(1, "m1", usage()), answer(2, "m1", usage(), requestId="r"), answer(3, "m1", usage())]
    assert total(session(*rows)) == total(session(rows[0]))


def test_t03_a_copied_message_keeps_its_key_in_the_other_session() -> None:
    mine = session(answer(1, "m1", usage()))
    copy = session(answer(1, "m1", usage(), sessionId="copy"), path="projects/x/copy.jsonl")
    assert {key for _, key in mine.calls} == {key for _, key in copy.calls} == {"m1"}
    assert {sid for sid, _ in copy.calls} == {"copy"}


def test_t04_one_hour_writes_stay_apart_from_five_minute_writes() -> None:
    assert total(session(answer(1, "m1", usage(0, 1, short=30, long=70)))) == Buckets(1, 0, 30, 70, 1)


def test_t05_a_sub_agents_file_costs_and_is_no_context_of_the_main_chain() -> None:
    seen = call(session(answer(1, "m1", usage()), path=CHILD))
    assert (seen.session, seen.chain, seen.agent_id) == (SESSION, "sub", "a1")


def test_t05_a_message_nested_in_progress_counts_once_in_the_sub_chain() -> None:
    nested = {"type": "assistant", "timestamp": stamp(9), "message": answer(1, "m9", usage(50))["message"], "uuid": "n"}
    one = {"type": "agent_progress", "agentId": "a9", "message": nested, "normalizedMessages": [nested, nested]}
    asked = {**nested, "message": answer(1, "m9", usage(50), asks("t9", "Read"))["message"]}
    back = {"type": "user", "message": result(1, "t9", failed=True)["message"]}
    found = session(
        record("progress", 1, data=one),
        record("progress", 2, data=one | {"message": asked}),
        record("progress", 3, data=one | {"message": back}),
    )
    (seen,) = found.calls.values()
    assert (seen.key, seen.chain, seen.agent_id, seen.at) == ("m9", "sub", "a9", stamp(9))
    assert (seen.tools, seen.tool_errors, resident(seen.buckets)) == (1, 1, 51)


def test_t06_rows_that_a_compaction_appends_again_are_known_by_their_uuid() -> None:
    history = [
        said(1, "x" * 50),
        answer(2, "m1", usage(), asks("t1", "Write", file_path="/a")),
        result(3, "t1"),
        boundary(4, {"trigger": "auto", "preTokens": 9}),
        said(5, "summary", isCompactSummary=True),
        answer(6, "m2", usage(40)),
    ]
    once, again = session(*history), session(*history, *history, cuts=(4, 8))
    assert again.calls == once.calls and again.compactions == once.compactions and again.acts == once.acts
    assert sum(noted(again, AnomalyKind.REPEATED_RECORD).values()) == 6
    assert again.records["repeated record"][0] == 6
    assert session(*history, *history, answer(7, "m3", usage())).calls[SESSION, "m3"].fill == {"assistant text": 4}


def test_t07_what_a_compaction_declares_stays_apart_from_what_calls_measure() -> None:
    found = session(
        answer(1, "m1", usage(200_000)),
        boundary(2, {"trigger": "auto", "preTokens": 213_002, "postTokens": 17_692, "durationMs": 148_804}),
        said(3, "summary", isCompactSummary=True),
    )
    (one,) = found.compactions.values()
    assert (one.declared_pre, one.declared_post, one.duration_ms) == (213_002, 17_692, 148_804)
    assert [resident(seen.buckets) for seen in found.calls.values()] == [200_001]


def test_t08_a_summary_is_not_something_that_the_user_said() -> None:
    found = session(
        said(1), boundary(2, {"trigger": "manual"}), said(3, isCompactSummary=True), answer(4, "m", usage())
    )
    assert (found.records["user text"][0], found.records["compact summary"][0]) == (1, 1)
    assert [one.trigger for one in found.compactions.values()] == ["manual"]


def test_t08_the_command_that_is_written_after_its_boundary_steps_back_in_time() -> None:
    found = session(said(1), boundary(9), said(2, timestamp=stamp(5)), answer(10, "m1", usage(), parentUuid="uuid-2"))
    assert noted(found, AnomalyKind.TIME_BACKWARDS) == {"": 1}
    assert list(found.compactions)[0][1] == "uuid-9" and found.calls


def test_t08_a_compaction_that_was_cancelled_leaves_no_boundary() -> None:
    found = session(said(1), answer(2, "m1", usage()), said(3, "/compact"), answer(4, "m2", usage()))
    assert not found.compactions


def test_t09_a_broken_chain_is_noted_and_everything_is_still_read() -> None:
    found = session(answer(1, "m1", usage()), answer(2, "m2", usage(), parentUuid="gone"), answer(3, "m3", usage()))
    assert noted(found, AnomalyKind.CHAIN_BREAK) == {"": 1}
    assert [key for _, key in found.calls] == ["m1", "m2", "m3"]
    cycle = session(answer(1, "m1", usage(), parentUuid="uuid-2"), answer(2, "m2", usage(), parentUuid="uuid-1"))
    assert len(cycle.calls) == 2


def test_t10_a_snapshot_with_the_uuid_of_a_message_is_not_that_message() -> None:
    snapshot = {"type": "file-history-snapshot", "uuid": "uuid-1", "messageId": "uuid-1", "snapshot": {}}
    for order in ([snapshot, answer(1, "m1", usage())], [answer(1, "m1", usage()), snapshot]):
        found = session(*order)
        assert not noted(found, AnomalyKind.REPEATED_RECORD)
        assert len(found.calls) == 1 and found.records["other file-history-snapshot"][0] == 1


def test_t11_a_line_that_was_cut_is_said_and_what_stands_before_and_after_it_is_kept() -> None:
    whole = lines(answer(1, "m1", usage()), answer(2, "m2", usage()))
    torn = whole[:-40] + b"\n" + lines(answer(3, "m3", usage())) + b"\0\0\0\n\n"
    found = read("claude-session", torn, path=f"{SESSION}.jsonl")
    assert [key for _, key in found.calls] == ["m1", "m3"]
    assert noted(found, AnomalyKind.BROKEN_LINE) == {"": 2}
    broken = read("claude-session", (SAMPLES / "claude" / "two-broken-lines.jsonl").read_bytes())
    assert [a.line for a in broken.anomalies.values() if a.kind == AnomalyKind.BROKEN_LINE] == [115]


def test_t12_unknown_types_and_keys_are_counted_by_name() -> None:
    found = session(
        {"type": "hologram", "sessionId": SESSION},
        {"type": "hologram", "sessionId": SESSION},
        {"type": ["odd"]},
        record("system", 1, subtype="levitation"),
        answer(2, "m1", usage(new_tokens=3), brandNew=1),
        {"type": "artifact-anything", "sessionId": SESSION},
    )
    assert noted(found, AnomalyKind.UNKNOWN_TYPE) == {"hologram": 2, "no type": 1, "system/levitation": 1}
    assert noted(found, AnomalyKind.UNKNOWN_KEY) == {"usage.new_tokens": 1, "brandNew": 1}
    assert found.records["other hologram"][0] == 2 and call(found).buckets.output == 10


def test_t13_usage_is_counted_once_and_every_block_is_kept() -> None:
    found = session(
        answer(1, "m1", usage(), {"type": "thinking", "thinking": "a"}, requestId="r"),
        answer(2, "m1", usage(), {"type": "text", "text": "bb"}, requestId="r"),
        answer(3, "m1", usage(), asks("t1", "Bash"), asks("t2", "Bash"), requestId="r"),
        result(4, "t1"),
        result(5, "t2"),
        answer(6, "m2", usage()),
    )
    assert call(found).tools == 2
    assert {kind: entry[0] for kind, entry in found.records.items()} == {
        "assistant thinking": 1,
        "assistant text": 2,
        "tool call": 1,
        "tool result Bash": 2,
    }
    assert call(found, "m2").fill == {
        "assistant thinking": 1,
        "assistant text": 2,
        "tool call": 4,
        "tool result Bash": 8,
    }


def test_t19_a_boundary_that_says_nothing_of_itself_is_unknown_not_a_number() -> None:
    odd: list[Any] = [None, {}, {"trigger": 7, "preTokens": "many", "postTokens": -1, "durationMs": None}]
    for said_of_it in odd:
        (one,) = session(boundary(1, said_of_it)).compactions.values()
        assert (one.trigger, one.declared_pre, one.declared_post, one.duration_ms) == ("unknown", None, None, None)


def test_t20_the_window_is_that_of_each_call_never_a_sum() -> None:
    found = session(*(answer(n, f"m{n}", usage(60_000)) for n in range(1, 6)))
    assert [resident(seen.buckets) for seen in found.calls.values()] == [60_001] * 5
    assert not found.compactions


def test_t21_a_side_question_that_replays_messages_under_new_requests_adds_nothing() -> None:
    rows = [answer(n, f"m{n}", usage(n), requestId=f"r{n}") for n in (1, 2)]
    replayed = [row | {"uuid": f"new-{n}", "requestId": f"s{n}"} for n, row in enumerate(rows)]
    assert total(session(*rows, *replayed)) == total(session(*rows))
    aside = session(answer(9, "q", usage()), path=f"p/{SESSION}/subagents/agent-aside_question-1f.jsonl")
    assert call(aside, "q").chain == "aux"


def test_t22_a_hook_is_a_hint_and_the_boundary_is_the_truth() -> None:
    hook = record("progress", 1, data={"type": "hook_progress", "hookEvent": "PreCompact"})
    assert not session(hook, answer(2, "m1", usage())).compactions
    assert len(session(boundary(1, {"trigger": "auto"})).compactions) == 1


def test_t24_a_session_that_never_compacts_shows_its_real_size() -> None:
    found = session(*(answer(n, f"m{n}", usage(50_000 * n)) for n in range(1, 10)))
    assert max(resident(seen.buckets) for seen in found.calls.values()) == 450_001
    assert not found.compactions

"""Files that no agent should write, through the tables: none of them ends an import, and none loses or invents figures.

Issue: "Numbers must be right where other tools are wrong"; sessions.md: "never a crash and never silence".
"""

import json
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from relays.models import Session, SessionAnomaly, SessionCall, SessionFile, SessionLeg, SourceFile
from relays.sessions import intake, jsonline
from relays.sessions.reading import Task, read_part
from relays.sessions.run import import_paths
from relays.sessions.totals import totals
from tests.sessions.claude_lines import SESSION, answer, asks, result, stamp, usage
from tests.sessions.test_codex import count, event, meta
from tests.sessions.test_codex import usage as codex_usage

pytestmark = pytest.mark.django_db


def written(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def test_a_call_without_a_time_and_the_act_of_a_sub_agent_leave_the_session_its_figures(tmp_path: Path) -> None:
    written(
        tmp_path / f"{SESSION}.jsonl",
        answer(1, "a", usage(100)),
        answer(2, "b", usage(200), timestamp="yesterday"),
        answer(3, "c", usage(300)),
    )
    agent = {"isSidechain": True, "agentId": "b"}
    written(
        tmp_path / SESSION / "subagents" / "agent-b.jsonl",
        answer(1, "s", usage(5), asks("t", "Write", file_path="/srv/project/made.py"), **agent, timestamp=stamp(2)),
        result(2, "t", **agent),
    )
    outcome = import_paths([tmp_path])
    session = Session.objects.get()
    assert (session.calls, session.max_resident) == (4, 301)
    leg = SessionLeg.objects.get()
    assert "made.py" in json.dumps(leg.baton)
    assert totals(outcome.sources)["calls"] == 4


def test_times_of_other_zones_are_compared_as_times(tmp_path: Path) -> None:
    """In one look and in two the same: 23:00 at +05:00 is before 20:00 in UTC."""
    east, west, plain = "2026-01-01T23:00:00+05:00", "2026-01-01T12:00:00-12:00", "2026-01-01T20:00:00.000Z"
    records = [answer(n, f"k{n}", usage(n), timestamp=at) for n, at in enumerate((east, plain, west, "2026-01-01"), 1)]
    path = written(tmp_path / f"{SESSION}.jsonl", *records[:1])
    for end in range(2, 5):
        import_paths([path])
        with path.open("a") as file:
            file.write(json.dumps(records[end - 1]) + "\n")
    import_paths([path])
    session = Session.objects.get()
    assert (str(session.first_at), str(session.last_at)) == ("2026-01-01 00:00:00+00:00", "2026-01-02 00:00:00+00:00")
    once = read_part(Task(str(path)))
    about = once.about[SESSION]
    assert (about["first_at"], about["last_at"]) == ("2026-01-01 00:00:00", "2026-01-02 00:00:00")
    assert SessionFile.objects.get().about == about


def test_absurd_figures_are_added_up_without_an_overflow(tmp_path: Path) -> None:
    most = 10**12
    absurd = usage(most, most, plain=most, short=most)
    path = written(
        tmp_path / f"{SESSION}.jsonl",
        *(answer(n, f"k{n}", absurd, model="claude-opus-4-1-20250805") for n in range(1, 41)),
    )
    outcome = import_paths([path])
    session = Session.objects.get()
    # per million: input 15, cache read 1.50, 5-minute write 18.75, output 75
    assert session.cost == Decimal("110.25") * 10**6 * 40
    assert session.input_tokens == 40 * most
    assert Decimal(totals(outcome.sources)["cost"]) == session.cost


def test_a_sum_that_no_column_holds_is_no_figure_and_no_crash(tmp_path: Path) -> None:
    most = 10**12
    absurd = usage(most, most, plain=most, short=most)
    path = written(
        tmp_path / f"{SESSION}.jsonl",
        *(answer(n, f"k{n}", absurd, model="claude-opus-4-1-20250805") for n in range(1, 101)),
    )
    import_paths([path])
    session = Session.objects.get()
    assert (session.calls, session.cost) == (100, None)


def test_a_folder_whose_name_differs_only_in_case_is_another_folder(tmp_path: Path) -> None:
    other = SESSION.replace("1111", "2222")
    written(tmp_path / "Project" / f"{SESSION}.jsonl", answer(1, "a", usage(100)))
    written(tmp_path / "project" / f"{other}.jsonl", answer(1, "b", usage(100), sessionId=other))
    for name in ("Project", "project", "Project"):
        found = totals(import_paths([tmp_path / name]).sources)
        assert (found["files"], found["sessions"], found["calls"]) == (1, 1, 1)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_codex_sessions_that_name_each_other_as_parents_lose_no_call(tmp_path: Path, order: tuple[int, int]) -> None:
    names = [f"{letter * 8}-1111-4111-8111-{letter * 12}" for letter in "ab"]
    for mine, parent in (names, names[::-1]):
        calls = [count(codex_usage(n * 100, 0, n), codex_usage(100, 0, 1)) for n in range(1, 4)]
        written(
            tmp_path / f"rollout-2026-01-01T00-00-00-{mine}.jsonl",
            meta(mine, forked_from_id=parent),
            event("task_started", turn_id="t"),
            *calls,
        )
    for one in order:
        import_paths([tmp_path / f"rollout-2026-01-01T00-00-00-{names[one]}.jsonl"])
    assert dict(Session.objects.values_list("sid", "calls")) == {names[0]: 3, names[1]: 0}


def test_a_compaction_that_a_fork_repeats_is_its_parents_in_every_total(tmp_path: Path) -> None:
    parent, child = (f"{letter * 8}-1111-4111-8111-{letter * 12}" for letter in "ab")
    compacted = {"timestamp": stamp(4), "type": "compacted", "payload": {"message": ""}}
    calls = [count(codex_usage(n * 100, 0, n), codex_usage(100, 0, 1)) for n in range(1, 6)]
    history = [*calls[:2], compacted, calls[2]]
    written(tmp_path / f"rollout-2026-01-01T00-00-00-{parent}.jsonl", meta(parent), *history)
    fork = written(
        tmp_path / f"rollout-2026-01-02T00-00-00-{child}.jsonl",
        meta(child, forked_from_id=parent),
        *history,
        *calls[3:],
    )
    both = totals(import_paths([tmp_path]).sources)
    alone = totals(import_paths([fork]).sources)
    assert (both["calls"], both["compactions"]) == (5, 1)
    assert (alone["calls"], alone["compactions"]) == (2, 0)
    assert Session.objects.get(sid=child).compactions == 0


def test_a_file_that_was_emptied_keeps_what_was_read_of_it_at_every_look(tmp_path: Path) -> None:
    path = written(tmp_path / f"{SESSION}.jsonl", answer(1, "a", usage(100)))
    import_paths([path])
    path.write_text("")
    for _ in range(2):
        outcome = import_paths([path])
        assert (totals(outcome.sources)["calls"], outcome.skipped) == (1, 0)
    with path.open("a") as file:
        file.write(json.dumps(answer(2, "b", usage(100))) + "\n")
    assert totals(import_paths([path]).sources)["calls"] == 2


def test_names_that_never_end_fill_no_table(tmp_path: Path) -> None:
    path = tmp_path / "rollout-2026-01-01T00-00-00-aaaaaaaa-1111-4111-8111-111111111111.jsonl"
    names = [{"timestamp": stamp(1), "type": f"t{n}", "payload": {}} for n in range(500)]
    written(path, meta("aaaaaaaa-1111-4111-8111-111111111111"), *names)
    import_paths([path])
    with path.open("a") as file:
        file.writelines(json.dumps({"timestamp": stamp(1), "type": f"u{n}", "payload": {}}) + "\n" for n in range(500))
    import_paths([path])
    kinds = SessionAnomaly.objects.filter(kind="unknown_type")
    assert kinds.count() == intake.MOST_NAMES + 1
    assert sum(kinds.values_list("count", flat=True)) == 1000
    records = SourceFile.objects.get().records
    assert len(records) == intake.MOST_NAMES + 1
    assert sum(number for number, _ in records.values()) == 1001


def test_a_long_line_of_tiny_values_is_not_made_into_objects() -> None:
    tail = b'"usage":{"input_tokens":3}}'
    texts = b'{"type":"assistant","content":[' + b'{"text":"%b"},' % (b"x" * 2000) * 4000 + b"1]," + tail
    found = jsonline.parse(texts)
    assert found is not None
    assert found["usage"] == {"input_tokens": 3}
    assert jsonline.size(found["content"][0]["text"]) == 2000
    values = b'{"type":"assistant","content":[' + b'{"a":1},' * 1_000_000 + b"1]," + tail
    assert jsonline.parse(values) is None


HALF = '"cut \\ud83d"'
LISTED = "[[]]"
NESTED = '{"a":' * 400 + "1" + "}" * 400


def test_odd_values_in_a_gemini_document_cost_no_call(tmp_path: Path) -> None:
    path = tmp_path / "session-1.json"
    used = '{"input":100,"output":10,"cached":40,"thoughts":5,"tool":0,"total":115}'
    answers = ",".join(
        f'{{"id":"m{n}","type":"gemini","model":"gemini-2.5-pro","content":{content},"tokens":{used},'
        f'"toolCalls":[{{"name":{content},"status":{content}}},{{"name":{content},"status":"success"}}]}}'
        for n, content in enumerate((HALF, NESTED, LISTED))
    )
    path.write_text(f'{{"sessionId":"g","projectHash":"x","messages":[{answers}]}}')
    import_paths([path])
    assert list(SessionCall.objects.values_list("input_tokens", "cache_read", "output_tokens")) == [(60, 40, 15)] * 3


def test_odd_values_in_an_opencode_database_cost_no_call(tmp_path: Path) -> None:
    path = tmp_path / "opencode.db"
    base = sqlite3.connect(path)
    base.executescript(
        "CREATE TABLE session (id TEXT, time_created INT); CREATE TABLE part (id TEXT, message_id TEXT, data TEXT);"
        "CREATE TABLE message (id TEXT, session_id TEXT, time_created INT, data TEXT);"
    )
    base.execute("INSERT INTO session VALUES ('s', 1)")
    for n, odd in enumerate((HALF, NESTED, LISTED)):
        told = '"role":"assistant","time":{"created":1767261600000,"completed":1767261700000}'
        data = f'{{{told},"providerID":{odd},"tokens":{{"input":10,"output":{n + 1},"cache":{{}}}}}}'
        base.execute("INSERT INTO message VALUES (?, 's', ?, ?)", (f"m{n}", n, data))
        base.execute("INSERT INTO part VALUES (?, ?, ?)", (f"p{n}", f"m{n}", f'{{"type":"text","text":{odd}}}'))
        tool = f'{{"type":"tool","tool":{odd},"state":{{"status":{odd},"input":{odd}}}}}'
        base.execute("INSERT INTO part VALUES (?, ?, ?)", (f"t{n}", f"m{n}", tool))
    base.commit()
    base.close()
    import_paths([path])
    assert sorted(SessionCall.objects.values_list("input_tokens", "output_tokens")) == [(10, 1), (10, 2), (10, 3)]
    assert not SessionAnomaly.objects.filter(kind="broken_line").exists()

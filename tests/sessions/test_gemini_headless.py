"""Gemini CLI without its terminal: sums over a session, told by a stream or by one object, and counted once."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from hypothesis import example, given, settings
from hypothesis import strategies as st

from relays.core.meter import AnomalyKind, Extract
from relays.models import Session, SessionCall
from relays.sessions.reader import FORMS, Context
from relays.sessions.run import import_paths
from relays.sessions.totals import totals
from tests.sessions.cuts import lines, read
from tests.sessions.test_gemini import HEADER, message, tokens

SID = "7c1f0a3e-5b2d-4e8f-9a61-2d4c8b0e6f13"
FLASH, PRO = "gemini-2.5-flash", "gemini-2.5-pro"


def event(kind: str, second: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": f"2026-05-01T10:00:{second:02d}.000Z", **more}


def init(model: str = FLASH, sid: str = SID) -> dict[str, Any]:
    return event("init", session_id=sid, model=model)


def sums(side: int, output: int, cached: int = 0, thoughts: int = 0) -> dict[str, int]:
    total = side + output + thoughts
    return {
        "total_tokens": total,
        "input_tokens": side,
        "output_tokens": output,
        "cached": cached,
        "input": side - cached,
    }


def result(second: int = 9, status: str = "success", **models: dict[str, int]) -> dict[str, Any]:
    whole: dict[str, Any] = dict.fromkeys(("total_tokens", "input_tokens", "output_tokens", "cached", "input"), 0)
    for figures in models.values():
        whole = {name: count + figures[name] for name, count in whole.items()}
    named = {"models": {name.replace("_", "-").replace("2-5", "2.5"): one for name, one in models.items()}}
    return event("result", second, status=status, stats={**whole, "duration_ms": 5, "tool_calls": 1, **named})


def stream(*records: Any, path: str = "run.jsonl") -> Extract:
    return read("gemini-stream", lines(*records), path=path)


def test_a_run_is_a_sum_per_model_and_no_view_into_the_window() -> None:
    found = stream(
        b"Loaded cached credentials.",
        init(),
        event("message", 1, role="user", content="please"),
        event("message", 2, role="assistant", content="I", delta=True),
        event("tool_use", 3, tool_name="write_file", tool_id="t1", parameters={"file_path": "a.py", "content": "x"}),
        event("tool_result", 4, tool_id="t1", status="success"),
        event(
            "tool_use", 5, tool_name="run_shell_command", tool_id="t2", parameters={"command": "git commit -m 'x #7'"}
        ),
        event("tool_result", 6, tool_id="t2", status="success", output="[main 1a2b3c4] x"),
        event("tool_use", 7, tool_name="read_file", tool_id="t3", parameters={"file_path": "b.py"}),
        event("tool_result", 8, tool_id="t3", status="error", error={"type": "x", "message": "no"}),
        result(gemini_2_5_flash=sums(1000, 50, cached=400, thoughts=30), gemini_2_5_pro=sums(200, 10)),
    )
    flash, pro = found.calls.values()
    assert (flash.model, flash.chain, flash.buckets.as_mapping()) == (
        FLASH, "aux", {"input": 600, "cache_read": 400, "cache_write_5m": 0, "cache_write_1h": 0, "output": 80},
    )  # fmt: skip
    assert (flash.reasoning, flash.tools, flash.tool_errors, pro.tools) == (30, 3, 1, 0)
    assert (pro.model, pro.buckets.input, pro.buckets.output) == (PRO, 200, 10)
    assert {(act.kind, act.ref) for act in found.acts.values()} == {
        ("file", "a.py"), ("commit", "1a2b3c4"), ("issue", "#7"),
    }  # fmt: skip
    about = found.about[SID]
    assert (about.agent, about.first_at, about.last_at) == (
        "gemini-cli", "2026-05-01T10:00:00.000Z", "2026-05-01T10:00:09.000Z",
    )  # fmt: skip
    assert [(one.kind, one.line) for one in found.anomalies.values()] == [(AnomalyKind.BROKEN_LINE, 1)]


def test_a_sum_that_names_no_model_is_of_a_model_that_is_not_named() -> None:
    found = stream(init(), event("result", status="success", stats={**sums(10, 2, thoughts=1), "duration_ms": 1}))
    (call,) = found.calls.values()
    assert (call.model, call.buckets.input, call.buckets.output) == ("", 10, 3)


@pytest.mark.parametrize(
    ("records", "told"),
    [
        ((init(), event("message", role="user", content="x")), 1),  # stopped before its end
        ((init(), event("result", status="error", error={"type": "x", "message": "m"})), 0),
        ((init(), result(gemini_2_5_flash=sums(1, 1)), init(), event("message", role="user", content="x")), 1),
        ((init(), event("message", role="user", content="x"), result(gemini_2_5_flash=sums(1, 1))), 0),
        ((init(), init(), result(gemini_2_5_flash=sums(1, 1))), 1),  # killed, then run again
        ((init(), init(sid="other"), event("message", role="user", content="x")), 2),
    ],
)
def test_t18_a_stream_without_its_result_is_said(records: tuple[Any, ...], told: int) -> None:
    found = stream(*records)
    assert sum(one.count for one in found.anomalies.values() if one.kind == AnomalyKind.NO_RESULT) == told


def test_what_is_unknown_or_cannot_be_is_counted_and_shown() -> None:
    stats = {**sums(10, 2), "total_tokens": 5, "cached": 11, "odd": 1}
    found = stream(init(), event("novel"), b"{cut", event("result", status="success", stats=stats))
    assert sorted((one.kind.value, one.detail) for one in found.anomalies.values()) == [
        ("broken_line", ""),
        ("identity_mismatch", "total_tokens"),
        ("implausible_usage", "cached"),
        ("unknown_key", "stats.odd"),
        ("unknown_type", "novel"),
    ]


def answer(path: Path, **more: Any) -> Extract:
    path.write_text("Loaded cached credentials.\n" + json.dumps({"response": "Done.", **more}, indent=2))
    return FORMS["gemini-answer"].document(Context(path)).read(path)


def test_the_object_that_is_printed_names_thoughts_and_tool_prompts(tmp_path: Path) -> None:
    used = {"input": 600, "prompt": 1000, "candidates": 50, "cached": 400, "thoughts": 30, "tool": 7, "total": 1087}
    api = {"totalRequests": 3, "totalErrors": 0, "totalLatencyMs": 9}
    stats = {"models": {FLASH: {"api": api, "tokens": used}}, "tools": {"totalCalls": 2, "totalFail": 1}}
    found = answer(tmp_path / "answer.json", session_id=SID, stats=stats)
    (call,) = found.calls.values()
    assert (call.buckets.input, call.buckets.cache_read, call.buckets.output) == (607, 400, 80)
    assert (call.session, call.reasoning, call.tools, call.tool_errors, call.chain) == (SID, 30, 2, 1, "aux")
    assert not found.anomalies
    assert list(answer(tmp_path / "unnamed.json", stats=stats).about) == ["unnamed"]
    absurd = answer(tmp_path / "absurd.json", stats={**stats, "tools": {"totalCalls": 10**12, "totalFail": -1}})
    assert [(call.tools, call.tool_errors) for call in absurd.calls.values()] == [(10**9, 0)]
    (tmp_path / "cut.json").write_text('{"response": "x", "stats": {"models"')
    found = FORMS["gemini-answer"].document(Context(tmp_path / "cut.json")).read(tmp_path / "cut.json")
    assert [one.kind for one in found.anomalies.values()] == [AnomalyKind.BROKEN_LINE]


# ---- put together in the tables


def write(path: Path, *records: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(lines(*records))
    return path


@pytest.mark.django_db
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_a_session_that_is_resumed_counts_on_and_each_token_counts_once(tmp_path: Path, order: tuple[int, ...]) -> None:
    first, later = result(gemini_2_5_flash=sums(1000, 50)), result(gemini_2_5_flash=sums(2500, 80, cached=600))
    files = [
        write(tmp_path / "one.jsonl", init(), first),
        write(tmp_path / "two.jsonl", init(), later),
        write(tmp_path / "copy-of-one.jsonl", init(), first),
    ]
    for number in order:
        import_paths([files[number]])
    found = totals(import_paths([tmp_path]).sources)
    assert (found["calls"], found["tokens"]["input"] + found["tokens"]["cache_read"], found["tokens"]["output"]) == (
        2, 2500, 80,
    )  # fmt: skip
    session = Session.objects.get()
    assert (session.sid, session.main_calls, session.max_resident) == (SID, 0, 0)
    assert session.cost is not None and session.unpriced_calls == 0


@pytest.mark.django_db
@pytest.mark.parametrize("stream_first", [True, False])
def test_where_the_sessions_own_file_is_known_the_sum_counts_nothing(tmp_path: Path, stream_first: bool) -> None:
    own = write(
        tmp_path / "chats" / "session-1.jsonl",
        HEADER | {"sessionId": SID},
        message("g1", tokens=tokens(1000, 50), model=FLASH),
        message("g2", tokens=tokens(1500, 30), model=FLASH),
    )
    out = write(tmp_path / "run.jsonl", init(), result(gemini_2_5_flash=sums(2500, 80)))
    for path in (out, own) if stream_first else (own, out):
        import_paths([path])
    found = totals(import_paths([tmp_path]).sources)
    assert (found["sessions"], found["calls"], found["tokens"]["input"], found["copied_calls"]) == (1, 2, 2500, 1)
    assert Session.objects.get().max_resident == 1500


@pytest.mark.django_db
def test_a_sum_that_reaches_into_a_tier_is_unpriced_and_a_shorter_one_is_not(tmp_path: Path) -> None:
    """A sum of 300,000 tokens may be three requests of 100,000: what each cost nobody wrote down."""
    write(tmp_path / "short.jsonl", init(PRO, "s-short"), result(gemini_2_5_pro=sums(200_000, 10)))
    write(tmp_path / "long.jsonl", init(PRO, "s-long"), result(gemini_2_5_pro=sums(300_000, 10)))
    found = totals(import_paths([tmp_path]).sources)
    assert (found["partial"], found["unpriced"]) == (True, {PRO: 1})
    priced = SessionCall.objects.get(session__sid="s-short")
    assert priced.cost == (200_000 * Decimal("1.25") + 10 * Decimal(10)) / 10**6
    assert SessionCall.objects.get(session__sid="s-long").cost is None
    assert not django_settings.SITE_PRICES


RECORDS = st.one_of(
    st.builds(lambda n: init(sid=f"s{n}"), st.integers(1, 2)),
    st.builds(
        lambda n: event("tool_use", tool_name="edit", tool_id=f"t{n}", parameters={"path": f"f{n}"}), st.integers(0, 3)
    ),
    st.builds(
        lambda n, status: event("tool_result", tool_id=f"t{n}", status=status),
        st.integers(0, 3),
        st.sampled_from(["success", "error"]),
    ),
    st.builds(lambda n: result(gemini_2_5_flash=sums(n, n)), st.integers(0, 5)),
    st.just(event("message", role="user", content="x")),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(RECORDS, max_size=25), st.sets(st.integers(1, 25)))
@example([init(sid="s1"), result(gemini_2_5_flash=sums(0, 0)), init(sid="s2"), init(sid="s1")], {1})
@example([init(sid="s2"), result(), init(sid="s1"), init(sid="s1")], {1})
@example([init(sid="s2"), result(), init(sid="s1"), init(sid="s2")], {2})
def test_any_cutting_gives_the_same(records: list[dict[str, Any]], cuts: set[int]) -> None:
    content = lines(*records)
    assert read("gemini-stream", content, cuts) == read("gemini-stream", content)

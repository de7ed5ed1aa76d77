"""What Codex's hooks and lines become: figures, tools, boundaries, retries, ends; in both ways of driving it.

The lines are small ones of our own, in the form that 0.171.0 was measured to send.
"""

import os
import signal
import stat
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relays.agents import registry
from relays.agents.base import AgentArgError
from relays.agents.bridges import codex_flags
from relays.agents.bridges.bridge import WIND_DOWN
from relays.agents.bridges.codex import AppServer
from relays.agents.bridges.codex_exec import Exec
from relays.agents.bridges.codex_said import buckets
from tests.agents.bridge_leg import Asked, BridgeLeg

THREAD = "thr-1"


class Leg(BridgeLeg):
    def request(self, number: int = 1, attempt: int = 1, **more: Any) -> Asked:
        said = {"kind": "sampling", "request_id": f"req-{number}", "attempt_number": attempt, "thread_id": THREAD}
        return self.hook("PreModelRequest", **{**said, **more})

    def answered(self, number: int = 1, **used: int) -> Asked:
        figures = {"input_tokens": 1500, "cached_input_tokens": 500, "cache_write_input_tokens": 0, "output_tokens": 50}
        said = {"kind": "sampling", "request_id": f"req-{number}", "thread_id": THREAD, "model": "m"}
        return self.hook("PostModelRequest", **said, status="completed", error=None, token_usage={**figures, **used})

    def failed(self, words: str, number: int = 1) -> Asked:
        said = {"kind": "sampling", "request_id": f"req-{number}", "thread_id": THREAD, "model": "m"}
        return self.hook("PostModelRequest", **said, status="failed", error=words, token_usage=None)

    def may_run(self, tool: str, command: str = "ls") -> Asked:
        said = {"tool_use_id": tool, "tool_name": "Bash", "tool_input": {"command": command}}
        return self.hook("PreToolUse", session_id=THREAD, **said)

    def ran(self, tool: str, output: str = "done") -> Asked:
        said = {"tool_use_id": tool, "tool_name": "Bash", "tool_response": output}
        return self.hook("PostToolUse", session_id=THREAD, **said)

    def runs(self, tool: str, command: str = "ls") -> None:
        self.may_run(tool, command)
        self.answer("allow")

    def notes(self, method: str, **params: Any) -> None:
        self.says(method=method, params={"threadId": THREAD, **params})

    def item(self, when: str, tool: str, kind: str = "commandExecution", **more: Any) -> None:
        self.notes(f"item/{when}", item={"type": kind, "id": tool, **more})


ARGS = {"program": "codex", "folder": "/nowhere"}


@pytest.fixture
def leg() -> Iterator[Leg]:
    made = Leg(AppServer(ARGS, {}))
    made.bridge.thread = THREAD  # type: ignore[attr-defined]
    yield made
    made.close()


@pytest.fixture
def simple() -> Iterator[Leg]:
    made = Leg(Exec({**ARGS, "mode": "exec"}, {}))
    made.says(type="thread.started", thread_id=THREAD)
    yield made
    made.close()


def first_call(leg: Leg) -> None:
    assert leg.request().answer == {}, "nothing was done before the first call: it needs no boundary"
    assert leg.answered().answer == {}
    leg.runs("t1")


def test_a_call_is_its_figures_its_tools_and_a_boundary_that_holds(leg: Leg) -> None:
    first_call(leg)
    held = leg.ran("t1")
    said = leg.seen()
    kinds = ["turn_started", "usage", "tool_asked", "tool_started", "tool_ended", "boundary"]
    assert [event["kind"] for event in said] == kinds
    assert (said[1]["input"], said[1]["cache_read"], said[1]["output"]) == (1000, 500, 50)
    assert said[4]["result_bytes"] == 4 and said[5]["final"] is False
    assert held.answer is None, "no further call passes before the answer"
    leg.answer("go")
    assert held.answer == {} and leg.kinds() == []
    assert leg.request(2).answer == {}, "it was asked for already"
    assert leg.kinds() == ["turn_started"]


def test_wind_down_is_told_in_the_next_call_and_once_for_one_hold(leg: Leg) -> None:
    first_call(leg)
    held = leg.ran("t1")
    leg.answer("wind_down RELAY_NOT_EXTERNALIZED")
    assert held.answer == {"hookSpecificOutput": {"hookEventName": "PostToolUse", "additionalContext": WIND_DOWN}}
    for number, (hold, told) in enumerate((("RELAY_NOT_EXTERNALIZED", False), ("NO_NEXT_ACTION", True)), 2):
        leg.request(number)
        leg.answered(number)
        leg.runs(f"t{number}")
        held = leg.ran(f"t{number}")
        leg.answer(f"wind_down {hold}")
        assert bool(held.answer) is told


def test_stop_interrupts_the_turn_while_its_hook_waits(leg: Leg) -> None:
    leg.notes("turn/started", turn={"id": "turn-1"})
    first_call(leg)
    held = leg.ran("t1")
    leg.answer("stop")
    (asked,) = leg.requests
    assert asked["method"] == "turn/interrupt" and asked["params"] == {"threadId": THREAD, "turnId": "turn-1"}
    assert held.answer is None and leg.bridge.stopping and leg.closed


def test_only_the_last_of_parallel_tools_is_a_boundary(leg: Leg) -> None:
    leg.request()
    leg.runs("a")
    leg.runs("b")
    early = leg.ran("a")
    assert early.answer is None, "its call may still ask for more: the figures are not told"
    leg.answered()
    assert early.answer == {}, "another one runs"
    assert set(leg.bridge.in_flight) == {"b"}
    held = leg.ran("b")
    assert held.answer is None
    said = leg.seen()
    kinds = [event["kind"] for event in said]
    assert kinds.index("usage") < kinds.index("tool_ended"), "results belong to the call after the figures"
    assert kinds[-3:] == ["tool_ended", "tool_ended", "boundary"] and kinds.count("boundary") == 1
    leg.answer("go")
    assert held.answer == {}


def test_two_that_end_before_the_figures_are_one_boundary(leg: Leg) -> None:
    leg.request()
    leg.runs("a")
    leg.runs("b")
    first, second = leg.ran("a"), leg.ran("b")
    leg.answered()
    assert leg.kinds().count("boundary") == 1
    leg.answer("wind_down RELAY_ARMED")
    assert first.answer == {} and second.answer is not None


def test_a_command_in_the_background_stays_in_flight_over_the_boundary(leg: Leg) -> None:
    first_call(leg)
    leg.item("started", "t1")
    second = leg.request(2)  # it was not waited for, so no hook told its end
    assert second.answer is None and set(leg.bridge.in_flight) == {"t1"}
    assert leg.kinds()[-1] == "boundary"
    leg.answer("wind_down IN_FLIGHT_TOOL_CALL")
    assert second.answer == {}, "told here, a request that is sent would be cut off"
    leg.answered(2)
    leg.runs("t2")
    held = leg.ran("t2")
    assert leg.seen()[-1]["kind"] == "boundary"
    leg.answer("wind_down IN_FLIGHT_TOOL_CALL")
    assert held.answer not in (None, {}), "told at the first hook that can tell it"
    leg.item("completed", "t1", status="completed", aggregatedOutput="late")
    (ended,) = leg.seen()
    assert (ended["kind"], ended["id"], ended["result_bytes"]) == ("tool_ended", "t1", 4)


def test_a_tool_that_tells_no_end_and_runs_no_more_has_failed(leg: Leg) -> None:
    first_call(leg)
    assert leg.request(2).answer is None
    said = leg.seen()
    assert [event["kind"] for event in said[-2:]] == ["tool_ended", "boundary"] and said[-2]["ok"] is False


def test_a_refused_tool_does_not_run(leg: Leg) -> None:
    leg.request()
    asked = leg.may_run("t1")
    assert asked.answer is None
    leg.answer("deny LOW_CONFIDENCE_ASSUMPTION: it leans on a guess")
    told = asked.answer
    assert told is not None and told["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "it leans on a guess" in told["hookSpecificOutput"]["permissionDecisionReason"]
    assert leg.kinds() == ["turn_started", "tool_asked"] and not leg.bridge.in_flight


def test_the_end_of_a_turn_is_a_final_boundary(leg: Leg) -> None:
    leg.request()
    leg.answered()
    asked = leg.hook("Stop", session_id=THREAD)
    assert leg.seen()[-1]["final"] is True and asked.answer is None
    leg.answer("wind_down RELAY_NOT_EXTERNALIZED")
    assert asked.answer == {"decision": "block", "reason": WIND_DOWN}
    assert leg.request(2).answer == {}, "what this call follows was asked already"
    leg.answered(2)
    again = leg.hook("Stop", session_id=THREAD)
    leg.answer("go")
    assert again.answer == {}
    leg.seen()
    leg.item("completed", "t9", status="failed")
    leg.notes("turn/completed", turn={"status": "completed"})
    assert leg.kinds() == [], "nothing follows the end"
    assert leg.closed and leg.bridge.verdict(0) == 0


@pytest.mark.parametrize("status", ["interrupted", "failed"])
def test_a_turn_that_did_not_end_well_is_no_end(leg: Leg, status: str) -> None:
    leg.request()
    leg.answered()
    leg.notes("turn/completed", turn={"status": status, "error": {"message": "bad request"}})
    assert leg.closed and leg.bridge.verdict(0) != 0, "the exit code alone tells nothing"


def test_a_compaction_is_refused_and_told(leg: Leg) -> None:
    first_call(leg)
    asked = leg.hook("PreCompact", session_id=THREAD, trigger="auto")
    told = asked.answer
    assert told is not None and told["continue"] is False
    assert leg.kinds()[-1] == "compacted"


def test_a_leg_that_nobody_holds_compacts_as_it_likes_and_tells_it() -> None:
    leg = Leg(AppServer({**ARGS, "bounded": "0"}, {}))
    leg.bridge.thread = THREAD  # type: ignore[attr-defined]
    assert leg.hook("PreCompact", session_id=THREAD).answer == {}
    assert leg.request(2, kind="foreground_compaction").answer == {}
    leg.item("completed", "c1", "contextCompaction")
    assert leg.kinds() == ["compacted"]
    leg.close()


# --- a model that does not answer


def error(words: str, status: int | None = None, **more: Any) -> dict[str, Any]:
    info = {"responseStreamDisconnected": {"httpStatusCode": status}}
    return {"error": {"message": words, "codexErrorInfo": info, "additionalDetails": None}, **more}


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (error("Reconnecting... 1/5", 529), "overload"),
        (error("We're currently experiencing high demand"), "overload"),
        (error("stream disconnected before completion"), "network"),
    ],
)
def test_each_further_try_is_a_retry_and_no_boundary(leg: Leg, said: dict[str, Any], cause: str) -> None:
    leg.request()
    assert leg.failed("stream disconnected").answer == {}
    leg.notes("error", **said, willRetry=True)
    assert leg.request(attempt=2).answer == {}
    found = leg.seen()
    assert [event["kind"] for event in found] == ["turn_started", "retry"] and found[1]["cause"] == cause


def test_when_its_own_tries_are_over_the_same_leg_waits_and_asks_again(leg: Leg, monkeypatch: Any) -> None:
    waits: list[tuple[float, Any]] = []
    monkeypatch.setattr(leg.bridge, "after", lambda seconds, call: waits.append((seconds, call)))
    for expected in (5.0, 10.0):
        leg.request()
        leg.failed("exceeded retry limit, last status: 429 Too Many Requests")
        turn = {"status": "failed", "error": {"message": "exceeded retry limit, last status: 429 Too Many Requests"}}
        leg.notes("turn/completed", turn=turn)
        said = leg.seen()[-1]
        assert (said["kind"], said["cause"], said["retry_in_ms"]) == ("retry", "overload", expected * 1000)
        seconds, again = waits.pop()
        assert seconds == expected and not leg.closed
        again()
    assert [asked["method"] for asked in leg.requests] == ["turn/start"] * 2


@pytest.mark.parametrize(("words", "kinds"), [("unexpected status 401 Unauthorized", ["retry"]), ("no such model", [])])
def test_what_no_further_try_helps_ends_the_leg(leg: Leg, words: str, kinds: list[str]) -> None:
    leg.request()
    leg.seen()
    leg.notes("turn/completed", turn={"status": "failed", "error": {"message": words}})
    said = leg.seen()
    assert [event["kind"] for event in said] == kinds and all(event["cause"] == "sign_in" for event in said)
    assert leg.closed and leg.bridge.verdict(0) == 1


def test_a_tool_of_an_answer_that_was_cut_counts_and_its_next_try_is_a_boundary(leg: Leg) -> None:
    leg.request()
    leg.failed("stream disconnected")
    leg.runs("t1")
    assert leg.ran("t1").answer == {}, "no figures will come for it: it is not waited for"
    again = leg.request(attempt=2)
    assert again.answer is None and leg.kinds()[-2:] == ["tool_ended", "boundary"]
    leg.answer("go")
    assert again.answer == {} and leg.kinds() == [], "the same call is one turn"


# --- lines beside the hooks


def test_figures_that_no_hook_told_are_taken_from_the_line(leg: Leg) -> None:
    leg.request()
    last = {"inputTokens": 900, "cachedInputTokens": 300, "outputTokens": 20}
    leg.notes("thread/tokenUsage/updated", tokenUsage={"last": last})
    said = leg.seen()[-1]
    assert (said["kind"], said["input"], said["cache_read"], said["output"]) == ("usage", 600, 300, 20)


@pytest.mark.parametrize("way", ["app-server", "exec"])
def test_a_program_that_asks_no_hook_is_ended(way: str) -> None:
    made = Leg((Exec if way == "exec" else AppServer)(ARGS, {}))
    if way == "exec":
        made.says(type="item.completed", item={"id": "item_1", "type": "command_execution", "status": "completed"})
    else:
        made.bridge.thread = THREAD  # type: ignore[attr-defined]
        made.notes("thread/tokenUsage/updated", tokenUsage={"last": {}})
    assert made.bridge.exit_code == 3
    made.close()


def test_files_and_plans_are_told(leg: Leg) -> None:
    changes = [{"path": "/srv/tree/a.txt", "kind": "add"}]
    leg.request()
    leg.answered()
    leg.item("started", "p1", "fileChange", changes=changes)
    leg.item("completed", "p1", "fileChange", changes=changes, status="completed")
    plan = [{"step": "one", "status": "completed"}, {"step": "two", "status": "inProgress"}]
    leg.notes("turn/plan/updated", plan=plan)
    leg.notes("turn/plan/updated", plan=[{"step": "two", "status": "completed"}])
    said = leg.seen()
    assert [event["path"] for event in said if event["kind"] == "file_written"] == ["/srv/tree/a.txt"]
    assert [(event["id"], event["open"]) for event in said if event["kind"] == "todo"] == [
        ("two", True),
        ("two", False),
    ]


def test_a_tool_that_runs_cannot_make_the_window_look_empty(leg: Leg) -> None:
    first_call(leg)
    leg.seen()
    low = {"input_tokens": 1, "output_tokens": 1}
    for request in ("forged", ""):
        more = {"request_id": request} if request else {}
        said = {"status": "completed", "kind": "sampling", "token_usage": low, "thread_id": THREAD, **more}
        assert leg.hook("PostModelRequest", **said).answer == {}
    assert leg.kinds() == []


def test_a_request_that_the_program_makes_of_us_is_refused(leg: Leg) -> None:
    leg.says(id=7, method="item/commandExecution/requestApproval", params={"threadId": THREAD})
    (told,) = leg.requests
    assert told["id"] == 7 and "error" in told


def test_a_thread_below_the_legs_own_costs_and_is_never_held(leg: Leg) -> None:
    assert leg.request(thread_id="thr-2").answer == {}
    leg.hook("PostModelRequest", request_id="r", thread_id="thr-2", model="m", token_usage={"input_tokens": 9})
    (said,) = leg.seen()
    assert (said["kind"], said["chain"], said["input"]) == ("usage", "sub", 9)


# --- exec


def test_the_simple_mode_is_held_by_the_same_hooks(simple: Leg) -> None:
    first_call(simple)
    held = simple.ran("t1")
    assert simple.kinds()[-1] == "boundary"
    simple.answer("stop")
    assert simple.signals == [signal.SIGINT] and held.answer is None and simple.bridge.stopping


def test_the_simple_mode_knows_a_background_command_by_its_command(simple: Leg) -> None:
    simple.request()
    simple.answered()
    simple.runs("t1", "sleep 9")
    running = {"id": "item_1", "type": "command_execution", "command": "/bin/bash -lc 'sleep 9'"}
    simple.says(type="item.started", item=running)
    assert simple.request(2).answer is None and set(simple.bridge.in_flight) == {"t1"}
    simple.answer("go")
    simple.seen()
    simple.says(type="item.completed", item={**running, "aggregated_output": "up", "status": "completed"})
    (ended,) = simple.seen()
    assert (ended["kind"], ended["id"], ended["ok"]) == ("tool_ended", "t1", True)


def test_the_simple_mode_tells_retries_by_its_hooks_and_failures_by_its_lines(simple: Leg) -> None:
    simple.request()
    simple.failed("unexpected status 529: overloaded")
    assert simple.seen()[-1]["cause"] == "overload"
    simple.says(type="turn.failed", error={"message": "it gave up"})
    assert simple.bridge.verdict(1) == 1


# --- flags


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"input_tokens": 100, "cached_input_tokens": 60, "cache_write_input_tokens": 10}, (30, 60, 10)),
        ({"input_tokens": 5, "cached_input_tokens": 9}, (0, 9, 0)),
        ({}, (0, 0, 0)),
    ],
)
def test_the_input_side_holds_what_was_cached(said: dict[str, int], expected: tuple[int, int, int]) -> None:
    found = buckets(said)
    assert (found["input"], found["cache_read"], found["cache_write_5m"]) == expected


STUB = """#!{python}
import json, sys
hooks = [a.split("=")[0][6:] for a in sys.argv if a.startswith("hooks.") and not a.startswith("hooks.state")]
stop = next(a for a in sys.argv if a.startswith("hooks.Stop="))
command = json.loads(stop.partition("command=")[2].partition(",timeout")[0])
for line in sys.stdin:
    row = json.loads(line)
    if row.get("method") == "hooks/list":
        found = [dict(key=f"k:{{name}}", eventName=name[0].lower() + name[1:], currentHash=f"sha256:{{name}}",
            source="sessionFlags", command=command) for name in hooks if name not in {missing!r}]
        found.append(dict(key="k:theirs", eventName="stop", currentHash="sha256:x", source="user", command=command))
        found.append(dict(key="k:other", eventName="stop", currentHash="sha256:y", source="sessionFlags", command="rm"))
        print(json.dumps(dict(id=row["id"], result=dict(data=[dict(hooks=found)]))), flush=True)
"""


def stub(folder: Path, missing: tuple[str, ...] = ()) -> str:
    path = folder / "codex"
    path.write_text(STUB.format(python=sys.executable, missing=missing))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_only_our_own_hooks_are_trusted(tmp_path: Path) -> None:
    made = codex_flags.made(
        stub(tmp_path), dict(os.environ), "gpt", 'a.b="c"', server=["python3", "m p"], hook=["python3", "h.py", "/s o"]
    )
    state = made[-1]
    assert made[-2] == "-c" and state.startswith("hooks.state=")
    assert all(f'"k:{event}"={{trusted_hash="sha256:{event}"}}' in state for event in codex_flags.HOOKS)
    assert "theirs" not in state and "other" not in state
    given = made[1::2]
    assert 'model="gpt"' in given and given[-2] == 'a.b="c"', "the start's own settings win"
    tool = 'mcp_servers.relay={command="python3",args=["m p"],env_vars=["RELAY_SOCKET","RELAY_TOKEN"],required=true,'
    assert any(one.startswith(tool) for one in given), "no call of the model before the query tool is there"


def test_a_codex_without_these_hooks_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"use 0\.171\.0 or newer"):
        codex_flags.made(
            stub(tmp_path, ("PreModelRequest",)), dict(os.environ), "", "", server=["python3"], hook=["python3", "h.py"]
        )


@pytest.mark.parametrize("config", ["nothing", "[1]", '["a"]', "[", "{}"])
def test_settings_that_are_none_are_refused_at_the_start(config: str) -> None:
    with pytest.raises(AgentArgError, match="config is neither"):
        registry.adapter("codex").check_args({"config": config})


@pytest.mark.parametrize(
    "text", ["a b", 'quo"te', "back\\slash", "tab\tnew\nline", "\x00\x1f\x7f", "Prüfung \U0001f600"]
)
def test_a_path_of_any_signs_is_the_same_text_in_a_setting(text: str) -> None:
    assert tomllib.loads(f"a={codex_flags._toml(text)}") == {"a": text}


def test_settings_are_one_or_a_list() -> None:
    assert codex_flags.settings("a=1") == ["a=1"]
    assert codex_flags.settings('["a=1","b=[2]"]') == ["a=1", "b=[2]"]
    registry.adapter("codex").check_args({"mode": "exec", "config": "a=1", "model": "m"})
    with pytest.raises(AgentArgError, match="one of app-server, exec"):
        registry.adapter("codex").check_args({"mode": "tui"})

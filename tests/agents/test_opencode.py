"""What OpenCode's events and its plugin's questions become: figures, tools, boundaries, retries, ends.

The events are small ones of our own, in the form that 1.18.33 was measured to send; the server is a first-class seam.
"""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from relays.agents.bridges.bridge import WIND_DOWN, HookCall
from relays.agents.bridges.line import Line
from relays.agents.bridges.opencode import OpenCode, buckets, configuration
from relays.agents.bridges.opencode_server import Events, ServerError
from relays.core.events import parse_line

SES, SUB = "ses_main", "ses_sub"


class Served:
    """A server that takes what it is told and keeps it."""

    def __init__(self) -> None:
        self.posts: list[tuple[str, Mapping[str, object]]] = []
        self.refuses = False

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        self.posts.append((path, body))
        if self.refuses:
            raise ServerError(f"POST {path}: status 500")
        return {"id": SES}

    @property
    def told(self) -> list[str]:
        return [body["parts"][0]["text"] for path, body in self.posts if path.endswith("prompt_async")]  # type: ignore[index]


class Leg:
    """A bridge with its session begun; `seen` reads what it said since the last look."""

    def __init__(self, folder: Path) -> None:
        read, write = os.pipe()
        os.set_blocking(read, False)
        self._read, self._write = read, write
        self.bridge = OpenCode({"program": "opencode", "folder": str(folder)}, {"RELAY_SEED": ""})
        self.bridge.line = Line(write)
        self.server = Served()
        self.bridge.server = self.server  # type: ignore[assignment]
        self.bridge.session = SES
        self.bridge._prompt("the seed")
        self._ways: list[socket.socket] = []

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)
        for way in self._ways:
            way.close()

    def seen(self) -> list[dict[str, Any]]:
        """Each event that was said is one of the protocol."""
        try:
            data = os.read(self._read, 1 << 20)
        except BlockingIOError:
            return []
        lines = data.splitlines()
        assert [parse_line(line).problem for line in lines] == [None] * len(lines)
        assert all(event.known for line in lines if (event := parse_line(line).event))
        return [json.loads(line) for line in lines]

    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.seen()]

    def answer(self, *lines: str) -> None:
        self.bridge.line.feed("".join(f"{line}\n" for line in lines).encode())

    def happens(self, kind: str, **properties: Any) -> None:
        self.bridge.happened({"type": kind, "properties": {"sessionID": SES, **properties}})

    def part(self, session: str = SES, **part: Any) -> None:
        self.bridge.happened({"type": "message.part.updated", "properties": {"part": {"sessionID": session, **part}}})

    def tool(self, call: str, status: str, name: str = "bash", **state: Any) -> None:
        self.part(type="tool", id=f"p_{call}", callID=call, tool=name, state={"status": status, **state})

    def step(self, answer: str, session: str = SES, cost: float = 0.25, **tokens: Any) -> None:
        used = {"input": 1000, "output": 50, "reasoning": 0, "cache": {"read": 0, "write": 0}, **tokens}
        self.part(session, type="step-finish", id=f"p_{answer}", messageID=answer, tokens=used, cost=cost)

    def asks(self, name: str, **said: Any) -> "Asked":
        """A question of the plugin."""
        here, there = socket.socketpair()
        self._ways += [here, there]
        there.setblocking(False)
        self.bridge.hook(HookCall(name, {"session": SES, "agent": "build", "fresh": True, "parts": [], **said}, here))
        return Asked(there)


class Asked:
    def __init__(self, way: socket.socket) -> None:
        self._way = way

    @property
    def answer(self) -> dict[str, Any] | None:
        """None while it waits."""
        try:
            text = self._way.recv(65536)
        except BlockingIOError:
            return None
        return dict(json.loads(text or b"{}") if text.strip() else {})


@pytest.fixture
def leg(tmp_path: Path) -> Iterator[Leg]:
    made = Leg(tmp_path)
    yield made
    made.close()


def first_step(leg: Leg) -> None:
    """The first model call needs no boundary: nothing was done before it."""
    assert leg.asks("model").answer == {}
    leg.tool("t1", "pending")
    leg.tool("t1", "running")
    leg.tool("t1", "completed", output="done", metadata={"exit": 0})
    leg.step("m1")


def test_a_step_is_its_figures_then_the_ends_of_its_tools_then_a_boundary_that_holds(leg: Leg) -> None:
    first_step(leg)
    held = leg.asks("model")
    said = leg.seen()
    assert [event["kind"] for event in said] == ["tool_started", "usage", "tool_ended", "boundary"]
    assert said[2]["ok"] is True and said[2]["result_bytes"] == 4 and said[3]["final"] is False
    assert held.answer is None, "no model call passes before the answer"
    leg.answer("go")
    assert held.answer == {} and leg.kinds() == ["turn_started"]


def test_stop_at_a_boundary_aborts_and_lets_nothing_pass(leg: Leg) -> None:
    first_step(leg)
    held = leg.asks("model")
    leg.answer("stop")
    assert leg.server.posts[-1] == (f"/session/{SES}/abort", {}) and held.answer is None
    leg.happens("session.error", error={"name": "MessageAbortedError", "data": {"message": "Aborted"}})
    leg.happens("session.idle")
    assert leg.asks("model").answer is None
    assert leg.kinds() == ["tool_started", "usage", "tool_ended", "boundary"], "an end is no further boundary"


def test_wind_down_is_one_constant_text_and_said_once_for_one_hold(leg: Leg) -> None:
    first_step(leg)
    for answer in ("wind_down RELAY_NOT_EXTERNALIZED", "wind_down RELAY_NOT_EXTERNALIZED", "wind_down NO_NEXT_ACTION"):
        held = leg.asks("model")
        leg.answer(answer)
        assert held.answer == {}
    assert leg.server.told == ["the seed", WIND_DOWN, WIND_DOWN]


def test_an_agent_that_ends_is_told_what_holds_and_goes_on_or_ends(leg: Leg) -> None:
    first_step(leg)
    leg.happens("session.idle")
    assert leg.seen()[-1]["final"] is True
    leg.answer("wind_down RELAY_NOT_EXTERNALIZED")
    assert leg.server.told[-1] == WIND_DOWN and leg.kinds() == ["turn_started"]
    leg.happens("session.idle")  # the same end, said twice: nothing was begun since
    assert leg.kinds() == []
    assert leg.asks("model").answer == {}, "what this call follows was asked already"
    leg.happens("session.idle")
    assert leg.kinds() == ["boundary"]
    leg.answer("go")
    assert leg.bridge.outcome == 0 and leg.bridge.verdict(-15) == 0


def test_what_the_plugin_brings_counts_once_however_late_the_events_are(leg: Leg) -> None:
    assert leg.asks("model").answer == {}
    tokens = {"input": 7, "output": 3, "reasoning": 0, "cache": {"read": 90, "write": 0}}
    finish = {"type": "step-finish", "id": "p_m1", "messageID": "m1", "sessionID": SES, "tokens": tokens, "cost": 0}
    ended = {"type": "tool", "id": "p_t1", "callID": "t1", "tool": "bash", "sessionID": SES}
    ended["state"] = {"status": "completed", "size": 2_000, "metadata": {}}
    leg.asks("model", parts=[{**finish, "model": "m"}, ended])
    leg.tool("t1", "running")
    leg.tool("t1", "completed", output="x" * 2_000)
    leg.part(**finish)
    said = leg.seen()
    assert [event["kind"] for event in said] == ["tool_started", "usage", "tool_ended", "boundary"]
    assert said[1]["cache_read"] == 90 and "cost" not in said[1], "a price of nothing is no price"
    assert said[2]["result_bytes"] == 2_000


def test_parallel_tools_are_a_set_and_a_failed_one_is_told(leg: Leg) -> None:
    assert leg.asks("model").answer == {}
    leg.tool("a", "running")
    leg.tool("b", "running")
    assert set(leg.bridge.in_flight) == {"a", "b"}
    leg.tool("b", "completed", output="", metadata={"exit": 3})
    leg.tool("a", "error", error="it broke")
    leg.step("m1")
    assert leg.bridge.in_flight == {}
    assert [event["ok"] for event in leg.seen() if event["kind"] == "tool_ended"] == [False, False]


def test_a_tool_asks_before_it_runs_and_is_in_flight_by_then(leg: Leg) -> None:
    waits = leg.asks("tool", id="t1", tool="deploy")
    assert leg.kinds() == ["tool_started", "tool_asked"] and waits.answer is None
    leg.answer("deny LOW_CONFIDENCE_ASSUMPTION: it leans on a guess")
    assert waits.answer == {"deny": "LOW_CONFIDENCE_ASSUMPTION: it leans on a guess"}
    free = leg.asks("tool", id="t2", tool="bash")
    leg.answer("allow")
    assert free.answer == {}


def test_a_sub_agents_calls_cost_but_are_no_turn_and_never_held(leg: Leg) -> None:
    first_step(leg)
    assert leg.asks("model", session=SUB, agent="general").answer == {}
    assert leg.asks("model", agent="title").answer == {}
    leg.step("s1", session=SUB, input=400)
    usage = [event for event in leg.seen() if event["kind"] == "usage"]
    assert [event["chain"] for event in usage] == ["main", "sub"]
    leg.bridge.happened({"type": "session.idle", "properties": {"sessionID": SUB}})
    assert leg.kinds() == [], "its end is not the leg's"


@pytest.mark.parametrize(
    ("words", "cause"),
    [("Overloaded", "overload"), ("Cannot connect to API: unable to connect", "network"), ("what else", "overload")],
)
def test_its_retries_are_told_with_when_it_tries_again(
    leg: Leg, monkeypatch: pytest.MonkeyPatch, words: str, cause: str
) -> None:
    monkeypatch.setattr("time.time", lambda: 1_000.0)
    leg.happens("session.status", status={"type": "retry", "attempt": 1, "message": words, "next": 1_004_500})
    (said,) = leg.seen()
    assert (said["kind"], said["cause"], said["retry_in_ms"]) == ("retry", cause, 4_500)
    assert leg.asks("model", fresh=False).answer == {}, "the same request once more is no boundary"
    assert leg.kinds() == []


def test_a_stream_that_was_cut_is_a_loss_of_the_network_and_no_call(leg: Leg) -> None:
    leg.asks("model")
    leg.step("m1", cost=0, input=0, output=0)
    (said,) = leg.seen()
    assert (said["kind"], said["cause"]) == ("retry", "network")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ({"name": "APIError", "data": {"message": "no", "statusCode": 401}}, ["sign_in"]),
        ({"name": "ProviderAuthError", "data": {"message": "no"}}, ["sign_in"]),
        ({"name": "APIError", "data": {"message": "no", "statusCode": 400}}, []),
        ({"name": "ContextOverflowError", "data": {"message": "too long"}}, []),
    ],
)
def test_an_error_that_it_does_not_try_again_ends_the_leg_without_a_result(
    leg: Leg, error: dict[str, Any], cause: list[str]
) -> None:
    leg.happens("session.error", error=error)
    leg.happens("session.idle")
    said = leg.seen()
    assert [event["cause"] for event in said if event["kind"] == "retry"] == cause
    assert all(event["kind"] != "boundary" for event in said) and leg.bridge.verdict(0) == 1


def test_a_call_that_it_gave_up_is_asked_again_in_the_same_session_after_a_wait(
    leg: Leg, monkeypatch: pytest.MonkeyPatch
) -> None:
    later: list[tuple[float, Any]] = []
    monkeypatch.setattr(leg.bridge, "after", lambda seconds, call: later.append((seconds, call)))
    first_step(leg)
    leg.asks("model")
    leg.answer("go")
    for _ in range(2):
        leg.happens("session.error", error={"name": "APIError", "data": {"message": "no", "statusCode": 503}})
        leg.happens("session.idle")
        later[-1][1]()
    said = [event for event in leg.seen() if event["kind"] in ("retry", "boundary")]
    assert [event["kind"] for event in said] == ["boundary", "retry", "retry"], "its end is no boundary"
    assert [event["retry_in_ms"] for event in said[1:]] == [15_000, 30_000] == [one[0] * 1000 for one in later]
    assert leg.server.told[1:] == ["The model did not answer for a while. Go on where you were."] * 2
    assert leg.asks("model").answer == {} and leg.bridge.outcome is None
    leg.happens("session.idle")
    assert leg.kinds() == ["boundary"], "the next end is one again"


def test_a_compaction_is_said_once_however_it_is_seen(leg: Leg) -> None:
    leg.part(type="compaction", id="p_c", auto=True)
    leg.happens("session.compacted")
    assert leg.kinds() == ["compacted"]
    assert leg.asks("model", agent="compaction").answer is None, "its call waits for the answer like any other"


def test_tasks_that_are_left_open_are_told_and_those_that_are_gone_are_closed(leg: Leg) -> None:
    one, two = {"content": "Write it", "status": "pending"}, {"content": "Test it", "status": "in_progress"}
    leg.happens("todo.updated", todos=[one, two])
    leg.happens("todo.updated", todos=[{**one, "status": "completed"}])
    said = [(event["id"], event["open"]) for event in leg.seen()]
    assert said == [("Write it", True), ("Test it", True), ("Write it", False), ("Test it", False)]


def test_files_that_it_writes_are_named_and_a_write_that_failed_is_not(leg: Leg) -> None:
    leg.tool("w1", "completed", "write", input={"filePath": "a.txt"}, output="ok")
    leg.tool("w2", "error", "edit", input={"filePath": "b.txt"}, error="no")
    assert [event["path"] for event in leg.seen() if event["kind"] == "file_written"] == ["a.txt"]


def test_an_agent_that_cannot_be_told_to_wind_down_ends_without_a_result(leg: Leg) -> None:
    first_step(leg)
    leg.asks("model")
    leg.server.refuses = True
    leg.answer("wind_down NO_NEXT_ACTION")
    assert leg.bridge.outcome == 1


@pytest.mark.parametrize(
    ("tokens", "output"),
    [
        ({"input": 10, "output": 7, "reasoning": 3, "total": 20}, 10),
        ({"input": 10, "output": 7, "reasoning": 3, "total": 17}, 7),
        ({"input": 10, "output": 2, "reasoning": 3}, 5),
        ({"input": 10, "output": 7, "reasoning": 3}, 7),
    ],
)
def test_reasoning_is_counted_once(tokens: dict[str, Any], output: int) -> None:
    assert buckets(tokens)["output"] == output and buckets(tokens)["input"] == 10


def test_our_configuration_comes_on_top_and_asks_nobody() -> None:
    made = configuration("", "/leg/relay.js", ["/venv/bin/python", "/a b/manage.py", "relay", "mcp"])
    assert "model" not in made and made["compaction"] == {"auto": False}
    assert made["permission"] == {"*": "allow", "question": "deny"}
    assert made["mcp"]["relay"]["command"] == ["/venv/bin/python", "/a b/manage.py", "relay", "mcp"]  # type: ignore[index]
    watched = configuration("a/b", "/leg #1/relay.js", [], bounded=False)
    assert watched["model"] == "a/b" and "mcp" not in watched
    assert watched["plugin"] == ["file:///leg%20%231/relay.js"], "an address, whatever the folder is called"
    assert "compaction" not in watched, "whoever only watches changes nothing"


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_the_stream_of_events_is_read_however_it_is_cut(cut: int) -> None:
    events = [{"type": "a", "properties": {"text": "é\n"}}, {"type": "b", "properties": {}}]
    raw = b""
    for event in events:
        block = f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
        for piece in (block[:9], block[9:]):
            raw += f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
    stream, found = Events(None), []
    for start in range(0, len(raw), cut):
        found += stream.feed(raw[start : start + cut])
    assert found == events
    assert Events(None).feed(b"5\r\ndata:\r\nnonsense") == []

"""What Gemini CLI's hooks, lines and session file become: figures, tools, boundaries, retries, ends; and its folder.

The lines are small ones of our own, in the form that 0.61.0 was measured to send.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relays.agents.bridges import gemini, gemini_home, gemini_said
from relays.agents.bridges.bridge import WIND_DOWN
from relays.agents.bridges.gemini import Gemini
from relays.sessions.gemini_messages import split_total
from tests.agents.bridge_leg import Asked, BridgeLeg


class Leg(BridgeLeg):
    def __init__(self, folder: Path) -> None:
        super().__init__(Gemini({"program": "gemini.js", "folder": str(folder)}, {}))
        self.chat = folder / "session.jsonl"
        self.chat.write_text('{"kind":"main"}\n')

    def hook(self, event: str, **said: Any) -> Asked:
        return super().hook(event, transcript_path=str(self.chat), **said)

    def answered(self, number: int = 1, **used: int) -> None:
        """The program writes a call's figures into its session file."""
        figures = {"input": 1500, "output": 50, "cached": 500, "thoughts": 7, "tool": 0, "total": 1557, **used}
        row = {"id": f"m{number}", "type": "gemini", "model": "m", "tokens": figures}
        with self.chat.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def called(self, tool: str, command: str = "ls", **more: Any) -> None:
        given = {"command": command, **more}
        self.says(type="tool_use", tool_id=tool, tool_name="run_shell_command", parameters=given)

    def before(self, command: str = "ls", **more: Any) -> Asked:
        return self.hook("BeforeTool", tool_name="run_shell_command", tool_input={"command": command, **more})

    def after(self, command: str = "ls", shown: str = "done", **more: Any) -> Asked:
        response = {"llmContent": "done", "returnDisplay": shown}
        given = {"command": command, **more}
        return self.hook("AfterTool", tool_name="run_shell_command", tool_input=given, tool_response=response)

    def resulted(self, tool: str, status: str = "success", **more: Any) -> None:
        self.says(type="tool_result", tool_id=tool, status=status, output="done", **more)


@pytest.fixture
def leg(tmp_path: Path) -> Iterator[Leg]:
    made = Leg(tmp_path)
    yield made
    made.close()


def first_call(leg: Leg) -> None:
    assert leg.hook("BeforeModel").answer == {}, "nothing was done before the first call: it needs no boundary"
    leg.answered()
    leg.called("t1")
    leg.before()
    leg.answer("allow")


def test_a_call_is_its_figures_its_tool_and_a_boundary_that_holds(leg: Leg) -> None:
    first_call(leg)
    held = leg.after()
    said = leg.seen()
    kinds = ["turn_started", "usage", "tool_asked", "tool_started", "tool_ended", "boundary"]
    assert [event["kind"] for event in said] == kinds
    assert (said[1]["input"], said[1]["cache_read"], said[1]["output"]) == (1000, 500, 57), "thoughts are output"
    assert said[3]["id"] == said[4]["id"] == "t1" and said[4]["ok"] is True and said[4]["result_bytes"] == 4
    assert held.answer is None, "no further call passes before the answer"
    leg.answer("go")
    assert held.answer == {}
    leg.resulted("t1")
    assert leg.hook("BeforeModel").answer == {} and leg.kinds() == ["turn_started"], "it was asked for already"


def test_wind_down_is_told_with_the_tools_result_and_once_for_one_hold(leg: Leg) -> None:
    first_call(leg)
    held = leg.after()
    leg.answer("wind_down RELAY_NOT_EXTERNALIZED")
    assert held.answer == {"hookSpecificOutput": {"hookEventName": "AfterTool", "additionalContext": WIND_DOWN}}
    leg.hook("BeforeModel")
    leg.answered(2)
    leg.called("t2")
    leg.before()
    leg.answer("allow")
    held = leg.after()
    leg.answer("wind_down RELAY_NOT_EXTERNALIZED")
    assert held.answer == {}


def test_stop_lets_no_further_call_pass(leg: Leg) -> None:
    first_call(leg)
    held = leg.after()
    leg.answer("stop")
    assert (held.answer or {}).get("continue") is False and leg.bridge.stopping
    assert (leg.hook("BeforeModel").answer or {}).get("continue") is False


def test_only_the_last_of_parallel_tools_is_a_boundary(leg: Leg) -> None:
    leg.hook("BeforeModel")
    leg.answered()
    leg.called("a", "one")
    leg.called("b", "two")
    for command in ("one", "two"):
        leg.before(command)
        leg.answer("allow")
    assert set(leg.bridge.in_flight) == {"a", "b"}
    assert leg.after("two").answer == {} and set(leg.bridge.in_flight) == {"a"}
    held = leg.after("one")
    assert held.answer is None and leg.kinds().count("boundary") == 1


def test_two_calls_alike_are_two_tools(leg: Leg) -> None:
    leg.hook("BeforeModel")
    leg.answered()
    for tool in ("a", "b"):
        leg.called(tool)
    for _ in range(2):
        leg.before()
        leg.answer("allow")
    assert leg.after().answer == {} and leg.after().answer is None
    ended = [event["id"] for event in leg.seen() if event["kind"] == "tool_ended"]
    assert ended == ["a", "b"]


def test_a_tool_that_there_is_not_comes_to_its_end_before_the_next_call(leg: Leg) -> None:
    leg.hook("BeforeModel")
    leg.answered()
    leg.called("t1")
    leg.before()
    leg.answer("allow")
    leg.says(type="tool_use", tool_id="t2", tool_name="no_such", parameters={})
    assert leg.after().answer == {}, "not all that was called has ended"
    leg.resulted("t1")
    leg.resulted("t2", "error", error={"type": "tool_not_registered"})
    held = leg.hook("BeforeModel")
    said = leg.seen()
    assert [event["kind"] for event in said[-2:]] == ["tool_ended", "boundary"] and said[-2]["ok"] is False
    leg.answer("wind_down RELAY_ARMED")
    assert held.answer == {}, "told at the next hook that can tell it"
    leg.answered(2)
    leg.called("t3")
    leg.before()
    leg.answer("allow")
    late = leg.after()
    leg.answer("go")
    assert late.answer == {"hookSpecificOutput": {"hookEventName": "AfterTool", "additionalContext": WIND_DOWN}}


def test_a_refused_tool_does_not_run(leg: Leg) -> None:
    leg.hook("BeforeModel")
    leg.called("t1")
    asked = leg.before()
    leg.answer("deny LOW_CONFIDENCE_ASSUMPTION: it leans on a guess")
    assert asked.answer == {"decision": "deny", "reason": "LOW_CONFIDENCE_ASSUMPTION: it leans on a guess"}
    assert not leg.bridge.in_flight


def test_a_tool_that_ran_before_it_was_stopped_has_not_failed(leg: Leg) -> None:
    leg.hook("BeforeModel")
    leg.called("t1")
    leg.resulted("t1", "error", error={"type": "stop_execution"})
    assert leg.seen()[-1]["ok"] is True


def test_a_command_in_the_background_is_in_flight_until_its_group_is_gone(leg: Leg, monkeypatch: Any) -> None:
    looks: list[Any] = []
    monkeypatch.setattr(leg.bridge, "after", lambda seconds, call: looks.append(call))
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    leg.hook("BeforeModel")
    leg.answered()
    leg.called("t1", is_background=True)
    leg.before(is_background=True)
    leg.answer("allow")
    shown = f"Command moved to background (PID: {child.pid}). Output hidden."
    held = leg.after(shown=shown, is_background=True)
    assert held.answer is None and set(leg.bridge.in_flight) == {"t1"}
    leg.answer("go")
    leg.resulted("t1")
    looks.pop()()
    assert set(leg.bridge.in_flight) == {"t1"}
    child.kill()
    child.wait()
    leg.seen()
    looks.pop()()
    assert leg.kinds() == ["tool_ended"] and not leg.bridge.in_flight and not looks


def test_the_end_is_a_final_boundary_that_can_be_refused(leg: Leg) -> None:
    leg.hook("BeforeModel")
    leg.answered()
    asked = leg.hook("AfterAgent")
    assert leg.seen()[-1]["final"] is True and asked.answer is None
    leg.answer("wind_down RELAY_NOT_EXTERNALIZED")
    assert asked.answer == {"decision": "deny", "reason": WIND_DOWN}
    assert leg.hook("BeforeModel").answer == {}, "what this call follows was asked already"
    leg.answered(2)
    again = leg.hook("AfterAgent")
    leg.answer("go")
    assert again.answer == {}
    leg.seen()
    leg.says(type="result", status="success")
    assert leg.bridge.verdict(0) == 0 and leg.kinds() == [], "nothing follows the end"


@pytest.mark.parametrize("result", [None, {"status": "error", "error": {"message": "no"}}, {"status": "success"}])
def test_exit_0_without_a_result_after_the_last_turn_is_no_end(leg: Leg, result: dict[str, Any] | None) -> None:
    leg.hook("BeforeModel")
    leg.answered()
    if result is not None:
        leg.says(type="result", **result)
    assert leg.bridge.verdict(0) == 1 and leg.bridge.verdict(244) == 244


# --- figures


def test_a_message_that_is_written_again_is_told_once_and_grows(leg: Leg) -> None:
    leg.hook("BeforeModel")
    leg.answered()
    leg.answered()
    leg.hook("SessionEnd")
    leg.answered(output=60, total=1567)
    leg.hook("SessionEnd")
    used = [event["output"] for event in leg.seen() if event["kind"] == "usage"]
    assert used == [57, 67]


def test_a_tool_that_runs_cannot_name_another_file_of_figures(leg: Leg, tmp_path: Path) -> None:
    leg.hook("BeforeModel")
    file = leg.bridge.file  # type: ignore[attr-defined]
    leg.answered()
    leg.called("t1")
    leg.before()
    leg.answer("allow")
    leg.seen()
    theirs = tmp_path / "theirs.jsonl"
    theirs.write_text(json.dumps({"type": "gemini", "id": "f", "tokens": {"input": 1, "output": 1}}) + "\n")
    BridgeLeg.hook(leg, "Nothing", transcript_path=str(theirs))
    assert leg.seen() == [] and leg.bridge.file == file  # type: ignore[attr-defined]


def test_half_a_line_waits_for_its_rest(leg: Leg) -> None:
    leg.hook("BeforeModel")
    whole = leg.chat.read_text()
    leg.answered()
    row = leg.chat.read_text()[len(whole) :]
    leg.chat.write_text(whole + row[:20])
    leg.hook("SessionEnd")
    assert leg.kinds() == ["turn_started"]
    leg.chat.write_text(whole + row)
    leg.hook("SessionEnd")
    assert leg.kinds() == ["usage"]


def test_figures_are_the_session_readers(leg: Leg) -> None:
    for used in (
        {"input": 10, "output": 4, "cached": 2, "thoughts": 3, "tool": 5, "total": 22},
        {"input": 10, "output": 4, "cached": 2, "thoughts": 3, "tool": 5, "total": 17},
        {"input": 10, "output": 4, "cached": 2, "thoughts": 3, "tool": 0, "total": 14},
    ):
        inside, out, _ = split_total(used, used["total"])
        found = gemini_said.buckets(used)
        assert (found["input"] + found["cache_read"], found["output"]) == (inside, out)


# --- a model that does not answer


@pytest.mark.parametrize(
    ("words", "causes"),
    [
        (b"Attempt 1 failed with status 503. Retrying with backoff...\n", ["overload"]),
        (b"Attempt 2 failed with status 429. Retrying\nAttempt 3 failed with status 429\n", ["overload"] * 2),
        (b"Attempt 1 failed. fetch failed: ECONNREFUSED\n", ["network"]),
        (b"Attempt 1 fai", []),
        (b"YOLO mode is enabled.\n", []),
    ],
)
def test_further_tries_are_told_on_stderr(leg: Leg, words: bytes, causes: list[str]) -> None:
    leg.hook("BeforeModel")
    leg.bridge._complained(words)  # type: ignore[attr-defined]
    assert [event["cause"] for event in leg.seen() if event["kind"] == "retry"] == causes
    assert leg.hook("BeforeModel").answer == {}, "the same request once more is no boundary"
    assert leg.kinds() == []


def test_when_its_own_tries_are_over_the_same_session_waits_and_goes_on(leg: Leg, monkeypatch: Any) -> None:
    waits: list[tuple[float, Any]] = []
    runs: list[tuple[list[str], str]] = []
    monkeypatch.setattr(leg.bridge, "after", lambda seconds, call: waits.append((seconds, call)))
    monkeypatch.setattr(leg.bridge, "_run", lambda which, text: runs.append((which, text)))
    leg.says(type="init", session_id="s-1")
    for expected in (5.0, 10.0):
        leg.hook("BeforeModel")
        leg.says(type="result", status="error", error={"type": "Error", "message": "got status: 503 . unavailable"})
        leg.bridge._finish(244)
        said = leg.seen()[-1]
        assert (said["kind"], said["cause"], said["retry_in_ms"]) == ("retry", "overload", expected * 1000)
        seconds, again = waits.pop()
        assert seconds == expected and leg.bridge.exit_code is None
        again()
    assert runs == [(["--resume", "s-1"], gemini.GO_ON)] * 2


@pytest.mark.parametrize(("words", "kinds"), [("got status: 401 . no", ["retry"]), ("got status: 400 . no", [])])
def test_what_no_further_try_helps_ends_the_leg(leg: Leg, words: str, kinds: list[str]) -> None:
    leg.says(type="result", status="error", error={"type": "Error", "message": words})
    leg.bridge._finish(144)
    said = leg.seen()
    assert [event["kind"] for event in said] == kinds and all(event["cause"] == "sign_in" for event in said)
    assert leg.bridge.exit_code == 144


def test_a_program_that_asks_no_hook_is_ended(leg: Leg) -> None:
    leg.called("t1")
    leg.resulted("t1")
    assert leg.bridge.exit_code == 3


def test_files_and_to_dos_are_told(leg: Leg) -> None:
    leg.hook("BeforeModel")
    leg.answered()
    for name, given in (
        ("write_file", {"file_path": "/srv/tree/a.txt"}),
        ("write_todos", {"todos": [{"description": "a", "status": "pending"}, {"description": "b"}]}),
        ("write_todos", {"todos": [{"description": "a", "status": "completed"}, {"description": "b"}]}),
    ):
        leg.says(type="tool_use", tool_id=f"{name} {given}", tool_name=name, parameters=given)
        leg.hook("BeforeTool", tool_name=name, tool_input=given)
        leg.answer("allow")
        leg.hook("AfterTool", tool_name=name, tool_input=given, tool_response={})
        leg.answer("go")
    said = leg.seen()
    assert [event["path"] for event in said if event["kind"] == "file_written"] == ["/srv/tree/a.txt"]
    todos = [(event["id"], event["open"]) for event in said if event["kind"] == "todo"]
    assert todos == [("a", True), ("b", True), ("a", False)]


# --- its folder


def test_our_settings_lie_over_the_users_and_theirs_stay_beside(tmp_path: Path) -> None:
    text = """{
      // what the user wrote
      "general": {"enableAutoUpdate": true, "vimMode": true}, /* and
      more */
      "mcpServers": {"theirs": {"command": "x", "note": "http://not/a/comment"}},
      "hooks": {"AfterTool": [{"hooks": [{"command": "theirs"}]}],},
    }"""
    path = tmp_path / "settings.json"
    path.write_text(text)
    made = gemini_home.settings(
        gemini_home.read(path), {"AfterTool": {"hooks": ["ours"]}}, {"command": "q"}, bounded=True
    )
    assert made["general"] == {"enableAutoUpdate": False, "vimMode": True, "enableAutoUpdateNotification": False}
    assert made["mcpServers"]["theirs"]["note"] == "http://not/a/comment" and made["mcpServers"]["relay"]
    assert made["hooks"]["AfterTool"] == [{"hooks": [{"command": "theirs"}]}, {"hooks": ["ours"]}]
    assert made["model"]["compressionThreshold"] == gemini_home.NEVER and made["hooksConfig"]["enabled"] is True
    assert "model" not in gemini_home.settings({}, {}, {}, bounded=False)
    assert path.read_text() == text


@pytest.mark.parametrize("text", ["[1]", "{", "nothing", '{"a": }'])
def test_settings_that_cannot_be_read_stop_the_start(tmp_path: Path, text: str) -> None:
    path = tmp_path / "settings.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"the user's settings .*settings\.json"):
        gemini_home.read(path)
    assert gemini_home.read(tmp_path / "none.json") == {}


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"hooksConfig": {"enabled": False}}, "hooksConfig"),
        ({"model": {"compressionThreshold": 0.2}}, "model.compressionThreshold"),
        ({"mcpServers": {"relay": {"command": "x"}}}, "mcpServers.relay"),
        ({"model": {"name": "m"}, "mcpServers": {"theirs": {}}, "hooks": {}}, ""),
        ({"model": "m"}, ""),
    ],
)
def test_a_repository_that_would_take_the_hold_does_not_start(
    tmp_path: Path, monkeypatch: Any, settings: dict[str, Any], key: str
) -> None:
    assert gemini_home.clash(settings) == key
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini" / "settings.json").write_text(json.dumps(settings))
    monkeypatch.chdir(tmp_path)
    made = Gemini({"program": "/bin/true", "folder": str(tmp_path / "leg")}, {"RELAY_MCP": "q", "HOME": str(tmp_path)})
    monkeypatch.setattr(made, "hook_command", lambda: ["h"])
    monkeypatch.setattr(made, "seed", lambda: "")
    monkeypatch.setattr(made, "_run", lambda *_: None)
    if key:
        with pytest.raises(ValueError, match=f"sets {key}"):
            made.start()
    else:
        made.start()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("A=1\nexport GOOGLE_GEMINI_BASE_URL=http://elsewhere\n", "GOOGLE_GEMINI_BASE_URL"),
        ("  GEMINI_SANDBOX: docker", "GEMINI_SANDBOX"),
        ("# GEMINI_SANDBOX=docker\nDATABASE_URL=x\nGEMINI_API_KEY=k\n", ""),
    ],
)
def test_variables_of_a_repository_do_not_lead_a_leg_elsewhere(
    tmp_path: Path, monkeypatch: Any, text: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".gemini").mkdir(exist_ok=True)
    (tmp_path / ".env").write_text("GOOGLE_MAPS_KEY=x\n")
    (tmp_path / ".gemini" / ".env").write_text(text)
    assert gemini_home.taken() == (f"the repository's .gemini/.env sets {name}" if name else "")
    assert gemini_home.settings({}, {}, {}, bounded=True)["advanced"] == {"ignoreLocalEnv": True}
    assert gemini_home.clash({"advanced": {"ignoreLocalEnv": False}}) == "advanced.ignoreLocalEnv"


def test_what_was_changed_in_the_repository_meanwhile_ends_the_leg_before_the_program_runs_again(
    leg: Leg, tmp_path: Path, monkeypatch: Any
) -> None:
    runs: list[object] = []
    monkeypatch.setattr(leg.bridge, "_run", lambda *run: runs.append(run))
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".gemini").mkdir(exist_ok=True)
    for text in ('{"hooksConfig": {"enabled": false}}', "{"):
        (tmp_path / ".gemini" / "settings.json").write_text(text)
        leg.bridge.exit_code = None
        leg.bridge._again()
        assert (runs, leg.bridge.exit_code) == ([], 3)


def test_its_own_container_is_off(leg: Leg, tmp_path: Path, monkeypatch: Any) -> None:
    given: dict[str, str] = {}
    monkeypatch.setattr(leg.bridge, "spawn", lambda _, env, **__: given.update(env))
    leg.bridge._run([], "")
    assert given["GEMINI_SANDBOX"] == "false"


def test_sign_in_is_linked_and_what_a_run_writes_is_the_legs_own(tmp_path: Path) -> None:
    users = tmp_path / "user"
    (users / "tmp").mkdir(parents=True)
    (users / "history").mkdir()
    (users / "oauth_creds.json").write_text("{}")
    (users / "settings.json").write_text("{}")
    for _ in range(2):
        gemini_home.furnish(tmp_path / "leg", users, {"a": 1})
    folder = tmp_path / "leg" / ".gemini"
    assert sorted(os.listdir(folder)) == ["oauth_creds.json", "settings.json"]
    assert (folder / "oauth_creds.json").resolve() == users / "oauth_creds.json"
    assert (
        json.loads((folder / "settings.json").read_text()) == {"a": 1} and not (folder / "settings.json").is_symlink()
    )

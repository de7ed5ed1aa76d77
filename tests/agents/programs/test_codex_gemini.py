"""Codex (over app-server, and its simple mode exec) and Gemini CLI themselves run the legs of real relays.

Each is held by hooks of its own, so that the same must hold for all three; against a scripted model, without a network.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from relays.agents import process
from tests.agents import real
from tests.agents.conftest import Repo, context
from tests.agents.model import Model, Step
from tests.agents.programs import hostile
from tests.agents.programs.scripts import close, tangle
from tests.builders import head, make_repo

pytestmark = real.marks

Start = Callable[..., Any]
CEILING = 180_000
ROOT = Path(__file__).resolve().parents[3]

CODEX = """model = "mock-model"
model_provider = "mock"
{more}
[model_providers.mock]
name = "mock"
base_url = "{url}/v1"
env_key = "MOCK_KEY"
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 1
stream_idle_timeout_ms = 60000
"""
GEMINI = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "general": {"maxAttempts": 2}}


@dataclass(frozen=True)
class Way:
    """One way of running legs. `tool`: how the model names a verb of the query tool; `shell`: a shell tool and its
    argument."""

    agent: str
    args: dict[str, str]
    keys: dict[str, str]
    tool: str
    shell: tuple[str, str]

    def furnish(self, home: Path, url: str, more: str = "") -> str:
        """What the user has configured."""
        folder = home / f".{self.agent}"
        folder.mkdir(parents=True, exist_ok=True)
        codex = self.agent == "codex"
        text = CODEX.format(url=url, more=more) if codex else json.dumps(GEMINI)
        (folder / ("config.toml" if codex else "settings.json")).write_text(text)
        return text

    def verb(self, verb: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
        return self.tool.format(verb), arguments

    def runs(self, command: str, **more: Any) -> tuple[str, dict[str, Any]]:
        name, argument = self.shell
        return name, {argument: command, **more}

    def in_background(self, command: str) -> tuple[str, dict[str, Any]]:
        return self.runs(command, **({"yield_time_ms": 250} if self.agent == "codex" else {"is_background": True}))


_CODEX = {"keys": {"MOCK_KEY": "test-key"}, "tool": "mcp__relay/{}", "shell": ("exec_command", "cmd")}
_GEMINI = {"keys": {"GEMINI_API_KEY": "test-key"}, "tool": "mcp_relay_{}", "shell": ("run_shell_command", "command")}
WAYS = {
    "codex": Way("codex", {}, **_CODEX),  # type: ignore[arg-type]
    "codex-exec": Way("codex", {"mode": "exec"}, **_CODEX),  # type: ignore[arg-type]
    "gemini": Way("gemini", {"model": "gemini-2.5-flash"}, **_GEMINI),  # type: ignore[arg-type]
}


class Agent:
    """Starts relays that one program runs."""

    def __init__(self, way: Way, program: str, home: Path, course: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        self.way, self.program, self.home, self._course, self._patch = way, program, home, course, monkeypatch
        self.started: list[Any] = []
        self.more = ""  # in the user's own configuration
        self.configured = {""}

    def arguments(self, model: Model) -> dict[str, str]:
        """Agent arguments, once the user is signed in to that model."""
        self.configured.add(self.way.furnish(self.home, model.url, self.more))
        for name, value in self.way.keys.items():
            self._patch.setenv(name, value)
        self._patch.setenv("GOOGLE_GEMINI_BASE_URL", model.url)
        names = ",".join([*self.way.keys, "GOOGLE_GEMINI_BASE_URL"])
        return {"env": names, "program": self.program, **self.way.args}

    def start(self, model: Model, **values: Any) -> Any:
        args = {**self.arguments(model), **values.pop("args", {})}
        sets = ["window_tokens=200000", *values.pop("sets", ())]
        relay = self._course(agent=self.way.agent, args=args, sets=sets, **values)
        self.started.append(relay)
        return relay

    def hand_over(self, next_action: str, tokens: int) -> list[Step]:
        """What an agent that was told to wind down does: name what comes next, and say that all is declared."""
        return [
            {"calls": [self.way.verb("next_action", text=next_action)], "usage": filled(tokens)},
            {"calls": [self.way.verb("externalized")], "usage": filled(tokens + 500)},
        ]

    def leg(self, first: int) -> list[Step]:
        """Three issues fill the window past the mark, and the leg hands over."""
        return [
            {"calls": [self.way.verb("orient")], "usage": filled(20_000)},
            close(first, usage=filled(50_000)),
            close(first + 1, usage=filled(90_000)),
            close(first + 2, usage=filled(122_000)),
            *self.hand_over(f"Close issue #{first + 3}.", 124_000),
        ]


@pytest.fixture(params=list(WAYS))
def agent(
    request: pytest.FixtureRequest, course: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Agent]:
    """At the end no name was looked up, nobody lives, and the user's own configuration is as it was."""
    way = WAYS[request.param]
    program = real.require(way.agent)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    made = Agent(way, program, home, course, monkeypatch)
    with real.watched_names() as names:
        yield made
    assert not names, f"looked up: {names}"
    assert [real.below(one.worktree) for one in made.started if real.below(one.worktree)] == [], "a process lives"
    for own in (home / ".codex" / "config.toml", home / ".gemini" / "settings.json"):
        assert (own.read_text() if own.exists() else "") in made.configured, "nothing of the user's own was changed"
    assert not (home / ".codex" / "hooks.json").exists()


def filled(tokens: int, out: int = 60) -> dict[str, int]:
    """Usage of one call: all but a hundred tokens come from the cache."""
    return {"in": 100, "cache_read": tokens - 100, "out": out}


def events(relay: Any, number: int, *kinds: str) -> list[Any]:
    from relays.models import Event

    found = Event.objects.filter(leg__relay=relay.pk, leg__number=number).order_by("pk")
    return [row for row in found if not kinds or row.kind in kinds]


def words(relay: Any, number: int) -> str:
    """What the leg's own stderr log says, for a failed assertion."""
    from relays.driver.places import leg_folder

    log = leg_folder(relay.pk, number) / "stderr.log"
    return log.read_text()[-3000:] if log.exists() else ""


@pytest.mark.timeout(600)
def test_a_relay_of_five_legs_works_arms_rotates_is_parked_at_the_ceiling_resumes_and_reaches_its_goal(
    agent: Agent,
) -> None:
    from relays.models import Baton, ResetTransaction
    from relays.reports import status

    script = [
        *agent.leg(1), *agent.leg(4), *agent.leg(7),
        # leg 3 leaves work uncommitted and fills its window: it is parked at the ceiling
        close(10, usage=filled(30_000)),
        {"shell": tangle(11), "usage": filled(80_000)},
        {"shell": "sleep 0.1", "usage": filled(125_000)},
        {"shell": "sleep 0.1", "usage": filled(165_000)},
        # leg 4 finds that work laid back, and finishes
        close(11, usage=filled(30_000)),
        {"text": "All issues are closed.", "usage": filled(31_000)},
    ]  # fmt: skip
    with Model(script) as model:
        relay = agent.start(model, issues=11)
        relay.drive()
        assert (relay.relay.status, relay.waiting) == ("parked", ["RELAY_PARKED_UNSAFE"]), words(relay, 0)
        assert [one.reason for one in relay.legs] == [*["RELAY_ROTATED"] * 3, "RELAY_PARKED_UNSAFE"], words(relay, 0)
        assert relay.legs[3].cause == "ceiling"
        relay.approve("RELAY_PARKED_UNSAFE")
        relay.drive()
    assert relay.relay.status == "done" and relay.relay.ended_reason == "RELAY_GOAL_DONE", relay.relay.status_why
    legs = relay.legs
    assert len(legs) == 5 and legs[4].reason == "RELAY_GOAL_DONE"
    assert [one.armed for one in legs] == [True, True, True, True, False]
    assert all(one.peak_tokens <= one.ceiling_tokens == CEILING for one in legs)
    # held at the very boundary: no request came after the last step of each leg
    assert len(model.main) == sum(one.turns for one in legs) == sum(one.calls for one in legs)
    # told once in one constant text, in the program's own channel, before the next call
    told = [asked.number for asked in model.main if "RELAY_ARMED: this leg ends soon" in asked.text]
    assert told == [4, 5, 10, 11, 16, 17, 21]
    verdicts = {name: line.verdict for name, line in status.verdict_lines(relay.relay).items()}
    assert {verdicts[name] for name in ("flat", "fidelity", "coverage", "attribution", "objective")} == {"holds"}
    made = [sha for one in legs for sha in one.progress_detail.get("made", [])]
    assert len(made) == len(set(map(str, made))) == 11, "each commit is one leg's"
    batons = list(Baton.objects.order_by("leg__number").values_list("text", flat=True))
    assert len({text.partition('"objective"')[2].partition("}")[0] for text in batons}) == 1
    assert ResetTransaction.objects.count() == 4


def test_the_legs_own_figures_are_those_of_the_session_file_that_the_program_wrote(agent: Agent) -> None:
    from relays.costs import rollups
    from relays.driver.places import leg_folder
    from relays.models import Session
    from relays.sessions.run import import_paths

    script = [
        close(1, usage={"in": 900, "cache_read": 20_000, "out": 310}),
        {"calls": [agent.way.runs("ls"), agent.way.runs("sleep 0.3; true")], "usage": {"in": 4_000, "out": 75}},
        {"shell": "false", "usage": {"in": 100, "cache_read": 79_000, "out": 44}},
        *agent.hand_over("Close issue #2.", 125_000),
    ]
    with Model(script) as model:
        relay = agent.start(model)
        relay.step()
    own = relay.legs[0]
    assert own.reason == "RELAY_ROTATED", words(relay, 0)
    rollups.cut_legs([own.pk])
    own.refresh_from_db()
    gemini = leg_folder(relay.pk, 0) / "gemini" / "home" / ".gemini" / "tmp"
    written = gemini if agent.way.agent == "gemini" else agent.home / ".codex" / "sessions"
    assert import_paths([written]).problems == []
    session = Session.objects.get()
    names = ("input_tokens", "cache_read", "cache_write_5m", "cache_write_1h", "output_tokens", "calls")
    assert [getattr(own, name) for name in names] == [getattr(session, name) for name in names]
    assert own.calls == own.turns == session.main_calls == 5
    assert own.peak_tokens == session.max_resident
    assert own.spend == (session.cost or 0)


def test_two_tools_at_once_are_both_in_flight_and_the_boundary_comes_after_both(agent: Agent) -> None:
    script = [
        {"calls": [agent.way.runs("sleep 0.4; echo a"), agent.way.runs("sleep 0.1; echo b")], "usage": filled(70_000)},
        {"calls": [agent.way.runs("echo c"), agent.way.runs("sleep 0.4; echo d")], "usage": filled(121_000)},
        *agent.hand_over("Close issue #1.", 122_000),
    ]
    with Model(script) as model:
        relay = agent.start(model)
        relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED", words(relay, 0)
    running, most = set(), 0
    for row in events(relay, 0, "tool_started", "tool_ended", "boundary"):
        if row.kind == "boundary":
            assert not running, "a boundary with a tool in flight"
        elif row.kind == "tool_started":
            running.add(row.payload["id"])
        else:
            running.discard(row.payload["id"])
        most = max(most, len(running))
    assert most == 2 and len(model.main) == 4


def test_a_background_command_is_in_flight_until_it_ends(agent: Agent) -> None:
    script = [
        {"calls": [agent.way.in_background("sleep 3; echo over")], "usage": filled(121_000)},
        {"shell": "echo meanwhile", "usage": filled(121_500)},
        *agent.hand_over("Close issue #1.", 122_000),
        {"shell": "sleep 4", "usage": filled(123_000)},
        *agent.hand_over("Close issue #1.", 124_000),
    ]
    with Model(script) as model:
        relay = agent.start(model)
        relay.step()
    holds = relay.holds(0)
    assert relay.legs[0].reason == "RELAY_ROTATED", (words(relay, 0), relay.legs[0].cause, holds)
    assert "IN_FLIGHT_TOOL_CALL" in holds and holds[-1] == ""
    assert not [row for row in events(relay, 0, "tool_ended") if row.payload["ok"] is False]


def test_an_agent_that_ends_by_itself_is_told_once_what_holds_and_then_ends(agent: Agent) -> None:
    script: list[Step] = [
        close(1, usage=filled(20_000)),
        {"text": "I think that this is enough.", "usage": filled(21_000)},
        *agent.hand_over("Close issue #2.", 22_000),
        {"text": "Handed over.", "usage": filled(23_000)},
    ]
    with Model(script) as model:
        relay = agent.start(model)
        relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED" and not relay.legs[0].armed, words(relay, 0)
    assert relay.answers(0) == ["go", "wind_down NO_NEXT_ACTION", "go", "go", "stop"]
    assert relay.legs[0].exit_code == 0


def test_neither_a_repository_nor_a_tool_speaks_for_the_leg_whatever_its_folder_is_called(
    agent: Agent, tmp_path: Path, settings: Any
) -> None:
    settings.RELAY_VAR = tmp_path / "var \U0001f600 é"
    repo, ran, told = make_repo(tmp_path / "a repo", issues=3), tmp_path / "ran", tmp_path / "told"
    hostile.furnish(repo, ran)
    script: list[Step] = [
        {"shell": hostile.forge(told), "usage": filled(20_000)},
        close(1, usage=filled(21_000)),
        *agent.hand_over("Close issue #2.", 22_000),
        {"text": "Handed over.", "usage": filled(23_000)},
    ]
    with Model(script) as model:
        relay = agent.start(model, repo=repo)
        relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED", words(relay, 0)
    assert relay.answers(0) == ["go", "go", "go", "go", "stop"], "one answer a turn: nobody else asked"
    hostile.seen(told)
    assert (relay.worktree / ".codex" / "hooks.json").exists() and not ran.exists()


def test_a_tool_that_ignores_sigterm_is_gone_before_the_leg_is_closed(agent: Agent) -> None:
    """At the ceiling a running tool is waited for up to `tool_limit`; then its whole tree is ended."""
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    script = [
        {"shell": f"setsid python3 -c {shlex.quote(stubborn)} >/dev/null 2>&1 & sleep 0.2", "usage": filled(20_000)},
        {"calls": [agent.way.in_background(f"python3 -c {shlex.quote(stubborn)}")], "usage": filled(90_000)},
        {"shell": "true", "usage": filled(178_000)},
    ]
    with Model(script) as model:
        relay = agent.start(model, sets=["tool_limit=2s"])
        relay.step()
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "ceiling"), words(relay, 0)
    assert not real.below(relay.worktree)


def test_a_window_that_overflows_is_never_compacted_the_leg_ends_at_its_ceiling(agent: Agent) -> None:
    script = [
        close(1, usage=filled(20_000)),
        {"shell": "true", "usage": filled(80_000)},
        {"shell": "true", "usage": filled(195_000)},
        {"text": "never asked for"},
    ]
    with Model(script) as model:
        relay = agent.start(model)
        relay.step()
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "ceiling"), words(relay, 0)
    assert len(model.requests) == 3 and not events(relay, 0, "compacted")


@pytest.mark.parametrize("agent", ["codex", "codex-exec"], indirect=True)
def test_a_program_that_would_compact_below_the_ceiling_is_stopped_as_overrun(agent: Agent) -> None:
    """Codex cannot be told never to compact: where its own window is smaller, its hook refuses, and the leg ends."""
    agent.more = "model_context_window = 50000"
    script = [close(1, usage=filled(20_000)), {"shell": "true", "usage": filled(48_000)}, {"text": "never"}]
    with Model(script) as model:
        relay = agent.start(model)
        relay.step()
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "overrun"), words(relay, 0)
    assert len(model.requests) == 2 and events(relay, 0, "compacted"), "no request for a summary was made"


@pytest.mark.parametrize("agent", ["codex"], indirect=True)
def test_outside_of_enforce_the_program_compacts_as_ever_and_it_is_recorded(agent: Agent) -> None:
    """Shadow changes nothing: what would have been an overrun is an event, and the leg goes on."""
    agent.more = "model_context_window = 50000"
    script = [close(1, usage=filled(48_000)), {"shell": "true", "usage": filled(10_000)}, {"text": "done"}]
    with Model(script) as model:
        relay = agent.start(model, mode="shadow", sets=["envelope.legs=1"])
        relay.step()
    assert events(relay, 0, "compacted"), words(relay, 0)
    assert relay.legs[0].cause != "overrun" and len(model.main) == 3


@pytest.mark.parametrize("status", [429, 500, 529])
def test_a_model_that_does_not_answer_puts_the_leg_into_back_off_and_it_comes_back(agent: Agent, status: int) -> None:
    if agent.way.args.get("mode") == "exec" and status == 429:
        pytest.skip("the simple mode does not try again after 429: it has one turn")
    script: list[Step] = [
        close(1, usage=filled(70_000)),
        {"error": status},
        close(2, usage=filled(121_000)),
        *agent.hand_over("Close issue #3.", 122_000),
    ]
    with Model(script) as model:
        relay = agent.start(model)
        relay.step()
    own = relay.legs[0]
    assert {row.payload["cause"] for row in events(relay, 0, "retry")} == {"overload"}, words(relay, 0)
    assert own.reason == "RELAY_ROTATED", (own.cause, words(relay, 0))
    assert own.calls == 4 and len(model.main) == 5, "the call that was refused is not counted"


@pytest.mark.parametrize("agent", ["codex", "gemini"], indirect=True)
def test_a_model_that_stays_away_longer_than_the_programs_own_tries_is_asked_again_in_the_same_leg(
    agent: Agent,
) -> None:
    script: list[Step] = [
        close(1, usage=filled(70_000)),
        *[{"error": 529 if agent.way.agent == "codex" else 503}] * 2,
        close(2, usage=filled(121_000)),
        *agent.hand_over("Close issue #3.", 122_000),
    ]
    with Model(script) as model:
        relay = agent.start(model)
        relay.step()
    own = relay.legs[0]
    assert any((row.payload.get("retry_in_ms") or 0) >= 5_000 for row in events(relay, 0, "retry")), words(relay, 0)
    assert own.reason == "RELAY_ROTATED" and own.number == 0, (own.cause, words(relay, 0))
    assert own.calls == 4 and len(model.main) == 6


def test_a_stream_that_is_cut_is_asked_again_in_the_same_leg(agent: Agent) -> None:
    script: list[Step] = [
        close(1, usage=filled(70_000)),
        {"text": "half an answer that is never", "incomplete": True, "usage": filled(71_000)},
        close(2, usage=filled(121_000)),
        *agent.hand_over("Close issue #3.", 122_000),
    ]
    with Model(script) as model:
        relay = agent.start(model)
        relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED", words(relay, 0)
    assert len(model.main) == 5


def test_a_sign_in_that_is_lost_parks_the_leg_with_the_reason(agent: Agent) -> None:
    script: list[Step] = [close(1, usage=filled(20_000)), {"error": 401}]
    with Model(script) as model:
        relay = agent.start(model)
        relay.step()
    own = relay.legs[0]
    assert (own.reason, own.cause) == ("RELAY_PARKED_UNSAFE", "sign_in"), (words(relay, 0), own.cause)
    assert "sign" in relay.relay.status_why


def test_a_model_that_hangs_is_silence(agent: Agent) -> None:
    script: list[Step] = [close(1, usage=filled(20_000)), {"hang": 60, "usage": filled(21_000)}]
    with Model(script) as model:
        relay = agent.start(model, sets=["silence_limit=4s"])
        relay.step()
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "silence"), words(relay, 0)


def test_a_request_that_the_model_refuses_is_a_crash_of_the_agent(agent: Agent) -> None:
    script: list[Step] = [close(1, usage=filled(20_000)), {"error": 400, "type": "invalid_request_error"}]
    with Model(script) as model:
        relay = agent.start(model)
        relay.step()
    own = relay.legs[0]
    assert (own.reason, own.cause) == ("RELAY_PARKED_UNSAFE", "agent_crash"), (own.cause, words(relay, 0))
    assert own.exit_code != 0


def found_programs(worktree: Path) -> list[int]:
    """Pids of the program itself in a worktree."""
    found = []
    for pid in real.below(worktree):
        try:
            words_of = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        first = [os.path.basename(word) for word in words_of[:2]]
        if first[0] == b"codex" or b"gemini.js" in first:
            found.append(pid)
    return found


def when_asked(model: Model, times: int, act: Callable[[], None]) -> threading.Thread:
    """Do something a moment after so many requests were made."""

    def wait() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(model.main) < times:
            time.sleep(0.05)
        time.sleep(1.0)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize("stage", ["in a call", "in a tool"])
def test_the_program_is_killed(agent: Agent, stage: str) -> None:
    slow: Step = {"text": "a b c d e f g h", "slow": 1, "usage": filled(21_000)}
    waits: Step = {"shell": "sleep 30", "usage": filled(21_000)}
    script = [close(1, usage=filled(20_000)), slow if stage == "in a call" else waits]
    with Model(script) as model:
        relay = agent.start(model)
        hit: list[int] = []

        def kill() -> None:
            for pid in found_programs(relay.worktree):
                os.kill(pid, signal.SIGKILL)
                hit.append(pid)

        killer = when_asked(model, 2, kill)
        relay.step()
        killer.join()
    own = relay.legs[0]
    assert hit and own.cause == "agent_crash" and own.exit_code == 137, (own.reason, own.cause, own.exit_code)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_program_that_somebody_interrupts_has_crashed_whatever_its_exit_code(
    agent: Agent, number: signal.Signals
) -> None:
    """ "Gemini exits 0 on SIGINT/SIGTERM with no result line." """
    script = [close(1, usage=filled(20_000)), {"shell": "sleep 30", "usage": filled(21_000)}]
    with Model(script) as model:
        relay = agent.start(model)

        def interrupt() -> None:
            """As somebody does who presses it again: a program may take the first one as a wish to finish first."""
            deadline = time.monotonic() + 60
            while (found := found_programs(relay.worktree)) and time.monotonic() < deadline:
                for pid in found:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, number)
                time.sleep(1.0)

        killer = when_asked(model, 2, interrupt)
        relay.step()
        killer.join()
    own = relay.legs[0]
    assert own.cause == "agent_crash" and own.exit_code != 0, (own.reason, own.cause, own.exit_code)


@pytest.mark.parametrize("both", [False, True])
def test_a_supervisor_that_is_killed_leaves_nothing_behind(agent: Agent, tmp_path: Path, both: bool) -> None:
    """Killed in the middle of a tool, alone or together with the program: the next one finds no agent that lives."""
    tree = make_repo(tmp_path / "tree", issues=2)
    folder = tmp_path / "leg"
    folder.mkdir()
    (folder / "seed.txt").write_text("Close the issues.")
    script = [close(1, usage=filled(20_000)), {"shell": "sleep 60", "usage": filled(21_000)}]
    with Model(script) as model:
        args = agent.arguments(model)
        ctx = context(Repo(tree), folder, "", seed_path=str(folder / "seed.txt"), args=args)
        given = tmp_path / "context.json"
        given.write_text(json.dumps(asdict(ctx)))
        alone = [sys.executable, "-m", "tests.agents.programs.lone_supervisor", agent.way.agent, str(given)]
        supervisor = subprocess.Popen(alone, cwd=ROOT)
        deadline = time.monotonic() + 60
        while len(model.main) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1.0)
        struck = found_programs(tree)
        os.kill(supervisor.pid, signal.SIGKILL)
        for pid in struck if both else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        supervisor.wait()
        deadline = time.monotonic() + 10
        while real.below(tree) and time.monotonic() < deadline:
            time.sleep(0.05)
    assert struck and not real.below(tree) and not process.living(ctx.marker)
    assert head(tree, "HEAD~1") and len(model.main) == 2


def test_a_person_parks_at_once_in_the_middle_of_a_tool_and_nothing_lives_on(
    agent: Agent, meanwhile: Callable[..., None]
) -> None:
    from relays.models import Relay

    script: list[Step] = [close(1, usage=filled(20_000)), {"shell": "sleep 60", "usage": filled(21_000)}]
    with Model(script) as model:
        relay = agent.start(model)
        meanwhile(1, lambda: Relay.objects.filter(pk=relay.pk).update(park="now"))
        relay.step()
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "park_now")
    assert relay.relay.status == "parked"


def test_a_tool_that_the_policy_names_is_denied_while_an_assumption_is_weak(agent: Agent) -> None:
    weak = agent.way.verb("assume", key="port", statement="The port is 8001.", source="inferred", confidence=0.3)
    name = "Bash" if agent.way.agent == "codex" else "run_shell_command"
    script: list[Step] = [
        {"calls": [weak], "usage": filled(20_000)},
        {"shell": "touch never", "usage": filled(30_000)},
        {"text": "It was denied.", "usage": filled(31_000)},
    ]
    with Model(script) as model:
        relay = agent.start(model, sets=[f"effectful_tools={name}"])
        relay.step()
    assert not (relay.worktree / "never").exists()
    assert "assumption" in model.main[2].text

"""OpenCode itself runs the legs of real relays, against a scripted model and without any network."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from relays.agents import contained, process
from tests.agents import real
from tests.agents.model import Asked, Model, Step
from tests.agents.programs import hostile
from tests.agents.programs.scripts import GIT, close, tangle
from tests.builders import make_repo

pytestmark = real.marks

Start = Callable[..., Any]
CEILING = 180_000
#: what keeps the program from the network in these tests; a leg is given them because the start names them
QUIET = ("npm_config_offline", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_LSP_DOWNLOAD",
         "OPENCODE_DISABLE_DEFAULT_PLUGINS")  # fmt: skip


def configured(home: Path, model: Model) -> Path:
    """The user's own configuration: a provider on this machine."""
    path = home / ".config" / "opencode" / "opencode.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    limit = {"context": 200_000, "output": 8_000}
    models = {"claude-sonnet-4-5": {"tool_call": True, "limit": limit, "cost": {"input": 3, "output": 15}}}
    options = {"baseURL": f"{model.url}/v1", "apiKey": "test-key"}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}
    # it adds the line of its schema to a configuration that has none, whoever starts it
    name = "mock/claude-sonnet-4-5"
    own = {
        "$schema": "https://opencode.ai/config.json",
        "provider": {"mock": provider},
        "enabled_providers": ["mock"],
        "model": name,
        "small_model": name,
        "lsp": False,
        "formatter": False,
    }
    path.write_text(json.dumps(own), encoding="utf-8")
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    monkeypatch.setenv("HOME", str(made))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "OPENCODE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return made


@pytest.fixture
def opencode(course: Start, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """`opencode(model, …)` starts a relay that OpenCode runs; at the end no name was looked up and nobody lives."""
    program = real.require("opencode")
    for name in QUIET:
        monkeypatch.setenv(name, "1")
    started: list[Any] = []
    written: list[tuple[Path, bytes]] = []

    def start(model: Model, **values: Any) -> Any:
        path = configured(home, model)
        written.append((path, path.read_bytes()))
        args = {"env": ",".join(QUIET), "program": program, **values.pop("args", {})}
        relay = course(agent="opencode", args=args, **values)
        started.append(relay)
        return relay

    with real.watched_names() as names:
        yield start
    assert not names, f"looked up: {names}"
    assert [real.below(one.worktree) for one in started if real.below(one.worktree)] == [], "an agent's process lives"
    assert all(path.read_bytes() == before for path, before in written), "the user's own configuration was changed"


def tool(verb: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return f"relay_{verb}", arguments


def filled(tokens: int, out: int = 60) -> dict[str, int]:
    """Usage of one call: all but a hundred tokens come from the cache."""
    return {"in": 100, "cache_read": tokens - 100, "out": out}


def hand_over(next_action: str, tokens: int) -> list[Step]:
    """What an agent that was told to wind down does: name what comes next, and say that all is declared."""
    return [
        {"calls": [tool("next_action", text=next_action)], "usage": filled(tokens)},
        {"calls": [tool("externalized")], "usage": filled(tokens + 500)},
    ]


def climb() -> list[Step]:
    """Work that fills the window in steps: one jump as large as half of it would be the ceiling's."""
    return [
        close(1, usage=filled(20_000)),
        {"shell": "true", "usage": filled(55_000)},
        {"shell": "true", "usage": filled(90_000)},
    ]


def leg(first: int) -> list[Step]:
    """Three issues fill the window past the mark, and the leg hands over."""
    return [
        {"calls": [tool("orient")], "usage": filled(20_000)},
        close(first, usage=filled(50_000)),
        close(first + 1, usage=filled(90_000)),
        close(first + 2, usage=filled(122_000)),
        *hand_over(f"Close issue #{first + 3}.", 124_000),
    ]


def events(relay: Any, number: int, *kinds: str) -> list[Any]:
    from relays.models import Event

    found = Event.objects.filter(leg__relay=relay.pk, leg__number=number).order_by("pk")
    return [row for row in found if not kinds or row.kind in kinds]


def words(relay: Any, number: int = 0) -> str:
    """What the leg's own stderr log says and how it ended, for a failed assertion."""
    from relays.driver.places import leg_folder

    log = leg_folder(relay.pk, number) / "stderr.log"
    said = [f"{row.kind} {row.payload}" for row in events(relay, number)][-12:]
    return "\n".join([log.read_text()[-3000:] if log.exists() else "", *said])


@pytest.mark.timeout(900)
def test_a_relay_of_five_legs_works_arms_rotates_is_parked_at_the_ceiling_resumes_and_reaches_its_goal(
    opencode: Callable[..., Any],
) -> None:
    from relays.models import Baton, ResetTransaction
    from relays.reports import status

    script = [
        *leg(1), *leg(4), *leg(7),
        # leg 3 leaves its work uncommitted and fills its window: it is parked at the ceiling
        {"shell": tangle(10), "usage": filled(60_000)},
        {"shell": "sleep 0.1", "usage": filled(110_000)},
        {"shell": "sleep 0.1", "usage": filled(150_000)},
        # leg 4 finds that work laid back, and finishes
        close(10, usage=filled(30_000)),
        {"text": "All issues are closed.", "usage": filled(31_000)},
    ]  # fmt: skip
    with Model(script) as model:
        relay = opencode(model, issues=10)
        relay.drive()
        assert (relay.relay.status, relay.waiting) == ("parked", ["RELAY_PARKED_UNSAFE"]), words(relay)
        assert [one.reason for one in relay.legs] == [*["RELAY_ROTATED"] * 3, "RELAY_PARKED_UNSAFE"]
        assert relay.legs[3].cause == "ceiling"
        relay.approve("RELAY_PARKED_UNSAFE")
        relay.drive()
    assert relay.relay.status == "done" and relay.relay.ended_reason == "RELAY_GOAL_DONE", relay.relay.status_why
    legs = relay.legs
    assert len(legs) == 5 and legs[4].reason == "RELAY_GOAL_DONE"
    # the fourth met the ceiling without a commit since the third armed
    assert [one.armed for one in legs] == [True, True, True, False, False]
    assert all(one.peak_tokens <= one.ceiling_tokens == CEILING for one in legs)
    # held at the very boundary: no request came after the last step of each leg
    assert len(model.main) == sum(one.turns for one in legs) == sum(one.calls for one in legs)
    # told in one constant text over the program's own prompts: it is read one call later
    told = [asked.number for asked in model.main if "RELAY_ARMED: this leg ends soon" in asked.text]
    assert told[:3] == [5, 11, 17]
    verdicts = {name: line.verdict for name, line in status.verdict_lines(relay.relay).items()}
    assert {verdicts[name] for name in ("flat", "fidelity", "coverage", "attribution", "objective")} == {"holds"}
    made = [sha for one in legs for sha in one.progress_detail.get("made", [])]
    assert len(made) == len(set(map(str, made))) == 10, "each commit is one leg's"
    batons = list(Baton.objects.order_by("leg__number").values_list("text", flat=True))
    assert len({text.partition('"objective"')[2].partition("}")[0] for text in batons}) == 1
    assert ResetTransaction.objects.count() == 4


def test_the_legs_own_figures_are_those_of_the_database_that_the_program_wrote(
    opencode: Callable[..., Any], home: Path
) -> None:
    """Tokens, cost and turns, with a sub-agent beside the main chain."""
    from relays.models import Session
    from relays.sessions.run import import_paths

    asks = {"description": "count", "prompt": "Count the files.", "subagent_type": "general"}
    script = [
        close(1, usage={"in": 900, "cache_read": 20_000, "out": 310}),
        {"calls": [("task", asks)], "usage": {"in": 10, "cache_read": 24_000, "out": 120}},
        {"shell": "ls", "usage": {"in": 4_000, "out": 75}},
        {"text": "There are three files.", "usage": {"in": 4_200, "out": 33}},
        {"shell": "true", "usage": {"in": 100, "cache_read": 60_000, "out": 44}},
        {"shell": "true", "usage": {"in": 100, "cache_read": 94_000, "out": 44}},
        {"shell": "true", "usage": {"in": 100, "cache_read": 125_000, "out": 44}},
        *hand_over("Close issue #2.", 126_000),
    ]
    with Model(script) as model:
        relay = opencode(model)
        relay.step()
    own = relay.legs[0]
    assert own.reason == "RELAY_ROTATED", words(relay)
    assert import_paths([home / ".local" / "share" / "opencode"]).problems == []
    found = list(Session.objects.all())
    names = ("input_tokens", "cache_read", "cache_write_5m", "cache_write_1h", "output_tokens", "calls")
    assert [getattr(own, name) for name in names] == [sum(getattr(one, name) for one in found) for name in names]
    main = max(found, key=lambda one: one.max_resident)
    assert own.calls == 9 and own.turns == main.main_calls == 7
    assert own.spend > 0 and abs(own.spend - sum(one.reported_cost or 0 for one in found)) < 1e-6
    assert own.peak_tokens == main.max_resident


def test_two_tools_at_once_are_both_in_flight_and_the_boundary_comes_after_both(opencode: Callable[..., Any]) -> None:
    def bash(command: str) -> tuple[str, dict[str, Any]]:
        return "bash", {"command": command, "description": "a step"}

    script = [
        {"calls": [bash("sleep 0.4; echo a"), bash("exit 3")], "usage": filled(121_000)},
        *hand_over("Close issue #1.", 122_000),
    ]
    with Model(script) as model:
        relay = opencode(model)
        relay.step()
    kinds = [row.kind for row in events(relay, 0, "tool_started", "tool_ended", "boundary")]
    cut = kinds.index("boundary")
    assert kinds[:cut] == ["tool_started", "tool_started", "tool_ended", "tool_ended"]
    assert relay.legs[0].tool_errors == 1 and relay.legs[0].reason == "RELAY_ROTATED", words(relay)


@pytest.mark.parametrize("kind", ["namespace", "user_namespace", "subreaper"])
def test_what_a_command_left_in_the_background_is_gone_when_the_leg_is_closed(
    opencode: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """In whatever way the machine lets us contain it."""
    wanted = process.Containment(kind)
    prefix = contained.prefix_of(wanted)
    if prefix and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"this machine does not allow {kind}")
    monkeypatch.setattr(process, "containment", lambda: wanted)
    script = [
        {"shell": "setsid sleep 600 >/dev/null 2>&1 & echo begun", "usage": filled(125_000)},
        *hand_over("Close issue #1.", 126_000),
    ]
    with Model(script) as model:
        relay = opencode(model)
        relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED", words(relay)
    assert not real.below(relay.worktree)


def test_an_agent_that_ends_by_itself_is_told_once_what_holds_and_then_ends(opencode: Callable[..., Any]) -> None:
    script: list[Step] = [
        close(1, usage=filled(20_000)),
        {"text": "I think that this is enough.", "usage": filled(21_000)},
        *hand_over("Close issue #2.", 22_000),
        {"text": "Handed over.", "usage": filled(23_000)},
    ]
    with Model(script) as model:
        relay = opencode(model)
        relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED" and not relay.legs[0].armed, words(relay)
    assert relay.answers(0) == ["go", "wind_down NO_NEXT_ACTION", "go", "go", "stop"]
    assert relay.legs[0].exit_code == 0


def test_a_tool_that_ignores_sigterm_is_gone_when_a_person_parks_at_once_in_the_middle_of_it(
    opencode: Callable[..., Any],
) -> None:
    from django.db import connection

    from relays.models import Relay

    stubborn = shlex.quote("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)")
    script = [
        {"shell": f"setsid python3 -c {stubborn} >/dev/null 2>&1 & sleep 0.2", "usage": filled(20_000)},
        {"shell": f"python3 -c {stubborn}", "usage": filled(30_000)},
    ]
    with Model(script) as model:
        relay = opencode(model)

        def park() -> None:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and len(events(relay, 0, "tool_started")) < 2:
                time.sleep(0.1)
            Relay.objects.filter(pk=relay.pk).update(park="now")
            connection.close()

        person = threading.Thread(target=park)
        person.start()
        relay.step()
        person.join()
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "park_now"), words(relay)
    kinds = [row.kind for row in events(relay, 0, "tool_started", "tool_ended", "boundary")]
    assert kinds.count("tool_started") == 2 and kinds.count("boundary") == 1, "it was parked in mid-tool"
    assert relay.relay.status == "parked" and not real.below(relay.worktree)


def test_a_window_that_overflows_is_never_compacted_the_leg_ends_at_its_ceiling(opencode: Callable[..., Any]) -> None:
    script = [
        close(1, usage=filled(20_000)),
        {"shell": "true", "usage": filled(80_000)},
        {"shell": "true", "usage": filled(199_000)},
        {"text": "a summary that is never asked for"},
    ]
    with Model(script) as model:
        relay = opencode(model)
        relay.step()
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "ceiling"), words(relay)
    assert len(model.requests) == 3 and not events(relay, 0, "compacted")


def test_outside_of_enforce_the_program_compacts_as_ever_and_it_is_recorded(opencode: Callable[..., Any]) -> None:
    """Shadow changes nothing: what would have been an overrun is an event, and the leg goes on."""
    steps: list[Any] = [{"shell": f"echo {number}", "usage": filled(20_000 + 60_000 * number)} for number in range(4)]

    def after(asked: Asked) -> Step:
        return {"text": "done", "usage": filled(9_000)}

    with Model([*steps, after], side={"text": "What was done.", "usage": filled(1_000)}) as model:
        relay = opencode(model, mode="shadow", sets=["envelope.legs=1"])
        relay.step()
    assert events(relay, 0, "compacted"), words(relay)
    assert relay.legs[0].cause != "overrun"


@pytest.mark.parametrize("status", [429, 500, 529])
def test_a_model_that_does_not_answer_puts_the_leg_into_back_off_and_it_comes_back(
    opencode: Callable[..., Any], status: int
) -> None:
    script: list[Step] = [
        *climb(),
        {"error": status},
        close(2, usage=filled(121_000)),
        *hand_over("Close issue #3.", 122_000),
    ]
    with Model(script) as model:
        relay = opencode(model)
        relay.step()
    [retry] = events(relay, 0, "retry")
    assert retry.payload["cause"] == "overload" and retry.payload["retry_in_ms"] > 0
    own = relay.legs[0]
    assert own.reason == "RELAY_ROTATED", words(relay)
    assert own.calls == own.turns == 6, "the call that was refused is not counted"
    assert len(model.main) == 7


def test_a_stream_that_is_cut_is_asked_again_in_the_same_leg(opencode: Callable[..., Any]) -> None:
    script: list[Step] = [
        *climb(),
        {"text": "half an answer that is never", "incomplete": True, "usage": filled(91_000)},
        close(2, usage=filled(121_000)),
        *hand_over("Close issue #3.", 122_000),
    ]
    with Model(script) as model:
        relay = opencode(model)
        relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED", words(relay)
    assert [row.payload["cause"] for row in events(relay, 0, "retry")] == ["network"] and len(model.main) == 7
    assert relay.legs[0].calls == 6


def test_a_model_that_is_gone_is_a_network_loss_and_waits_until_patience_is_over(opencode: Callable[..., Any]) -> None:
    def gone(asked: Asked) -> Step:
        model.server.socket.close()  # nobody listens any more: the next try is refused
        return {"incomplete": True}

    script: list[Any] = [close(1, usage=filled(20_000)), gone]
    with Model(script) as model:
        relay = opencode(model, sets=["unknown_patience=4"])
        relay.step()
    assert {row.payload["cause"] for row in events(relay, 0, "retry")} == {"network"}, words(relay)
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "silence"), words(relay)
    assert "cannot be reached" in relay.relay.status_why


def test_a_sign_in_that_is_lost_parks_the_leg_with_the_reason(opencode: Callable[..., Any]) -> None:
    script: list[Step] = [close(1, usage=filled(20_000)), {"error": 401}]
    with Model(script) as model:
        relay = opencode(model)
        relay.step()
    own = relay.legs[0]
    assert (own.reason, own.cause) == ("RELAY_PARKED_UNSAFE", "sign_in"), (words(relay), own.cause)
    assert "sign the agent in again" in relay.relay.status_why


def test_a_model_that_hangs_is_silence(opencode: Callable[..., Any]) -> None:
    script: list[Step] = [close(1, usage=filled(20_000)), {"hang": 60, "usage": filled(21_000)}]
    with Model(script) as model:
        relay = opencode(model, sets=["silence_limit=3"])
        relay.step()
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "silence"), words(relay)


def test_a_request_that_the_model_refuses_is_a_crash_of_the_agent(opencode: Callable[..., Any]) -> None:
    script: list[Step] = [close(1, usage=filled(20_000)), {"error": 400, "type": "invalid_request_error"}]
    with Model(script) as model:
        relay = opencode(model)
        relay.step()
    own = relay.legs[0]
    assert own.cause == "agent_crash", words(relay)
    assert not events(relay, 0, "retry") and "invalid_request_error" in words(relay)


def programs_of(relay: Any) -> list[int]:
    """Pids of OpenCode itself in a relay's worktree."""
    found = []
    for pid in real.below(relay.worktree):
        try:
            if Path(os.readlink(f"/proc/{pid}/exe")).name == "opencode":
                found.append(pid)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("stage", ["in a call", "in a tool"])
def test_the_program_is_killed(opencode: Callable[..., Any], stage: str) -> None:
    slow: Step = {"text": "a b c d e f g h", "slow": 1, "usage": filled(21_000)}
    waits: Step = {"shell": "sleep 30", "usage": filled(21_000)}
    script = [close(1, usage=filled(20_000)), slow if stage == "in a call" else waits]
    with Model(script) as model:
        relay = opencode(model)

        def kill() -> None:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and len(model.main) < 2:
                time.sleep(0.05)
            time.sleep(0.7)
            for pid in programs_of(relay):
                os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        relay.step()
        killer.join()
    own = relay.legs[0]
    assert own.cause == "agent_crash" and own.exit_code == 137, (own.reason, own.cause, own.exit_code)


@pytest.mark.parametrize("both", [False, True], ids=["supervisor", "both"])
def test_a_leg_whose_supervisor_is_killed_is_judged_from_records_and_its_program_is_gone(
    opencode: Callable[..., Any], killed: Callable[..., None], both: bool
) -> None:
    """At a boundary that is decided and not answered: the agent waits, and dies with whoever it waits for."""
    from relays.driver.boundaries import Boundaries
    from tests.driver.conftest import Killed

    script: list[Step] = [*climb(), close(2, usage=filled(100_000)), {"text": "Done.", "usage": filled(101_000)}]
    with Model(script) as model:
        relay = opencode(model, issues=2)
        killed(Boundaries, "judge", nth=2, after=True)
        with pytest.raises(Killed):
            relay.step()
        if both:
            for pid in programs_of(relay):
                os.kill(pid, signal.SIGKILL)
        asked = len(model.main)
        relay.step()
        assert not real.below(relay.worktree)
        assert len(model.main) == asked, "no further request was made"
    own = relay.legs[0]
    assert own.cause == "supervisor_crash" and own.calls == own.turns == 2, (own.cause, own.calls, words(relay))
    assert own.progress == 2, "the commit counts, and the issue that it closed"


def test_a_tool_that_the_policy_names_is_denied_while_an_assumption_is_weak(opencode: Callable[..., Any]) -> None:
    weak = tool("assume", key="port", statement="The port is 8001.", source="inferred", confidence=0.3)
    script: list[Step] = [
        {"calls": [weak], "usage": filled(20_000)},
        {"shell": "touch never", "usage": filled(30_000)},
        {"text": "It was denied.", "usage": filled(31_000)},
    ]
    with Model(script) as model:
        relay = opencode(model, sets=["effectful_tools=bash"])
        relay.step()
    assert not (relay.worktree / "never").exists()
    assert "assumption" in model.main[2].text


def test_neither_a_repository_nor_a_tool_speaks_for_the_leg_whatever_its_folder_is_called(
    opencode: Callable[..., Any], tmp_path: Path, settings: Any
) -> None:
    settings.RELAY_VAR = tmp_path / "var \U0001f600 #1 é"
    repo, ran, told = make_repo(tmp_path / "a repo", issues=3), tmp_path / "ran", tmp_path / "told"
    hostile.furnish(repo, ran)
    script: list[Step] = [
        {"shell": hostile.forge(told), "usage": filled(20_000)},
        close(1, usage=filled(21_000)),
        *hand_over("Close issue #2.", 22_000),
        {"text": "Handed over.", "usage": filled(23_000)},
    ]
    with Model(script) as model:
        relay = opencode(model, repo=repo)
        relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED", words(relay)
    assert relay.answers(0) == ["go", "go", "go", "go", "stop"], "one answer a turn: nobody else asked"
    hostile.seen(told)
    assert (relay.worktree / "bunfig.toml").exists() and not ran.exists()


def test_a_tool_sees_the_query_tool_and_nothing_of_the_server_and_a_repositorys_plugin_is_not_run(
    opencode: Callable[..., Any], tmp_path: Path
) -> None:
    repo, ran = make_repo(tmp_path / "repo", issues=1), tmp_path / "ran"
    plugin = f'import fs from "fs"; export const P = async () => {{ fs.writeFileSync({str(ran)!r}, "x"); return {{}} }}'
    for name in ("plugin", "plugins"):
        (repo / ".opencode" / name).mkdir(parents=True)
        (repo / ".opencode" / name / "theirs.js").write_text(plugin, encoding="utf-8")
    server = {"mcp": {"theirs": {"type": "local", "command": ["touch", str(ran)], "enabled": True}}}
    (repo / "opencode.json").write_text(json.dumps(server), encoding="utf-8")
    commit = f"git add -A && {GIT} commit -qm Plugins"
    subprocess.run(commit, shell=True, cwd=repo, check=True)
    script: list[Step] = [
        {"shell": "env | cut -d= -f1 | sort | tr '\\n' ' '; env | grep -c 'OPENCODE_SERVER_PASSWORD=.'"},
        {"text": "Done.", "usage": filled(21_000)},
    ]
    with Model(script) as model:
        relay = opencode(model, repo=repo)
        relay.step()
    shown = model.main[1].body["messages"][-1]["content"].split()
    assert shown[-1] == "0", "its password is not for tools"
    ours = {"SECRET_KEY", "DATABASE_URL", "RELAY_VAR", "DJANGO_SETTINGS_MODULE"}
    assert "RELAY_TOKEN" in shown and not ours & set(shown)
    assert (relay.worktree / ".opencode" / "plugin" / "theirs.js").exists() and not ran.exists()

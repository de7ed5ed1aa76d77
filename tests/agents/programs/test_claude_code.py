"""Claude Code itself runs the legs of real relays, against a scripted model and without any network."""

from __future__ import annotations

import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents import real
from tests.agents.model import Model, Step
from tests.agents.programs import hostile
from tests.agents.programs.scripts import close, tangle
from tests.builders import make_repo
from tests.driver.test_shutdown import supervised

pytestmark = real.marks

Start = Callable[..., Any]
WINDOW = 200_000
CEILING = 180_000
#: a command that runs on; a long `sleep` of its own the program refuses
LONG = "python3 -c 'import time; time.sleep(100)'"


@pytest.fixture
def claude(course: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """`claude(model, …)` starts a relay that Claude Code runs; at the end no name was looked up and nobody lives."""
    program = real.require("claude-code")
    home = tmp_path / "home"
    home.mkdir()
    started = []
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    monkeypatch.setenv("CLAUDE_CODE_MAX_RETRIES", "2")
    names_of_ours = "ANTHROPIC_BASE_URL,ANTHROPIC_API_KEY,CLAUDE_CODE_MAX_RETRIES,CLAUDE_CODE_AUTO_COMPACT_WINDOW"

    def start(model: Model, **values: Any) -> Any:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        args = {"env": names_of_ours, "program": program, **values.pop("args", {})}
        relay = course(agent="claude-code", args=args, **values)
        started.append(relay)
        return relay

    with real.watched_names() as names:
        yield start
    assert not names, f"looked up: {names}"
    assert [real.below(one.worktree) for one in started if real.below(one.worktree)] == [], "an agent's process lives"
    assert not list(home.iterdir()), "nothing of the user's own was touched"


def tool(verb: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return f"mcp__relay__{verb}", arguments


def filled(tokens: int, out: int = 60) -> dict[str, int]:
    """Usage of one call: all but a hundred tokens come from the cache."""
    return {"in": 100, "cache_read": tokens - 100, "out": out}


def hand_over(next_action: str, tokens: int) -> list[Step]:
    """What an agent that was told to wind down does: name what comes next, and say that all is declared."""
    return [
        {"calls": [tool("next_action", text=next_action)], "usage": filled(tokens)},
        {"calls": [tool("externalized")], "usage": filled(tokens + 500)},
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


def words(relay: Any, number: int) -> str:
    """What the leg's own stderr log and last decision say, for a failed assertion."""
    from relays.driver.places import leg_folder

    log = leg_folder(relay.pk, number) / "stderr.log"
    return log.read_text() if log.exists() else ""


def test_a_relay_of_five_legs_works_arms_rotates_is_parked_at_the_ceiling_resumes_and_reaches_its_goal(
    claude: Callable[..., Any],
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
        relay = claude(model, issues=10)
        relay.drive()
        assert (relay.relay.status, relay.waiting) == ("parked", ["RELAY_PARKED_UNSAFE"]), words(relay, 0)
        assert [one.reason for one in relay.legs] == [*["RELAY_ROTATED"] * 3, "RELAY_PARKED_UNSAFE"]
        assert relay.legs[3].cause == "ceiling"
        relay.approve("RELAY_PARKED_UNSAFE")
        relay.drive()
    assert relay.relay.status == "done" and relay.relay.ended_reason == "RELAY_GOAL_DONE", relay.relay.status_why
    legs = relay.legs
    assert len(legs) == 5 and legs[4].reason == "RELAY_GOAL_DONE"
    assert [one.armed for one in legs] == [True, True, True, False, False], "leg 3 made no progress: hysteresis"
    assert all(one.peak_tokens <= one.ceiling_tokens == CEILING for one in legs)
    # held at the very boundary: no request came after the last step of each leg
    assert len(model.main) == sum(one.turns for one in legs) == sum(one.calls for one in legs)
    # told once in one constant text, in the program's own channel, before the next call
    told = [asked.number for asked in model.main if "RELAY_ARMED: this leg ends soon" in asked.text]
    assert told == [4, 5, 10, 11, 16, 17]
    assert not {"EnterWorktree", "CronCreate", "ScheduleWakeup"} & set(model.main[0].tools)
    verdicts = {name: line.verdict for name, line in status.verdict_lines(relay.relay).items()}
    assert {verdicts[name] for name in ("flat", "fidelity", "coverage", "attribution", "objective")} == {"holds"}
    made = [sha for one in legs for sha in one.progress_detail.get("made", [])]
    assert len(made) == len(set(map(str, made))) == 10, "each commit is one leg's"
    batons = list(Baton.objects.order_by("leg__number").values_list("text", flat=True))
    assert len({text.partition('"objective"')[2].partition("}")[0] for text in batons}) == 1
    # the seed's preamble and pin are the same bytes for every leg, and the first thing that the model reads
    seeds = [first_words(model, sum(one.turns for one in legs[:number])) for number in range(5)]
    constant = seeds[0].rstrip("\n")
    assert constant.startswith("You are one leg of a relay.") and all(seed.startswith(constant) for seed in seeds)
    assert ResetTransaction.objects.count() == 4


def first_words(model: Model, number: int) -> str:
    """The seed as the model got it in that request."""
    for message in model.main[number].body["messages"]:
        content = message["content"]
        for block in content if isinstance(content, list) else [{"text": content}]:
            if str(block.get("text", "")).startswith("You are one leg of a relay."):
                return str(block["text"])
    raise AssertionError("no seed")


def test_the_legs_own_figures_are_those_of_the_session_file_that_the_program_wrote(
    claude: Callable[..., Any],
) -> None:
    """Tokens, cost and turns, with a sub-agent beside the main chain."""
    from relays.costs import rollups
    from relays.driver.places import leg_folder
    from relays.models import Session
    from relays.sessions.run import import_paths

    asks = {
        "description": "count",
        "prompt": "Count the files.",
        "subagent_type": "general-purpose",
        "run_in_background": False,
    }
    script = [
        close(1, usage={"in": 900, "cache_read": 20_000, "cache_write": 3_000, "out": 310}),
        {"calls": [("Agent", asks)], "usage": {"in": 10, "cache_read": 24_000, "out": 120}},
        {"shell": "ls", "usage": {"in": 4_000, "out": 75}},
        {"text": "There are three files.", "usage": {"in": 4_200, "out": 33}},
        {"shell": "true", "usage": {"in": 100, "cache_read": 26_000, "out": 44}},
        {"shell": "true", "usage": filled(75_000)},
        *hand_over("Close issue #2.", 124_000),
    ]
    with Model(script) as model:
        relay = claude(model)
        relay.step()
    own = relay.legs[0]
    assert own.reason == "RELAY_ROTATED", words(relay, 0)
    rollups.cut_legs([own.pk])
    own.refresh_from_db()
    written = leg_folder(relay.pk, 0) / "claude-code" / "config" / "projects"
    assert import_paths([written]).problems == []
    session = Session.objects.get()
    names = ("input_tokens", "cache_read", "cache_write_5m", "cache_write_1h", "output_tokens", "calls")
    assert [getattr(own, name) for name in names] == [getattr(session, name) for name in names]
    assert own.calls == 8 and own.turns == session.main_calls == 6
    assert own.spend == session.cost and own.spend > 0
    assert own.peak_tokens == session.max_resident


def test_two_tools_at_once_are_both_in_flight_and_the_boundary_comes_after_both(claude: Callable[..., Any]) -> None:
    reads = [("Read", {"file_path": "README.md"}), ("Read", {"file_path": ".relay/issues.jsonl"})]
    script = [
        {"calls": reads, "usage": filled(70_000)},
        {
            "calls": [("Bash", {"command": "sleep 0.3; echo a"}), ("Bash", {"command": "exit 3"})],
            "usage": filled(121_000),
        },
        *hand_over("Close issue #1.", 122_000),
    ]
    with Model(script) as model:
        relay = claude(model)
        relay.step()
    kinds = [row.kind for row in events(relay, 0, "tool_started", "tool_ended", "boundary")]
    cut = kinds.index("boundary", kinds.index("boundary") + 1)
    assert kinds[:cut].count("tool_started") == kinds[:cut].count("tool_ended") == 4
    assert relay.legs[0].tool_errors == 1 and relay.legs[0].reason == "RELAY_ROTATED", words(relay, 0)


def test_a_background_command_is_in_flight_until_it_ends_and_wakes_the_agent_in_the_same_leg(
    claude: Callable[..., Any],
) -> None:
    begun = {"command": "sleep 1.5; echo over", "description": "wait", "run_in_background": True}
    script = [
        {"calls": [("Bash", begun)], "usage": filled(125_000)},
        {"text": "I wait for it.", "usage": filled(125_500)},
        *hand_over("Close issue #1.", 126_000),
    ]
    with Model(script) as model:
        relay = claude(model)
        relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED", (words(relay, 0), relay.legs[0].cause)
    holds = relay.holds(0)
    assert "IN_FLIGHT_TOOL_CALL" in holds and holds[-1] == ""
    assert "task-notification" in model.main[-2].text or "task-notification" in model.main[-1].text


def test_an_agent_that_ends_by_itself_is_told_once_what_holds_and_then_ends(claude: Callable[..., Any]) -> None:
    script: list[Step] = [
        close(1, usage=filled(20_000)),
        {"text": "I think that this is enough.", "usage": filled(21_000)},
        *hand_over("Close issue #2.", 22_000),
        {"text": "Handed over.", "usage": filled(23_000)},
    ]
    with Model(script) as model:
        relay = claude(model)
        relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED" and not relay.legs[0].armed, words(relay, 0)
    assert relay.answers(0) == ["go", "wind_down NO_NEXT_ACTION", "go", "go", "stop"]
    assert relay.legs[0].exit_code == 0


def test_neither_a_repository_nor_a_tool_speaks_for_the_leg_whatever_its_folder_is_called(
    claude: Callable[..., Any], tmp_path: Path, settings: Any
) -> None:
    settings.RELAY_VAR = tmp_path / "var \U0001f600 é"
    repo, ran, told = make_repo(tmp_path / "a repo", issues=3), tmp_path / "ran", tmp_path / "told"
    hostile.furnish(repo, ran)
    script: list[Step] = [
        {"shell": hostile.forge(told), "usage": filled(20_000)},
        close(1, usage=filled(21_000)),
        *hand_over("Close issue #2.", 22_000),
        {"text": "Handed over.", "usage": filled(23_000)},
    ]
    with Model(script) as model:
        relay = claude(model, repo=repo)
        relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED", words(relay, 0)
    assert relay.answers(0) == ["go", "go", "go", "go", "stop"], "one answer a turn: nobody else asked"
    hostile.seen(told)
    assert (relay.worktree / ".claude" / "settings.json").exists() and not ran.exists()


def test_a_tool_that_ignores_sigterm_is_gone_before_the_leg_is_closed(claude: Callable[..., Any]) -> None:
    """At the ceiling a running tool is waited for up to `tool_limit`; then its whole tree is ended."""
    stubborn = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    script = [
        {"shell": f"setsid python3 -c {shlex.quote(stubborn)} >/dev/null 2>&1 & sleep 0.2", "usage": filled(20_000)},
        {"calls": [("Bash", {"command": f"python3 -c {shlex.quote(stubborn)}", "run_in_background": True})],
         "usage": filled(90_000)},
        {"shell": "true", "usage": filled(130_000)},
        {"shell": "true", "usage": filled(165_000)},
    ]  # fmt: skip
    with Model(script) as model:
        relay = claude(model, sets=["tool_limit=2s"])
        relay.step()
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "ceiling"), words(relay, 0)
    assert not real.below(relay.worktree)


def test_a_window_that_overflows_is_never_compacted_the_leg_ends_at_its_ceiling(claude: Callable[..., Any]) -> None:
    script = [
        close(1, usage=filled(20_000)),
        {"shell": "true", "usage": filled(80_000)},
        {"shell": "true", "usage": filled(165_000)},
        {"text": "<summary>never asked for</summary>"},
    ]
    with Model(script) as model:
        relay = claude(model)
        relay.step()
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "ceiling"), words(relay, 0)
    assert len(model.main) == 3 and not events(relay, 0, "compacted")


def test_outside_of_enforce_the_program_compacts_as_ever_and_it_is_recorded(
    claude: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shadow changes nothing: what would have been an overrun is an event, and the leg goes on."""
    steps: list[Any] = [{"shell": f"echo {number}", "usage": filled(20_000 + 28_000 * number)} for number in range(7)]
    recap: Step = {"text": "<summary>What was done.</summary>", "usage": filled(9_000)}
    monkeypatch.setenv("CLAUDE_CODE_AUTO_COMPACT_WINDOW", str(WINDOW))
    with Model([*steps, recap]) as model:
        relay = claude(model, mode="shadow", sets=["envelope.legs=1"], args={"model": "claude-haiku-4-5"})
        relay.step()
    assert events(relay, 0, "compacted"), (words(relay, 0), [asked.text[-300:] for asked in model.main[-3:]])
    assert relay.legs[0].cause != "overrun"


@pytest.mark.parametrize("status", [429, 500, 529])
def test_a_model_that_does_not_answer_puts_the_leg_into_back_off_and_it_comes_back(
    claude: Callable[..., Any], status: int
) -> None:
    script: list[Step] = [
        close(1, usage=filled(20_000)),
        {"error": status},
        {"shell": "true", "usage": filled(70_000)},
        close(2, usage=filled(121_000)),
        *hand_over("Close issue #3.", 122_000),
    ]
    with Model(script) as model:
        relay = claude(model)
        relay.step()
    [retry] = events(relay, 0, "retry")
    assert retry.payload["cause"] == "overload" and retry.payload["retry_in_ms"] > 0
    own = relay.legs[0]
    assert own.reason == "RELAY_ROTATED" and own.calls == own.turns == 5, "the call that was refused is not counted"
    assert len(model.main) == 6


def test_a_program_that_gave_up_waits_and_goes_on_in_the_same_leg_and_session(claude: Callable[..., Any]) -> None:
    script: list[Step] = [
        close(1, usage=filled(20_000)),
        *[{"error": 529}] * 3,  # its own two tries with it
        {"shell": "true", "usage": filled(70_000)},
        close(2, usage=filled(121_000)),
        *hand_over("Close issue #3.", 122_000),
    ]
    with Model(script) as model:
        relay = claude(model)
        relay.step()
    own = relay.legs[0]
    assert own.reason == "RELAY_ROTATED" and own.calls == own.turns == 5, (words(relay, 0), own.cause)
    waits = [row.payload["retry_in_ms"] for row in events(relay, 0, "retry")]
    assert len(waits) == 3 and waits[-1] == 15_000
    assert "Go on where you were." in model.main[4].text and "Close #1" in model.main[4].text


def test_a_stream_that_is_cut_is_asked_again_in_the_same_leg(claude: Callable[..., Any]) -> None:
    script: list[Step] = [
        close(1, usage=filled(20_000)),
        {"text": "half an answer that is never", "incomplete": True, "usage": filled(21_000)},
        {"shell": "true", "usage": filled(70_000)},
        close(2, usage=filled(121_000)),
        *hand_over("Close issue #3.", 122_000),
    ]
    with Model(script) as model:
        relay = claude(model)
        relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED", words(relay, 0)
    assert len(model.main) == 6


def test_a_sign_in_that_is_lost_parks_the_leg_with_the_reason(claude: Callable[..., Any]) -> None:
    script: list[Step] = [close(1, usage=filled(20_000)), {"error": 401}]
    with Model(script) as model:
        relay = claude(model)
        relay.step()
    own = relay.legs[0]
    assert (own.reason, own.cause) == ("RELAY_PARKED_UNSAFE", "sign_in"), (words(relay, 0), own.cause)
    assert "sign" in relay.relay.status_why


def test_a_model_that_hangs_is_silence(claude: Callable[..., Any]) -> None:
    script: list[Step] = [close(1, usage=filled(20_000)), {"hang": 60, "usage": filled(21_000)}]
    with Model(script) as model:
        relay = claude(model, sets=["silence_limit=3s"])
        relay.step()
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "silence"), words(relay, 0)


def test_a_request_that_the_model_refuses_is_a_crash_of_the_agent(claude: Callable[..., Any]) -> None:
    script: list[Step] = [close(1, usage=filled(20_000)), {"error": 400, "type": "invalid_request_error"}]
    with Model(script) as model:
        relay = claude(model)
        relay.step()
    own = relay.legs[0]
    assert (own.reason, own.cause) == ("RELAY_PARKED_UNSAFE", "agent_crash"), words(relay, 0)
    assert not events(relay, 0, "retry") and "400" in words(relay, 0)


def programs_of(relay: Any) -> list[int]:
    """Pids of Claude Code itself in a relay's worktree."""
    found = []
    for pid in real.below(relay.worktree):
        try:
            if Path(os.readlink(f"/proc/{pid}/exe")).name == "claude":
                found.append(pid)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("stage", ["in a call", "in a tool"])
def test_the_program_is_killed(claude: Callable[..., Any], stage: str) -> None:
    slow: Step = {"text": "a b c d e f g h", "slow": 1, "usage": filled(21_000)}
    waits: Step = {"shell": LONG, "usage": filled(21_000)}
    script = [close(1, usage=filled(20_000)), slow if stage == "in a call" else waits]
    with Model(script) as model:
        relay = claude(model)

        def kill() -> None:
            deadline = time.monotonic() + 30
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


@pytest.mark.parametrize("who", ["the supervisor", "supervisor and program"])
def test_a_supervisor_that_is_killed_takes_the_program_with_it_and_the_relay_goes_on_from_records(
    claude: Callable[..., Any], process_env: dict[str, str], who: str
) -> None:
    script = [
        close(1, usage=filled(20_000)),
        {"shell": LONG, "usage": filled(21_000)},
        close(2, usage=filled(20_000)),
        {"text": "All issues are closed.", "usage": filled(21_000)},
    ]
    with Model(script) as model:
        relay = claude(model, issues=2)
        ours = {name: value for name, value in os.environ.items() if name.startswith(("ANTHROPIC_", "CLAUDE_", "HOME"))}
        with supervised(relay, {**process_env, **ours}) as supervisor:
            deadline = time.monotonic() + 60
            while len(model.main) < 2 or not events(relay, 0, "tool_started")[1:]:
                assert time.monotonic() < deadline, words(relay, 0)
                time.sleep(0.1)
            assert programs_of(relay)
            supervisor.kill()
            if who != "the supervisor":
                for pid in programs_of(relay):
                    os.kill(pid, signal.SIGKILL)
            supervisor.wait()
        deadline = time.monotonic() + 10
        while real.below(relay.worktree) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not real.below(relay.worktree), "the namespace ends with the supervisor, before anybody looks"
        relay.step()
        own = relay.legs[0]
        assert (own.reason, own.cause) == ("RELAY_PARKED_UNSAFE", "supervisor_crash")
        assert own.calls == 2 and len(own.progress_detail["made"]) == 1, "what it did is kept, and counted once"
        relay.approve("RELAY_PARKED_UNSAFE")
        relay.drive()
    assert relay.relay.ended_reason == "RELAY_GOAL_DONE" and len(model.main) == 3


def test_a_person_parks_at_once_in_the_middle_of_a_tool_and_nothing_lives_on(claude: Callable[..., Any]) -> None:
    from django.db import connection

    from relays.models import Relay

    script: list[Step] = [close(1, usage=filled(20_000)), {"shell": LONG, "usage": filled(21_000)}]
    with Model(script) as model:
        relay = claude(model)

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
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "park_now")
    assert relay.relay.status == "parked" and len(events(relay, 0, "tool_ended")) == 1


def test_a_tool_that_the_policy_names_is_denied_while_an_assumption_is_weak(claude: Callable[..., Any]) -> None:
    weak = tool("assume", key="port", statement="The port is 8001.", source="inferred", confidence=0.3)
    script: list[Step] = [
        {"calls": [weak], "usage": filled(20_000)},
        {"shell": "touch never", "usage": filled(30_000)},
        {"text": "It was denied.", "usage": filled(31_000)},
    ]
    with Model(script) as model:
        relay = claude(model, sets=["effectful_tools=Bash"])
        relay.step()
    assert not (relay.worktree / "never").exists()
    assert "assumption" in model.main[2].text and relay.legs[0].tool_calls == 1

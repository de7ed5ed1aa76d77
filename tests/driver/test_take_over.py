"""rules.md, The driver: "agent alive and this leg's → re-adopt where the adapter can, else end it".

states.md, Leg: a leg whose agent is taken over stays `running`; one that does not come back is judged as a crash.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db.models import F

from relays.actions import park
from relays.agents import process
from relays.driver import attached, launching, shutdown, supervisor
from relays.driver.boundaries import Boundaries
from relays.driver.ending import Ending
from relays.driver.ingest import Ingest
from relays.models import DriverClaim, Event, Leg, LegState, RelayStatus
from tests.builders import git
from tests.driver.conftest import Killed
from tests.driver.course import Course, Step, boundary, commit, loop, operator, program, turn

pytestmark = pytest.mark.slow

Start = Callable[..., Course]
Kill = Callable[..., None]
ROOT = Path(__file__).resolve().parents[2]


def comes_back(script: Any, way: str = "reconnect") -> dict[str, Any]:
    """Keywords of `course` for an agent that outlives its supervisor."""
    return {"agent": "command", "args": {**program("player.py", way, json.dumps(script)), "reconnect": "1"}}


#: two turns with a boundary each, then its end
WORK: list[Step] = [*commit("work.txt"), *turn(), *boundary("Go on."), *turn(), *boundary("Go on.", final=True)]


@pytest.fixture(autouse=True)
def nothing_left(transactional_db: None) -> Iterator[None]:
    """Whatever a test asserts, no agent of it is left behind."""
    yield
    for leg in Leg.objects.exclude(marker="").select_related("relay"):
        attached.end_strays(leg)


def dies(relay: Course) -> int:
    """A supervisor is killed; the pid of the agent that outlives it."""
    with pytest.raises(Killed):
        relay.step()
    leg = relay.open_leg
    assert leg is not None and leg.state in (LegState.RUNNING, LegState.DRAINING)
    assert process.alive(leg.agent_pid, leg.agent_started, leg.agent_boot_id), "its agent outlives it"
    return leg.agent_pid


def heard(relay: Course) -> list[str]:
    """What the agent of leg 0 was answered, by its own account."""
    text = (Path(settings.RELAY_VAR) / "legs" / relay.pk / "0" / "stderr.log").read_text()
    return [line.removeprefix("answer: ") for line in text.splitlines() if line.startswith("answer: ")]


MOMENTS: list[tuple[str, Any, str, dict[str, Any]]] = [
    ("before the boundary is judged", Boundaries, "judge", {}),
    ("the answer is kept and not sent", Boundaries, "judge", {"after": True}),
    ("in the second turn", Boundaries, "judge", {"nth": 2}),
    ("the end is fired and not recorded", Ending, "record", {}),
    ("before events are stored", Ingest, "flush", {"nth": 2}),
]


#: tried by every run; the others by `make slow`
TOLD = {"before the boundary is judged", "the answer is kept and not sent"}


@pytest.mark.parametrize(
    ("owner", "name", "how"),
    [pytest.param(*one[1:], id=one[0], marks=() if one[0] in TOLD else pytest.mark.slow) for one in MOMENTS],
)
def test_its_leg_goes_on_with_the_same_agent(
    course: Start, killed: Kill, owner: Any, name: str, how: dict[str, Any]
) -> None:
    relay = course(**comes_back(WORK))
    killed(owner, name, **how)
    pid = dies(relay)
    before = relay.open_leg
    assert before is not None
    relay.step()
    (leg,) = relay.legs
    assert (leg.number, leg.reason, leg.cause, leg.attempts) == (0, "RELAY_ROTATED", "", 0)
    assert (leg.agent_pid, leg.marker, leg.token_hash) == (pid, before.marker, before.token_hash)
    assert leg.exit_code == 0, "its exit code outlives whoever would have waited for it"
    assert heard(relay) == ["go", "stop"], "each boundary was answered once"
    assert [one.answer for one in relay.boundaries(0)] == ["go", "stop"]
    assert (leg.turns, leg.calls, leg.output_tokens) == (2, 2, 20), "what it said again changed nothing"
    seqs = list(Event.objects.filter(leg=leg).order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, len(seqs) + 1))
    assert not process.living(leg.marker)


def test_two_supervisors_may_die_one_after_the_other(course: Start, killed: Kill) -> None:
    relay = course(**comes_back([*WORK[:-1], *boundary("Go on."), *turn(), *boundary("Go on.", final=True)]))
    killed(Boundaries, "judge")
    pid = dies(relay)
    killed(Boundaries, "judge", nth=2)
    assert dies(relay) == pid
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.agent_pid, leg.turns, relay.relay.legs_used) == ("RELAY_ROTATED", pid, 3, 1)


def test_the_time_without_a_supervisor_is_running_time(course: Start, killed: Kill) -> None:
    """rules.md, Budgets: "Wall clock counts running time over restarts"."""
    relay = course(**comes_back(WORK))
    killed(Boundaries, "judge", nth=2)
    dies(relay)
    before = relay.relay.wall_used
    Leg.objects.filter(relay=relay.pk).update(charged_until=F("charged_until") - timedelta(minutes=7))
    relay.step()
    assert relay.relay.wall_used - before >= timedelta(minutes=7), "the agent lived and was its own leg's meanwhile"


def test_one_that_stays_away_counts_as_crashed(course: Start, killed: Kill, monkeypatch: pytest.MonkeyPatch) -> None:
    away = [*commit("a.txt"), *turn(), *boundary("Go on."), {"do": "sleep", "seconds": 60}]
    relay = course(**comes_back([*away]), sets=["on_crash=park"])
    killed(Boundaries, "judge", after=True)
    pid = dies(relay)
    os.kill(pid, signal.SIGSTOP)  # the wrapper only: its agent would come back at once
    inner = process.living(relay.legs[0].marker if relay.legs else relay.open_leg.marker)
    for one in inner:
        os.kill(one, signal.SIGSTOP)
    monkeypatch.setattr(supervisor, "COME_BACK", 1.0)
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause) == ("RELAY_PARKED_UNSAFE", "supervisor_crash")
    assert not process.living(leg.marker) and relay.open_leg is None


def test_one_that_ended_meanwhile_counts_as_crashed(course: Start, killed: Kill) -> None:
    relay = course(**comes_back(WORK, way="socket"), sets=["on_crash=park"])
    killed(Boundaries, "judge", nth=2)
    with pytest.raises(Killed):
        relay.step()
    leg = relay.open_leg
    deadline = time.monotonic() + 20
    while process.living(leg.marker) and time.monotonic() < deadline:
        time.sleep(0.05)
    relay.step()
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "supervisor_crash")


@pytest.mark.parametrize("what", ["another process", "another boot", "its socket's folder is not ours any more"])
def test_what_is_not_certainly_this_legs_agent_is_ended(course: Start, killed: Kill, what: str) -> None:
    relay = course(**comes_back(WORK), sets=["on_crash=park"])
    killed(Boundaries, "judge", after=True)
    dies(relay)
    leg = relay.open_leg
    if what == "another process":
        Leg.objects.filter(pk=leg.pk).update(agent_started=leg.agent_started + 1)
    elif what == "another boot":
        Leg.objects.filter(pk=leg.pk).update(agent_boot_id="00000000-0000-4000-8000-000000000000")
    else:
        found = launching.find(relay.relay, leg)
        assert found is not None
        Path(found[1]).parent.chmod(0o755)
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause) == ("RELAY_PARKED_UNSAFE", "supervisor_crash")
    assert not process.living(leg.marker)


def test_a_lost_claim_ends_it_and_writes_nothing(course: Start, meanwhile: Kill) -> None:
    relay = course(**comes_back(WORK))
    meanwhile(2, lambda: DriverClaim.objects.filter(relay=relay.pk).update(fence=F("fence") + 1))
    assert relay.step().startswith("claim lost")
    leg = relay.open_leg
    assert leg.state == LegState.RUNNING and len(relay.boundaries(0)) == 1
    assert not process.living(leg.marker)


def test_a_person_is_heard_while_it_has_not_come_back(course: Start, killed: Kill) -> None:
    relay = course(**comes_back([*turn(), *boundary("Go on."), {"do": "sleep", "seconds": 60}]))
    killed(Boundaries, "judge", after=True)
    dies(relay)
    for one in process.living(relay.open_leg.marker):
        os.kill(one, signal.SIGSTOP)
    park.stop(operator(), relay.pk, now=True)
    before = time.monotonic()
    relay.step()
    assert time.monotonic() - before < 20
    assert relay.relay.status == RelayStatus.STOPPED and not process.living(relay.legs[0].marker)


def test_its_words_are_kept_small(course: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from relays.agents import outliving

    monkeypatch.setattr(outliving, "LOG_CAP", 4096)
    agent = outliving.OutlivingAgent(0, 0, "", process.Containment.GROUP, "none", tmp_path)
    log = tmp_path / outliving.LOG
    log.write_bytes(b"old" * 2000 + b"new")
    agent.trim_log()
    assert log.stat().st_size == 0
    assert (tmp_path / "stderr.log.1").read_bytes().endswith(b"oldnew") and (
        tmp_path / "stderr.log.1"
    ).stat().st_size == 2048
    log.write_bytes(b"short")
    agent.trim_log()
    assert log.read_bytes() == b"short"


# --- real processes


def supervise(relay: Course, env: dict[str, str]) -> "subprocess.Popen[bytes]":
    leg = relay.open_leg
    assert leg is not None
    return subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "relay", "supervise", str(leg.pk)],
        env={**env, "RELAY_VAR": str(settings.RELAY_VAR)},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )


def until(what: Callable[[], Any], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.1)


def test_kill_9_of_the_process_leaves_the_agent_to_the_next(course: Start, process_env: dict[str, str]) -> None:
    pause = {"do": "sleep", "seconds": 0.2}
    relay = course(
        **comes_back([*commit("a.txt"), loop(*turn(), pause, *boundary("Go on."))]), sets=["envelope.turns=25"]
    )
    first = supervise(relay, process_env)
    until(lambda: len(relay.boundaries(0)) >= 2 or first.poll() is not None)
    first.kill()
    assert first.wait() == -signal.SIGKILL, relay.relay.status_why
    leg = relay.open_leg
    assert process.alive(leg.agent_pid, leg.agent_started, leg.agent_boot_id)
    second = supervise(relay, process_env)
    assert second.wait(timeout=60) == 0
    (leg,) = relay.legs
    assert (leg.number, leg.reason, leg.drain_reason) == (0, "RELAY_ROTATED", "envelope")
    assert leg.turns >= 25 and relay.relay.turns_used == leg.turns, "budgets went on, too"
    assert not process.living(leg.marker)
    assert git(relay.worktree, "status", "--porcelain") == ""


def test_the_house_that_is_killed_takes_it_along(course: Start, process_env: dict[str, str]) -> None:
    relay = course(**comes_back([loop(*turn(), {"do": "sleep", "seconds": 0.2}, *boundary("Go on."))]))
    running = supervise(relay, process_env)
    until(lambda: relay.boundaries(0))
    marker = relay.open_leg.marker
    assert process.living(marker)
    import threading

    threading.Thread(target=running.wait, daemon=True).start()
    assert shutdown.end_now() == [relay.pk]
    until(lambda: not process.living(marker), 10)
    relay.step()
    assert relay.legs[0].cause in ("", "supervisor_crash") and relay.legs[0].reason.startswith("RELAY_")

"""`kill -9` of supervisors, workers, both, and agents, at 200 random moments over 20 relays of one house.

rules.md, The driver: "whoever retries any step after a crash reaches the same result, never a second successor"; "agent
alive and this leg's → re-adopt where the adapter can, else end it". states.md: every change is one of its tables. Each
relay still reaches its end: no leg number twice, no commit lost or done twice, no figure doubled, no process left.

`CHAOS_KILLS`, `CHAOS_RELAYS` and `CHAOS_SEED` change what is tried.
"""

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import histories
from tests.builders import git, head, make_repo
from tests.chaos.house import House, marked

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="left out: finds processes through /proc"),
]

KILLS = int(os.environ.get("CHAOS_KILLS", "200"))
RELAYS = int(os.environ.get("CHAOS_RELAYS", "20"))
#: more than the legs that can close between two kills, so that hardly a relay is done before the last kill
ISSUES = 36
WORKERS = ("worker-1", "worker-2")
CLOSER = Path(__file__).parent / "agents" / "closer.py"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    try:
        for name in (*WORKERS, "beat"):
            house.start(name)
        yield house
    finally:
        house.close()


def request(repo: Path, outlives: bool) -> dict[str, Any]:
    """One half of the relays has agents that outlive their supervisors."""
    argv = json.dumps([sys.executable, "-S", str(CLOSER), "1", "0.1"])
    return {
        "repo": str(repo),
        "objective": "Close every open issue.",
        "done_when": "issues:none open",
        "agent": "command" if outlives else "scripted",
        "agent_args": {"argv": argv, "reconnect": "1"} if outlives else {"items": "1", "pace": "0.1"},
        "sets": ["rotations_per_hour=0", "no_progress_legs=0", *(["window_tokens=1000"] if outlives else [])],
    }


def test_every_relay_survives_kills_at_random_moments(house: House, tmp_path: Path) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or random.SystemRandom().randrange(10**6))
    dice = random.Random(seed)
    repos = [make_repo(tmp_path / f"repo-{n}", issues=ISSUES) for n in range(RELAYS)]
    relays = house.people([request(repo, outlives=n % 2 == 0) for n, repo in enumerate(repos)])
    places = dict(zip(relays, repos, strict=True))
    tips: dict[str, set[str]] = {relay: set() for relay in relays}
    kills: Counter[str] = Counter()
    try:
        while kills.total() < KILLS:
            time.sleep(dice.uniform(0.0, 1.2))
            working = [relay for relay, status in house.statuses().items() if status != "done"]
            assert working, f"all were done after {dict(kills)}"
            relay = dice.choice(working)
            if git(places[relay], "for-each-ref", f"refs/heads/relay/{relay}"):
                tips[relay].add(head(places[relay], f"refs/heads/relay/{relay}"))
            kills.update(strike(house, relay, dice))
        deadline = time.monotonic() + 900
        while set(house.statuses().values()) != {"done"}:
            assert time.monotonic() < deadline, f"not all are done: {house.statuses()}"
            time.sleep(1.0)
        for relay in relays:
            check(house, relay, places[relay], tips[relay])
        check_all(house)
    except BaseException:
        print(f"seed {seed}; kills {dict(kills)}; {house.statuses()}; {house.logs()}")  # noqa: T201 - a failure's words
        raise
    assert min(kills.values()) > 0 and len(kills) == 4, kills


def strike(house: House, relay: str, dice: random.Random) -> list[str]:
    """Kill what the dice say; [] when it was not there."""
    target = dice.choice(("supervisor", "supervisor", "agent", "agent", "worker", "both"))
    if target == "agent":
        return [target] if house.kill_agent(relay, dice) else []
    hit = house.kill_supervisor(relay) if target != "worker" else True
    if target != "supervisor":
        name = dice.choice(WORKERS)
        house.kill_worker(name)
        house.start(name)
    return [target] if hit else []


def check(house: House, relay: str, repo: Path, tips: set[str]) -> None:
    """One relay: its lineage, its commits, its figures."""
    legs = house.all(
        "SELECT number, trace, parent_trace, state, turns, started_at, output_tokens FROM relays_leg"
        " WHERE relay_id = ? ORDER BY number",
        relay,
    )
    assert [leg[0] for leg in legs] == list(range(len(legs)))
    for before, leg in zip(legs, legs[1:], strict=False):
        assert leg[2] == before[1], f"{relay}: leg {leg[0]} does not follow leg {before[0]}"
    assert {leg[3] for leg in legs} <= {"ended", "void"}
    ended = sum(leg[3] == "ended" for leg in legs)
    stones = "SELECT count(*) FROM relays_tombstone t JOIN relays_leg l ON l.id = t.leg_id WHERE l.relay_id = ?"
    assert house.one(stones, relay)[0] == ended
    current = "SELECT count(*) FROM relays_baton WHERE relay_id = ? AND current"
    assert house.one(current, relay)[0] == 1
    turns, output, used = house.one("SELECT turns_used, output_used, legs_used FROM relays_relay WHERE id = ?", relay)
    assert (turns, output) == (sum(leg[4] for leg in legs), sum(leg[6] for leg in legs)), relay
    assert used == sum(leg[5] is not None for leg in legs)

    branch = f"refs/heads/relay/{relay}"
    above = set(git(repo, "rev-list", branch).split())
    assert tips <= above, f"{relay}: a commit was lost"
    subjects = Counter(
        line.split(":")[0]
        for line in git(repo, "log", "--format=%s", branch).splitlines()
        if line.startswith("Close #")
    )
    assert subjects == Counter({f"Close #{n}": 1 for n in range(1, ISSUES + 1)}), relay
    attributed: Counter[str] = Counter()
    for (detail,) in house.all("SELECT progress_detail FROM relays_leg WHERE relay_id = ?", relay):
        attributed.update(commit["sha"] for commit in json.loads(detail).get("commits", []))
    lines = git(repo, "log", "--format=%H %cI %s", branch).splitlines()
    closes = {line.split()[0]: line for line in lines if line.split(" ", 2)[2].startswith("Close #")}
    odd = [closes.get(sha, sha) for sha in closes.keys() ^ attributed.keys()]
    odd += [f"{count} times {closes.get(sha, sha)}" for sha, count in attributed.items() if count != 1]
    story = house.all("SELECT number, state, reason, cause, started_at, ended_at, attempts FROM relays_leg"
                      " WHERE relay_id = ? ORDER BY number", relay)  # fmt: skip
    assert not odd, f"{relay}: made by no leg, or by two: {odd}; legs {story}"


def check_all(house: House) -> None:
    """The whole house: every change legal, every event once, nothing that runs."""
    changes = house.all(histories.READ)
    assert len(changes) > 100 and histories.illegal(changes) == []
    assert (
        house.one("SELECT count(*) FROM relays_gateepisode WHERE state IN ('waiting', 'approved', 'requested')")[0] == 0
    )
    assert house.one("SELECT count(*) FROM relays_regionlease WHERE held")[0] == 0
    calls = house.one("SELECT count(*), count(DISTINCT key) FROM relays_call")
    assert calls[0] == calls[1] > 0
    deadline = time.monotonic() + 20
    while (left := marked(house.markers())) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == []
    claims = "SELECT count(*) FROM relays_driverclaim WHERE holder <> ''"
    while house.one(claims)[0] and time.monotonic() < deadline:
        time.sleep(0.2)
    assert house.one(claims)[0] == 0

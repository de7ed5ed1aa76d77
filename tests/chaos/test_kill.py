"""`kill -9` of the supervisor, of the worker and of both, at random moments of a relay.

The relay still reaches its end or a gate; no leg number twice, no successor twice, no commit lost, no agent left.
"""

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders import git, head, make_repo
from tests.chaos.house import House, processes_with

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="left out: finds processes through /proc"),
]

#: more than twenty legs could close even if no kill hit one, so that the relay is never done before the last kill
ISSUES = 90
KILLS = 20
RESTING = {"done", "parked", "stopped"}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    house.start("worker")
    house.start("beat")
    yield house
    house.close()


def test_a_relay_survives_twenty_kills_at_random_moments(house: House, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    dice = random.Random(seed)
    repo = make_repo(tmp_path / "repo", issues=ISSUES)
    relay = house.relay(
        "start", "--repo", str(repo), "--objective", "Close all.", "--done-when", "issues:none open",
        "--agent", "scripted", "--agent-arg", "pace=0.1",
        "--set", "rotations_per_hour=0", "--set", "no_progress_legs=0",
    )["relay"]  # fmt: skip
    branch = f"refs/heads/relay/{relay}"
    tips: list[str] = []
    kills: Counter[str] = Counter()
    try:
        while kills.total() < KILLS:
            # a moment within a leg's life: from the claim over the reload, the work and the rotation to the end
            if not house.wait_for_claim(relay, RESTING, 120):
                if house.status(relay) == "done":
                    break
                let_go(house, relay)
                continue
            time.sleep(dice.uniform(0.0, 2.5))
            if git(repo, "for-each-ref", branch):
                tips.append(head(repo, branch))
            target = dice.choice(("supervisor", "worker", "both"))
            hit = house.kill_supervisor() if target != "worker" else True
            if target != "supervisor":
                house.kill_worker()
                house.start("worker")
            kills[target] += hit
        while house.wait_for(relay, RESTING, 300) != "done":
            let_go(house, relay)
    except BaseException:
        print(f"seed {seed}; kills {dict(kills)}; {house.logs()}")  # noqa: T201 - what a failed run needs
        raise
    check(house, relay, repo, branch, tips)
    assert kills.total() == KILLS, f"seed {seed}: the relay ended after {dict(kills)}"


def let_go(house: House, relay: str) -> None:
    """A person decides on whatever waits; the relay goes on."""
    for gate in house.relay("status", relay)["gates"]:
        if gate["state"] == "waiting":
            house.relay(
                "approve",
                str(gate["id"]),
                "--seen",
                gate["seen"],
                "--comment",
                "go on",
                "--next-action",
                "Close the next issue.",
            )


def check(house: House, relay: str, repo: Path, branch: str, tips: list[str]) -> None:
    numbers = [row[0] for row in house.all("SELECT number FROM relays_leg WHERE relay_id = ? ORDER BY number", relay)]
    assert numbers == list(range(len(numbers)))
    parents = [
        row[0] for row in house.all("SELECT parent_trace FROM relays_leg WHERE relay_id = ? AND number > 0", relay)
    ]
    assert len(set(parents)) == len(parents), "two legs follow one"
    traces = dict(house.all("SELECT number, trace FROM relays_leg WHERE relay_id = ?", relay))
    for number, parent in house.all(
        "SELECT number, parent_trace FROM relays_leg WHERE relay_id = ? AND number > 0", relay
    ):
        assert parent == traces[number - 1]
    ended = house.one("SELECT count(*) FROM relays_leg WHERE relay_id = ? AND state = 'ended'", relay)[0]
    stones = "SELECT count(*) FROM relays_tombstone t JOIN relays_leg l ON l.id = t.leg_id WHERE l.relay_id = ?"
    assert house.one(stones, relay)[0] == ended
    final = head(repo, branch)
    for tip in set(tips):
        assert subprocess.run(["git", "-C", str(repo), "merge-base", "--is-ancestor", tip, final]).returncode == 0, tip
    subjects = Counter(
        line.split(":")[0] for line in git(repo, "log", "--format=%s", final).splitlines() if line.startswith("Close #")
    )
    assert subjects == Counter({f"Close #{n}": 1 for n in range(1, ISSUES + 1)})
    attributed: Counter[str] = Counter()
    for (detail,) in house.all("SELECT progress_detail FROM relays_leg WHERE relay_id = ?", relay):
        attributed.update(commit["sha"] for commit in json.loads(detail).get("commits", []))
    assert max(attributed.values()) == 1
    assert len(attributed) == ISSUES
    deadline = time.monotonic() + 5
    while processes_with(f"RELAY_ID={relay}") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_with(f"RELAY_ID={relay}") == []

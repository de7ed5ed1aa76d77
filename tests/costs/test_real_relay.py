"""A relay that really runs in the foreground, with no worker: an agent that reads everything anew in each leg loses."""

import json
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from relays.models import Comparison, Relay

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.postgres, pytest.mark.timeout(300),
]  # fmt: skip

#: one commit a leg; each leg reads 100,000 tokens before it; a model that has a price, and no cost of its own
AGENT = """
import json, os, socket, subprocess
stream = socket.socket(socket.AF_UNIX)
stream.connect(os.environ["RELAY_SOCKET"])
lines = stream.makefile("rw")
leg, seq, before = os.environ["RELAY_LEG"], 0, 0

def send(kind, **more):
    global seq
    seq += 1
    lines.write(json.dumps({"kind": kind, "seq": seq, **more}) + "\\n")
    lines.flush()

def call(n, tokens):
    global before
    send("turn_started")
    send("usage", model="claude-opus-4-5", message_id=f"{leg}-{n}", input=0, cache_read=before,
         cache_write_5m=tokens - before, cache_write_1h=0, output=300, chain="main")
    before = tokens

def boundary():
    send("boundary", next_actions=["Go on."], final=False)
    lines.readline()

call(1, 20_000)
boundary()
call(2, 120_000)
boundary()
call(3, 125_000)
open(f"work-{leg}.txt", "w").write("x")
who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
subprocess.run(["git", "add", "-A"], check=True)
subprocess.run(["git", *who, "commit", "-qm", f"leg {leg}"], check=True)
send("externalized")
boundary()
"""


def test_it_is_dearer_in_compare_and_in_its_status(repo: Path, tmp_path: Path, process_env: dict[str, str]) -> None:
    def said(*words: object) -> Any:
        done = subprocess.run(
            [sys.executable, "manage.py", "relay", *map(str, words), "--json"], cwd=ROOT, env=process_env, text=True,
            capture_output=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    agent = tmp_path / "agent.py"
    agent.write_text(AGENT)
    started = said(
        "start", "--repo", repo, "--objective", "Lose.", "--done-when", "file:work-2.txt", "--agent", "command",
        "--agent-arg", f"argv={sys.executable} {agent}", "--set", "rotations_per_hour=0", "--wait", "200",
    )  # fmt: skip
    name = started["relay"]
    # with no worker, and before anybody asks for a comparison
    found = said("status", name)
    assert found["verdicts"]["cheaper"] == "violated", found["verdict_details"]["cheaper"]
    assert "the relay lost" in found["verdict_details"]["cheaper"]["what"]
    compared = said("compare", name)
    assert compared["verdict"] == "dearer"
    assert compared["observed"]["events"] == 2
    assert compared["orientation"]["median"] == 105_000
    assert compared["progress"]["units"] == 3
    # what its calls cost by the list is what its legs say
    spent = sum(Decimal(leg["cost"]["total"]) for leg in found["legs"])
    assert spent == Decimal(compared["observed"]["cost"]) > 0
    assert Relay.objects.get(pk=name).unpriced_calls == 0
    assert Comparison.objects.count() == 1

"""The agent of the bench: it does the least that a leg needs, and writes down when it asked and when it was answered.

`agent.py RECORD BOUNDARIES LEGS`: each leg makes one commit and asks at BOUNDARIES boundaries, the last with a window
that is nearly full; leg LEGS makes the file that `done_when` waits for. RECORD gets one JSON line a leg, in seconds of
the machine's monotonic clock, which all processes share.
"""

import json
import os
import subprocess
import sys
import time

TOOL = 0.1  # seconds that a tool runs: an agent is never as quick as a script, and the driver never waits for it
FULL = 150_000  # of 200,000 tokens: over the soft mark and under the ceiling


def main():
    began = time.monotonic()
    record, boundaries, legs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    leg, seq, asked, answered = int(os.environ["RELAY_LEG"]), 0, [], []

    def say(kind, **fields):
        nonlocal seq
        seq += 1
        sys.stdout.write(json.dumps({"kind": kind, "seq": seq, **fields}) + "\n")
        sys.stdout.flush()

    for boundary in range(boundaries):
        last = boundary == boundaries - 1
        say("turn_started")
        say("tool_started", id=f"t{boundary}", name="write")
        if boundary == 0:
            commit(leg, last_leg=leg >= legs - 1)
        time.sleep(TOOL)
        say("tool_ended", id=f"t{boundary}", ok=True, result_tokens=50)
        tokens = {"cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0, "output": 20}
        size = FULL if last else 1000 * (boundary + 1)
        say("usage", model="scripted-bench", message_id=f"m{leg}-{boundary}", input=size, chain="main", **tokens)
        say("externalized")
        asked.append(time.monotonic())
        say("boundary", next_actions=["Make the next file."], final=False)
        answer = sys.stdin.readline().strip()
        answered.append(time.monotonic())
        if answer in ("", "stop"):
            break
    with open(record, "a") as file:
        line = {"leg": leg, "began": began, "asked": asked, "answered": answered, "answer": answer}
        file.write(json.dumps({**line, "ended": time.monotonic()}) + "\n")


def commit(leg, last_leg):
    os.makedirs("out", exist_ok=True)
    with open(f"out/{leg}.txt", "w") as file:
        file.write(f"leg {leg}\n")
    if last_leg:
        with open("done.txt", "w") as file:
            file.write("done\n")
    name = ("-c", "user.name=Bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "add", "-A"], check=True)
    subprocess.run(["git", *name, "commit", "-q", "-m", f"Leg {leg}"], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()

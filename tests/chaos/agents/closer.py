"""An agent that closes open issues, one commit each, and outlives its supervisor: it comes back to the socket.

`closer.py ITEMS PACE`: so many issues a leg, so many seconds a step. What it finds half done it finishes.
"""

import json
import os
import socket
import subprocess
import sys
import time

ISSUES = ".relay/issues.jsonl"


def git(*args):
    name = ("-c", "user.name=Closer", "-c", "user.email=closer@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *name, *args], check=True, stdout=subprocess.PIPE).stdout.decode()


def states(text):
    return {row["number"]: row["state"] for row in map(json.loads, text.splitlines())}


class Line:
    """Events out, answers in; whatever was not answered yet is said again after a break."""

    def __init__(self):
        self.seq, self.said = 0, []
        self.connect()

    def connect(self):
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.connect(os.environ["RELAY_SOCKET"])
        self.out, self.into = line.makefile("wb", buffering=0), line.makefile("rb")

    def come_back(self):
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            time.sleep(0.2)
            try:
                self.connect()
                for line in self.said:
                    self.out.write(line)
                return
            except OSError:
                continue
        sys.exit(9)

    def say(self, **event):
        self.seq += 1
        line = json.dumps({"seq": self.seq, **event}).encode() + b"\n"
        self.said.append(line)
        try:
            self.out.write(line)
        except OSError:
            self.come_back()

    def ask(self, action, final=False):
        self.say(kind="externalized")
        self.say(kind="boundary", next_actions=[action], final=final)
        while True:
            try:
                answer = self.into.readline().decode().strip()
            except OSError:
                answer = ""
            if answer:
                self.said.clear()
                return answer
            self.come_back()


def turn(line, resident):
    line.say(kind="turn_started")
    line.say(kind="usage", model="scripted-closer", message_id=f"m{line.seq}", input=resident, cache_read=0,
             cache_write_5m=0, cache_write_1h=0, output=10, chain="main")  # fmt: skip


def close_one(line, pace):
    """Whether there was one to close."""
    with open(ISSUES, encoding="utf-8") as file:
        text = file.read()
    here, there = states(text), states(git("show", f"HEAD:{ISSUES}"))
    number = next((n for n in here if here[n] != there.get(n)), None)
    if number is None:
        number = next((n for n in here if here[n] == "open"), None)
        if number is None:
            return False
        rows = [json.loads(row) for row in text.splitlines()]
        changed = [{**row, "state": "closed"} if row["number"] == number else row for row in rows]
        new = os.path.join(git("rev-parse", "--absolute-git-dir").strip(), "issues.new")
        with open(new, "w", encoding="utf-8") as file:
            file.write("".join(json.dumps(row) + "\n" for row in changed))
        time.sleep(pace)
        os.replace(new, ISSUES)
    time.sleep(pace)
    line.say(kind="tool_started", id=f"t{line.seq}", name="shell")
    tool = f"t{line.seq - 1}"
    git("commit", "-q", "-a", "-m", f"Close #{number}: done")
    line.say(kind="tool_ended", id=tool, ok=True, result_bytes=10)
    return True


def main(items, pace):
    line = Line()
    turn(line, 100)
    for done in range(items):
        if not close_one(line, pace):
            break
        turn(line, 200 + 100 * done)
        time.sleep(pace)
        if line.ask("Close the next issue.") == "stop":
            return
    turn(line, 700)
    while line.ask("Close the next issue.", final=True) != "stop":
        turn(line, 700)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))

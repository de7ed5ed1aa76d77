"""An agent that plays a list of steps, and writes every answer that it gets to stderr.

`player.py stdout|socket|reconnect STEPS`: `reconnect` comes back to the socket when it breaks, and says again what was
not answered yet. STEPS is JSON, a list of steps, or an object of lists by leg number ("*" = any other).
A step is an event (an object with `kind`; its `seq` is counted here), or one of
`{"do": "raw", "text", "times"?}` a line as it stands · `{"do": "ask"}` wait for one answer line ·
`{"do": "write", "path", "text"}` · `{"do": "commit", "message"}` all that is dirty · `{"do": "git", "args"}` ·
`{"do": "flood", "count"}` that many boundaries, none waited at · `{"do": "sleep", "seconds"}` ·
`{"do": "await", "path"}` until there is such a file · `{"do": "exit", "code"}` ·
`{"do": "loop", "steps"}` until it is told to stop.
A `boundary` waits for its answer, and `stop` ends it. `tool_asked` waits for its own; the steps in its `then` are
played where it is allowed.
"""

import json
import os
import socket
import subprocess
import sys
import time


class Player:
    def __init__(self, way):
        self.seq = 0
        self.way = way
        self.said = []  # since the boundary that was answered last
        if way == "stdout":
            self.out, self.into = sys.stdout.buffer, sys.stdin.buffer
        else:
            self.connect()

    def connect(self):
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.connect(os.environ["RELAY_SOCKET"])
        self.out, self.into = line.makefile("wb", buffering=0), line.makefile("rb")

    def come_back(self):
        while True:
            time.sleep(0.1)
            try:
                self.connect()
                for text in self.said:
                    self.out.write(text.encode() + b"\n")
            except OSError:
                continue
            return

    def raw(self, text):
        self.said.append(text)
        try:
            self.out.write(text.encode() + b"\n")
            self.out.flush()
        except OSError:
            if self.way != "reconnect":
                raise
            self.come_back()

    def event(self, step):
        self.seq += 1
        step = dict(step)
        allowed = step.pop("then", [])
        filled = {
            key: value.replace("$SEQ", str(self.seq)).replace("$LEG", os.environ["RELAY_LEG"])
            if isinstance(value, str)
            else value
            for key, value in step.items()
        }
        self.raw(json.dumps({"seq": self.seq, **filled}))
        if step["kind"] == "boundary":
            self.ask()
        elif step["kind"] == "tool_asked":
            answer = self.answer()
            sys.stderr.write(f"tool: {answer}\n")
            sys.stderr.flush()
            if answer == "allow":
                self.play(allowed)

    def ask(self):
        answer = self.answer()
        while answer == "" and self.way == "reconnect":
            self.come_back()
            answer = self.answer()
        self.said.clear()
        sys.stderr.write(f"answer: {answer}\n")
        sys.stderr.flush()
        if answer in ("stop", ""):
            sys.exit(0)

    def answer(self):
        try:
            return self.into.readline().decode().strip()
        except OSError:
            return ""

    def do(self, step):
        what = step["do"]
        if what == "raw":
            self.raw(step["text"] * step.get("times", 1))
        elif what == "flood":
            for _ in range(step["count"]):
                self.seq += 1
                event = {"seq": self.seq, "kind": "boundary", "next_actions": ["Go on."], "final": False}
                self.out.write(json.dumps(event).encode() + b"\n")
        elif what == "ask":
            self.ask()
        elif what == "write":
            os.makedirs(os.path.dirname(step["path"]) or ".", exist_ok=True)
            with open(step["path"], "a") as file:
                file.write(step["text"])
        elif what == "commit":
            git("add", "-A")
            git("commit", "-q", "--allow-empty", "-m", step.get("message", "Work"))
        elif what == "git":
            git(*step["args"])
        elif what == "sleep":
            time.sleep(step["seconds"])
        elif what == "await":
            while not os.path.exists(step["path"]):
                time.sleep(0.02)
        elif what == "exit":
            sys.exit(step["code"])
        elif what == "loop":
            while True:
                self.play(step["steps"])
        else:
            sys.exit(f"no such step: {what}")

    def play(self, steps):
        for step in steps:
            if "kind" in step:
                self.event(step)
            else:
                self.do(step)


def git(*args):
    name = ("-c", "user.name=Player", "-c", "user.email=player@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *name, *args], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    script = json.loads(sys.argv[2])
    if isinstance(script, dict):
        script = script.get(os.environ["RELAY_LEG"], script.get("*", []))
    Player(sys.argv[1]).play(script)

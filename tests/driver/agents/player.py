"""An agent that plays a list of steps, and writes every answer that it gets to stderr.

`player.py stdout|socket STEPS`: STEPS is JSON, a list of steps, or an object of lists by leg number ("*" = any other).
A step is an event (an object with `kind`; its `seq` is counted here), or one of
`{"do": "raw", "text", "times"?}` a line as it stands · `{"do": "ask"}` wait for one answer line ·
`{"do": "write", "path", "text"}` · `{"do": "commit", "message"}` all that is dirty · `{"do": "git", "args"}` ·
`{"do": "sleep", "seconds"}` · `{"do": "exit", "code"}` · `{"do": "loop", "steps"}` until it is told to stop.
A `boundary` waits for its answer, and `stop` ends it.
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
        if way == "socket":
            line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            line.connect(os.environ["RELAY_SOCKET"])
            self.out, self.into = line.makefile("wb"), line.makefile("rb")
        else:
            self.out, self.into = sys.stdout.buffer, sys.stdin.buffer

    def raw(self, text):
        self.out.write(text.encode() + b"\n")
        self.out.flush()

    def event(self, step):
        self.seq += 1
        filled = {
            key: value.replace("$SEQ", str(self.seq)).replace("$LEG", os.environ["RELAY_LEG"])
            if isinstance(value, str)
            else value
            for key, value in step.items()
        }
        self.raw(json.dumps({"seq": self.seq, **filled}))
        if step["kind"] == "boundary":
            self.ask()

    def ask(self):
        answer = self.into.readline().decode().strip()
        sys.stderr.write(f"answer: {answer}\n")
        sys.stderr.flush()
        if answer in ("stop", ""):
            sys.exit(0)

    def do(self, step):
        what = step["do"]
        if what == "raw":
            self.raw(step["text"] * step.get("times", 1))
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

"""An agent that is the official MCP client: it starts `relay mcp` and plays a script of calls against its own leg.

`client.py OUT SCRIPT`: SCRIPT is JSON, a list of steps by leg number ("*" = any other): `[verb, {arguments}]` a call ·
`{"do": "commit", "path", "text"}` · `{"do": "remove", "path"}` · `{"do": "unlink", "path"}` not committed ·
`{"do": "swap", "path", "to"}` a folder for a link · `{"do": "event", …}` a line of its own stream ·
`{"do": "quiet"}` first: no event of its own before · `{"do": "turn"}` · `{"do": "boundary"}` ·
`{"do": "token", "is"}` another token from here on · `{"do": "shell", "args"}` the command line.
A text may hold `$SHA`, the commit made last, `$RELAY`, and what lies in `OUT/known.json`. Each answer goes to
`OUT/<leg>.json`; it ends by its own final boundary.
"""

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

ROOT = Path(__file__).parents[3]
GIT = ("git", "-c", "user.name=Client", "-c", "user.email=client@example.org", "-c", "commit.gpgsign=false")


def known(out):
    place = Path(out) / "known.json"
    return json.loads(place.read_text()) if place.exists() else {}


class Agent:
    def __init__(self, out, steps):
        self.out, self.steps = out, steps
        self.seq, self.said = 0, []
        self.token = os.environ["RELAY_TOKEN"]
        self.known = {"$RELAY": os.environ["RELAY_ID"], **known(out)}
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.line.connect(os.environ["RELAY_SOCKET"])
        self.answers = self.line.makefile("rb")

    def send(self, kind, **fields):
        self.seq += 1
        self.line.sendall(json.dumps({"kind": kind, "seq": self.seq, **fields}).encode() + b"\n")

    def turn(self):
        self.send("turn_started")
        buckets = {"input": 100, "cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0, "output": 5}
        self.send("usage", model="scripted-client", message_id=f"m{self.seq}", chain="main", **buckets)

    def boundary(self, final=False):
        self.send("boundary", next_actions=[], final=final)
        answer = self.answers.readline().decode().strip()
        self.said.append({"answer": answer})
        if answer in ("stop", ""):
            self.close(0)

    def close(self, code):
        (Path(self.out) / f"{os.environ['RELAY_LEG']}.json").write_text(json.dumps(self.said))
        os._exit(code)

    def filled(self, value):
        if isinstance(value, str):
            for name, known in self.known.items():
                value = value.replace(name, known)
            return value
        if isinstance(value, list):
            return [self.filled(one) for one in value]
        return {key: self.filled(one) for key, one in value.items()} if isinstance(value, dict) else value

    def do(self, step):
        what = step["do"]
        if what == "commit":
            place = Path(step["path"])
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(self.filled(step["text"]))
            self.commit()
        elif what == "remove":
            Path(step["path"]).unlink()
            self.commit()
        elif what == "unlink":
            Path(step["path"]).unlink()
        elif what == "swap":
            shutil.rmtree(step["path"])
            Path(step["path"]).symlink_to(step["to"])
            self.commit()
        elif what == "add":
            self.commit()
        elif what == "event":
            self.send(step["kind"], **{key: value for key, value in step.items() if key not in ("do", "kind")})
        elif what == "turn":
            self.turn()
        elif what == "boundary":
            self.boundary()
        elif what == "token":
            self.token = step["is"]
        elif what == "shell":
            line = [*shlex.split(os.environ["RELAY_TOOL"]), *self.filled(step["args"])]
            done = subprocess.run(line, env=self.env(), capture_output=True, text=True)
            self.said.append({"exit": done.returncode, "out": done.stdout, "err": done.stderr})

    def commit(self):
        subprocess.run([*GIT, "add", "-A"], check=True)
        subprocess.run([*GIT, "commit", "-q", "-m", "Work"], check=True)
        done = subprocess.run([*GIT, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
        self.known["$SHA"] = done.stdout.strip()

    def env(self):
        """No more than an agent's own server needs: nothing of the site is in it."""
        kept = {name: os.environ[name] for name in ("PATH", "RELAY_SOCKET")}
        return kept | {"RELAY_TOKEN": self.token}

    async def play(self):
        steps = list(self.steps)
        while steps:
            server = StdioServerParameters(
                command=sys.executable, args=[str(ROOT / "manage.py"), "relay", "mcp"], env=self.env()
            )
            token = self.token
            async with stdio_client(server) as (reading, writing), ClientSession(reading, writing) as session:
                await session.initialize()
                while steps and self.token == token:
                    step = steps.pop(0)
                    if isinstance(step, dict):
                        self.do(step)
                        continue
                    verb, arguments = step
                    if verb == "list":
                        tools = (await session.list_tools()).tools
                        self.said.append({tool.name: [tool.description, tool.input_schema] for tool in tools})
                        continue
                    found = await session.call_tool(verb, self.filled(arguments))
                    text = found.content[0].text
                    self.said.append({"refused": text} if found.is_error else json.loads(text))


def main():
    steps = json.loads(sys.argv[2])
    agent = Agent(sys.argv[1], steps.get(os.environ["RELAY_LEG"], steps.get("*", [])))
    if agent.steps[:1] != [{"do": "quiet"}]:
        agent.turn()
    try:
        anyio.run(agent.play)
    except BaseException as error:  # noqa: BLE001 - the test reads it
        agent.said.append({"error": repr(error)})
        agent.close(7)
    agent.boundary(final=True)
    agent.close(0)


if __name__ == "__main__":
    main()

"""A supervisor that lets everything pass: `python lone_supervisor.py AGENT CONTEXT.json`, until somebody kills it."""

import json
import sys
from pathlib import Path

from relays.agents import process
from relays.agents.base import LegContext
from relays.agents.channel import Channel
from relays.agents.registry import adapter


def main(agent: str, given: str) -> None:
    values = json.loads(Path(given).read_text())
    with Channel(values["log_dir"]) as channel:
        ctx = LegContext(**{**values, "socket_path": channel.socket_path})
        wanted = adapter(agent).launch(ctx)
        folder = Path(ctx.log_dir)
        running = process.launch(wanted.argv, cwd=ctx.worktree, env=wanted.env, marker=ctx.marker, log_dir=folder)
        channel.attach(running)
        while True:
            for line in channel.wait(0.2):
                kind = json.loads(line)["kind"]
                if kind == "boundary":
                    channel.answer("go")
                elif kind == "tool_asked":
                    channel.answer_tool(line, "allow")


if __name__ == "__main__":
    main(*sys.argv[1:])

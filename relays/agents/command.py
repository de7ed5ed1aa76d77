"""The command adapter: any program that speaks `relay.event.v1` on the socket or its stdout runs a leg.

`--agent command --agent-arg argv='["prog","a"]'` (or one line split like a shell's), and optionally
`--agent-arg env=NAME,NAME` for variables of ours that it needs, and `memory`, `time` and `file_size` (see `limits`).

`--agent-arg reconnect=1`: it speaks over `RELAY_SOCKET` only, and connects again when that breaks. Its processes then
outlive a supervisor that dies, and the next one goes on with it in the same leg. Whoever connects again says again,
with the same `seq`, what it said since the boundary that was answered last: what was heard is ignored, and a boundary
that it still waits at is answered.

A program that can be held before a tool runs asks first: `{"kind": "tool_asked", "seq", "id", "name"}`, on stdout or
over a connection of its own, and waits for one line, `allow` or `deny <why>`. A tool that `effectful_tools` of the
policy names is denied while an assumption of the leg is weak; all others are allowed.
"""

import json
import shlex
from collections.abc import Mapping

from relays.agents import limits
from relays.agents.base import AgentArgError, Launch, LegContext, env_names, environment

_SHAPE = 'argv=["program","argument",…] or argv="program argument …"'


def parse_argv(value: str) -> tuple[str, ...]:
    """The program and its arguments; a text that starts with `[` is a JSON list, any other is split like a shell's."""
    text = value.strip()
    try:
        found = json.loads(text) if text.startswith("[") else shlex.split(text)
    except (ValueError, RecursionError) as error:
        raise AgentArgError(f"agent argument argv cannot be read ({error}); allowed: {_SHAPE}") from error
    if not isinstance(found, list) or not found or not all(isinstance(part, str) for part in found):
        raise AgentArgError(f"agent argument argv is no list of texts; allowed: {_SHAPE}")
    if not found[0] or any("\0" in part for part in found):
        raise AgentArgError(f"agent argument argv has no program, or a NUL in it; allowed: {_SHAPE}")
    return tuple(found)


class CommandAdapter:
    name = "command"

    def check_args(self, args: Mapping[str, object]) -> None:
        for key, value in args.items():
            if key not in (known := ("argv", "env", "reconnect", *limits.ARGS)):
                raise AgentArgError(
                    f"agent argument {key!r} is not known to the command agent; allowed: {', '.join(known)}"
                )
            if not isinstance(value, str):
                raise AgentArgError(f"agent argument {key} is no text; allowed: {_SHAPE}, env=NAME,NAME")
        if args.get("reconnect", "0") not in ("0", "1"):
            raise AgentArgError(f"agent argument reconnect={args['reconnect']!r} is neither 0 nor 1")
        if "argv" not in args:
            raise AgentArgError(f"the command agent needs agent argument argv; allowed: {_SHAPE}")
        parse_argv(str(args["argv"]))
        env_names(str(args.get("env", "")))
        limits.read(args)

    def reconnects(self, args: Mapping[str, object]) -> bool:
        return args.get("reconnect") == "1"

    def launch(self, ctx: LegContext) -> Launch:
        self.check_args(ctx.args)
        return Launch(parse_argv(ctx.args["argv"]), environment(ctx, env_names(ctx.args.get("env", ""))))

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
from relays.core import notation
from relays.core.sentences import phrase

_SHAPE = phrase('argv=["program","argument",…] or argv="program argument …"')


def parse_argv(value: str) -> tuple[str, ...]:
    """The program and its arguments; a text that starts with `[` is a JSON list, any other is split like a shell's."""
    text = value.strip()
    try:
        found = json.loads(text) if text.startswith("[") else shlex.split(text)
    except (ValueError, RecursionError) as error:
        raise AgentArgError(
            phrase(
                "agent argument argv cannot be read (%(why)s); allowed: %(shape)s",
                why=notation.why(error),
                shape=_SHAPE,
            )
        ) from error
    if not isinstance(found, list) or not found or not all(isinstance(part, str) for part in found):
        raise AgentArgError(phrase("agent argument argv is no list of texts; allowed: %(shape)s", shape=_SHAPE))
    if not found[0] or any("\0" in part for part in found):
        raise AgentArgError(
            phrase("agent argument argv has no program, or a NUL in it; allowed: %(shape)s", shape=_SHAPE)
        )
    return tuple(found)


class CommandAdapter:
    name = "command"

    def check_args(self, args: Mapping[str, object]) -> None:
        for key, value in args.items():
            if key not in (known := ("argv", "env", "reconnect", *limits.ARGS)):
                raise AgentArgError(
                    phrase(
                        "agent argument %(key)s is not known to the command agent; allowed: %(known)s",
                        key=repr(key),
                        known=", ".join(known),
                    )
                )
            if not isinstance(value, str):
                raise AgentArgError(
                    phrase(
                        "agent argument %(key)s is no text; allowed: %(shape)s, env=NAME,NAME", key=key, shape=_SHAPE
                    )
                )
        if args.get("reconnect", "0") not in ("0", "1"):
            raise AgentArgError(
                phrase("agent argument reconnect=%(given)s is neither 0 nor 1", given=repr(args["reconnect"]))
            )
        if "argv" not in args:
            raise AgentArgError(phrase("the command agent needs agent argument argv; allowed: %(shape)s", shape=_SHAPE))
        parse_argv(str(args["argv"]))
        env_names(str(args.get("env", "")))
        limits.read(args)

    def reconnects(self, args: Mapping[str, object]) -> bool:
        return args.get("reconnect") == "1"

    def launch(self, ctx: LegContext) -> Launch:
        self.check_args(ctx.args)
        return Launch(parse_argv(ctx.args["argv"]), environment(ctx, env_names(ctx.args.get("env", ""))))

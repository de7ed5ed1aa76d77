"""An adapter for a real agent program: a bridge of ours, inside the leg's containment, runs it.

The bridge starts the program, says what it does as `relay.event.v1`, holds it at boundaries, passes `wind_down` on and
ends it on `stop`. Supervisor and driver so know one protocol for every agent. Adding one is a file in `bridges/`, a
line in `programs.py` and one in the registry, a fixture and a test.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from relays.agents import limits, programs
from relays.agents.base import AgentArgError, Launch, LegContext, env_names, environment
from relays.core.sentences import phrase

RUN: Final = Path(__file__).parent / "bridges" / "run.py"
COMMON: Final = ("program", "model", "env", *limits.ARGS)
_VALUE_CHARS: Final = 4096


class BridgedAdapter:
    """`bridge`: its module in `bridges/`. `flags`: further agent arguments that the bridge takes, each with what is
    allowed ("" = any text, else words separated by blanks). `keeps`: variables of ours that the program is given
    without being named by the start; never a secret."""

    def __init__(
        self, name: str, bridge: str, flags: Mapping[str, str] | None = None, keeps: tuple[str, ...] = ()
    ) -> None:
        self.name, self._bridge, self._flags, self._keeps = name, bridge, dict(flags or {}), keeps
        self.program = programs.PROGRAMS[name]

    def check_args(self, args: Mapping[str, object]) -> None:
        allowed = (*COMMON, *self._flags)
        for key, value in args.items():
            if key not in allowed:
                raise AgentArgError(
                    phrase(
                        "agent argument %(key)s is not known to the %(name)s agent; allowed: %(allowed)s",
                        key=repr(key),
                        name=self.name,
                        allowed=", ".join(allowed),
                    )
                )
            if not isinstance(value, str) or not value or len(value) > _VALUE_CHARS or not value.isprintable():
                raise AgentArgError(phrase("agent argument %(key)s is no text of one line", key=key))
            words = self._flags.get(key, "").split()
            if words and value not in words:
                raise AgentArgError(
                    phrase(
                        "agent argument %(key)s=%(value)s is not allowed: one of %(words)s",
                        key=key,
                        value=repr(value),
                        words=", ".join(words),
                    )
                )
        env_names(str(args.get("env", "")))
        limits.read(args)

    def reconnects(self, args: Mapping[str, object]) -> bool:
        return False

    def launch(self, ctx: LegContext) -> Launch:
        """Raises AgentArgError, besides what `check_args` refuses, where the program is not there."""
        self.check_args(ctx.args)
        given = ctx.args.get("program", "")
        program = programs.find(self.program, given)
        if not program:
            where = (
                phrase("at %(path)s", path=given)
                if given
                else phrase(
                    "as %(command)s on PATH or below %(places)s",
                    command=repr(self.program.command),
                    places=str(programs.PLACES),
                )
            )
            raise AgentArgError(
                phrase(
                    "the program of the %(name)s agent was not found %(where)s: install %(package)s, or name it "
                    "with agent argument program=PATH; relay doctor shows what is there",
                    name=self.name,
                    where=where,
                    package=self.program.package,
                )
            )
        folder = Path(ctx.log_dir) / self.name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = {key: value for key, value in ctx.args.items() if key not in ("program", "env", *limits.ARGS)}
        given_args = {**flags, "program": program, "folder": str(folder), "bounded": str(int(ctx.bounded))}
        return Launch(
            # by its file and isolated: the repository it works in cannot put modules of its own before ours
            (
                sys.executable,
                "-I",
                "-S",
                str(RUN),
                self._bridge,
                *(f"{key}={value}" for key, value in given_args.items()),
            ),
            environment(ctx, (*env_names(ctx.args.get("env", "")), *self._keeps)),
            on_pipes=True,
        )

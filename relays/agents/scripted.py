"""The built-in scripted worker as an agent: it really does the work of the issue file, its usage figures are scripted.

Mission: the tour and the tests drive real commits, real batons and real verification without any model.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from relays.agents import scripted_worker
from relays.agents.base import AgentArgError, Launch, LegContext, environment
from relays.core.sentences import Sentence, phrase


def check_args(args: Mapping[str, object]) -> None:
    """Raise AgentArgError, one line that names the flag and what is allowed, for an unknown flag or a bad value."""
    try:
        scripted_worker.parse_flags(_texts(args))
    except scripted_worker.FlagError as error:
        raise AgentArgError(phrase("agent argument %(problem)s", problem=Sentence(error.text, error.values))) from error


def _texts(args: Mapping[str, object]) -> dict[str, str]:
    return {str(key): str(int(value) if isinstance(value, bool) else value) for key, value in args.items()}


class ScriptedAdapter:
    name = "scripted"

    def check_args(self, args: Mapping[str, object]) -> None:
        check_args(args)

    def reconnects(self, args: Mapping[str, object]) -> bool:
        return False

    def launch(self, ctx: LegContext) -> Launch:
        """Run by its file and isolated (`-I`): the repository it works in cannot put modules of its own before ours."""
        check_args(ctx.args)
        program = str(Path(scripted_worker.__file__).resolve())
        flags = [f"{key}={value}" for key, value in _texts(ctx.args).items()]
        return Launch((sys.executable, "-I", "-S", program, *flags), environment(ctx))

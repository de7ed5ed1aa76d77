"""What every adapter is given to start one leg's agent, and what it gives back.

Mission: a fresh leg is "seeded only by a small typed baton and a query interface into the durable store"; so an agent
gets the baton's path and its leg's names in its environment, and of ours no more than an allowlist.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from relays.core.sentences import RuleError, phrase

#: what of our own environment an agent sees; `LC_*` besides
ALLOWED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "SHELL")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class AgentArgError(RuleError):
    """An agent argument that is not known or not allowed; one line that names it and says what is allowed."""


@dataclass(frozen=True, slots=True)
class LegContext:
    """One leg, as its adapter sees it. `baton_path` is "" for leg 0; tokens are counts; all paths are absolute.

    `facts`: pointers to what people pinned and stated for every leg. `seed_path`: the file with the leg's seed.
    `bounded`: the leg is held at its ceiling (mode enforce), so that its program needs no compaction of its own.
    """

    relay_id: str
    leg: int
    baton_path: str
    worktree: str
    objective: str
    done_when: str
    next_action: str
    window_tokens: int
    ceiling_tokens: int
    log_dir: str
    socket_path: str
    token: str
    marker: str
    args: Mapping[str, str] = field(default_factory=dict)
    facts: tuple[str, ...] = ()
    seed_path: str = ""
    bounded: bool = True


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start: `argv` in the leg's worktree, with exactly this environment.

    `on_pipes`: it speaks on its stdout alone, so that whatever else an agent's tools say over the leg's socket is no
    word of it; only the query tool is heard there.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    on_pipes: bool = False


class Adapter(Protocol):
    """Starts one kind of agent; its events follow `relay.event.v1`."""

    @property
    def name(self) -> str: ...

    def check_args(self, args: Mapping[str, object]) -> None:
        """Raise AgentArgError for arguments that this agent cannot be started with."""
        ...

    def reconnects(self, args: Mapping[str, object]) -> bool:
        """Whether an agent with these arguments outlives its supervisor and comes back to `RELAY_SOCKET`."""
        ...

    def launch(self, ctx: LegContext) -> Launch: ...


def environment(ctx: LegContext, names: Iterable[str] = (), source: Mapping[str, str] | None = None) -> dict[str, str]:
    """The agent's whole environment: the allowlist and `names` from `source` (default: ours), and `RELAY_*` of the leg.

    A name that is not set is left out. Secrets of the supervisor never pass unless the start names them.
    """
    ours = os.environ if source is None else source
    wanted = {*ALLOWED, *names, *(name for name in ours if name.startswith("LC_"))}
    env = {name: ours[name] for name in sorted(wanted) if name in ours}
    env.setdefault("PATH", os.defpath)
    env.update(
        RELAY_ID=ctx.relay_id,
        RELAY_LEG=str(ctx.leg),
        RELAY_BATON=ctx.baton_path,
        RELAY_SEED=ctx.seed_path,
        RELAY_SOCKET=ctx.socket_path,
        RELAY_TOKEN=ctx.token,
        RELAY_TOOL=tool("agent"),
        RELAY_MCP=tool("mcp"),
        RELAY_MARKER=ctx.marker,
        RELAY_OBJECTIVE=ctx.objective,
        RELAY_DONE_WHEN=ctx.done_when,
        RELAY_NEXT_ACTION=ctx.next_action,
        RELAY_FACTS=" ".join(ctx.facts),
        RELAY_WINDOW_TOKENS=str(ctx.window_tokens),
        RELAY_CEILING_TOKENS=str(ctx.ceiling_tokens),
    )
    return {name: value.replace("\0", " ") for name, value in env.items()}


def tool(shell: str) -> str:
    """The command line of the query tool, as a shell takes it: `agent`, behind which a verb follows, or `mcp`."""
    return shlex.join([sys.executable, str(Path(__file__).parents[2] / "manage.py"), "relay", shell])


#: settings of the site that hold its own secrets: whoever has one of them is everybody here
_OURS = frozenset({"SECRET_KEY", "DATABASE_URL", "BROKER_URL", "NOTIFY_URLS"})


def env_names(value: str) -> tuple[str, ...]:
    """The variable names in `NAME,NAME…`; raises AgentArgError for anything else and for names that are ours."""
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    for name in names:
        if not _NAME.fullmatch(name) or name.startswith("RELAY_"):
            raise AgentArgError(
                phrase(
                    "agent argument env: %(name)s is not allowed; names of variables, none that starts RELAY_",
                    name=repr(name),
                )
            )
        if name in _OURS:
            raise AgentArgError(
                phrase(
                    "agent argument env: %(name)s is a secret of this site; put the agent's own in another variable",
                    name=name,
                )
            )
    return names

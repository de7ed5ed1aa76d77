"""The agents that can run a leg, by name."""

from typing import Final

from relays.agents.base import Adapter
from relays.agents.bridged import BridgedAdapter
from relays.agents.codex import CodexAdapter
from relays.agents.command import CommandAdapter
from relays.agents.scripted import ScriptedAdapter
from relays.core.sentences import RuleError, phrase

#: where Gemini CLI's own folder lies, and through which of a firm's accounts it asks its model; no secret
GEMINI_NAMES: Final = (
    "GEMINI_CLI_HOME",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_GENAI_USE_GCA",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
)

_ADAPTERS: dict[str, Adapter] = {
    one.name: one
    for one in (
        CommandAdapter(),
        ScriptedAdapter(),
        BridgedAdapter("claude-code", "claude_code", {"config": "own user"}, keeps=("CLAUDE_CONFIG_DIR",)),
        CodexAdapter(),
        BridgedAdapter("gemini", "gemini", keeps=GEMINI_NAMES),
        BridgedAdapter("opencode", "opencode", keeps=("XDG_CONFIG_HOME", "XDG_DATA_HOME", "OPENCODE_CONFIG")),
    )
}


class UnknownAgent(RuleError):
    """No agent of that name; one line that lists the names."""


def names() -> tuple[str, ...]:
    return tuple(sorted(_ADAPTERS))


def adapter(name: str) -> Adapter:
    """The adapter of that name; raises UnknownAgent."""
    try:
        return _ADAPTERS[name]
    except KeyError:
        raise UnknownAgent(
            phrase("unknown agent %(name)s: choose one of %(names)s", name=repr(name), names=", ".join(names()))
        ) from None

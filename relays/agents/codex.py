"""Codex as an agent: what its bridge takes besides the arguments that all programs have in common."""

from collections.abc import Mapping

from relays.agents.base import AgentArgError
from relays.agents.bridged import BridgedAdapter
from relays.agents.bridges import codex_flags
from relays.core.sentences import RuleError


class CodexAdapter(BridgedAdapter):
    """`mode`: app-server (the default), or exec; `config`: settings of Codex for these legs alone, `key=value` as its
    `-c` takes them, or several as a JSON list of such texts."""

    def __init__(self) -> None:
        super().__init__("codex", "codex", {"mode": "app-server exec", "config": ""}, keeps=("CODEX_HOME",))

    def check_args(self, args: Mapping[str, object]) -> None:
        super().check_args(args)
        try:
            codex_flags.settings(str(args.get("config", "")))
        except RuleError as error:
            raise AgentArgError(error.said) from error

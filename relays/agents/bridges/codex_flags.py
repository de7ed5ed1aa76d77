"""The settings of one leg of Codex as flags, and the trust in our own hooks among them.

Hooks that come by flags run only where they are trusted by their digest; the program itself tells it (`hooks/list`).
So nothing is written into the user's configuration, and nobody else's hook is trusted by it.
"""

import json
import os
import select
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from relays.agents.bridges.bridge import read_object
from relays.agents.bridges.codex_said import rows, table
from relays.core.sentences import RuleError, phrase

HOOKS: Final = ("PreModelRequest", "PostModelRequest", "PreToolUse", "PostToolUse", "PreCompact", "Stop")
HOOK_SECONDS: Final = 86_400  # a hook may wait as long as a boundary does
#: what a leg has no use for: a newer version, figures for the vendor, plugins of elsewhere, prompts in the user's
#: history, and agents below the agent, whose windows nobody measures; a compaction as late as the program allows
SWITCHES: Final = (
    "check_for_update_on_startup=false",
    "analytics.enabled=false",
    "feedback.enabled=false",
    'history.persistence="none"',
    "features.plugins=false",
    "agents.enabled=false",
    "model_auto_compact_token_limit=9000000000000000000",
)
#: the query tool is used from the shell, too: its token is one of the names that would be kept from it
SHELL: Final = ("shell_environment_policy.inherit=all", "shell_environment_policy.ignore_default_excludes=true")
#: else the first calls of a leg would be made before the query tool is there
WAITED_FOR: Final = "required=true,startup_timeout_sec=120,tool_timeout_sec=150"
ASKING: Final = 30.0  # seconds that the program has to tell its hooks


def made(
    program: str, env: Mapping[str, str], model: str, config: str, *, server: Sequence[str], hook: Sequence[str]
) -> list[str]:
    """All of them; the start's own `config` comes last and wins. OSError or ValueError says what is wrong."""
    own = [*_wanted(model, server, hook), _unchanged(env)]
    given = [part for one in (*own, *settings(config)) for part in ("-c", one)]
    ours = [
        found
        for found in _hooks([program, "app-server", *given], env)
        if found.get("source") == "sessionFlags" and shlex.split(str(found.get("command"))) == list(hook)
    ]
    if {str(found.get("eventName")).lower() for found in ours} != {event.lower() for event in HOOKS}:
        raise ValueError("this Codex does not know the hooks by which a leg is held: use 0.171.0 or newer")
    state = ",".join(f"{_toml(found['key'])}={{trusted_hash={_toml(found['currentHash'])}}}" for found in ours)
    return [*given, "-c", f"hooks.state={{{state}}}"]


def _wanted(model: str, server: Sequence[str], hook: Sequence[str]) -> list[str]:
    program, *rest = server
    names = '["RELAY_SOCKET","RELAY_TOKEN"]'
    tool = f"{{command={_toml(program)},args=[{','.join(map(_toml, rest))}],env_vars={names},{WAITED_FOR}}}"
    command = f'{{type="command",command={_toml(shlex.join(hook))},timeout={HOOK_SECONDS}}}'
    found = [
        *SWITCHES,
        *SHELL,
        f"mcp_servers.relay={tool}",
        *(f"hooks.{event}=[{{hooks=[{command}]}}]" for event in HOOKS),
    ]
    return [*found, f"model={_toml(model)}"] if model else found


def _unchanged(env: Mapping[str, str]) -> str:
    """That the folder is not trusted, said beforehand: else its trust is written into the user's configuration.

    Settings, hooks and servers that the repository brings itself are not taken then: none of them is the relay's.
    """
    roots = [os.getcwd()]
    asked = ["git", "rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir"]
    try:
        said = subprocess.run(asked, env=dict(env), capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        said = None
    for line in said.stdout.splitlines() if said is not None else ():
        roots.append(os.path.dirname(line) if os.path.basename(line) == ".git" else line)
    return "projects={" + ",".join(f'{_toml(root)}={{trust_level="untrusted"}}' for root in dict.fromkeys(roots)) + "}"


def _toml(text: object) -> str:
    """A text as a TOML string. JSON's escapes are TOML's, all but the pairs by which it writes an emoji."""
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")


def settings(given: str) -> list[str]:
    """The start's own settings: `key=value`, or several as a JSON list of such texts. Raises RuleError."""
    if not given:
        return []
    try:
        found = json.loads(given) if given.startswith("[") else [given]
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) and "=" in one for one in found):
        raise RuleError(phrase('agent argument config is neither key=value nor a JSON list ["key=value",…]'))
    return found


def _hooks(argv: list[str], env: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every hook that the program would run with these flags, with its digest. Raises OSError or ValueError."""
    asked = (
        {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "relaysite", "version": "1"}}},
        {"method": "initialized"},
        {"id": 2, "method": "hooks/list", "params": {"cwds": [os.getcwd()]}},
    )
    with subprocess.Popen(
        argv, env=dict(env), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
    ) as program:
        if program.stdin is None or program.stdout is None:
            return []
        held = b""
        try:
            program.stdin.write(b"".join(json.dumps(row).encode() + b"\n" for row in asked))
            until = time.monotonic() + ASKING
            while select.select([program.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
                data = program.stdout.read(1 << 16)
                if not data:
                    break
                *lines, held = (held + data).split(b"\n")
                for line in lines:
                    row = read_object(line)
                    if row.get("id") == 2:
                        return [
                            hook
                            for one in rows(table(row.get("result")).get("data"))
                            for hook in rows(one.get("hooks"))
                        ]
        except BrokenPipeError:
            pass
        finally:
            program.kill()
    raise ValueError("Codex did not tell which hooks it knows")

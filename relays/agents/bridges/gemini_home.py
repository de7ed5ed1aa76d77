"""A folder of its own for one leg of Gemini CLI: the user's settings and ours in one file, the rest by links.

Measured with 0.61.0: settings of a system file are taken only from a path that root alone can write, those of flags are
few; `GEMINI_CLI_HOME` moves the whole folder. So the user's settings are read and ours laid over them in a copy, and
what else stands there (sign-in, instructions, commands) is linked: it is used, and nothing of the user's is changed.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

#: what belongs to one run of the program: it is made anew in the leg's folder
OWN: Final = frozenset({"settings.json", "tmp", "history"})
#: nothing but the model's own address is looked up, the program is not exchanged in the middle of a relay, and no agent
#: works below the agent, whose window nobody measures
OVER: Final[Mapping[str, Any]] = {
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "ide": {"enabled": False},
    "advanced": {"ignoreLocalEnv": True},  # what stands in a repository's `.env` is for the repository's own programs
    "security": {"folderTrust": {"enabled": False}},
    "hooksConfig": {"enabled": True, "notifications": False},
    "experimental": {"enableAgents": False},
}
#: by which a repository would switch our hooks off, compress the window, or stand in the place of the query tool
UNTOUCHED: Final = (
    "hooksConfig",
    "model.compressionThreshold",
    "mcpServers.relay",
    "mcp.allowed",
    "mcp.excluded",
    "experimental.enableAgents",
    "security.folderTrust",
    "advanced.ignoreLocalEnv",
)
#: how the names begin by which a repository's `.gemini/.env`, which the program reads, would send its calls or its work
#: elsewhere; those of a sign-in the program takes of any folder
NOT_THEIRS: Final = ("GEMINI_", "GOOGLE_", "CODE_ASSIST_")
SIGN_IN: Final = frozenset({"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"})
NEVER: Final = 1_000_000.0  # of the model's window: a share at which no compression can begin

_TOKEN: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_VARIABLE: Final = re.compile(r"^\s*(?:export\s+)?([A-Za-z_]\w*)\s*[=:]", re.MULTILINE)
_TRAILING: Final = re.compile(r",(\s*[}\]])")


def settings(
    user: Mapping[str, Any], hooks: Mapping[str, Any], server: Mapping[str, Any], *, bounded: bool
) -> dict[str, Any]:
    """The user's settings with ours laid over them; the user's own hooks and servers stay beside ours."""
    found = laid_over(user, OVER)
    if bounded:
        found = laid_over(found, {"model": {"compressionThreshold": NEVER}})
    found = laid_over(found, {"mcpServers": {"relay": dict(server)}})
    theirs = found.get("hooks") if isinstance(found.get("hooks"), dict) else {}
    both = {
        event: [*(old if isinstance(old := theirs.get(event), list) else []), hooks[event]]  # type: ignore[union-attr]
        for event in hooks
    }
    return {**found, "hooks": {**theirs, **both}}  # type: ignore[dict-item]


def clash(repository: Mapping[str, Any]) -> str:
    """What a repository's own settings say that would take the hold from a leg; "" for nothing. They lie over the
    user's, and so over ours."""
    for name in UNTOUCHED:
        found: Any = repository
        for part in name.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        if found is not None:
            return name
    return ""


def taken() -> str:
    """What of the repository that the program is about to work in would take the hold from a leg, as the end of a
    sentence; "" for nothing. Raises ValueError where its settings cannot be read."""
    if key := clash(read(Path(".gemini/settings.json"), "the repository's")):
        return f"the repository's .gemini/settings.json sets {key}"
    try:
        text = Path(".gemini/.env").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = (name for name in _VARIABLE.findall(text) if name.startswith(NOT_THEIRS) and name not in SIGN_IN)
    return next((f"the repository's .gemini/.env sets {name}" for name in found), "")


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Tables in tables; whatever else stands in both is the upper one's."""
    made = dict(below)
    for key, value in above.items():
        old = made.get(key)
        made[key] = laid_over(old if isinstance(old, dict) else {}, value) if isinstance(value, dict) else value
    return made


def read(path: Path, whose: str = "the user's") -> dict[str, Any]:
    """Settings of a file, comments and trailing commas allowed; {} where there is none. Raises ValueError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{whose} settings {path} cannot be read: {error}") from error
    bare = _TOKEN.sub(lambda found: found[0] if found[0].startswith('"') else " ", text)
    try:
        made = json.loads(_TRAILING.sub(r"\1", bare)) if bare.strip() else {}
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{whose} settings {path} cannot be read: {error}") from error
    if not isinstance(made, dict):
        raise ValueError(f"{whose} settings {path} are no JSON object")
    return made


def furnish(home: Path, users: Path, made: Mapping[str, Any]) -> None:
    """Make the folder `.gemini` below `home`; another start of the same leg finds it made."""
    folder = home / ".gemini"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in users.iterdir() if users.is_dir() else ():
        link = folder / one.name
        if one.name not in OWN and not link.is_symlink():
            link.symlink_to(one.resolve())
    path = folder / "settings.json"
    path.write_text(json.dumps(made, indent=1), encoding="utf-8")
    path.chmod(0o600)

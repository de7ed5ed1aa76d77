"""What this machine has of the agent programs: which are there, in which version, and whether a sign-in is in sight.

Issue: "`relay doctor` finds the programs, their versions and sign-in state without reading credentials, says what is
missing". Of a credential only is asked whether its file is there and not empty, or whether its variable is set: no
content is read, and no program is run.
"""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from relays.agents import programs
from relays.core.sentences import Sentence, phrase

SignIn = Literal["found", "not seen", ""]
_PACKAGE_BYTES: Final = 1024 * 1024
_UP: Final = 5  # folders above a program in which its package may be described


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a program's sign-in. `files`: below a folder of its own, which is named by the variable `home`
    or lies at `place` below the person's. `variables`: names that hold a key, the usual one first."""

    measured: str
    variables: tuple[str, ...]
    home: str
    place: str
    files: tuple[str, ...]
    sign_in: Sentence
    node: bool = False


KNOWN: Final[Mapping[str, Known]] = {
    "claude-code": Known(
        "2.1.332",
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        "CLAUDE_CONFIG_DIR",
        ".claude",
        (".credentials.json",),
        phrase("run `claude` once and sign in"),
    ),
    "codex": Known(
        "0.171.0",
        ("OPENAI_API_KEY", "CODEX_API_KEY"),
        "CODEX_HOME",
        ".codex",
        ("auth.json",),
        phrase("run `codex login`"),
    ),
    "gemini": Known(
        "0.61.0",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
        "",
        ".gemini",
        ("oauth_creds.json",),
        phrase("run `gemini` once and sign in"),
        node=True,
    ),
    "opencode": Known(
        "1.18.33",
        ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "GEMINI_API_KEY"),
        "",
        ".local/share/opencode",
        ("auth.json",),
        phrase("run `opencode auth login`"),
    ),
}


@dataclass(frozen=True, slots=True)
class Readiness:
    """One program as this machine has it. `program` is "" where it was not found, `version` where nothing says it.

    `seen`: in words, what speaks for a sign-in. `needs`: what stands in the way of a start, "" for nothing.
    `variables`: those of its key that are set here; a leg is given one only where the start names it.
    """

    name: str
    package: str
    measured: str
    program: str
    version: str
    sign_in: SignIn
    seen: Sentence | str
    needs: Sentence | str
    fix: Sentence | str
    variables: tuple[str, ...]


def look(name: str, env: Mapping[str, str] | None = None) -> Readiness:
    """How it stands with one of the four programs. `env`: in place of ours. Raises KeyError for another name."""
    around = os.environ if env is None else env
    known, program = KNOWN[name], programs.PROGRAMS[name]
    path = programs.find(program, env=around)
    state, seen, variables = _sign_in(known, around)
    needs: Sentence | str = ""
    fix: Sentence | str = ""
    install = f"npm install {program.package}@{known.measured}"
    if not path:
        needs = phrase(
            "%(command)s was not found on PATH or below %(places)s", command=program.command, places=programs.PLACES
        )
        fix = phrase(
            "`%(install)s` in a folder that %(places)s names, or agent argument program=PATH at the start",
            install=install, places=programs.PLACES,
        )  # fmt: skip
    elif known.node and path.endswith(".js") and shutil.which("node", path=around.get("PATH", os.defpath)) is None:
        needs, fix = phrase("it needs node, which was not found on PATH"), phrase("install Node.js 20 or newer")
    elif state == "not seen":
        named = known.variables[0]
        fix = phrase(
            "%(sign_in)s, or set %(named)s and start with --agent-arg env=%(named)s", sign_in=known.sign_in, named=named
        )
    elif variables and str(seen).startswith(variables[0]):
        fix = phrase("a leg gets it only where the start names it: --agent-arg env=%(named)s", named=variables[0])
    return Readiness(
        name, program.package, known.measured, path, version(path), state, seen, needs, fix, variables
    )  # fmt: skip


def everyone(env: Mapping[str, str] | None = None) -> tuple[Readiness, ...]:
    return tuple(look(name, env) for name in KNOWN)


def version(path: str) -> str:
    """What the package beside a program says of itself, "" where it says nothing. No process is run."""
    if not path:
        return ""
    for folder in list(Path(os.path.realpath(path)).parents)[:_UP]:
        try:
            if (folder / "package.json").stat().st_size > _PACKAGE_BYTES:
                return ""
            said = json.loads((folder / "package.json").read_bytes())
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError):
            return ""
        found = said.get("version") if isinstance(said, dict) else None
        text = found if isinstance(found, str) and found.isprintable() else ""
        # a native binary's package may name its platform behind the version
        return text.split("-linux-")[0].split("-darwin-")[0][:40]
    return ""


def _sign_in(known: Known, env: Mapping[str, str]) -> tuple[SignIn, Sentence | str, tuple[str, ...]]:
    variables = tuple(name for name in known.variables if env.get(name))
    own = env.get(known.home, "") if known.home else ""
    folder = Path(own) if own else Path(env.get("HOME") or "/nonexistent") / known.place
    if known.place.startswith(".local/share") and env.get("XDG_DATA_HOME"):
        folder = Path(env["XDG_DATA_HOME"]) / Path(known.place).name
    for name in known.files:
        try:
            if (folder / name).stat().st_size > 0:  # that it is there is all that is asked
                return "found", phrase("%(file)s is there", file=str(folder / name)), variables
        except OSError:
            continue
    if variables:
        return "found", phrase("%(variable)s is set", variable=variables[0]), variables
    return "not seen", "", ()

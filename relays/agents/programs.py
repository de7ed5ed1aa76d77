"""Where the real agent programs are found on this machine, and under which names they are installed.

Issue: "`relay doctor` finds the programs". One place says it, so that the driver starts what doctor showed.
"""

import os
import platform
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: folders with a `node_modules` in which programs were installed, `:` between two; `make agents` fills the default
PLACES: Final = "RELAY_AGENTS"
DEFAULT_PLACE: Final = Path(__file__).parents[2] / ".agents"


@dataclass(frozen=True, slots=True)
class Program:
    """One agent program. `natives`: its own binary below a `node_modules`, `{arch}` for x64 or arm64, tried first:
    a launcher in front of it would take the signals that are meant for it. `command`: its name on PATH."""

    name: str
    package: str
    command: str
    natives: tuple[str, ...]
    version_args: tuple[str, ...] = ("--version",)


PROGRAMS: Final[Mapping[str, Program]] = {
    one.name: one
    for one in (
        Program(
            "claude-code", "@anthropic-ai/claude-code", "claude", ("@anthropic-ai/claude-code-linux-{arch}/claude",)
        ),
        Program(
            "codex",
            "@openai/codex",
            "codex",
            (
                "@openai/codex-linux-{arch}/vendor/{machine}-unknown-linux-musl/bin/codex",
                "@openai/codex-linux-{arch}/vendor/{machine}-unknown-linux-musl/codex/codex",
            ),
        ),
        Program("gemini", "@google/gemini-cli", "gemini", ("@google/gemini-cli/bundle/gemini.js",)),
        Program("opencode", "opencode-ai", "opencode", ("opencode-linux-{arch}/bin/opencode",)),
    )
}

_ARCH: Final = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}


def find(program: Program, given: str = "", env: Mapping[str, str] | None = None) -> str:
    """The absolute path of a program, "" where it is not found: the one that was `given`, else one that was installed
    below a place of ours, else the first on PATH."""
    around = os.environ if env is None else env
    if given:
        found = shutil.which(given, path=around.get("PATH", os.defpath))
        return str(Path(found).absolute()) if found else ""
    for candidate in _candidates(program, around):
        if candidate.is_file() and (os.access(candidate, os.X_OK) or candidate.suffix == ".js"):
            return str(candidate)
    found = shutil.which(program.command, path=around.get("PATH", os.defpath))
    return str(Path(found).absolute()) if found else ""


def _candidates(program: Program, env: Mapping[str, str]) -> Iterator[Path]:
    machine = platform.machine().lower()
    words = {"arch": _ARCH.get(machine, machine), "machine": {"arm64": "aarch64"}.get(machine, machine)}
    places = [Path(place) for place in env.get(PLACES, "").split(os.pathsep) if place] or [DEFAULT_PLACE]
    for place in places:
        modules = place / "node_modules"
        for native in program.natives:
            yield modules / native.format(**words)
        yield modules / ".bin" / program.command

"""Git in a foreign work tree under a config of ours, and what the repository's own config would have run.

Baton contract: "A watched repository's own config must never run a program." What reads or writes files (status, add,
reset, checkout, cherry-pick) takes filters, merge drivers, monitors, includes and helpers from that config, and an
agent may write to it at any moment. So such commands get a common directory of our own: refs, reflogs, attributes and
objects in it are the repository's, its config is ours and holds of theirs only what KEPT names.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from relays.core.lines import recorded
from relays.stores import loose, scratch
from relays.stores.base import StoreUnavailable
from relays.stores.gitrun import plain, run, text
from relays.stores.kept import Kept
from relays.stores.plainfile import read_plain

CONFIG_BYTES: Final = 1 << 20
REMEMBERED: Final = 1 << 16  # bytes of a config that is kept once it was read

#: settings that say how files look and can start nothing; a value of any other form is left out
KEPT: Final = frozenset(
    f"core.{name}"
    for name in (
        "autocrlf",
        "bigfilethreshold",
        "checkstat",
        "eol",
        "filemode",
        "ignorecase",
        "logallrefupdates",
        "precomposeunicode",
        "safecrlf",
        "sharedrepository",
        "sparsecheckout",
        "sparsecheckoutcone",
        "symlinks",
        "trustctime",
    )
) | {"index.sparse", "index.version"}
_VALUE: Final = re.compile(r"[A-Za-z0-9]{0,20}")

#: what of a repository's common directory is not config, where it exists
_SHARED: Final = ("refs", "packed-refs", "logs", "info", "worktrees", "shallow")

#: keys whose value is a program, leads to one, or names another file that may hold such keys
_RUNS: Final = re.compile(
    r"core\.(?:fsmonitor|sshcommand|hookspath|pager|editor|askpass|gitproxy|alternaterefscommand|worktree)"
    r"|filter\..*|diff\.external|diff\..*\.(?:command|textconv)|merge\..*\.driver|include\.path|includeif\..*"
    r"|extensions\.partialclone|remote\..*\.(?:uploadpack|receivepack|vcs|promisor)|uploadpack\.packobjectshook"
    r"|credential\..*|alias\..*|pager\..*|gpg\..*program|gpg\.program|sequence\.editor|interactive\.difffilter"
    r"|(?:difftool|mergetool|browser|man)\..*\.(?:cmd|path)|submodule\..*\.update|trailer\..*\.(?:command|cmd)"
    r"|protocol\.(?:.*\.)?allow|url\..*\.(?:push)?insteadof",
    re.DOTALL,
)
_OFF: Final = frozenset({"", "false", "no", "off", "0"})
FINDING: Final = "config: "  # before each line of `lint` among a relay's findings
SHOWN: Final = 20  # findings that are named one by one


def settings(common_dir: Path, git_dir: Path) -> dict[str, str]:
    """Key -> last value, of the repository's own config as it stands (includes are not followed, nothing is run).

    A linked work tree's own config counts where the repository says so. Raises StoreUnavailable.
    """
    found = _read(common_dir / "config")
    if found.get("extensions.worktreeconfig", "").lower() not in _OFF:
        found |= _read(git_dir / "config.worktree")
    return found


def _read(path: Path) -> dict[str, str]:
    raw = read_plain(path, CONFIG_BYTES, recorded("the repository's %(name)s", name=path.name))
    return dict(_parsed.of(raw, lambda: _parse(raw), lambda _: len(raw) <= REMEMBERED)) if raw else {}


#: what the same bytes say never changes
_parsed: Final[Kept[bytes, dict[str, str]]] = Kept(8)


def _parse(raw: bytes) -> dict[str, str]:
    out = run(["config", "--file", "-", "--null", "--list"], cwd=Path(os.sep), stdin=raw).out
    pairs = (entry.partition("\n") for entry in text(out).split("\0") if entry)
    # a key without "=" means true
    return {key: value if newline else "true" for key, newline, value in pairs}


def harmless(found: Mapping[str, str]) -> str:
    """The text of our config: the settings of `found` that KEPT names."""
    sha256 = found.get("extensions.objectformat", "").lower() == "sha256"
    lines = ["[core]", f"\trepositoryformatversion = {int(sha256)}", "\tbare = false"]
    if sha256:
        lines += ["[extensions]", "\tobjectformat = sha256"]
    for key in sorted(KEPT & found.keys()):
        if _VALUE.fullmatch(found[key]):
            section, _, name = key.partition(".")
            lines += [f"[{section}]", f"\t{name} = {found[key]}"]
    return "\n".join(lines) + "\n"


@contextmanager
def instead(git_dir: Path, common_dir: Path, config: str) -> Iterator[dict[str, str]]:
    """The environment under which git in that work tree reads `config` in place of the repository's own."""
    ours = Instead()
    try:
        yield ours.env(git_dir, common_dir, config)
    finally:
        ours.remove()


class Instead:
    """The common directory of our own for one work tree, kept from call to call and looked through before each.

    It is gone with whoever holds it.
    """

    def __init__(self) -> None:
        self._place = ""
        self.remove: Callable[[], object] = lambda: None

    def env(self, git_dir: Path, common_dir: Path, config: str) -> dict[str, str]:
        """As `instead` promises. Raises StoreUnavailable."""
        wanted = {part: place for part in _SHARED if os.path.lexists(place := f"{common_dir}/{part}")}
        if not self._place or not _holds(self._place, wanted, config):
            self._make(wanted, config)
        return {
            "GIT_DIR": str(git_dir),
            "GIT_COMMON_DIR": self._place,
            "GIT_OBJECT_DIRECTORY": str(common_dir / "objects"),
        }

    def _make(self, wanted: Mapping[str, str], config: str) -> None:
        self.remove()
        try:
            self._place, self.remove = scratch.make(self)
        except OSError as error:
            raise StoreUnavailable(
                recorded("no temporary folder can be made: %(error)s", error=error.strerror)
            ) from error
        try:
            Path(self._place, "config").write_text(config, encoding="ascii")
            for part, place in wanted.items():
                os.symlink(place, os.path.join(self._place, part))
        except OSError as error:
            raise StoreUnavailable(
                recorded("no temporary folder can be filled: %(error)s", error=error.strerror)
            ) from error


def _holds(folder: str, wanted: Mapping[str, str], config: str) -> bool:
    """Whether the folder holds these links and that config, and nothing else: an agent may have written there, too."""
    try:
        if set(os.listdir(folder)) != {"config", *wanted}:
            return False
        linked = all(os.readlink(os.path.join(folder, part)) == place for part, place in wanted.items())
    except OSError:
        return False
    return linked and loose.read(Path(folder, "config"), CONFIG_BYTES) == config.encode("ascii")


def lint(git_dir: Path) -> list[str]:
    """One line for each key of the repository's own config that would run a program; never raises.

    Stack, 3.2: "a config lint … shown as a finding on the relay page". Values are not shown: they may be secrets.
    """
    try:
        found = settings(git_dir, git_dir)
    except StoreUnavailable as error:
        return [recorded("it cannot be read: %(why)s", why=plain(error.evidence))]
    keys = [key for key in sorted(found) if _RUNS.fullmatch(key) and not _switched_off(key, found[key])]
    lines = [
        recorded(
            "%(key)s can run a program or aim git elsewhere; Relaysite does not obey it, the agent's git does",
            key=plain(key)[:120],
        )
        for key in keys[:SHOWN]
    ]
    if len(keys) > SHOWN:
        lines.append(recorded("and %(n)d more such keys", n=len(keys) - SHOWN))
    return lines


def _switched_off(key: str, value: str) -> bool:
    return key in {"core.fsmonitor", "core.pager", "core.askpass"} and value.lower() in _OFF

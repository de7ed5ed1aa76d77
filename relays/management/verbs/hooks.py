"""`relay hooks install claude-code`: the program's hooks of sessions that nobody drives, posted to this site.

The user's settings are theirs: what is not ours stays byte for byte, a file that is no JSON is refused, `--dry-run`
shows what would change, and `--remove` takes out what was put in. No token is written: only its variable's name.
"""

import argparse
import difflib
import os
import stat
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings

from relays.core import hookfile
from relays.management.cli import Exit, emit, refuse

AGENTS = ("claude-code",)
BYTES = 4 * 1024 * 1024


def configure(parser: argparse.ArgumentParser) -> None:
    does = parser.add_subparsers(dest="do", required=True, metavar="install")
    one = does.add_parser("install", help="put our hooks into the program's settings", allow_abbrev=False)
    one.add_argument("agent", metavar="AGENT", choices=AGENTS, help="claude-code")
    one.add_argument("--remove", action="store_true", help="take ours out again, and nothing else")
    one.add_argument("--dry-run", action="store_true", help="show what would change and write nothing")
    one.add_argument("--settings", metavar="FILE", default="", help="default: settings.json in the program's folder")
    one.add_argument("--url", metavar="URL", default="", help=f"this site (default: PUBLIC_URL, {settings.PUBLIC_URL})")
    one.add_argument("--json", action="store_true", help="answer with one JSON value")


def run(options: argparse.Namespace) -> int:
    path = Path(os.path.realpath(options.settings or _default()))
    before = _read(path)
    try:
        old = before.decode("utf-8")
        new = hookfile.removed(old) if options.remove else hookfile.installed(old, _site(options.url))
        events = hookfile.events_of(new)
    except (UnicodeDecodeError, hookfile.HookFileError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        refuse(f"{path} was left as it is: {why}; correct it, or name another with --settings", Exit.INVALID)
    changed = new != old
    if changed and not options.dry_run:
        _replace(path, before, new.encode())
    diff = "".join(_diff(old, new, str(path)))
    data = {"settings": str(path), "changed": changed, "written": changed and not options.dry_run}
    emit({**data, "events": list(events), "diff": diff}, options.json, lambda: _words(options, path, changed, diff))
    return Exit.FINE


def _words(options: argparse.Namespace, path: Path, changed: bool, diff: str) -> str:
    if not changed:
        return f"{path}: {'nothing of ours is in it' if options.remove else 'our hooks are in it already'}"
    if options.dry_run:
        return f"{diff}nothing was written"
    if options.remove:
        return f"{path}: our hooks are taken out; the rest is as it was"
    token = f"relay token add NAME --role sender, and set {hookfile.VARIABLE} to it where the program runs"
    return f"{path}: our hooks are in ({', '.join(hookfile.EVENTS)}); next: {token}"


def _default() -> str:
    folder = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(folder, "settings.json")


def _site(url: str) -> str:
    given = url or settings.PUBLIC_URL
    parts = urlsplit(given)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        refuse(f"--url {given!r} is no address of a site; give one like https://relay.example.org")
    return given


def _read(path: Path) -> bytes:
    """What stands in the file, b"" where there is none."""
    try:
        with open(path, "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                refuse(f"{path} is no file; name the settings with --settings", Exit.NOT_FOUND)
            content = file.read(BYTES + 1)
    except FileNotFoundError:
        return b""
    except OSError as error:
        refuse(f"{path} cannot be read: {error.strerror}; name the settings with --settings", Exit.NOT_FOUND)
    if len(content) > BYTES:
        refuse(f"{path} is larger than {BYTES} bytes; name the settings with --settings", Exit.INVALID)
    return content


def _replace(path: Path, before: bytes, after: bytes) -> None:
    """The whole file or nothing, with the mode and owner it had; refused where it changed since it was read."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(handle, "wb") as file:
                if path.exists():
                    kept = path.stat()
                    os.fchmod(file.fileno(), stat.S_IMODE(kept.st_mode))
                    if (kept.st_uid, kept.st_gid) != (os.geteuid(), os.getegid()):
                        os.fchown(file.fileno(), kept.st_uid, kept.st_gid)
                file.write(after)
                file.flush()
                os.fsync(file.fileno())
            if _read(path) != before:
                refuse(f"{path} was changed meanwhile and left as it is; run it again", Exit.FAILED)
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        refuse(f"{path} cannot be written: {error.strerror}; nothing was changed", Exit.FAILED)


def _diff(old: str, new: str, path: str) -> list[str]:
    lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), path, path)
    return [line if line.endswith("\n") else f"{line}\n" for line in lines]

"""Scripts, style sheets and drawings: each has the hash of its content in its address; a browser keeps it for ever.

So new markup never meets an old style. Nobody collects anything: a process that starts keeps a copy of each file under
that name in `RELAY_VAR/static`, and serves the copy, so that an address has one content, whatever happens to the file
it came from. Copies of earlier builds are served on, for pages that stay open across an upgrade, until none has started
with them for `KEPT` days. With DEBUG nothing has a hash and every file is served as it is.
"""

import contextlib
import gzip
import hashlib
import os
import time
from functools import cache
from pathlib import Path

from django.conf import settings
from django.contrib.staticfiles import finders
from django.contrib.staticfiles.storage import StaticFilesStorage
from servestatic.middleware import ServeStaticMiddleware

KEPT = 30  # days
DIGITS = 12
#: what pages name; beside each copy stands a compressed one for browsers that take it
_NAMED = frozenset({".css", ".js", ".svg"})
_BUILD = ("relays", "relaysite", "static", "templates")


@cache
def addresses() -> dict[str, str]:
    """Name -> name with the hash of the content, `relays/app.css` -> `relays/app.0123456789ab.css`, as of the start."""
    if settings.DEBUG:
        return {}
    root = Path(settings.STATIC_ROOT)
    found: dict[str, str] = {}
    for finder in finders.get_finders():
        for name, storage in finder.list([]):
            name = name.replace("\\", "/")
            stem, suffix = os.path.splitext(name)
            if name in found or suffix not in _NAMED:
                continue
            content = Path(storage.path(name)).read_bytes()
            found[name] = f"{stem}.{hashlib.sha256(content).hexdigest()[:DIGITS]}{suffix}"
            _keep(root / found[name], content)
    _forget(root, time.time() - KEPT * 86_400)
    return found


@cache
def build() -> str:
    """Twelve digits that are others once a page, a style or what is behind them is: of all files, as of the start."""
    told = hashlib.sha256()
    for folder in _BUILD:
        for path in sorted(Path(settings.BASE_DIR, folder).rglob("*")):
            if path.is_file() and path.suffix not in (".pyc", ".po"):
                told.update(f"{path.relative_to(settings.BASE_DIR)}\0".encode())
                told.update(hashlib.sha256(path.read_bytes()).digest())
    return told.hexdigest()[:DIGITS]


def _keep(path: Path, content: bytes) -> None:
    if path.exists():
        os.utime(path)  # it is in use
        return
    _write(path.with_name(path.name + ".gz"), gzip.compress(content, mtime=0))
    _write(path, content)


def _write(path: Path, content: bytes) -> None:
    """At once or not at all: several processes start at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.with_name(f".{path.name}.{os.getpid()}")
    begun.write_bytes(content)
    begun.replace(path)


def _forget(root: Path, before: float) -> None:
    for path in root.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # another process that starts at the same time was faster
            if path.suffix != ".gz" and path.is_file() and path.stat().st_mtime < before:
                path.unlink()
                path.with_name(path.name + ".gz").unlink()


class Storage(StaticFilesStorage):
    """What `{% static %}` asks for addresses."""

    def url(self, name: str | None) -> str:
        return super().url(addresses().get(name or "", name))


class Middleware(ServeStaticMiddleware):
    """Serves the copies for ever, and each file under its own name, for whoever wrote that down, for `max_age`."""

    def add_files_from_finders(self) -> None:
        build()  # of this start, whatever lies on the disk when it is asked for
        if addresses():
            self.add_files(settings.STATIC_ROOT, self.static_prefix)
        super().add_files_from_finders()

    def immutable_file_test(self, path: str, url: str) -> bool:
        return Path(path).is_relative_to(settings.STATIC_ROOT)

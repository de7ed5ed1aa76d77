"""The bytes of one record of a durable store, for a leg that needs it: read where its pointer was verified.

Rules: "`recall` serves records of the durable stores, never transcript bytes". A pointer is judged before it is read
here; what is read is bounded.
"""

import json
import os
from typing import Final

from relays.core.lines import recorded
from relays.core.pointers import Kind, Pointer
from relays.models import LedgerRow
from relays.stores import memorywrite
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.files import Tracked
from relays.stores.gitrun import Capped, need_sha
from relays.stores.issues import PATH as ISSUE_PATH
from relays.stores.memory import MemoryStore

RECORD_BYTES: Final = 1024 * 1024  # of one record; a larger one is not cheap enough to come back
LISTED: Final = 1000  # paths that a glob names
_BINARY: Final = 8000  # first bytes in which a NUL means that it is no text


def read(stores: Stores, pointer: Pointer) -> tuple[str, bytes]:
    """(what it is, its bytes). Raises StoreUnavailable, also for a record of more than RECORD_BYTES."""
    match pointer.kind:
        case Kind.COMMIT:
            return recorded("commit with its change"), _commit(stores, pointer.ref)
        case Kind.ISSUE:
            return recorded("row of %(issue_path)s at the tip", issue_path=ISSUE_PATH), _issue(stores, pointer.ref)
        case Kind.MEMORY:
            return "memory file", memory(stores, pointer.ref)
        case Kind.LEDGER:
            return _ledger(stores, pointer.ref)
        case Kind.FILE:
            return _file(stores, pointer.ref)


def _commit(stores: Stores, sha: str) -> bytes:
    sink = Capped(RECORD_BYTES)
    look = ["diff-tree", "--root", "-r", "-p", "--stat", "--pretty=fuller", "--diff-merges=first-parent"]
    plain = ["--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--no-notes"]
    stores.git.objects([*look, *plain, need_sha(sha), "--"], sink=sink)
    tail = b"\n[the change is larger: read the files themselves]\n" if sink.full else b""
    return bytes(sink.kept) + tail


def _issue(stores: Stores, ref: str) -> bytes:
    row = stores.issues.row(int(ref.rpartition("#")[2]))
    if row is None:
        raise StoreUnavailable(recorded("%(ref)s is not in %(issue_path)s", ref=ref, issue_path=ISSUE_PATH))
    return json.dumps(row, ensure_ascii=False, indent=1).encode("utf-8", "replace")


def memory(stores: Stores, slug: str) -> bytes:
    """Raises StoreUnavailable."""
    return MemoryStore(stores.memory_root(), stores.memory_within()).read(slug, RECORD_BYTES)


def memory_slugs(stores: Stores, most: int) -> list[str]:
    """The slugs that lie in the memory folder, by name; at most `most`. Raises StoreUnavailable."""
    root = stores.memory_root()
    if root is None:
        return []
    found: list[str] = []
    try:
        with os.scandir(root) as entries:
            for entry in entries:
                slug = entry.name.removesuffix(".md")
                if slug != entry.name and len(found) < 10_000 and _may_be_memory(slug, entry):
                    found.append(slug)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StoreUnavailable(
            recorded("the memory folder cannot be read: %(error)s", error=error.strerror), where=str(root)
        ) from error
    return sorted(found)[:most]


def _may_be_memory(slug: str, entry: os.DirEntry[str]) -> bool:
    """Whether it is named like a memory and no folder: whatever else lies there is nobody's memory."""
    return memorywrite.is_slug(slug) and not entry.is_dir(follow_symlinks=False)


def _ledger(stores: Stores, ref: str) -> tuple[str, bytes]:
    path, hash_, number = ref.rpartition("#L")
    if hash_:
        raw = stores.git.read_file(stores.tip, path) or b""
        lines = raw.split(b"\n")
        place = int(number)
        if place > len(lines):
            raise StoreUnavailable(recorded("the file has no such row"))
        return recorded("line %(place)s of %(path)s at the tip", place=place, path=path), _small(lines[place - 1], ref)
    row = LedgerRow.objects.filter(pk=ref).first()
    if row is not None:
        found: dict[str, object] = {
            "id": row.pk,
            "refs": row.refs,
            "note": row.note,
            "verdicts when written": row.verdicts,
            "by": row.by,
            "at": row.at.isoformat(),
        }
    else:
        travelled = stores.git.read_ledger_ref(ref.rsplit(".", 2)[0]) or []
        found = next((one for one in travelled if one.get("id") == ref), {})
        if not found:
            raise StoreUnavailable(recorded("no such ledger row"))
    return "ledger row", json.dumps(found, ensure_ascii=False, indent=1).encode("utf-8", "replace")


def _file(stores: Stores, ref: str) -> tuple[str, bytes]:
    paths = stores.git.paths(stores.tip)
    tracked = Tracked(paths)
    if ref not in frozenset(tracked.paths):
        return "tracked files that it names", _listing(tracked, ref)
    raw = stores.git.read_file(stores.tip, ref, RECORD_BYTES)
    if raw is None:
        raise StoreUnavailable(recorded("no such file at the tip"))
    if b"\0" in raw[:_BINARY]:
        return "tracked file", f"[binary, {len(raw)} bytes: it is not shown; it lies in the work tree]".encode()
    return "tracked file at the tip", raw


def _listing(tracked: Tracked, glob: str) -> bytes:
    found = tracked.matches(glob, LISTED + 1)
    more = "\n[more match: name a narrower glob]" if len(found) > LISTED else ""
    return ("\n".join(found[:LISTED]) + more).encode("utf-8", "replace")


def _small(raw: bytes, what: str) -> bytes:
    if len(raw) > RECORD_BYTES:
        raise StoreUnavailable(recorded("%(what)s: more than %(limit)d bytes", what=what, limit=RECORD_BYTES))
    return raw

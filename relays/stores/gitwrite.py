"""What we add to a repository: refs, notes and the travelling ledger; each act may be repeated and leaves one result.

House: "The baton is also written as a git note (`refs/notes/relay`) at `at_sha` …; two legs that end at one SHA append
to its note." Objects are made through our own repository, so no hook, filter or setting of the target takes part.
"""

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from relays.stores.base import StoreUnavailable
from relays.stores.gitrun import need_ref, need_sha, text, unavailable

if TYPE_CHECKING:
    from relays.stores.git import GitStore

NOTES: Final = "refs/notes/relay"
LEDGER: Final = "refs/relay/ledger"
LEDGER_FILE: Final = "rows.jsonl"
FILE_BYTES: Final = 4 << 20  # of a note
LEDGER_ROWS: Final = 200_000  # of one relay; reading them all takes about a second
IDENTITY: Final = {
    "GIT_AUTHOR_NAME": "Relaysite",
    "GIT_AUTHOR_EMAIL": "relaysite@localhost",
    "GIT_COMMITTER_NAME": "Relaysite",
    "GIT_COMMITTER_EMAIL": "relaysite@localhost",
}
_TRIES: Final = 5


def update_ref(git: "GitStore", name: str, new: str, old: str | None = None) -> bool:
    """See GitStore.update_ref."""
    need_ref(name)
    if git.ref(name) == need_sha(new):
        return False
    if not _swap(git, name, new, old):
        raise StoreUnavailable(f"{name} has moved meanwhile", where=str(git.git_dir), fix="read it again")
    return True


def delete_ref(git: "GitStore", name: str) -> bool:
    """See GitStore.delete_ref."""
    old = git.ref(need_ref(name))
    if old is None:
        return False
    git.target(["update-ref", "-d", name, old])
    return True


def _swap(git: "GitStore", name: str, new: str, old: str | None) -> bool:
    """Compare and set; False when another process was faster. A lock of another is waited for, never removed."""
    args = ["update-ref", "--no-deref", name, need_sha(new), *([] if old is None else [need_sha(old)])]
    for pause in (0.05, 0.1, 0.2, 0.4, None):
        result = git.target(args, ok=(0, 1, 128))
        if result.code == 0:
            return True
        if "but expected" in result.err or "already exists" in result.err:
            return False
        if ".lock" not in result.err or pause is None:
            raise unavailable(result, git.git_dir)
        time.sleep(pause)
    return False


def read_note(git: "GitStore", sha: str, ref: str = NOTES) -> str | None:
    """See GitStore.read_note."""
    commit = git.ref(need_ref(ref))
    path = _note_path(git, commit, need_sha(sha)) if commit else None
    if commit is None or path is None:
        return None
    raw = git.read_file(commit, path)
    return None if raw is None else text(raw)


def add_note(git: "GitStore", sha: str, note: str, ref: str = NOTES, append: bool = True) -> bool:
    """See GitStore.add_note."""
    need_ref(ref)
    body = note.strip("\n").encode()
    for _ in range(_TRIES):
        commit = git.ref(ref)
        path = (_note_path(git, commit, need_sha(sha)) if commit else None) or need_sha(sha)
        before = (_there(git, commit, path, FILE_BYTES) or b"").strip(b"\n") if commit else b""
        if append and before:
            if b"\n\n" + body + b"\n\n" in b"\n\n" + before + b"\n\n":
                return False
            after = before + b"\n\n" + body
        else:
            after = body
        if after == before:
            return False
        if _replace(git, ref, commit, path, after + b"\n", f"Note on {sha}"):
            return True
    raise StoreUnavailable(f"{ref} keeps moving", where=str(git.git_dir), fix="try again")


def _there(git: "GitStore", commit: str, path: str, limit: int) -> bytes | None:
    """What stands at a path; None also for more than `limit` bytes, which nobody but a stranger put there.

    It is written over and stays in the history of the ref. A git that does not answer fails the writing that follows.
    """
    try:
        return git.read_file(commit, path, limit)
    except StoreUnavailable:
        return None


def _note_path(git: "GitStore", commit: str, sha: str) -> str | None:
    """Where the note of `sha` lies in a notes tree: git spreads many notes over folders of two digits."""
    spread = [sha]
    for depth in range(1, 4):
        spread.append("/".join([sha[2 * part : 2 * part + 2] for part in range(depth)] + [sha[2 * depth :]]))
    out = git.objects(["ls-tree", "-r", "-z", "--name-only", commit, "--", *spread]).out
    names = {text(name) for name in out.split(b"\0") if name}  # of a folder with that name, all that lies in it
    return next((path for path in spread if path in names), None)


def _replace(git: "GitStore", ref: str, parent: str | None, path: str, content: bytes, message: str) -> bool:
    """Commit `content` at `path` on top of `parent` and move `ref` there; False when the ref moved meanwhile."""
    with tempfile.TemporaryDirectory(prefix="relay-index-") as folder:
        env = {**IDENTITY, "GIT_INDEX_FILE": str(Path(folder) / "index")}
        blob = _one(git.objects(["hash-object", "-w", "--stdin", "--no-filters"], stdin=content).out)
        if parent is not None:
            git.objects(["read-tree", parent], env=env)
        git.objects(["update-index", "--add", "--replace", "--cacheinfo", f"100644,{blob},{path}"], env=env)
        tree = _one(git.objects(["write-tree"], env=env).out)
        line = [] if parent is None else ["-p", parent]
        made = _one(git.objects(["commit-tree", tree, *line], stdin=f"{message}\n".encode(), env=env).out)
    return _swap(git, ref, made, parent or "0" * git.sha_length)


def write_ledger_ref(git: "GitStore", relay_id: str, rows: Sequence[Mapping[str, object]]) -> str:
    """See GitStore.write_ledger_ref."""
    content = b"".join(
        json.dumps(row, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode() + b"\n" for row in rows
    )
    return write_file_ref(git, f"{LEDGER}/{relay_id}", LEDGER_FILE, content, f"Ledger of {relay_id}")


def write_file_ref(git: "GitStore", ref: str, path: str, content: bytes, message: str) -> str:
    """Keep one file under a ref of ours, each change a commit on the one before; returns the commit.

    The same content changes nothing.
    """
    need_ref(ref)
    for _ in range(_TRIES):
        commit = git.ref(ref)
        if commit is not None and _there(git, commit, path, len(content)) == content:
            return commit
        if _replace(git, ref, commit, path, content, message):
            continue  # read it back: what is returned is what stands there
    raise StoreUnavailable(f"{ref} keeps moving", where=str(git.git_dir), fix="try again")


def read_ledger_ref(git: "GitStore", relay_id: str) -> list[dict[str, object]] | None:
    """See GitStore.read_ledger_ref. Raises StoreUnavailable where a row is malformed: then none can be trusted."""
    commit = git.ref(need_ref(f"{LEDGER}/{relay_id}"))
    raw = git.read_file(commit, LEDGER_FILE, limit=1 << 26) if commit else None
    if raw is None:
        return None
    rows: list[dict[str, object]] = []
    lines = raw.removesuffix(b"\n").split(b"\n") if raw else []
    if len(lines) > LEDGER_ROWS:
        raise StoreUnavailable(f"the ledger under {LEDGER} has more than {LEDGER_ROWS} rows")
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line.decode())  # of bytes it would take UTF-16 and a byte order mark, too
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise StoreUnavailable(f"line {number} of the ledger under {LEDGER} is malformed")
        rows.append(row)
    return rows


def _one(out: bytes) -> str:
    return need_sha(out.decode("ascii").strip())

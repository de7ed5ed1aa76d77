"""What we add to a repository: refs, notes and the travelling ledger; each act may be repeated and leaves one result.

House: "The baton is also written as a git note (`refs/notes/relay`) at `at_sha` …; two legs that end at one SHA append
to its note." Objects are made through our own repository, so no hook, filter or setting of the target takes part.
"""

import hashlib
import json
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from relays.core.lines import recorded
from relays.stores.base import StoreUnavailable
from relays.stores.gitrun import Capped, need_ref, need_sha, text, unavailable

if TYPE_CHECKING:
    from relays.stores.git import GitStore

NOTES: Final = "refs/notes/relay"
LEDGER: Final = "refs/relay/ledger"
LEDGER_FILE: Final = "rows.jsonl"  # the newest rows; older ones lie in full blocks beside it
BLOCK_ROWS: Final = 256
LIST_BYTES: Final = 1 << 20  # of the list of the files under a ref of ours; a full ledger's has a tenth
FILE_BYTES: Final = 4 << 20  # of a note
LEDGER_ROWS: Final = 200_000  # of one relay; reading them all takes about a second
IDENTITY: Final = {
    "GIT_AUTHOR_NAME": "Relaysite",
    "GIT_AUTHOR_EMAIL": "relaysite@localhost",
    "GIT_COMMITTER_NAME": "Relaysite",
    "GIT_COMMITTER_EMAIL": "relaysite@localhost",
}
_TRIES: Final = 5
_BLOCK: Final = re.compile(r"rows-[0-9]{6}\.jsonl")


def update_ref(git: "GitStore", name: str, new: str, old: str | None = None) -> bool:
    """See GitStore.update_ref."""
    need_ref(name)
    if git.ref(name) == need_sha(new):
        return False
    if not _swap(git, name, new, old):
        raise StoreUnavailable(
            recorded("%(name)s has moved meanwhile", name=name), where=str(git.git_dir), fix=recorded("read it again")
        )
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
    raise StoreUnavailable(recorded("%(ref)s keeps moving", ref=ref), where=str(git.git_dir), fix="try again")


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
    lines = [json.dumps(row, ensure_ascii=True, sort_keys=True, separators=(",", ":")).encode() + b"\n" for row in rows]
    full = max(0, len(lines) - 1) // BLOCK_ROWS  # the newest rows, at least one where there are any, stay apart
    files = {_block(number): b"".join(lines[number * BLOCK_ROWS : (number + 1) * BLOCK_ROWS]) for number in range(full)}
    files[LEDGER_FILE] = b"".join(lines[full * BLOCK_ROWS :])
    return write_files_ref(git, f"{LEDGER}/{relay_id}", files, f"Ledger of {relay_id}")


def _block(number: int) -> str:
    return f"rows-{number:06}.jsonl"


def write_files_ref(git: "GitStore", ref: str, files: Mapping[str, bytes], message: str) -> str:
    """Keep these files, and nothing else, under a ref of ours, each change a commit on the one before; the commit.

    `files`: by plain names without a folder. Only a file that differs is stored again; where none does, nothing is.
    """
    need_ref(ref)
    wanted = {path: _blob(git, content) for path, content in files.items()}
    for _ in range(_TRIES):
        commit = git.ref(ref)
        there = _files(git, commit) if commit is not None else {}
        if commit is not None and there == wanted:
            return commit
        for path, content in files.items():
            if there.get(path) != wanted[path]:
                git.objects(["hash-object", "-w", "--stdin", "--no-filters"], stdin=content)
        entries = b"".join(f"100644 blob {sha}\t{path}\0".encode() for path, sha in wanted.items())
        tree = _one(git.objects(["mktree", "-z"], stdin=entries).out)
        line = [] if commit is None else ["-p", commit]
        made = _one(git.objects(["commit-tree", tree, *line], stdin=f"{message}\n".encode(), env=IDENTITY).out)
        if _swap(git, ref, made, commit or "0" * git.sha_length):
            return made
    raise StoreUnavailable(recorded("%(ref)s keeps moving", ref=ref), where=str(git.git_dir), fix="try again")


def _blob(git: "GitStore", content: bytes) -> str:
    """The name that git gives these bytes, in this repository's own format."""
    form = "sha256" if git.sha_length == 64 else "sha1"
    return hashlib.new(form, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _files(git: "GitStore", commit: str) -> dict[str, str]:
    """What lies at the top of a commit's tree: name -> the blob, "" for what is no plain file.

    Nothing of a tree whose list is longer than LIST_BYTES, which nobody but a stranger put there.
    """
    sink = Capped(LIST_BYTES)
    git.objects(["ls-tree", "-z", need_sha(commit)], sink=sink)
    if sink.full:
        return {}
    found: dict[str, str] = {}
    for entry in bytes(sink.kept).split(b"\0"):
        head, tab, path = entry.partition(b"\t")
        if tab:
            mode, _, sha = head.decode("ascii").split()
            found[text(path)] = sha if mode == "100644" else ""
    return found


def read_ledger_ref(git: "GitStore", relay_id: str) -> list[dict[str, object]] | None:
    """See GitStore.read_ledger_ref. Raises StoreUnavailable where a row is malformed: then none can be trusted."""
    commit = git.ref(need_ref(f"{LEDGER}/{relay_id}"))
    names = _files(git, commit) if commit else {}
    if commit is None or LEDGER_FILE not in names:
        return None
    blocks = sum(1 for name in names if _BLOCK.fullmatch(name))
    files = git.read_files(commit, [*(_block(number) for number in range(blocks)), LEDGER_FILE], limit=1 << 26)
    lines: list[bytes] = []
    for path, raw in files.items():
        if raw is None and path != LEDGER_FILE:
            raise StoreUnavailable(recorded("the ledger under %(ledger)s lacks %(path)s", ledger=LEDGER, path=path))
        if raw is None:
            return None
        lines += raw.removesuffix(b"\n").split(b"\n") if raw else []
    if len(lines) > LEDGER_ROWS:
        raise StoreUnavailable(
            recorded(
                "the ledger under %(ledger)s has more than %(ledger_rows)d rows", ledger=LEDGER, ledger_rows=LEDGER_ROWS
            )
        )
    rows: list[dict[str, object]] = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line.decode())  # of bytes it would take UTF-16 and a byte order mark, too
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or not isinstance(row.get("id"), str):
            raise StoreUnavailable(
                recorded("line %(number)d of the ledger under %(ledger)s is malformed", number=number, ledger=LEDGER)
            )
        rows.append(row)
    return rows


def _one(out: bytes) -> str:
    return need_sha(out.decode("ascii").strip())

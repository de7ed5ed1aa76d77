"""What a range of commits did: their paths, sizes and patch-ids, read in a fixed number of processes.

Rules, Verified progress: "all changed paths inside the region, one per patch-id". The text of commits is hostile:
fields are told apart by NUL bytes and by form, and patch-ids are made from a stream that holds no commit message.
"""

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from relays.stores.gitrun import GitResult, plain, text

_FIELDS: Final = ("%H", "%P", "%T", "%ct", "%an", "%s")
_STAT: Final = re.compile(rb"\n?(\d+|-)\t(\d+|-)\t(.+)", re.DOTALL)
_DIFF: Final = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """One commit. `paths`: all that it changed (both sides of a rename; of a merge, what differs from every parent).

    `patch_id`: stable id of its difference, "" for a merge or an empty commit. `added`, `deleted`: lines; binary files
    count none. `at`: when it was committed, UTC.
    """

    sha: str
    parents: tuple[str, ...]
    tree: str
    paths: tuple[str, ...]
    patch_id: str
    subject: str
    author: str
    at: datetime
    added: int
    deleted: int


def commits(objects: Callable[..., GitResult], cursor: str | None, tip: str) -> list[CommitRecord]:
    """The commits that `tip` has and `cursor` has not, oldest first (None: all). `objects` asks the object store.

    Two processes, two more for patch-ids, one more when there are merges, whatever the number of commits.
    """
    span = [tip, *([f"^{cursor}"] if cursor else [])]
    out = objects(
        [
            "log",
            "-z",
            "--reverse",
            "--topo-order",
            "--numstat",
            *_DIFF,
            "--no-show-signature",
            "--no-notes",
            "--no-mailmap",
            "--encoding=UTF-8",
            "--format=" + "%x00".join(_FIELDS),
            *span,
            "--",
        ]
    ).out
    rows = _parse_log(out)
    merges = [row.sha for row in rows if len(row.parents) > 1]
    merged = _merge_paths(objects, merges) if merges else {}
    ids = _patch_ids(objects, span) if any(row.paths for row in rows) else {}
    return [
        CommitRecord(
            row.sha,
            row.parents,
            row.tree,
            merged.get(row.sha, ()) if len(row.parents) > 1 else row.paths,
            ids.get(row.sha, ""),
            row.subject,
            row.author,
            row.at,
            row.added,
            row.deleted,
        )
        for row in rows
    ]


def _parse_log(out: bytes) -> list[CommitRecord]:
    tokens = out.split(b"\0")
    rows: list[CommitRecord] = []
    place = 0
    while place + len(_FIELDS) <= len(tokens):
        sha, parents, tree, at, author, subject = (text(token) for token in tokens[place : place + len(_FIELDS)])
        place += len(_FIELDS)
        paths: list[str] = []
        added = deleted = 0
        # a count and a path, or the next commit's SHA: the two forms cannot be taken for each other
        while place < len(tokens) and (stat := _STAT.fullmatch(tokens[place])):
            added += int(stat[1]) if stat[1] != b"-" else 0
            deleted += int(stat[2]) if stat[2] != b"-" else 0
            paths.append(text(stat[3]))
            place += 1
        rows.append(
            CommitRecord(
                sha.strip(),
                tuple(parents.split()),
                tree,
                tuple(paths),
                "",
                plain(subject),
                plain(author),
                _moment(at),
                added,
                deleted,
            )
        )
    return rows


def _moment(seconds: str) -> datetime:
    """A commit's date is whatever its writer put there: one that is none, or no calendar has, is the epoch."""
    try:
        return datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _merge_paths(objects: Callable[..., GitResult], shas: list[str]) -> dict[str, tuple[str, ...]]:
    """Per merge: the paths that differ from every parent, that is, what the merge itself brought in."""
    out = objects(
        ["diff-tree", "--stdin", "-z", "-r", "-c", "--raw", *_DIFF], stdin="".join(f"{sha}\n" for sha in shas).encode()
    ).out
    found: dict[str, tuple[str, ...]] = {}
    tokens = iter(out.split(b"\0"))
    sha = ""
    for token in tokens:
        if token.startswith(b":"):
            found[sha] += (text(next(tokens, b"")),)
        elif token:
            sha = text(token).strip()
            found[sha] = ()
    return found


def _patch_ids(objects: Callable[..., GitResult], span: list[str]) -> dict[str, str]:
    with tempfile.TemporaryFile() as patches:
        objects(
            [
                "log",
                "-p",
                "--full-index",
                "--no-show-signature",
                "--no-notes",
                *_DIFF,
                "--format=commit %H",
                *span,
                "--",
            ],
            sink=patches,
        )
        patches.seek(0)
        out = objects(["patch-id", "--stable"], stdin=patches).out
    pairs = (line.split() for line in text(out).splitlines())
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2}

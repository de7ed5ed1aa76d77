"""Git as a durable store: commits by batch, ancestry, trees and history, read without running anything of the target's.

Mission: "the successor re-verifies the cursor from git before trusting it." Baton contract: a commit resolves when
"object is a commit and an ancestor of the branch tip"; "One `git rev-list <tip>` decides any number of commits; a
second process only says why one failed."
"""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from relays.core.lines import recorded
from relays.core.pointers import Answer, Kind, PointerError, Verdict, check_ref
from relays.stores import gitwrite, history, loose
from relays.stores.base import BadName, StoreUnavailable
from relays.stores.gitrun import (
    TIMEOUT,
    Capped,
    GitResult,
    Sink,
    need_branch,
    need_path,
    need_ref,
    need_sha,
    plain,
    run,
    text,
    unavailable,
)
from relays.stores.history import CommitRecord
from relays.stores.kept import Kept
from relays.stores.place import Facts, RepoPlace, discover, facts, readable
from relays.stores.shield import shield

__all__ = ["CommitRecord", "GitStore", "RepoPlace", "discover"]

FILE_BYTES: Final = 4 * 1024 * 1024
WALK: Final = 60.0  # seconds for a whole history: a million commits take about twelve
REACHED: Final = 2  # tips whose reach is kept: that of the branch, and one that it is compared with
SMALL: Final = 256 * 1024  # bytes of a file that is kept once it was read
#: a commit-graph is a copy that may have outlived its objects, or been written by anybody: only objects prove anything
_OBJECTS_ONLY: Final = ("-c", "core.commitGraph=false")
_BROKEN_REF: Final = re.compile(r"ignoring broken ref (\S+)")


class GitStore:
    """One repository. `path`: anywhere in it. `shield`: a folder of ours where the shield repositories are kept.

    `exact`: `path` is the git directory itself; where it is damaged, no repository around it answers in its place.
    Every method raises StoreUnavailable when git cannot answer, and BadName for a name that git must not see.
    """

    kind = Kind.COMMIT

    def __init__(self, path: Path, shield: Path, *, exact: bool = False) -> None:
        self.path = path
        self._exact = exact
        self._shield_base = shield
        self._facts: Facts | None = None
        self._reached: dict[str, frozenset[str]] = {}
        self._trees: Kept[str, str] = Kept(64)
        self._lists: Kept[str, tuple[str, ...]] = Kept(2)
        self._listing: loose.Listing | None = None  # of the tree that was listed last: the next one differs a little
        self._files: Kept[tuple[str, str], bytes | None] = Kept(16)
        self._branches: dict[str, str] = {}  # tip -> branch it was asked as, for evidence

    @property
    def facts(self) -> Facts:
        """Asked once; a GitStore is made anew for each piece of work."""
        if self._facts is None:
            found = facts(self.path)
            if self._exact and found.git_dir != Path(os.path.realpath(self.path)):
                raise StoreUnavailable(
                    recorded("no such repository: another one lies around it"),
                    where=str(self.path),
                    fix=recorded("repair or restore it"),
                )
            self._facts = found
        return self._facts

    @property
    def shield_base(self) -> Path:
        """The folder of our own repositories through which this one is read."""
        return self._shield_base

    @property
    def git_dir(self) -> Path:
        """The common git directory, resolved."""
        return self.facts.git_dir

    @property
    def object_format(self) -> str:
        return self.facts.object_format

    @property
    def shallow(self) -> bool:
        return self.facts.shallow

    @property
    def sha_length(self) -> int:
        return 64 if self.object_format == "sha256" else 40

    def objects(
        self,
        args: Sequence[str],
        *,
        stdin: bytes | BinaryIO | None = None,
        env: Mapping[str, str] | None = None,
        ok: Collection[int] = (0,),
        sink: Sink | None = None,
        timeout: float = TIMEOUT,
    ) -> GitResult:
        """Ask (or add to) the target's object store through our own repository; the target's config is never read."""
        place = self._check_objects()
        guard = shield(self._shield_base, place.object_format)
        around = {"GIT_OBJECT_DIRECTORY": str(place.objects), **(env or {})}
        if place.shallow:
            around["GIT_SHALLOW_FILE"] = str(place.git_dir / "shallow")
        command = [*_OBJECTS_ONLY, f"--git-dir={guard}", *args]
        return run(command, cwd=guard, stdin=stdin, env=around, ok=ok, sink=sink, timeout=timeout)

    def _check_objects(self) -> Facts:
        """git would call every object missing, and what is kept here would hide it: an answer that nobody gave."""
        place = self.facts
        if not os.access(place.objects, os.R_OK | os.X_OK):
            raise StoreUnavailable(recorded("the object store is gone or unreadable"), where=str(place.git_dir))
        return place

    def target(self, args: Sequence[str], *, stdin: bytes | None = None, ok: Collection[int] = (0,)) -> GitResult:
        """Ask the target itself: refs only. Where its work tree lies plays no part, and it may be gone."""
        return run([f"--git-dir={self.git_dir}", "--work-tree=.", *args], cwd=self.git_dir, stdin=stdin, ok=ok)

    # refs ---------------------------------------------------------------------------------------------------------

    def refs(self, prefix: str) -> dict[str, str]:
        """Full ref name -> SHA, of the ref `prefix` itself and of all refs in that folder."""
        name = need_ref(prefix.rstrip("/") + "/x").removesuffix("/x")
        if not self.git_dir.is_dir():
            raise StoreUnavailable(recorded("no such repository"), where=str(self.git_dir))
        self._check_readable(name)
        result = self.target(["for-each-ref", "--format=%(objectname) %(refname)", "--", name])
        # git looks at names that merely begin alike, too: a torn neighbour says nothing about the one that is asked
        if any(one == name or one.startswith(f"{name}/") for one in _BROKEN_REF.findall(result.err)):
            raise StoreUnavailable(
                recorded("a ref is broken"), where=str(self.git_dir), fix=recorded("repair it, then try again")
            )
        lines = (line.partition(" ") for line in text(result.out).splitlines())
        return {ref: sha for sha, _, ref in lines}

    def _check_readable(self, name: str) -> None:
        """git takes a folder of refs that it may not read for an empty one, which is an answer that nobody gave."""
        place = self.git_dir
        for part in name.split("/"):
            place /= part
            if not readable(place):
                raise StoreUnavailable(recorded("the refs cannot be read: no permission"), where=str(place))

    def ref(self, name: str) -> str | None:
        """The SHA of one full ref name, or None where it does not exist."""
        found = loose.ref(self.git_dir, need_ref(name))
        if found is not None and len(found) == self.sha_length and readable(self.git_dir / "packed-refs"):
            return found  # as nearly always, and it is known without a process
        return self.refs(name).get(name)

    def tip(self, branch: str) -> str | None:
        """The SHA of a branch (or of a full ref name), or None where it does not exist."""
        name = branch if branch.startswith("refs/") else f"refs/heads/{need_branch(branch)}"
        sha = self.ref(name)
        if sha is not None:
            self._branches[sha] = branch.removeprefix("refs/heads/")
        return sha

    # commits ------------------------------------------------------------------------------------------------------

    def resolve_commits(self, shas: Sequence[str], tip: str | None, branch: str = "") -> dict[str, Answer]:
        """The verdict of any number of commits against a branch tip, in one process; a second one says why some failed.

        `tip` None: the branch is gone, so nothing is on it. `branch`: its name, for the evidence.
        """
        on = branch or self._branches.get(tip or "", "") or "the branch"
        answers: dict[str, Answer] = {}
        asked: list[str] = []
        for sha in dict.fromkeys(shas):
            try:
                check_ref(Kind.COMMIT, sha)
            except PointerError as refusal:
                answers[sha] = Answer(Verdict.DANGLING, f"refused: {refusal.why}")
            else:
                asked.append(sha)
        if not asked:
            return answers
        if tip is None:
            gone = Answer(
                Verdict.DANGLING,
                recorded("%(name)s does not exist", name=on)
                if on != "the branch"
                else recorded("the branch does not exist"),
            )
            return answers | dict.fromkeys(asked, gone)
        reached = self._reachable(tip)
        failed = [sha for sha in asked if sha not in reached]
        answers |= dict.fromkeys(
            (sha for sha in asked if sha in reached), Answer(Verdict.VERIFIED, recorded("a commit on %(on)s", on=on))
        )
        if failed:
            answers |= self._why(failed, on)
        return answers

    def _reachable(self, tip: str) -> frozenset[str]:
        """All commits that a tip reaches. What one SHA reaches never changes: asked once, and the last few are kept."""
        if tip not in self._reached:
            reach = self._further(need_sha(tip))
            if reach is None:
                reach = frozenset(self.objects(["rev-list", tip, "--"], timeout=WALK).out.decode("ascii").split())
            self._keep_reach(tip, reach)
        return self._reached[tip]

    def _keep_reach(self, tip: str, reach: frozenset[str]) -> None:
        while len(self._reached) >= REACHED:
            del self._reached[next(iter(self._reached))]
        self._reached[tip] = reach

    def _further(self, tip: str) -> frozenset[str] | None:
        """What a tip reaches that stands on the last one: only what is new is walked. None where it does not."""
        if not self._reached:
            return None
        last, reach = list(self._reached.items())[-1]
        if tip in reach:
            return None
        place = self._check_objects()
        new = None if place.shallow else loose.above(place.objects, tip, last, reach)
        if new is not None:
            return reach | new
        result = self.objects(["rev-list", "--boundary", tip, f"^{last}", "--"], ok=(0, 128))
        lines = result.out.decode("ascii", "replace").split() if result.code == 0 else []
        # the last tip is a boundary exactly when a commit above it was walked
        return reach | {sha for sha in lines if not sha.startswith("-")} if f"-{last}" in lines else None

    def reached(self, tip: str, shas: Collection[str]) -> frozenset[str]:
        """Those of `shas` that `tip` reaches; a shallow clone may reach more than it can tell."""
        return self._reachable(tip) & frozenset(shas)

    def _why(self, shas: Sequence[str], on: str) -> dict[str, Answer]:
        answers: dict[str, Answer] = {}
        try:
            kinds = self.types(shas)
        except StoreUnavailable as error:
            # what the tip reaches was read whole and they are not in it; only what they are stays open
            why = recorded("not on %(on)s; what it is cannot be told: %(evidence)s", on=on, evidence=error.evidence)
            return dict.fromkeys(shas, Answer(Verdict.UNKNOWN if self.shallow else Verdict.DANGLING, why))
        for sha in shas:
            kind = kinds.get(sha)
            if kind is not None and kind != "commit":
                answers[sha] = Answer(Verdict.DANGLING, recorded("is a %(kind)s, not a commit", kind=kind))
            elif self.shallow:
                answers[sha] = Answer(
                    Verdict.UNKNOWN,
                    recorded("exists, not seen on %(on)s: the clone is shallow and cannot prove more", on=on)
                    if kind
                    else recorded("not seen on %(on)s: the clone is shallow and cannot prove more", on=on),
                )
            elif kind is None:
                answers[sha] = Answer(Verdict.DANGLING, recorded("no such object"))
            else:
                answers[sha] = Answer(Verdict.DANGLING, recorded("exists, not on %(on)s", on=on))
        return answers

    def types(self, shas: Sequence[str]) -> dict[str, str | None]:
        """What each object is (commit, tree, blob, tag), or None where it does not exist; one process.

        Raises StoreUnavailable where one may be there and cannot be read: "missing" would be an answer nobody gave.
        """
        found: dict[str, str | None] = dict.fromkeys((need_sha(sha) for sha in shas), None)
        # git takes 40 digits for an abbreviation where names have 64
        asked = [sha for sha in found if len(sha) == self.sha_length]
        if asked:
            result = self.objects(["cat-file", "--batch-check", "--buffer"], stdin=_lines(asked))
            for line in result.out.decode("ascii", "replace").splitlines():
                sha, _, rest = line.partition(" ")
                found[sha] = None if rest == "missing" else rest.partition(" ")[0]
            if missing := [sha for sha in asked if found[sha] is None]:
                self._check_missing(missing, result)
        return found

    def _check_missing(self, shas: Sequence[str], said: GitResult) -> None:
        """Raises StoreUnavailable where git calls an object missing that it could not read.

        It complains of what is torn and of alternates that are gone; of what it may not read it says nothing.
        """
        if any(line.startswith(("error:", "fatal:")) for line in said.err.splitlines()):
            raise unavailable(said, self.git_dir)
        store = self.facts.objects
        places = [store / "pack"]
        places += [place for sha in shas for place in (store / sha[:2], store / sha[:2] / sha[2:])]
        if readable(store / "pack") and (store / "pack").is_dir():
            places += [place for place in (store / "pack").iterdir() if place.suffix in {".idx", ".pack"}]
        for place in dict.fromkeys(places):
            if not readable(place):
                raise StoreUnavailable(recorded("the object store cannot be read: no permission"), where=str(place))

    def merge_bases(self, one: str, other: str) -> list[str]:
        """All best common ancestors, smallest SHA first; none where one of the two is no commit here.

        A shallow clone can neither deny a common ancestor nor say that a commit is gone: StoreUnavailable.
        """
        kinds = self.types([one, other])
        if self.shallow and None in kinds.values():
            raise StoreUnavailable(recorded("the clone is shallow and cannot prove that a commit is gone"))
        if kinds[one] != "commit" or kinds[other] != "commit":
            return []
        found = sorted(self.objects(["merge-base", "--all", one, other], ok=(0, 1)).out.decode("ascii").split())
        if not found and self.shallow:
            raise StoreUnavailable(recorded("the clone is shallow and cannot prove that there is no common ancestor"))
        return found

    def tree(self, sha: str) -> str:
        """The tree of a commit. Raises StoreUnavailable where there is no such commit."""
        if len(need_sha(sha)) != self.sha_length:
            raise StoreUnavailable(recorded("%(sha)s is no commit here", sha=sha[:12]))
        place = self._check_objects()
        asked = ["rev-parse", "-q", "--verify", "--end-of-options", f"{sha}^{{tree}}"]

        def ask() -> str:
            made = loose.commit(place.objects, sha)
            return made[0] if made is not None else self.objects(asked).out.decode("ascii").strip()

        return self._trees.of(sha, ask)

    def commits_between(self, cursor: str | None, tip: str) -> list[CommitRecord]:
        """The commits that `tip` has and `cursor` has not, oldest first; None: all. A fixed number of processes."""
        if cursor is not None and need_sha(cursor) == need_sha(tip):
            return []
        return history.commits(self.objects, cursor and need_sha(cursor), need_sha(tip))

    def shas_between(self, cursor: str, tip: str) -> tuple[str, ...]:
        """The commits that `tip` has and `cursor` has not, oldest first, by SHA alone; one process, mostly none."""
        self._check_objects()
        if need_sha(cursor) not in self._reached and (reach := self._further(cursor)) is not None:
            self._keep_reach(cursor, reach)
        if need_sha(tip) in self._reached.get(cursor, ()):
            return ()
        out = self.objects(["rev-list", "--reverse", "--topo-order", need_sha(tip), f"^{need_sha(cursor)}", "--"]).out
        return tuple(out.decode("ascii").split())

    # trees --------------------------------------------------------------------------------------------------------

    def read_file(self, sha: str, path: str, limit: int = FILE_BYTES) -> bytes | None:
        """The bytes of one file in a commit's tree, or None where the tree has no such file; else as `read_files`."""
        self._check_objects()
        found = self._files.of(
            (sha, path), lambda: self._read_file(sha, path, limit), lambda found: len(found or b"") <= SMALL
        )
        if len(found or b"") > limit:
            raise StoreUnavailable(recorded("%(what)s: more than %(limit)d bytes", what=path, limit=limit))
        return found

    def _read_file(self, sha: str, path: str, limit: int) -> bytes | None:
        store = self.facts.objects
        made = loose.commit(store, need_sha(sha))
        found = loose.blob(store, made[0], need_path(path)) if made is not None else None
        return found[0] if found is not None else self.read_files(sha, [path], limit)[path]

    def read_files(self, sha: str, paths: Sequence[str], limit: int = FILE_BYTES) -> dict[str, bytes | None]:
        """The bytes of files in a commit's tree, None where the tree has no such file; one process, two when some fail.

        Raises StoreUnavailable for more than `limit` bytes in all, a missing commit, a file that a partial clone lacks.
        """
        asked = list(dict.fromkeys(need_path(path) for path in paths))
        names = [f"{need_sha(sha)}:{path}".encode() for path in asked]
        sink = Capped(limit + sum(map(len, names)) + 100 * len(names))
        self.objects(["cat-file", "--batch", "--buffer"], stdin=b"".join(name + b"\n" for name in names), sink=sink)
        found: dict[str, bytes | None] = {}
        rest = memoryview(bytes(sink.kept))
        if sink.full:
            raise StoreUnavailable(
                recorded(
                    "%(what)s: more than %(limit)d bytes",
                    what=asked[0] if len(asked) == 1 else "the files",
                    limit=limit,
                )
            )
        for path, name in zip(asked, names, strict=True):
            head = bytes(rest[: len(name) + 100]).partition(b"\n")[0]
            rest = rest[len(head) + 1 :]
            found[path] = None
            if head != name + b" missing":
                _, kind, size = head.rsplit(b" ", 2)
                found[path] = bytes(rest[: int(size)]) if kind == b"blob" else None
                rest = rest[int(size) + 1 :]
        if absent := [path for path in asked if found[path] is None]:
            self._check_absent(sha, absent)
        return found

    def _check_absent(self, sha: str, paths: Sequence[str]) -> None:
        """A partial clone calls what it left out missing, too: the tree tells the difference."""
        out = self.objects(["--literal-pathspecs", "ls-tree", "-z", sha, "--", *paths]).out
        for entry in out.split(b"\0"):
            head, _, path = entry.partition(b"\t")
            if head.split(b" ")[1:2] == [b"blob"] and text(path) in paths:
                raise StoreUnavailable(
                    recorded("%(path)s is in the tree, but its content is not in this clone", path=plain(text(path)))
                )

    def paths(self, sha: str) -> tuple[str, ...]:
        """Every file that is tracked in a commit's tree (a submodule is not a file)."""
        self._check_objects()
        return self._lists.of(sha, lambda: self._paths(need_sha(sha)))

    def _paths(self, sha: str) -> tuple[str, ...]:
        store = self.facts.objects
        made = loose.commit(store, sha) if self._listing is not None else None
        found = loose.listing(store, made[0], self._listing) if made is not None and self._listing is not None else None
        self._listing = found or self._listed(sha)
        return tuple(text(path) for path in self._listing.files)

    def _listed(self, sha: str) -> loose.Listing:
        files: list[bytes] = []
        folders: dict[bytes, str] = {}
        for entry in self.objects(["ls-tree", "-r", "-t", "-z", sha]).out.split(b"\0"):
            head, _, path = entry.partition(b"\t")
            _, kind, of = [*head.split(b" "), b"", b""][:3]
            if kind == b"tree":
                folders[path] = of.decode("ascii")
            elif kind == b"blob":
                files.append(path)
        return loose.Listing.of(files, folders)

    def diff(self, old: str, new: str, max_bytes: int) -> str:
        """The difference of two commits as text of at most `max_bytes` bytes; a last line says when it was cut."""
        sink = Capped(max_bytes)
        args = ["diff-tree", "-r", "-p", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames"]
        self.objects([*args, need_sha(old), need_sha(new), "--"], sink=sink)
        return text(bytes(sink.kept)) + (f"\n[cut at {max_bytes} bytes]\n" if sink.full else "")

    # what we write ------------------------------------------------------------------------------------------------

    def update_ref(self, name: str, new: str, old: str | None = None) -> bool:
        """Point a ref at an object; False, with nothing done, when it is there already.

        `old` (zeros: it must not exist): raises StoreUnavailable when the ref has moved meanwhile.
        """
        return gitwrite.update_ref(self, name, new, old)

    def delete_ref(self, name: str) -> bool:
        """Remove a ref; False when it is gone already."""
        return gitwrite.delete_ref(self, name)

    def read_note(self, sha: str, ref: str = gitwrite.NOTES) -> str | None:
        """The note of an object, or None."""
        return gitwrite.read_note(self, sha, ref)

    def add_note(self, sha: str, text: str, ref: str = gitwrite.NOTES, append: bool = True) -> bool:
        """Write a note, or append it as a paragraph; False when that text stands in it already."""
        return gitwrite.add_note(self, sha, text, ref, append)

    def write_ledger_ref(self, relay_id: str, rows: Sequence[Mapping[str, object]]) -> str:
        """Keep a relay's rows under `refs/relay/ledger/<relay>`; returns the commit. The same rows change nothing."""
        return gitwrite.write_ledger_ref(self, relay_id, rows)

    def read_ledger_ref(self, relay_id: str) -> list[dict[str, object]] | None:
        """The rows that travel under that ref, or None where there is none."""
        return gitwrite.read_ledger_ref(self, relay_id)

    def check_tip(self, tip: str) -> None:
        """Raises BadName or StoreUnavailable unless `tip` is a commit that this repository has."""
        if self.types([tip])[tip] != "commit":
            raise BadName(recorded("%(tip)s is not a commit of this repository", tip=tip))


def _lines(values: Sequence[str]) -> bytes:
    return "".join(f"{value}\n" for value in values).encode("ascii")

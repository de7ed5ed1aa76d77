"""Tracked files as a durable store: a path or a gitignore-style glob against the tree at the branch tip."""

from collections.abc import Sequence

from relays.core.pointers import Answer, Kind, PointerError, Verdict, check_ref
from relays.core.region import glob_matches, glob_problem
from relays.stores.git import GitStore


class FileStore:
    """Baton contract: a file pointer resolves when it "matches at least one file tracked at the branch tip"."""

    kind = Kind.FILE

    def __init__(self, git: GitStore, tip: str | None) -> None:
        self.git = git
        self.tip = tip

    def resolve(self, refs: Sequence[str]) -> dict[str, Answer]:
        """The verdict of each path or glob, in one process; `tip` None: the branch is gone, nothing is tracked."""
        answers: dict[str, Answer] = {}
        asked: list[str] = []
        for ref in dict.fromkeys(refs):
            try:
                check_ref(Kind.FILE, ref)
            except PointerError as refusal:
                answers[ref] = Answer(Verdict.DANGLING, f"refused: {refusal.why}")
            else:
                asked.append(ref)
        if not asked:
            return answers
        if self.tip is None:
            return answers | dict.fromkeys(asked, Answer(Verdict.DANGLING, "the branch does not exist"))
        paths = self.git.paths(self.tip)
        known = frozenset(paths)
        return answers | {ref: _judge(ref, paths, known) for ref in asked}


def _judge(ref: str, paths: Sequence[str], known: frozenset[str]) -> Answer:
    if ref in known:
        return Answer(Verdict.VERIFIED, "tracked at the tip")
    problem = glob_problem(ref)
    if problem:
        return Answer(Verdict.DANGLING, f"no tracked file has that name, and as a glob {problem}")
    first = next((path for path in paths if glob_matches(ref, path)), None)
    if first is None:
        return Answer(Verdict.DANGLING, "matches no file that is tracked at the tip")
    return Answer(Verdict.VERIFIED, "matches a file that is tracked at the tip")

"""Verified progress: counted from the stores, never taken from the agent.

Mission: "The baton carries no claimed progress; the successor re-verifies the cursor from git/ledger before trusting
it." Rules, "Verified progress": one per patch-id, inside the region, and doing and undoing is none.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from relays.core.region import matches

#: the issue file inside a repository (interface.md); a commit closes issues only by changing it
ISSUE_FILE = ".relay/issues.jsonl"


@dataclass(frozen=True, slots=True)
class CommitFact:
    """One commit since the cursor, as git tells it.

    `created_here`: the worktree's HEAD log says that it was made during this leg. `patch_id` "" = no change.
    `paths` are all paths that it changed, both sides of a rename; `parents` is their number.
    """

    sha: str
    patch_id: str
    paths: tuple[str, ...]
    created_here: bool
    tree: str
    parents: int


@dataclass(frozen=True, slots=True)
class Progress:
    """What counts (`commits`, `issues`, `ledger`) and why the rest does not; `total` is the number that counts.

    `outside` is a finding: a commit that changed paths outside the region. `undone`: the tip's tree is that of an
    earlier cursor, so that all the commits together are nothing.
    """

    total: int
    commits: tuple[str, ...]
    issues: tuple[str, ...]
    ledger: tuple[str, ...]
    foreign: tuple[str, ...]
    outside: tuple[str, ...]
    empty: tuple[str, ...]
    repeated: tuple[str, ...]
    merges: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    patch_ids: tuple[str, ...] = ()  # of the counted commits and of the undone ones: they never count again
    refs: tuple[str, ...] = ()  # new references that the counted rows carried


def count(
    commits: Sequence[CommitFact],
    *,
    region: Sequence[str],
    tip_tree: str,
    cursor_trees: Collection[str],
    prior_patch_ids: Collection[str],
    prior_shas: Collection[str],
    issues_closed: Sequence[str] = (),
    ledger_rows: Sequence[tuple[str, Sequence[str], bool]] = (),
    prior_refs: Collection[str] = (),
    issues_by_act: Sequence[str] = (),
    issue_file: str = ISSUE_FILE,
) -> Progress:
    """Count a leg's progress since its cursor.

    `cursor_trees`: the tree at every earlier cursor of the relay. `issues_closed`: closed between cursor and tip, count
    only together with a counted commit that changed `issue_file`; `issues_by_act`: closed by a recorded act, count by
    themselves. `ledger_rows`: (id, references, whether all of them resolve), in order.
    """
    sorted_out: dict[str, list[str]] = {
        name: [] for name in ("counted", "foreign", "outside", "empty", "repeated", "merges", "undone")
    }
    earlier_shas, earlier_patches = frozenset(prior_shas), frozenset(prior_patch_ids)
    undone = tip_tree in cursor_trees
    patches: dict[str, None] = {}
    closes = False
    for commit in commits:
        place = _place(commit, region, earlier_shas, earlier_patches, patches)
        if place == "counted":
            patches[commit.patch_id] = None
            if undone:
                place = "undone"
            elif issue_file in commit.paths:
                closes = True
        sorted_out[place].append(commit.sha)

    issues = tuple(dict.fromkeys([*(issues_closed if closes else ()), *issues_by_act]))
    rows, refs = _new_rows(ledger_rows, prior_refs)
    counted = tuple(sorted_out["counted"])
    return Progress(
        total=len(counted) + len(issues) + len(rows),
        commits=counted,
        issues=issues,
        ledger=rows,
        foreign=tuple(sorted_out["foreign"]),
        outside=tuple(sorted_out["outside"]),
        empty=tuple(sorted_out["empty"]),
        repeated=tuple(sorted_out["repeated"]),
        merges=tuple(sorted_out["merges"]),
        undone=tuple(sorted_out["undone"]),
        patch_ids=tuple(patches),
        refs=refs,
    )


def _place(
    commit: CommitFact,
    region: Sequence[str],
    earlier_shas: frozenset[str],
    earlier_patches: frozenset[str],
    patches: Collection[str],
) -> str:
    if commit.sha in earlier_shas:
        return "repeated"
    if not commit.created_here:
        return "foreign"
    if any(not matches(region, path) for path in commit.paths):
        return "outside"
    if commit.parents > 1:
        return "merges"
    if not commit.paths or not commit.patch_id:
        return "empty"
    if commit.patch_id in earlier_patches or commit.patch_id in patches:
        return "repeated"
    return "counted"


def _new_rows(
    rows: Iterable[tuple[str, Sequence[str], bool]], prior_refs: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A row counts when it resolves and carries a reference that no earlier counted row carried."""
    seen = set(prior_refs)
    counted: dict[str, None] = {}
    new: dict[str, None] = {}
    for row, refs, resolved in rows:
        fresh = [ref for ref in refs if ref not in seen]
        if resolved and fresh:
            counted[row] = None
            seen.update(fresh)
            new.update(dict.fromkeys(fresh))
    return tuple(counted), tuple(new)


def after_leg(run: int, progress: int | None) -> int:
    """ "A leg without verified progress adds one to the run, progress resets it."

    `progress` None = the stores did not answer: nothing was verified. Which run is too long, `lifecycle.judge_end`
    says.
    """
    return 0 if progress else run + 1

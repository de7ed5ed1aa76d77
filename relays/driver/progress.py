"""Verified progress of a leg, counted from the stores and never taken from the agent."""

from dataclasses import dataclass
from pathlib import Path

from relays.core import progress
from relays.core.pointers import PointerError, Verdict, parse_pointer
from relays.models import LedgerRow, Leg, Relay
from relays.stores.bundle import Stores
from relays.stores.git import CommitRecord
from relays.stores.issues import IssueFile
from relays.stores.worktree import WorkTree


@dataclass(frozen=True, slots=True)
class Made:
    """What a leg durably made, with the records that a page shows."""

    progress: progress.Progress
    detail: dict[str, object]
    commits: tuple[str, ...]  # on the branch, made by this leg
    issues: tuple[str, ...]
    rows: tuple[str, ...]


def of_leg(relay: Relay, leg: Leg, stores: Stores) -> Made:
    """Judge the leg's work between its cursor and the tip. Raises StoreUnavailable."""
    cursor = leg.cursor_sha or relay.start_sha
    records = stores.git.commits_between(cursor, stores.tip)
    created = set(WorkTree(Path(relay.worktree)).created_shas(leg.reflog_lines))
    earlier = _earlier(relay, leg)
    facts = [
        progress.CommitFact(
            sha=record.sha,
            patch_id=record.patch_id,
            paths=tuple(record.paths),
            created_here=record.sha in created,
            tree=record.tree,
            parents=len(record.parents),
        )
        for record in records
    ]
    closed = _closed_between(stores, cursor)
    rows = _rows(leg, stores)
    counted = progress.count(
        facts,
        region=tuple(relay.region),
        tip_tree=stores.git.tree(stores.tip),
        cursor_trees=frozenset({*earlier.trees, stores.git.tree(cursor)}),
        prior_patch_ids=frozenset(earlier.patch_ids),
        prior_shas=frozenset(earlier.shas),
        issues_closed=[issue for issue in closed if issue not in earlier.issues],
        ledger_rows=rows,
        prior_refs=frozenset(earlier.refs),
    )
    stats = {record.sha: record for record in records}
    commits = tuple(counted.commits)
    own = tuple(record.sha for record in records if record.sha in created)
    detail: dict[str, object] = {
        "made": list(own),
        "commits": [_commit(stats[sha]) for sha in commits],
        "issues": list(counted.issues),
        "ledger": list(counted.ledger),
        "foreign": list(counted.foreign),
        "outside": list(counted.outside),
        "empty": list(counted.empty),
        "repeated": list(counted.repeated),
        "merges": list(counted.merges),
        "undone": list(counted.undone),
        "patch_ids": list(counted.patch_ids),
        "refs": list(counted.refs),
        "trees": [stores.git.tree(cursor)],
    }
    return Made(counted, detail, own, tuple(counted.issues), tuple(row_id for row_id, _, _ in rows))


@dataclass(frozen=True, slots=True)
class _Earlier:
    shas: set[str]
    patch_ids: set[str]
    issues: set[str]
    refs: set[str]
    trees: set[str]


def _earlier(relay: Relay, leg: Leg) -> _Earlier:
    found = _Earlier(set(), set(), set(), set(), set())
    for detail in Leg.objects.filter(relay=relay, number__lt=leg.number).values_list("progress_detail", flat=True):
        found.shas.update(commit["sha"] for commit in detail.get("commits", []))
        found.patch_ids.update(detail.get("patch_ids", []))
        found.issues.update(detail.get("issues", []))
        found.trees.update(detail.get("trees", []))
        found.refs.update(detail.get("refs", []))
    return found


def _closed_between(stores: Stores, cursor: str) -> list[str]:
    """Issues that are closed at the tip and were not at the cursor."""
    before = IssueFile(stores.git, cursor).states()
    now = IssueFile(stores.git, stores.tip).states()
    return [
        f"issue:#{number}"
        for number, state in sorted(now.items())
        if state == "closed" and before.get(number) == "open"
    ]


def _rows(leg: Leg, stores: Stores) -> list[tuple[str, tuple[str, ...], bool]]:
    """The leg's own ledger rows with whether all their references resolve now."""
    rows: list[tuple[str, tuple[str, ...], bool]] = []
    for row in LedgerRow.objects.filter(leg=leg).exclude(by="driver").order_by("at", "id"):
        try:
            wanted = [parse_pointer(ref) for ref in row.refs]
        except PointerError:
            rows.append((row.pk, tuple(row.refs), False))
            continue
        answers = stores.resolve(wanted)
        rows.append((row.pk, tuple(row.refs), all(answers[p].verdict is Verdict.VERIFIED for p in wanted)))
    return rows


def _commit(record: CommitRecord) -> dict[str, object]:
    return {
        "sha": record.sha,
        "patch_id": record.patch_id,
        "subject": record.subject[:200],
        "added": record.added,
        "deleted": record.deleted,
        "paths": len(record.paths),
    }

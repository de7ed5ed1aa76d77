"""Verified progress of a leg, counted from the stores and never taken from the agent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relays.core import progress
from relays.core.pointers import Pointer, PointerError, Verdict, parse_pointer
from relays.driver import git
from relays.models import Counted, LedgerRow, Leg, Relay
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.git import CommitRecord, GitStore
from relays.stores.issues import IssueFile
from relays.stores.worktree import WorkTree

BATCH = 500  # values of one look-up: databases bound the number of parameters
COMPARED = 1000  # commits whose changes are compared at a boundary


@dataclass(frozen=True, slots=True)
class Made:
    """What a leg durably made, with the records that a page shows."""

    progress: progress.Progress
    detail: dict[str, object]
    commits: tuple[str, ...]  # on the branch, made by this leg
    issues: tuple[str, ...]
    rows: tuple[str, ...]


def of_leg(relay: Relay, leg: Leg, stores: Stores, worktree: WorkTree | None = None) -> Made:
    """Judge the leg's work between its cursor and the tip. Raises StoreUnavailable.

    `worktree`: the relay's, where one is open already.
    """
    cursor = leg.cursor_sha or relay.start_sha
    records = stores.git.commits_between(cursor, stores.tip)
    created = set((worktree or git.tree(relay)).created_shas(leg.reflog_lines))
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
    tree, tip_tree = stores.git.tree(cursor), stores.git.tree(stores.tip)
    refs = {ref for _, of_row, _ in rows for ref in of_row}
    counted = progress.count(
        facts,
        region=tuple(relay.region),
        tip_tree=tip_tree,
        cursor_trees={tree, *_earlier(leg, Counted.Kind.TREE, [tip_tree])},
        prior_patch_ids=_earlier(leg, Counted.Kind.PATCH, [record.patch_id for record in records if record.patch_id]),
        prior_shas=_earlier(leg, Counted.Kind.COMMIT, [record.sha for record in records]),
        issues_closed=sorted(set(closed) - _earlier(leg, Counted.Kind.ISSUE, closed), key=closed.index),
        ledger_rows=rows,
        prior_refs=_earlier(leg, Counted.Kind.REF, sorted(refs)),
    )
    changed = rewritten(stores.git, cursor, stores.tip)
    stats = {record.sha: record for record in records}
    own = tuple(record.sha for record in records if record.sha in created)
    detail: dict[str, object] = {
        "made": list(own),
        "commits": [_commit(stats[sha]) for sha in counted.commits],
        "issues": list(counted.issues),
        "ledger": list(counted.ledger),
        "foreign": list(counted.foreign),
        "outside": list(counted.outside),
        "empty": list(counted.empty),
        "repeated": list(counted.repeated),
        "merges": list(counted.merges),
        "undone": list(counted.undone),
        "lost": list(changed.lost),
        "copied": list(changed.copied),
        "patch_ids": list(counted.patch_ids),
        "refs": list(counted.refs),
        "trees": [tree],
    }
    return Made(counted, detail, own, tuple(counted.issues), tuple(row_id for row_id, _, _ in rows))


def keep(leg: Leg, detail: Mapping[str, Any]) -> None:
    """Keep what an ended leg made, so that it never counts again: in the transaction that closes the leg.

    A commit that an earlier leg has made already is kept for both and marked `shared`: the attribution is violated.
    """
    counts = set(_shas(detail, "commits"))
    made = list(dict.fromkeys([*_shas(detail, "made"), *counts]))
    known = _earlier(leg, Counted.Kind.COMMIT, made)
    rows = [
        Counted(leg=leg, relay_id=leg.relay_id, kind=Counted.Kind.COMMIT, value=sha, counts=sha in counts,
                shared=sha in known)
        for sha in made
    ]  # fmt: skip
    for kind, key in _KEPT.items():
        values = dict.fromkeys(value[:600] for value in _shas(detail, key))
        rows += [Counted(leg=leg, relay_id=leg.relay_id, kind=kind, value=value) for value in values]
    Counted.objects.bulk_create(rows, batch_size=BATCH, ignore_conflicts=True)


#: what is kept beside the commits -> where it stands in the detail
_KEPT = {
    Counted.Kind.PATCH: "patch_ids",
    Counted.Kind.ISSUE: "issues",
    Counted.Kind.REF: "refs",
    Counted.Kind.TREE: "trees",
    Counted.Kind.FOREIGN: "foreign",
}


def _shas(detail: Mapping[str, Any], key: str) -> list[str]:
    return [str(item["sha"] if isinstance(item, Mapping) else item) for item in detail.get(key) or ()]


def _earlier(leg: Leg, kind: str, candidates: Sequence[str]) -> set[str]:
    """Those of the candidates that an earlier leg of the relay made or met already: looked up, no history is read."""
    found: set[str] = set()
    for start in range(0, len(candidates), BATCH):
        rows = Counted.objects.filter(relay=leg.relay_id, kind=kind, value__in=candidates[start : start + BATCH])
        found.update(rows.filter(leg__number__lt=leg.number).values_list("value", flat=True))
    return found


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Commits up to a cursor that the branch does not hold any more.

    `copied`: another commit with the same change stands on the branch. `lost`: nothing does.
    """

    lost: tuple[str, ...] = ()
    copied: tuple[str, ...] = ()


def rewritten(store: GitStore, cursor: str, tip: str) -> Rewritten:
    """What the branch at `tip` lost of the work up to `cursor`; nothing where it still holds the cursor.

    Empty commits and merges have no change of their own, so nothing of them can be lost. Another history altogether
    (more than COMPARED commits on a side) is not searched for copies: all is lost. Raises StoreUnavailable.
    """
    if cursor == tip:
        return Rewritten()
    try:
        missing = store.shas_between(tip, cursor)
    except StoreUnavailable:
        if store.types([cursor])[cursor] is None:
            return Rewritten((cursor,))
        raise
    if not missing:
        return Rewritten()
    if len(missing) > COMPARED or len(store.shas_between(cursor, tip)) > COMPARED:
        return Rewritten(missing)
    kept = {record.patch_id for record in store.commits_between(cursor, tip)}
    gone = [record for record in store.commits_between(tip, cursor) if record.patch_id]
    return Rewritten(
        tuple(record.sha for record in gone if record.patch_id not in kept),
        tuple(record.sha for record in gone if record.patch_id in kept),
    )


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
    """The leg's own ledger rows with whether all their references resolve now; asked in one batch."""
    found: list[tuple[str, tuple[str, ...], list[Pointer] | None]] = []
    for row in LedgerRow.objects.filter(leg=leg).exclude(by="driver").order_by("at", "id"):
        try:
            named: list[Pointer] | None = [parse_pointer(ref) for ref in row.refs]
        except PointerError:
            named = None
        found.append((row.pk, tuple(row.refs), named))
    answers = stores.resolve(pointer for *_, named in found for pointer in named or ())
    return [
        (pk, refs, named is not None and all(answers[one].verdict is Verdict.VERIFIED for one in named))
        for pk, refs, named in found
    ]


def _commit(record: CommitRecord) -> dict[str, object]:
    return {
        "sha": record.sha,
        "patch_id": record.patch_id,
        "subject": record.subject[:200],
        "added": record.added,
        "deleted": record.deleted,
        "paths": len(record.paths),
    }

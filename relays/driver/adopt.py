"""Taking up a relay that ran on another host: what travelled with a clone, read strictly, becomes rows of this house.

architecture.md: "a clone with `refs/notes/relay` and `refs/relay/*` fetched can be taken up on another host". Whatever
stands in the clone is untrusted: batons go through the strict reader and the ladder, ledger rows through the form of
ours, and no program, command or approval comes from it.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from relays.core import baton as batons
from relays.core import pointers, travel
from relays.core.lines import recorded
from relays.core.vocabulary import Reason
from relays.driver import places, rebaton
from relays.models import Baton, Counted, LedgerRow, Leg, LegState, Relay, Tombstone
from relays.stores import travel as travel_store
from relays.stores.base import BadName, StoreUnavailable
from relays.stores.git import GitStore
from relays.stores.gitrun import need_branch, plain
from relays.stores.issues import IssueFile

SAID = 20  # lines that say what was left out
ROWS = 200_000  # rows of one ledger
COMMITS = 20_000  # commits whose changes are read, so that copies of them never count again
BATCH = 500


class NothingHere(Exception):
    """The clone holds no relay that could be taken up; one line that says what to fetch."""


class Parted(Exception):
    """The relay's branch stands at two commits of which neither holds the other; one line that says what to do."""


@dataclass(frozen=True, slots=True)
class Noted:
    """One baton of the relay, with the commit whose note holds it."""

    baton: batons.Baton
    sha: str


@dataclass(frozen=True, slots=True)
class Travelled:
    """What a clone holds of one relay. `noted`: its batons on the branch, the newest last, never empty.

    `local`: where the branch of that name stands here, "" where only a remote's is known. `record`: None where none
    travelled or it does not read. `left_out`: one line for each thing that was not taken over.
    """

    relay_id: str
    branch: str
    tip: str
    local: str
    noted: tuple[Noted, ...]
    record: travel.Record | None
    left_out: tuple[str, ...]

    @property
    def newest(self) -> Noted:
        return self.noted[-1]


def relays_in(git: GitStore) -> tuple[str, ...]:
    """The ids of the relays that a repository has a branch or refs of: whoever names a new one takes none of these.

    Raises StoreUnavailable.
    """
    names = [ref.removeprefix("refs/heads/relay/") for ref in git.refs("refs/heads/relay")]
    names += [ref.rpartition("/relay/")[2] for ref in git.refs("refs/remotes") if "/relay/" in ref]
    names += [parts[3] for ref in git.refs("refs/relay") if len(parts := ref.split("/")) > 3]
    return tuple(sorted({name for name in names if places.RELAY_ID.fullmatch(name)}))


def look(git: GitStore, relay_id: str) -> Travelled:
    """Find the newest baton of that relay by its branch. Raises NothingHere, Parted and StoreUnavailable."""
    left_out: list[str] = []
    try:
        record = travel_store.read_record(git, relay_id)
    except travel.TravelError as error:
        record = None
        left_out.append(recorded("its record does not read: %(error)s", error=error))
    branch = f"relay/{relay_id}"
    if record is not None:
        try:
            branch = need_branch(record.branch)
        except BadName:
            left_out.append(recorded("its record names a branch that is none"))
    tip, local = _tip(git, branch)
    order = git.objects(["rev-list", "--topo-order", tip, "--"]).out.decode("ascii").split()
    found: dict[str, tuple[tuple[int, bool, int, int], Noted]] = {}  # by digest: a copied note is one baton
    for place, note in enumerate(travel_store.notes(git, order)):
        if note.why:
            left_out.append(note.why)
        for number, raw in enumerate(note.paragraphs):
            reading = batons.read(raw)
            if reading.baton is None:
                why = reading.refusal.evidence if reading.refusal else "not read"
                left_out.append(
                    recorded(
                        "paragraph %(number)s of the note of %(sha)s is no baton: %(why)s",
                        number=number + 1,
                        sha=note.sha[:12],
                        why=plain(why)[:200],
                    )
                )
            elif reading.baton.relay_id == relay_id:
                rebuilt = reading.baton.tombstone.reason == Reason.BATON_STALE
                # of one leg the rebuilt one came later; of one note the last paragraph; else the one nearest the tip
                key = (reading.baton.leg, rebuilt, -place, number)
                digest = batons.digest(reading.baton)
                if digest not in found or found[digest][0] < key:
                    found[digest] = key, Noted(reading.baton, note.sha)
    if not found:
        why = f": {'; '.join(left_out[:3])}" if left_out else ""
        raise NothingHere(
            f"no baton of {relay_id} stands in the notes of {branch}{why}; fetch them: "
            "git fetch origin 'refs/notes/relay:refs/notes/relay' 'refs/relay/*:refs/relay/*'"
        )
    noted = tuple(one for _, one in sorted(found.values(), key=lambda pair: pair[0]))
    if record is None and not left_out:
        left_out.append(recorded("no record of its limits and of what it has spent travelled with it"))
    return Travelled(relay_id, branch, tip, local, noted, record, tuple(left_out[:SAID]))


def _tip(git: GitStore, branch: str) -> tuple[str, str]:
    """Where the branch stands, here or at a remote, whichever is further; and where it stands here ("" nowhere)."""
    local = git.ref(f"refs/heads/{branch}") or ""
    remotes = {sha for ref, sha in git.refs("refs/remotes").items() if ref.endswith(f"/{branch}")}
    known = {*remotes, *([local] if local else [])}
    if not known:
        raise NothingHere(f"branch {branch} is neither here nor at a remote; fetch it: git fetch origin {branch}")
    for sha in sorted(known, key=lambda one: one != local):
        if git.reached(sha, known) == known:
            return sha, local
    raise Parted(f"branch {branch} has parted from its remote's; bring one onto the other, then adopt again")


@dataclass(frozen=True, slots=True)
class History:
    """What the relay made before: none of it counts as progress again. Values as `Counted` keeps them."""

    commits: tuple[str, ...] = ()
    patch_ids: tuple[str, ...] = ()
    trees: tuple[str, ...] = ()
    issues: tuple[str, ...] = ()


def history(git: GitStore, found: Travelled) -> History:
    """Read what the branch holds from the relay's start to its newest cursor. Raises StoreUnavailable."""
    cursors = [one.baton.cursor.start_sha for one in found.noted]
    named = [found.record.start_sha] if found.record is not None else []
    on_branch = git.reached(found.tip, [*named, *cursors])
    start = next((sha for sha in [*named, *cursors] if sha in on_branch), None)
    end = next((sha for sha in reversed(cursors) if sha in on_branch), found.tip)
    if start is None:
        return History()
    shas = git.shas_between(start, end)
    if len(shas) > COMMITS:
        return History(commits=shas)
    records = git.commits_between(start, end)
    before, after = IssueFile(git, start).states(), IssueFile(git, end).states()
    closed = [number for number, state in sorted(after.items()) if state == "closed" and before.get(number) == "open"]
    at_cursor = {one.tree for one in records if one.sha in set(cursors)}
    return History(
        commits=shas,
        patch_ids=tuple(dict.fromkeys(one.patch_id for one in records if one.patch_id)),
        trees=tuple(sorted({*at_cursor, git.tree(start)})),
        issues=tuple(f"issue:#{number}" for number in closed),
    )


# --- rows, inside the caller's transaction


def legs(relay: Relay, noted: Iterable[Noted], now: datetime) -> tuple[Leg, Baton]:
    """An ended leg with its tombstone for each leg that left a baton, and its batons; the newest is current."""
    leg: Leg | None = None
    row: Baton | None = None
    cursor = ""
    for one in noted:
        baton = one.baton
        if leg is None or leg.number != baton.leg:
            leg = Leg.objects.create(
                relay=relay,
                number=baton.leg,
                state=LegState.ENDED,
                trace=_trace(relay, baton),
                parent_trace=leg.trace if leg is not None else "",
                cursor_sha=cursor,
                end_sha=baton.cursor.start_sha,
                wip_sha=baton.cursor.wip_tree,
                reason=baton.tombstone.reason,
                ended_at=now,
            )
            Tombstone.objects.create(
                leg=leg,
                reason=baton.tombstone.reason,
                at_sha=baton.tombstone.at_sha,
                note=recorded(
                    "leg %(leg)s ran on another host; taken over from the note of %(sha)s",
                    leg=baton.leg,
                    sha=one.sha[:12],
                ),
                at=now,
            )
        row = rebaton.store(relay, leg, baton, "adopt", now)
        cursor = baton.cursor.start_sha
    if leg is None or row is None:
        raise ValueError("a relay that is taken up has a baton")
    return leg, row


def _trace(relay: Relay, baton: batons.Baton) -> str:
    """The trace that the baton names, where it is free here and fits; else one that is made of it."""
    trace = baton.parent_trace
    if len(trace) <= 64 and trace.isprintable() and not Leg.objects.filter(trace=trace).exists():
        return trace
    return f"tr-{hashlib.sha256(f'{relay.pk}.{baton.leg}.{trace}'.encode()).hexdigest()[:24]}"


def ledger(relay: Relay, rows: Iterable[object], now: datetime) -> tuple[int, int]:
    """Take over the rows that travelled, each under its own id; how many, and how many were left out."""
    numbers = dict(Leg.objects.filter(relay=relay).values_list("number", "pk"))
    made: dict[str, LedgerRow] = {}
    left_out = 0
    for row in rows:
        new = _ledger_row(relay, row, numbers, now)
        if new is None or new.pk in made or len(made) >= ROWS:
            left_out += 1
        else:
            made[new.pk] = new
    ids = list(made)
    for start in range(0, len(ids), BATCH):
        some = ids[start : start + BATCH]
        taken = set(LedgerRow.objects.filter(pk__in=some).values_list("pk", flat=True))
        left_out += len(taken)
        LedgerRow.objects.bulk_create(made[pk] for pk in some if pk not in taken)
    return len(made), left_out


def _ledger_row(relay: Relay, row: object, numbers: dict[int, int], now: datetime) -> LedgerRow | None:
    """The row, where it is well-formed and one of this relay's; it came from anywhere."""
    if not isinstance(row, dict):
        return None
    pk, refs, note, by = row.get("id"), row.get("refs"), row.get("note", ""), row.get("by")
    if not isinstance(pk, str) or len(pk) > 80 or not pk.isprintable() or pk.rsplit(".", 2)[0] != relay.pk:
        return None
    if by not in ("agent", "person", "driver") or not isinstance(note, str) or not isinstance(refs, list):
        return None
    if pk.count(".") < relay.pk.count(".") + 2 or len(refs) > BATCH or not all(isinstance(ref, str) for ref in refs):
        return None
    try:
        kept = [_ref(ref, by) for ref in refs]
    except pointers.PointerError:
        return None
    number = pk.rsplit(".", 2)[1]
    leg = numbers.get(int(number)) if number.isascii() and number.isdecimal() and len(number) < 10 else None
    return LedgerRow(
        id=pk,
        relay=relay,
        leg_id=leg,
        refs=kept,
        note=pointers.one_line(note, 500),
        verdicts=[],
        by=by,
        at=_moment(row.get("at"), now),
    )


def _ref(text: str, by: str) -> str:
    """One reference in its canonical form. A row of the driver lists what moved out of a baton: entries with labels."""
    try:
        return str(pointers.parse_pointer(text))
    except pointers.PointerError:
        pointer, label = pointers.read_entry(text)
        if by != "driver" or pointer is None:
            raise
        return pointers.format_entry(pointer, label)


def _moment(text: object, now: datetime) -> datetime:
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else now
    except ValueError:
        return now
    # a time without a zone, or one that has not come yet, tells nothing
    return found if found.tzinfo is not None and datetime.min.replace(tzinfo=found.tzinfo) < found <= now else now


def counted(leg: Leg, made: History) -> None:
    """What was made before this house knew the relay belongs to the leg that was taken over."""
    told = LedgerRow.objects.filter(relay=leg.relay).exclude(by="driver").values_list("refs", flat=True)
    kinds = (
        (Counted.Kind.COMMIT, made.commits),
        (Counted.Kind.PATCH, made.patch_ids),
        (Counted.Kind.TREE, made.trees),
        (Counted.Kind.ISSUE, made.issues),
        (Counted.Kind.REF, tuple(ref for refs in told for ref in refs)),
    )
    rows = [
        Counted(relay_id=leg.relay_id, leg=leg, kind=kind, value=value[:600])
        for kind, values in kinds
        for value in dict.fromkeys(values)
    ]
    Counted.objects.bulk_create(rows, batch_size=BATCH, ignore_conflicts=True)


def travelled_rows(git: GitStore, relay_id: str) -> tuple[list[dict[str, object]], str]:
    """The rows of the ledger that travelled, and in one line why there are none that could be read."""
    try:
        return git.read_ledger_ref(relay_id) or [], ""
    except StoreUnavailable as error:
        return [], recorded("its ledger does not read: %(evidence)s", evidence=error.evidence)

"""Write a baton: at a rotation, after `stale`, and after a decision that changes what the next leg starts from.

baton.md: "The baton is the least trusted thing in the system. It is data, pointer-only, bounded in size."
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from relays.core import baton as batons
from relays.core import pointers, safepoint
from relays.core.baton import Artifact, Cursor, TombstoneRecord
from relays.core.objective import Pin
from relays.core.pointers import Kind
from relays.core.reload import REDERIVE
from relays.core.vocabulary import Reason
from relays.driver import budgets
from relays.models import Baton, LedgerRow, Leg, Relay

NOTE_LENGTH = 500  # characters of a ledger row's note


def read(row: Baton) -> batons.Baton:
    """The stored baton. It was written by us, so a refusal here is a bug or a damaged database."""
    reading = batons.read(row.text, budgets.policy_of(row.relay).baton)
    if reading.baton is None:
        raise ValueError(f"stored baton {row.pk} does not read: {reading.refusal}")
    return reading.baton


def store(relay: Relay, leg: Leg, baton: batons.Baton, why: str, now: datetime) -> Baton:
    """Make `baton` the relay's current one, inside the caller's transaction."""
    text = batons.canonical(baton)
    Baton.objects.filter(relay=relay, current=True).update(current=False)
    return Baton.objects.create(
        relay=relay,
        leg=leg,
        text=text.decode(),
        digest=batons.digest(baton),
        pin_digest=baton.objective.digest,
        size=len(text),
        current=True,
        why=why,
        at=now,
    )


def check_room(pin: Pin, done_when: str, region: Sequence[str], bounds: batons.Bounds) -> None:
    """Raise BatonError when a relay's own words leave no room for any baton, so that no leg of it could ever close.

    Bounds are the maker's duty: judged on the largest baton that still has nothing in its lists but one row.
    """
    sha, name = "0" * 64, "x" * 80
    specimen = batons.Baton(
        relay_id="x" * 40,
        leg=10**9,
        parent_trace=name,
        objective=pin,
        done_when=done_when,
        cursor=Cursor(start_sha=sha, ledger_ref=name, wip_tree=sha, held_region=tuple(region)),
        next_action="<" * safepoint.NEXT_ACTION_BYTES,  # six bytes each in canonical form
        open_questions=(),
        artifacts=(Artifact(Kind.LEDGER, name),),
        do_not_rederive=(),
        tombstone=TombstoneRecord(Reason.PARKED_UNSAFE, sha, "x" * 300),
    )
    size, most = len(batons.canonical(specimen)), bounds.total
    if size > most:
        why = f"with this objective and region it can take {size} bytes, more than {most}"
        raise batons.BatonError("", f"{why}; shorten the objective, or give fewer or shorter globs")
    batons.check_new(specimen, bounds)


def fit(relay: Relay, leg: Leg, baton: batons.Baton, bounds: batons.Bounds, now: datetime) -> batons.Baton:
    """Move the oldest entries into one ledger row until the baton is within its bounds; nothing is lost.

    baton.md, Bounds: "the oldest entries move into one ledger row that lists them and points at the previous such
    row, and the baton points at that row".
    """
    moved: list[str] = []
    room = {
        "artifacts": bounds.artifacts,
        "open_questions": bounds.open_questions,
        "do_not_rederive": bounds.do_not_rederive,
    }
    for name, limit in room.items():
        entries = list(getattr(baton, name))
        # one place stays free for the row that lists the moved ones
        keep = limit - 1 if name == "artifacts" else limit
        if len(entries) > keep:
            moved += [_text(entry) for entry in entries[: len(entries) - keep]]
            baton = _with(baton, name, entries[len(entries) - keep :])
    while len(batons.canonical(baton)) > bounds.total * 3 // 4:
        name = max(room, key=lambda key: len(getattr(baton, key)))
        entries = list(getattr(baton, name))
        if not entries:
            break  # the fixed part alone: `check_room` saw to it that it fits
        cut = max(1, len(entries) // 4)
        moved += [_text(entry) for entry in entries[:cut]]
        baton = _with(baton, name, entries[cut:])
    if not moved:
        return baton
    previous = (
        LedgerRow.objects.filter(relay=relay, by="driver", note__startswith="overflow")
        .order_by("-at", "-id")
        .values_list("id", flat=True)
        .first()
    )
    refs = [*([f"ledger:{previous}"] if previous else []), *moved]
    row = driver_row(relay, leg, refs, f"overflow: {len(moved)} older entries of the baton", now)
    return replace(baton, artifacts=(Artifact(Kind.LEDGER, row.pk), *baton.artifacts))


def _with(baton: batons.Baton, name: str, entries: Sequence[Any]) -> batons.Baton:
    changed: dict[str, Any] = {name: tuple(entries)}
    return replace(baton, **changed)


def driver_row(relay: Relay, leg: Leg | None, refs: Sequence[str], note: str, now: datetime) -> LedgerRow:
    """Append a ledger row of the driver; the same content of the same leg is one row, whoever retries."""
    number = LedgerRow.objects.filter(relay=relay, by="driver").count()
    prefix = f"{relay.pk}.{leg.number if leg else 'r'}.d"
    same = LedgerRow.objects.filter(relay=relay, leg=leg, by="driver", note=note[:500]).first()
    if same is not None and same.refs == list(refs):
        return same
    return LedgerRow.objects.create(
        id=f"{prefix}{number}", relay=relay, leg=leg, refs=list(refs), note=note[:500], by="driver", at=now
    )


def after_stale(
    relay: Relay,
    old: Baton,
    *,
    cursor: str,
    verified_paths: frozenset[str],
    now: datetime,
    chosen_next_action: str = "",
) -> Baton:
    """The fresh baton after a rebuild: the cursor, only verified pointers, and re-derivation as next action.

    rules.md, Reload: "The fresh baton has reason RELAY_BATON_STALE, at_sha = the cursor, identity, objective,
    done_when and region as before".
    """
    was = read(old)
    baton = replace(
        was,
        objective=relay.pin,
        done_when=relay.done_when,
        cursor=Cursor(
            start_sha=cursor,
            ledger_ref=was.cursor.ledger_ref if "progress_cursor.ledger_ref" in verified_paths else "",
            wip_tree=was.cursor.wip_tree if "progress_cursor.wip_tree" in verified_paths else "",
            session_image=was.cursor.session_image,
            held_region=tuple(relay.region),
        ),
        next_action=chosen_next_action or REDERIVE,
        open_questions=_kept(was.open_questions, "open_questions", verified_paths),
        artifacts=tuple(
            artifact for index, artifact in enumerate(was.artifacts) if f"artifacts[{index}].ref" in verified_paths
        ),
        do_not_rederive=_kept(was.do_not_rederive, "do_not_rederive", verified_paths),
        tombstone=TombstoneRecord(
            Reason.BATON_STALE, cursor, f"cursor of leg {was.leg} rebuilt from the durable store"
        ),
    )
    return store(relay, old.leg, baton, "stale", now)


def after_decision(
    relay: Relay,
    current: Baton,
    *,
    decision_seq: int,
    mirror: Mapping[str, Any],
    next_action: str,
    answers: Mapping[str, str],
    now: datetime,
) -> Baton:
    """A new current baton of the same closing leg: same cursor and tombstone, the new values, and the decision's row.

    `mirror`: what the decision changed, as the ledger row tells it; `answers`: by the question's pointer or its text.
    """
    was = read(current)
    row_id = f"{relay.pk}.{current.leg.number}.p{decision_seq}"
    row = LedgerRow.objects.create(
        id=row_id,
        relay=relay,
        leg=current.leg,
        refs=sorted(ref for ref in answers if _pointer(ref)) or [f"ledger:{row_id}"],
        note=mirrored({"decision": decision_seq, **mirror}),
        by="person",
        at=now,
    )
    baton = replace(
        was,
        objective=relay.pin,
        done_when=relay.done_when,
        cursor=replace(was.cursor, held_region=tuple(relay.region)),
        next_action=next_action or was.next_action,
        open_questions=tuple(entry for entry in was.open_questions if not _answered(entry, answers)),
        artifacts=(*was.artifacts, Artifact(Kind.LEDGER, row.pk)),
    )
    return store(
        relay, current.leg, fit(relay, current.leg, baton, budgets.policy_of(relay).baton, now), "decision", now
    )


def _answered(entry: str, answers: Mapping[str, str]) -> bool:
    pointer, label = pointers.parse_entry(entry)
    return label in answers if pointer is None else any(_pointer(ref) == pointer for ref in answers)


def _pointer(ref: str) -> pointers.Pointer | None:
    try:
        return pointers.parse_pointer(ref)
    except pointers.PointerError:
        return None


def mirrored(mirror: Mapping[str, Any], room: int = NOTE_LENGTH) -> str:
    """The mirror as JSON of at most `room` characters: long texts are cut evenly, so that it still reads as JSON."""
    for most in (room, 200, 100, 60, 30, 15):
        text = json.dumps(_cut(mirror, most), ensure_ascii=False)
        if len(text) <= room:
            return text
    # too many parts: their names stand, the decision's own row has them whole
    return json.dumps({"decision": mirror.get("decision"), "changed": sorted(set(mirror) - {"decision"})})


def _cut(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= most else value[: most - 1] + "…"
    if isinstance(value, Mapping):
        return {_cut(key, most): _cut(one, most) for key, one in value.items()}
    return [_cut(one, most) for one in value] if isinstance(value, list | tuple) else value


def _kept(entries: Sequence[str], name: str, verified: frozenset[str]) -> tuple[str, ...]:
    """Entries whose pointer is verified, or that carry none and so promise nothing."""
    return tuple(
        entry
        for index, entry in enumerate(entries)
        if f"{name}[{index}]" in verified or pointers.parse_entry(entry)[0] is None
    )


def _text(entry: Artifact | str) -> str:
    return entry if isinstance(entry, str) else f"{entry.kind}:{entry.ref}"

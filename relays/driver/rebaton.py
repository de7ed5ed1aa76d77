"""Write a baton: at a rotation, after `stale`, and after a decision that changes what the next leg starts from.

baton.md: "The baton is the least trusted thing in the system. It is data, pointer-only, bounded in size."
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from relays.core import baton as batons
from relays.core import overflow, pointers, safepoint
from relays.core.baton import Artifact, Cursor, TombstoneRecord
from relays.core.lines import recorded
from relays.core.objective import Pin
from relays.core.pointers import Kind
from relays.core.reload import REDERIVE
from relays.core.sentences import phrase
from relays.core.vocabulary import Reason
from relays.driver import budgets
from relays.models import Baton, LedgerRow, Leg, Outbox, Relay

NOTE_LENGTH = 500  # characters of a ledger row's note
LISTED = 400  # entries that one such row lists; a leg that made more than that gets several, in one chain
OVERFLOW = "overflow"  # how the note of a row begins that lists what moved out of a baton


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
        why = phrase(
            "with this objective and region it can take %(size)s bytes, more than %(most)s; shorten the objective, "
            "or give fewer or shorter globs",
            size=size,
            most=most,
        )
        raise batons.BatonError("", why)
    batons.check_new(specimen, bounds)


def fit(
    relay: Relay,
    leg: Leg,
    baton: batons.Baton,
    bounds: batons.Bounds,
    now: datetime,
    *,
    carried: frozenset[str] = frozenset(),
) -> batons.Baton:
    """Move the oldest entries into one ledger row until the baton is within its bounds; nothing is lost.

    baton.md, Bounds: "the oldest entries move into one ledger row that lists them and points at the previous such
    row, and the baton points at that row". Every later baton goes on pointing at the newest one. `carried`: the
    entries of earlier legs. Whoever repeats it for the same leg gets the same row.
    """
    head = overflow_row(relay, leg)
    fitted = overflow.fit(baton, bounds, head=head, carried=carried)
    if not fitted.moved:
        return fitted.baton
    for start in range(0, len(fitted.moved), LISTED):
        some = fitted.moved[start : start + LISTED]
        refs = [*([f"{head.kind}:{head.ref}"] if head else []), *some]
        row = driver_row(
            relay,
            leg,
            refs,
            recorded("%(overflow)s: %(n)d older entries of the baton", overflow=OVERFLOW, n=len(some)),
            now,
        )
        head = Artifact(Kind.LEDGER, row.pk)
    return fitted.pointing_at(head) if head else fitted.baton


def overflow_row(relay: Relay, leg: Leg) -> Artifact | None:
    """The newest row of entries that moved out of a baton of this relay: from it all earlier ones are reached.

    It is one of the closing leg's own, or one that the current baton points at; the ledger is not searched for it.
    """
    current = Baton.objects.filter(relay=relay, current=True).select_related("relay").first()
    pointed = [one.ref for one in read(current).artifacts if _row_number(one.ref) >= 0] if current else []
    rows = LedgerRow.objects.filter(by="driver", note__startswith=OVERFLOW).order_by().values_list("pk", flat=True)
    # by their running number, which no clock that is set back can turn round: `d10` comes after `d9`
    newest = max((*rows.filter(leg=leg), *rows.filter(pk__in=pointed)), key=_row_number, default="")
    return Artifact(Kind.LEDGER, newest) if newest else None


def _row_number(row_id: str) -> int:
    """The running number of a driver's row; -1 for any other."""
    digits = row_id.rpartition(".d")[2]
    return int(digits) if digits.isdecimal() else -1


def driver_row(relay: Relay, leg: Leg, refs: Sequence[str], note: str, now: datetime) -> LedgerRow:
    """Append a ledger row of the driver; the same content of the same leg is one row, whoever retries."""
    for same in LedgerRow.objects.filter(leg=leg, by="driver", note=note[:NOTE_LENGTH]):
        if same.refs == list(refs):
            return same
    head = overflow_row(relay, leg)
    number = _row_number(head.ref) + 1 if head else 0
    return LedgerRow.objects.create(
        id=f"{relay.pk}.{leg.number}.d{number}",
        relay=relay,
        leg=leg,
        refs=list(refs),
        note=note[:NOTE_LENGTH],
        by="driver",
        at=now,
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
    fitted = fit(relay, old.leg, baton, budgets.policy_of(relay).baton, now)
    row = store(relay, old.leg, fitted, "stale", now)
    _owe(relay, Outbox.Kind.GIT_NOTE, str(row.pk), now)
    return row


@dataclass(frozen=True, slots=True)
class Mirror:
    """What one decision row changed, as the next leg is told of it: `answered`, the question's pointer where it was an
    answer to one, else ""."""

    decision: int
    changed: Mapping[str, Any]
    answered: str = ""


def mirror(relay: Relay, leg: Leg | None, mirrors: Sequence[Mirror], now: datetime) -> tuple[Artifact, ...]:
    """A ledger row for each decision, and the artifacts that point at them. `leg`: the closing leg of the baton that
    will, None where no leg has ended yet."""
    rows = []
    for one in mirrors:
        row_id = f"{mirror_head(relay, leg, one.decision)}{one.decision}"
        rows.append(
            LedgerRow.objects.create(
                id=row_id,
                relay=relay,
                leg=leg,
                refs=[one.answered if _pointer(one.answered) else f"ledger:{row_id}"],
                note=mirrored({"decision": one.decision, **one.changed}),
                by="person",
                at=now,
            )
        )
    if rows:
        _owe(relay, Outbox.Kind.LEDGER_REF, rows[-1].pk, now)
    return tuple(Artifact(Kind.LEDGER, row.pk) for row in rows)


def mirror_head(relay: Relay, leg: Leg | None, decision: int) -> str:
    """How the id of a decision's mirror begins, before its number. The rows of a relay that was taken up here came with
    the numbers of another house's decisions: where one of them has the name, noughts tell them apart."""
    head = f"{relay.pk}.{leg.number if leg else 'r'}.p"
    while LedgerRow.objects.filter(pk=f"{head}{decision}").exists():
        head += "0"
    return head


def mirrors_owed(relay: Relay, leg: Leg, previous: batons.Baton | None) -> tuple[Artifact, ...]:
    """The mirrors of decisions that no leg has started from: the baton of `leg` points at them.

    They were made before there was any baton, or while the leg ran, so that theirs was nobody's beginning.
    """
    rows = LedgerRow.objects.filter(by="person")
    if previous is None:
        rows = rows.filter(relay=relay, leg=None, id__startswith=f"{relay.pk}.r.p")
    elif leg.started_at is not None:
        written = f"{relay.pk}.{previous.leg}.p"
        rows = rows.filter(leg__relay=relay, leg__number=previous.leg, at__gt=leg.started_at, id__startswith=written)
    else:
        return ()
    return tuple(Artifact(Kind.LEDGER, pk) for pk in rows.order_by("at", "id").values_list("pk", flat=True))


def after_decision(
    relay: Relay,
    current: Baton,
    *,
    mirrors: Sequence[Mirror],
    next_action: str,
    answers: Mapping[str, str],
    now: datetime,
    waived: Collection[str] = (),
) -> Baton:
    """A new current baton of the same closing leg: same cursor and tombstone, the new values, and each decision's row.

    `mirrors`: the decisions, in their order; `answers`: by the question's pointer or its text; `waived`: optional
    pointers that people do without, which leave the baton's lists.
    """
    was = without(read(current), waived)
    baton = replace(
        was,
        objective=relay.pin,
        done_when=relay.done_when,
        cursor=replace(was.cursor, held_region=tuple(relay.region)),
        next_action=next_action or was.next_action,
        open_questions=tuple(entry for entry in was.open_questions if not _answered(entry, answers)),
        artifacts=(*was.artifacts, *mirror(relay, current.leg, mirrors, now)),
    )
    fitted = fit(relay, current.leg, baton, budgets.policy_of(relay).baton, now)
    row = store(relay, current.leg, fitted, "decision", now)
    _owe(relay, Outbox.Kind.GIT_NOTE, str(row.pk), now)
    return row


def without(baton: batons.Baton, waived: Collection[str]) -> batons.Baton:
    """The baton without these pointers in its lists; its anchors (objective, cursor, tombstone) always stay."""
    if not waived:
        return baton
    return replace(
        baton,
        open_questions=tuple(entry for entry in baton.open_questions if not _names(entry, waived)),
        artifacts=tuple(one for one in baton.artifacts if f"{one.kind}:{one.ref}" not in waived),
        do_not_rederive=tuple(entry for entry in baton.do_not_rederive if not _names(entry, waived)),
    )


def _names(entry: str, waived: Collection[str]) -> bool:
    pointer, _ = pointers.parse_entry(entry)
    return pointer is not None and str(pointer) in waived


def after_idle(relay: Relay, current: Baton, next_action: str, now: datetime) -> Baton:
    """The baton that a watch wakes with: the one that it rested on, with what is to be done now. One that says so
    already is left as it is."""
    was = read(current)
    if was.next_action == next_action:
        return current
    row = store(relay, current.leg, replace(was, next_action=next_action), "wake", now)
    _owe(relay, Outbox.Kind.GIT_NOTE, str(row.pk), now)
    return row


def _owe(relay: Relay, kind: str, target: str, now: datetime) -> None:
    Outbox.objects.get_or_create(kind=kind, target=target, defaults={"relay": relay, "not_before": now})


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

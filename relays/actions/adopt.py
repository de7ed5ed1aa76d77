"""Adopt: an operator takes up a relay that ran on another host, from a clone that holds its branch, notes and refs.

rules.md, Park, approve, resume, stop: "A relay parked by a gate, an ask or a person never resumes by itself", on the
next host neither; The driver: a host that may still live needs a person's word that it is dead.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from django.db import IntegrityError, transaction
from django.utils import timezone

from relays.actions import adoption
from relays.actions.adoption import AdoptRequest
from relays.actions.base import Actor, Held, NotFound, NotLegalNow, Refused, Usage, check_comment, need, record
from relays.core import baton as batons
from relays.core import donewhen, reload, userfacts
from relays.core.lines import recorded
from relays.core.vocabulary import Ask, Extra, Reason
from relays.driver import adopt as taking_up
from relays.driver import gates, leases, places, successor
from relays.driver import reload as driver_reload
from relays.driver import travel as travelling
from relays.driver.adopt import NothingHere, Parted, Travelled
from relays.driver.changes import INBOX, RELAYS, bump, change_relay, ring, topic
from relays.driver.claim import AlreadyDriven, kernel_lock
from relays.models import Leg, Relay, RelayStatus
from relays.stores import checkout
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.git import GitStore, RepoPlace, discover

BATCH = 500  # ids of one look-up: databases bound the number of parameters


@dataclass(frozen=True, slots=True)
class Adopted:
    """`leg`: the one whose baton was taken over. `outcome`: of the ladder. `left_out`: one line each."""

    relay: str
    leg: int
    outcome: str
    status: str
    why: str
    branch: str
    tip: str
    left_out: tuple[str, ...]


def adopt(actor: Actor, request: AdoptRequest) -> Adopted:
    """Make the relay's rows from what travelled, its worktree anew, and let it go on or park it as it was judged.

    Everything is checked first; a refused adoption makes nothing. Raises Usage, NotFound (nothing there to take up),
    NotLegalNow (known here, ended, or another host may drive it), Held (exit 6) or NotPermitted.
    """
    need(actor, "operate", "adopt a relay")
    check_comment("adopt", request.comment)
    place, store = _repository(request.repo)
    try:
        found = _choose(store, request)
        _may(found, request)
        relay, left_out = adoption.row(actor, request, place, store, found)
        made = taking_up.history(store, found)
        rows, why_none = taking_up.travelled_rows(store, found.relay_id)
        found = replace(found, left_out=(*found.left_out, *left_out, *([why_none] if why_none else [])))
        with kernel_lock(found.relay_id), _worktree(store, relay, found):
            stores = Stores(
                store,
                found.tip,
                relay.memory_root,
                relay.pk,
                work_tree=Path(relay.worktree),
                branch=relay.branch,
            )
            ladder = _climb(relay, found, stores)
            with transaction.atomic():
                return _make(actor, request, relay, found, ladder, made, rows)
    except NothingHere as error:
        raise NotFound(f"adopt: {error}") from error
    except Parted as error:
        raise NotLegalNow(f"adopt: {error}") from error
    except AlreadyDriven as error:
        raise NotLegalNow(f"adopt {error}: it is being taken up already; look at `relay list`") from error
    except StoreUnavailable as error:
        fix = error.fix or "make it readable, then adopt again"
        raise Refused(f"adopt: {request.repo}: {error.evidence}; {fix}") from error


def _repository(repo: str) -> tuple[RepoPlace, GitStore]:
    if not repo.strip() or "\0" in repo:
        raise Usage("adopt: --repo names no folder; name the clone that holds the relay")
    try:
        place = discover(Path(repo))
        if place.top is None:
            raise Usage(f"adopt: --repo {repo} has no work tree; name a clone with one")
        return place, GitStore(place.git_dir, places.shield())
    except StoreUnavailable as error:
        fix = error.fix or "name a folder inside a git repository"
        raise Usage(f"adopt: --repo {repo}: {error.evidence}; {fix}") from error


def _choose(store: GitStore, request: AdoptRequest) -> Travelled:
    """The relay that was named, else the only one that could be taken up."""
    if request.relay:
        if not places.RELAY_ID.fullmatch(request.relay):
            raise Usage(f"adopt: --relay {request.relay[:60]!r} is no id of a relay; write it as in its branch")
        return _look(store, request.relay)
    ids = taking_up.relays_in(store)
    if len(ids) == 1:
        return _look(store, ids[0])
    known: set[str] = set()
    for start in range(0, len(ids), BATCH):
        known.update(Relay.objects.filter(pk__in=ids[start : start + BATCH]).values_list("pk", flat=True))
    open_ones: list[Travelled] = []
    why = ""
    for relay_id in ids:
        if relay_id in known:
            continue
        try:
            found = taking_up.look(store, relay_id)
        except (NothingHere, Parted) as error:
            why = str(error)
            continue
        if not _ended(found):
            open_ones.append(found)
    if len(open_ones) == 1:
        return open_ones[0]
    if open_ones:
        named = ", ".join(one.relay_id for one in open_ones[:8])
        raise Usage(f"adopt: {request.repo} holds {len(open_ones)} relays: {named}; name one with --relay")
    if known:
        raise NotLegalNow(f"adopt: every relay in {request.repo} is known here already; look at `relay list`")
    raise NothingHere(
        why
        or f"{request.repo} holds no relay; fetch it: git fetch origin 'relay/*' 'refs/notes/relay:refs/notes/relay' "
        "'refs/relay/*:refs/relay/*'"
    )


def _look(store: GitStore, relay_id: str) -> Travelled:
    here = Relay.objects.filter(pk=relay_id).first()
    if here is not None:
        goes_on = f"use `relay resume {relay_id}`" if here.status == RelayStatus.PARKED else "it goes on by itself"
        todo = "start a new relay for more work" if here.final else goes_on
        raise NotLegalNow(f"adopt {relay_id}: it is known here and {here.status}; {todo}")
    return taking_up.look(store, relay_id)


def _ended(found: Travelled) -> bool:
    recorded = found.record is not None and found.record.ended
    return recorded or found.newest.baton.tombstone.reason == Reason.GOAL_DONE


def _may(found: Travelled, request: AdoptRequest) -> None:
    """It has not ended, and nobody drives it elsewhere."""
    relay_id = found.relay_id
    if _ended(found):
        how = found.record.status if found.record is not None and found.record.ended else "done"
        raise NotLegalNow(f"adopt {relay_id}: it is {how} where it ran; start a new relay for more work")
    if request.host_dead:
        return
    if found.record is None:
        raise NotLegalNow(
            f"adopt {relay_id}: no record says whether another host still drives it; "
            "see that it does not, then say so with --host-dead"
        )
    if found.record.goes_on_by_itself:
        raise NotLegalNow(
            f"adopt {relay_id}: host {found.record.host or 'unknown'} may still drive it ({found.record.status}); "
            "park it there and fetch again, or say with --host-dead that it is dead"
        )


@contextmanager
def _worktree(store: GitStore, relay: Relay, found: Travelled) -> Iterator[None]:
    """The relay's worktree on its branch, made anew; gone again, with a branch that was made here, when it fails."""
    if found.local and found.local != found.tip:
        raise NotLegalNow(
            f"adopt {relay.pk}: {relay.branch} here is behind its remote's; "
            f"`git fetch . {found.tip}:refs/heads/{relay.branch}`, then adopt again"
        )
    if relay.policy.get("workspace") == "in_place":
        yield
        return
    checkout.add_worktree(store, Path(relay.worktree), relay.branch, found.tip)
    try:
        yield
    except BaseException:
        checkout.remove_worktree(store, Path(relay.worktree))
        if not found.local:
            store.delete_ref(f"refs/heads/{relay.branch}")
        raise


def _climb(relay: Relay, found: Travelled, stores: Stores) -> reload.Ladder:
    """The reader's ladder over the newest baton; no command runs, and no lease is taken by it."""
    text = batons.canonical(found.newest.baton)
    done = donewhen.parse(relay.done_when)
    judged = None if relay.watch else donewhen.evaluate(done, stores.clause_answers(done, {}))
    return reload.climb(
        batons.read(text),
        answers=stores.answers(found.newest.baton),
        expected=reload.Expected(relay.pin, relay.done_when, tuple(relay.region)),
        done=judged,
        holder=leases.holder_of(relay.git_dir, relay.region, but=relay.pk) or None,
    )


def _make(
    actor: Actor,
    request: AdoptRequest,
    relay: Relay,
    found: Travelled,
    ladder: reload.Ladder,
    made: taking_up.History,
    rows: Sequence[object],
) -> Adopted:
    """All rows, in one transaction: relay, lease, legs, batons, tombstones, ledger, the climb, and the decision."""
    moment = timezone.now()
    try:
        relay.save(force_insert=True)
    except IntegrityError as error:
        raise NotLegalNow(f"adopt {relay.pk}: it was taken up meanwhile; look at `relay list`") from error
    holder = leases.acquire(relay, relay.region, moment)
    if holder:
        raise Held(
            f"adopt {relay.pk}: {Extra.COLLISION_RISK}: region {' '.join(relay.region)} in {relay.repo} overlaps the "
            f"one that {holder} holds; wait until {holder} is done or stopped, or `relay release {holder}`"
        )
    leg, row = taking_up.legs(relay, found.noted, moment)
    kept, skipped = taking_up.ledger(relay, rows, moment)
    taking_up.counted(leg, made)
    driver_reload.keep(relay, row, ladder, purpose="adopt", leg=None, tip=found.tip, now=moment)
    left_out = (
        *found.left_out,
        *([recorded("%(skipped)s rows of its ledger were not of its form", skipped=skipped)] if skipped else []),
    )
    stood = userfacts.taken_over(found.record.user_facts if found.record is not None else ())
    decision = record(
        actor,
        "adopt",
        now=moment,
        relay=relay,
        comment=request.comment,
        seen=row.digest,
        detail={
            "branch": relay.branch,
            "tip": found.tip,
            "leg": leg.number,
            "note": found.newest.sha,
            "outcome": ladder.outcome,
            "host": found.record.host if found.record is not None else "",
            "host_dead": request.host_dead,
            "agent": relay.agent,
            "agent_args": relay.agent_args,
            "done_when": relay.done_when,
            "policy": relay.policy,
            "legs": len({one.baton.leg for one in found.noted}),
            "ledger": kept,
            "user_facts": [one.pointer for one in stood],
            "left_out": list(left_out),
        },
    )
    why = _park(relay, leg, found, moment)
    if not why:
        successor.make(relay, leg, row, moment)
    travelling.owe(relay.pk, moment)
    bump(topic(relay.pk), RELAYS, INBOX)
    ring(relay.pk)
    relay.refresh_from_db()
    said = why or recorded(
        "decision %(seq)s; its next leg starts from the baton of leg %(number)d", seq=decision.seq, number=leg.number
    )
    return Adopted(relay.pk, leg.number, ladder.outcome, relay.status, said, relay.branch, found.tip, left_out)


def _park(relay: Relay, leg: Leg, found: Travelled, moment: datetime) -> str:
    """Where it rested, it rests here too: what waited for a person waits again. "" where nothing keeps it."""
    reason = found.newest.baton.tombstone.reason
    asks = {gate.token: list(gate.items) for gate in (found.record.asks if found.record is not None else ())}
    if not donewhen.parse(relay.done_when).prose:
        # what the stores answer no approval may answer instead, whatever a record says was asked
        asks.pop(Ask.DONE_UNCONFIRMED, None)
    if reason in (Reason.PARKED_UNSAFE, Reason.NO_PROGRESS) and not asks:
        asks[reason] = []
    if not asks and (found.record is None or found.record.status != "parked"):
        return ""
    why = (
        recorded("%(asks)s: as on the host that it came from", asks=", ".join(asks))
        if asks
        else recorded("parked on the host that it came from")
    )
    change_relay(relay.pk, RelayStatus.PARKED, frm=[RelayStatus.READY], now=moment, why=why, next_at=None)
    for token, items in asks.items():
        lines = [*items, recorded("taken over with leg %(number)d from another host", number=leg.number)]
        gates.open_episode(relay.pk, token, leg=leg, items=lines, now=moment)
    return why

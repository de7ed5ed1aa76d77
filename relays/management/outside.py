"""A baton judged from outside: by whoever holds the text and, perhaps, a repository.

Baton contract: "Checking a baton from outside never runs a `cmd` clause (`left_out`) and never takes a lease."
"""

from dataclasses import dataclass
from pathlib import Path

from relays.core import baton as batons
from relays.core import donewhen, reload
from relays.core.baton import Baton, Reading
from relays.core.pointers import Answer, Verdict
from relays.core.policy import MEMORY_ROOT
from relays.driver import leases, pending, places
from relays.driver import reload as driver_reload
from relays.models import Baton as BatonRow
from relays.models import Relay
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.git import GitStore
from relays.stores.place import RepoPlace, discover


class NoBranch(Exception):
    """The branch that was asked for by name does not exist."""


@dataclass(frozen=True, slots=True)
class Place:
    """A repository with the branch whose tip counts; `tip` None: the branch has no commit."""

    repo: RepoPlace
    git: GitStore
    branch: str
    tip: str | None


def locate(folder: str, relay_id: str, branch: str) -> Place:
    """The repository in `folder` and its branch: `branch`, else `relay/<id>` where it exists, else HEAD.

    Raises StoreUnavailable when it cannot answer and NoBranch for a named branch that does not exist.
    """
    repo = discover(Path(folder))
    git = GitStore(Path(folder), places.shield())
    if branch:
        tip = git.tip(branch)
        if tip is None:
            raise NoBranch(branch)
        return Place(repo, git, branch, tip)
    own = f"relay/{relay_id}"
    try:
        tip = git.tip(own)
    except StoreUnavailable:
        tip = None  # the id of a foreign baton makes no name of a branch
    if tip is not None:
        return Place(repo, git, own, tip)
    return Place(repo, git, repo.head_branch or "HEAD", repo.head_sha)


def stores(place: Place, relay_id: str) -> Stores:
    """The stores to ask about a baton of that relay, whether it is known here or not."""
    relay = Relay.objects.filter(pk=relay_id).first()
    own = relay is not None and relay.git_dir == str(place.repo.git_dir)
    return Stores(
        place.git,
        place.tip,
        relay.memory_root if relay is not None else MEMORY_ROOT,
        relay_id,
        work_tree=None if own else place.repo.top,
        branch=place.branch,
    )


def climb(reading: Reading, place: Place | None, why_not: str = "") -> reload.Ladder:
    """The ladder without commands and without a lease. `place` None: none was named, or `why_not` it is silent."""
    baton = reading.baton
    if baton is None or (place is None and not why_not):
        return reload.climb(reading, answers=None, expected=None, done=None, holder=None)
    if place is None:
        silent = {one.path: Answer(Verdict.UNKNOWN, why_not) for one in reload.pointers_of(baton)}
        return reload.climb(reading, answers=silent, expected=None, done=None, holder=None)
    relay = Relay.objects.filter(pk=baton.relay_id).first()
    at_hand = stores(place, baton.relay_id)
    goal = donewhen.parse(relay.done_when) if relay is not None else donewhen.of_baton(baton.done_when)
    done = donewhen.evaluate(goal, at_hand.clause_answers(goal, {}))
    return reload.climb(
        reading,
        answers=at_hand.answers(baton),
        expected=None if relay is None else _expected(relay),
        done=done if relay is None else pending.verdict(relay, at_hand, done),
        holder=_holder(baton, place, relay),
    )


def plan(reading: Reading, place: Place | None, why_not: str = "") -> dict[str, object]:
    """The reload plan: what the ladder says, where the next leg starts from and what it reads anew.

    Mission: "Same durable store + same baton -> same reload plan." Nothing is written and nothing is rebuilt here: a
    stale baton's cursor is only derived as rules.md says. Where nothing starts (invalid, unknown, done, a branch that
    is gone) the cursor is null and nothing is read anew.
    """
    ladder = climb(reading, place, why_not)
    cursor, rebuilt, reread, next_action = None, False, reload.Reread(), ""
    baton = reading.baton
    if baton is not None and place is not None and place.tip is not None:
        at_hand = stores(place, baton.relay_id)
        try:
            if ladder.outcome in ("fresh", "held"):
                cursor, next_action = baton.cursor.start_sha, baton.next_action
                reread = at_hand.reread(cursor, place.tip, baton.leg + 1)
            elif ladder.outcome == "stale" and (found := _derived(baton, at_hand)) is not None:
                cursor, rebuilt, reread, next_action = found.cursor, True, found.reread, reload.REDERIVE
        except StoreUnavailable as error:
            ladder = reload.Ladder("unknown", 6, "progress_cursor.start_sha", error.evidence, ladder.checks)
            cursor, rebuilt, reread, next_action = None, False, reload.Reread(), ""
    return reload.plan_mapping(
        ladder,
        baton_digest="" if baton is None else batons.digest(baton),
        branch="" if place is None else place.branch,
        tip="" if place is None else place.tip or "",
        cursor=cursor,
        rebuilt=rebuilt,
        reread=reread,
        next_action=next_action,
    )


def _derived(baton: Baton, at_hand: Stores) -> driver_reload.Derived | None:
    """Where a stale baton's cursor is rebuilt. A relay that is not known here has no earlier cursor and no start."""
    relay = Relay.objects.filter(pk=baton.relay_id).first()
    known = relay or Relay(id=baton.relay_id, start_sha="", repo=str(at_hand.git.path))
    row = BatonRow.objects.filter(relay_id=baton.relay_id, digest=batons.digest(baton)).order_by("-pk").first()
    return driver_reload.derive(known, row or BatonRow(text=batons.canonical(baton).decode()), at_hand)


def _expected(relay: Relay) -> reload.Expected:
    return reload.Expected(relay.pin, relay.done_when, tuple(relay.region))


def _holder(baton: Baton, place: Place, relay: Relay | None) -> str | None:
    region = tuple(relay.region) if relay is not None else baton.cursor.held_region
    return leases.holder_of(str(place.repo.git_dir), region, but=baton.relay_id) or None

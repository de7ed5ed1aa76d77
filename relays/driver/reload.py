"""Reload: climb the reader's ladder for a relay's current baton, and rebuild the cursor when it is stale.

Mission: "the baton carries no trusted claim — progress is re-verified from git/ledger at every leg start".
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from django.db import transaction
from django.utils import timezone

from relays.core import baton as batons
from relays.core import donewhen, reload
from relays.core.donewhen import DoneVerdict
from relays.core.lines import recorded
from relays.core.pointers import Answer, Verdict
from relays.driver import budgets, git, leases, pending, rebaton
from relays.driver.changes import bump, topic
from relays.models import Baton, Check, CommandResult, Decision, Leg, Relay, Verification
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.git import GitStore

EARLIER = 200  # earlier cursors that are looked at together: the newest one nearly always stands


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The outcome of one climb: the ladder, what it was judged at, and the row that keeps it.

    `stores` None: the repository did not answer, or it answered that the branch is gone (`stale` then).
    """

    ladder: reload.Ladder
    row: Verification
    stores: Stores | None


@dataclass(frozen=True, slots=True)
class Derived:
    """A rebuilt cursor, where it comes from, and what came after it; the same stores give the same."""

    cursor: str
    source: str
    reread: reload.Reread


class BranchGone(StoreUnavailable):
    """The store answered: the relay's branch is not there any more."""


def stores_for(relay: Relay, store: GitStore | None = None) -> Stores:
    """The relay's durable stores at its branch tip now; `store`: one that is open already. Raises StoreUnavailable."""
    stores = _stores(relay, store or git.store(relay))
    if stores is None:
        raise BranchGone(
            recorded("%(name)s does not exist", name=relay.branch),
            where=relay.repo,
            fix=recorded("make it again where its work is"),
        )
    return stores


def _stores(relay: Relay, store: GitStore, *, gone: bool = False) -> Stores | None:
    """`gone`: the stores of a branch that is not there too: nothing is on it, and that is an answer."""
    tip = store.tip(relay.branch)
    if tip is None and not gone:
        return None
    return Stores(store, tip, memory_root=relay.memory_root, relay_id=relay.pk, branch=relay.branch)


def climb(
    relay: Relay,
    row: Baton,
    *,
    purpose: str,
    leg: Leg | None,
    now: datetime,
    stores: Stores | None = None,
    done: DoneVerdict | None = None,
    with_lease: bool = True,
) -> Reloaded:
    """Run every step in order over `row`, store the records, and return the outcome. Never raises for bad input.

    `stores`: those that `done` was judged at; else they are opened here. baton.md, step 6: each anchor "is an ancestor
    of the relay's branch tip"; on a branch that is gone there is nothing, so that they dangle.
    """
    reading = batons.read(row.text, budgets.policy_of(relay).baton)
    asked, why_unknown = stores, ""
    if asked is None:
        try:
            asked = _stores(relay, git.store(relay), gone=True)
        except StoreUnavailable as error:
            why_unknown = error.evidence
    answers = _answers(reading.baton, asked, why_unknown)
    stores = asked if asked is not None and not asked.branch_gone else None
    if done is None and stores is not None:
        done = pending.verdict(relay, stores, judge_done(relay, stores))
    holder = leases.holder_of(relay.git_dir, relay.region, but=relay.pk) if with_lease else None
    expected = reload.Expected(relay.pin, relay.done_when, tuple(relay.region))
    ladder = reload.climb(reading, answers=answers, expected=expected, done=done, holder=holder or None)
    with transaction.atomic():
        kept = keep(relay, row, ladder, purpose=purpose, leg=leg, tip=stores.tip if stores else "", now=now)
        bump(topic(relay.pk))
    return Reloaded(ladder, kept, stores)


def _answers(baton: batons.Baton | None, stores: Stores | None, why_unknown: str) -> dict[str, Answer]:
    """Every pointer of the baton with its store's answer, one batch per store."""
    if baton is None:
        return {}
    if stores is None:
        return {place.path: Answer(Verdict.UNKNOWN, why_unknown) for place in reload.pointers_of(baton)}
    return stores.answers(baton)


def judge_done(
    relay: Relay, stores: Stores, *, cmd_answers: dict[str, tuple[donewhen.Truth, str]] | None = None
) -> DoneVerdict:
    """The relay's own done_when at the tip; a `cmd` clause from its kept answer for this tip, else unknown."""
    done = donewhen.parse(relay.done_when)
    commands = cmd_answers
    if commands is None:
        asked = any(clause.kind == "cmd" for clause in done.clauses)
        commands = kept_commands(relay, stores.tip) if asked else {}
    return donewhen.evaluate(done, stores.clause_answers(done, commands))


def kept_commands(relay: Relay, tip: str) -> dict[str, tuple[donewhen.Truth, str]]:
    """command -> (truth, evidence) of the kept results for this tip, the newest of each."""
    found: dict[str, tuple[donewhen.Truth, str]] = {}
    for result in CommandResult.objects.filter(relay=relay, tip=tip).order_by("at", "pk"):
        truth = donewhen.Truth.TRUE if result.passed else donewhen.Truth.FALSE
        code = "timed out" if result.exit_code is None else f"exit {result.exit_code}"
        found[result.command] = (truth, f"{code} at {tip[:12]}")
    return found


def keep(
    relay: Relay, row: Baton, ladder: reload.Ladder, *, purpose: str, leg: Leg | None, tip: str, now: datetime
) -> Verification:
    """Store a climb with each of its records, inside the caller's transaction."""
    verification = Verification.objects.create(
        relay=relay,
        baton=row,
        leg=leg,
        purpose=purpose,
        outcome=ladder.outcome,
        step=ladder.step,
        path=ladder.path or "",
        evidence=ladder.evidence,
        branch=relay.branch,
        tip=tip,
        at=now,
    )
    Check.objects.bulk_create(
        Check(
            verification=verification,
            number=number,
            step=check.step,
            path=check.path,
            verdict=check.verdict,
            pointer=check.pointer,
            evidence=check.evidence[:2000],
            at=now,
        )
        for number, check in enumerate(ladder.checks)
    )
    return verification


def rebuild(relay: Relay, row: Baton, reloaded: Reloaded, now: datetime) -> Baton | None:
    """Rebuild the cursor and write the fresh baton; None when nothing verifies (an UNSERVED_PAGE_FAULT then).

    What a leg reads anew after the cursor is kept with the climb, as its plan. Raises StoreUnavailable.
    """
    found = derive(relay, row, reloaded.stores) if reloaded.stores is not None else None
    if reloaded.stores is None or found is None:
        return None
    verified = frozenset(
        check.path for check in reloaded.ladder.checks if check.pointer and check.verdict == "verified"
    )
    with transaction.atomic():
        fresh = rebaton.after_stale(
            relay,
            row,
            cursor=found.cursor,
            verified_paths=verified,
            now=now,
            chosen_next_action=_chosen_by_a_person(relay, row),
        )
        plan = reload.plan_mapping(
            reloaded.ladder,
            baton_digest=row.digest,
            branch=relay.branch,
            tip=reloaded.stores.tip,
            cursor=found.cursor,
            rebuilt=True,
            reread=found.reread,
            next_action=rebaton.read(fresh).next_action,
        )
        Verification.objects.filter(pk=reloaded.row.pk).update(
            cursor_sha=found.cursor,
            rebuilt=True,
            plan={**plan, "source": found.source, "fresh_baton": fresh.digest},
        )
        bump(topic(relay.pk))
    return fresh


def derive(relay: Relay, row: Baton, stores: Stores) -> Derived | None:
    """Where the cursor is rebuilt and what came after it; None when nothing verifies. Raises StoreUnavailable.

    rules.md, Reload: "the merge-base of start_sha (where it is gone: of at_sha) with the tip, several → the smallest
    SHA; else the newest earlier cursor of this relay that verifies; else the relay's start".
    """
    store, tip = stores.git, stores.tip
    baton = batons.read(row.text, budgets.policy_of(relay).baton).baton
    unknown = False
    choice = reload.CursorChoice(None, "")
    for candidates in _candidates(relay, row, baton, stores):
        choice = reload.choose_cursor(candidates)
        unknown = unknown or any(one.verdict is Verdict.UNKNOWN for one in candidates)
        if choice.sha is not None:
            break
    if choice.sha is None:
        if unknown:
            raise StoreUnavailable(
                recorded("no cursor could be proven, and some could not be judged"), where=relay.repo
            )
        return None
    since_leg = _first_leg_after(relay, choice.sha, store)
    return Derived(choice.sha, choice.source, stores.reread(choice.sha, tip, since_leg))


def _candidates(
    relay: Relay, row: Baton, baton: batons.Baton | None, stores: Stores
) -> Iterator[list[reload.Candidate]]:
    """The commits that the cursor may be rebuilt at, in the rule's order; later ones are asked only where needed."""
    store, tip = stores.git, stores.tip
    if baton is not None:
        start, at = baton.cursor.start_sha, baton.tombstone.at_sha
        gone = store.types([start])[start] != "commit" and not store.shallow
        source, anchor = ("at_sha", at) if gone else ("start_sha", start)
        bases = store.merge_bases(anchor, tip)
        yield [
            reload.Candidate(sha, recorded("merge-base of %(source)s", source=source), Verdict.VERIFIED)
            for sha in bases[:1]
        ]
    earlier = Baton.objects.filter(relay=relay).exclude(pk=row.pk).order_by("-leg__number", "-pk")
    texts = earlier.values_list("text", flat=True).iterator(chunk_size=EARLIER)
    while some := list(islice(texts, EARLIER)):
        cursors = [sha for text in some if (sha := _cursor_of(text))]
        answers = store.resolve_commits(cursors, tip)
        yield [reload.Candidate(sha, "earlier cursor", answers[sha].verdict) for sha in cursors]
    answer = store.resolve_commits([relay.start_sha], tip)[relay.start_sha]
    yield [reload.Candidate(relay.start_sha, recorded("the relay's start"), answer.verdict)]


def _cursor_of(text: str) -> str:
    """The cursor of a stored baton, "" where the text was damaged: another one is looked for then."""
    try:
        return str(json.loads(text)["progress_cursor"]["start_sha"])
    except (ValueError, KeyError, TypeError):
        return ""


def _first_leg_after(relay: Relay, cursor: str, store: GitStore) -> int:
    """The number of the first leg that began after `cursor`, or in which it lies; its ledger rows are read anew."""
    ended = Leg.objects.filter(relay=relay).exclude(end_sha="").order_by("-number").values_list("number", "end_sha")
    legs = ended.iterator(chunk_size=EARLIER)
    while some := list(islice(legs, EARLIER)):
        before = store.reached(cursor, [sha for _, sha in some])
        closed = next((number for number, sha in some if sha in before), None)
        if closed is not None:
            return closed + 1
    return 0


def _chosen_by_a_person(relay: Relay, row: Baton) -> str:
    """The next action that a person chose since the closing leg ended, or ""."""
    details = Decision.objects.filter(relay=relay, at__gte=row.leg.ended_at or row.at).order_by("-seq")
    chosen = (detail.get("next_action") for detail in details.values_list("detail", flat=True))
    return str(next((text for text in chosen if text), ""))


def verify_again(baton_pk: int) -> Verification:
    """All pointers of one baton again, by a person's wish: never runs a `cmd`, never takes a lease."""
    row = Baton.objects.select_related("relay", "leg").get(pk=baton_pk)
    return climb(row.relay, row, purpose="verify", leg=None, now=timezone.now()).row

"""Reload: climb the reader's ladder for a relay's current baton, and rebuild the cursor when it is stale.

Mission: "the baton carries no trusted claim — progress is re-verified from git/ledger at every leg start".
"""

import json
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from relays.core import baton as batons
from relays.core import donewhen, reload
from relays.core.donewhen import DoneVerdict
from relays.core.pointers import Answer, Verdict
from relays.driver import budgets, git, leases, rebaton
from relays.driver.changes import bump, topic
from relays.models import Baton, Check, CommandResult, Decision, Leg, Relay, Verification
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.git import GitStore


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The outcome of one climb: the ladder, what it was judged at, and the row that keeps it."""

    ladder: reload.Ladder
    row: Verification
    stores: Stores | None


class BranchGone(StoreUnavailable):
    """The store answered: the relay's branch is not there any more."""


def stores_for(relay: Relay, store: GitStore | None = None) -> Stores:
    """The relay's durable stores at its branch tip now; `store`: one that is open already. Raises StoreUnavailable."""
    store = store or git.store(relay)
    tip = store.tip(relay.branch)
    if tip is None:
        raise BranchGone(f"branch {relay.branch} does not exist in {relay.repo}")
    return Stores(store, tip, memory_root=relay.memory_root, relay_id=relay.pk)


def climb(
    relay: Relay,
    row: Baton,
    *,
    purpose: str,
    leg: Leg | None,
    now: datetime,
    done: DoneVerdict | None = None,
    with_lease: bool = True,
) -> Reloaded:
    """Run every step in order over `row`, store the records, and return the outcome. Never raises for bad input."""
    reading = batons.read(row.text, budgets.policy_of(relay).baton)
    stores: Stores | None = None
    why_unknown = ""
    try:
        stores = stores_for(relay)
    except StoreUnavailable as error:
        why_unknown = error.evidence
    answers = _answers(reading.baton, stores, why_unknown)
    if done is None and stores is not None:
        done = judge_done(relay, stores)
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
    commands = cmd_answers if cmd_answers is not None else kept_commands(relay, stores.tip)
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
    rules.md, Reload: the merge-base of start_sha with the tip (where it is gone: of at_sha), several → the smallest;
    else the newest earlier cursor of this relay that verifies; else the relay's start.
    """
    if reloaded.stores is None:
        return None
    store, tip = reloaded.stores.git, reloaded.stores.tip
    baton = batons.read(row.text, budgets.policy_of(relay).baton).baton
    candidates: list[reload.Candidate] = []
    if baton is not None:
        for source, sha in (("start_sha", baton.cursor.start_sha), ("at_sha", baton.tombstone.at_sha)):
            bases = store.merge_bases(sha, tip)  # none where the commit is gone
            if bases:
                candidates.append(reload.Candidate(bases[0], f"merge-base of {source}", Verdict.VERIFIED))
                break
    earlier = list(
        Baton.objects.filter(relay=relay)
        .exclude(pk=row.pk)
        .order_by("-leg__number", "-pk")
        .values_list("text", "leg__number")
    )
    cursors = [(json.loads(text)["progress_cursor"]["start_sha"], number) for text, number in earlier]
    shas = [sha for sha, _ in cursors]
    verdicts = store.resolve_commits([*shas, relay.start_sha], tip)
    candidates += [reload.Candidate(sha, "earlier cursor", verdicts[sha].verdict) for sha in shas]
    candidates.append(reload.Candidate(relay.start_sha, "the relay's start", verdicts[relay.start_sha].verdict))
    choice = reload.choose_cursor(candidates)
    if choice.sha is None:
        return None
    verified = frozenset(
        check.path for check in reloaded.ladder.checks if check.pointer and check.verdict == "verified"
    )
    since_leg = next((number + 1 for sha, number in cursors if sha == choice.sha), 0)
    reread = reloaded.stores.reread(choice.sha, tip, since_leg)
    with transaction.atomic():
        fresh = rebaton.after_stale(
            relay,
            row,
            cursor=choice.sha,
            verified_paths=verified,
            now=now,
            chosen_next_action=_chosen_by_a_person(relay, row),
        )
        plan = reload.plan_mapping(
            reloaded.ladder,
            baton_digest=row.digest,
            branch=relay.branch,
            tip=tip,
            cursor=choice.sha,
            rebuilt=True,
            reread=reread,
            next_action=rebaton.read(fresh).next_action,
        )
        Verification.objects.filter(pk=reloaded.row.pk).update(
            cursor_sha=choice.sha, rebuilt=True, plan={**plan, "source": choice.source, "fresh_baton": fresh.digest}
        )
        bump(topic(relay.pk))
    return fresh


def _chosen_by_a_person(relay: Relay, row: Baton) -> str:
    """The next action that a person chose since the closing leg ended, or ""."""
    details = Decision.objects.filter(relay=relay, at__gte=row.leg.ended_at or row.at).order_by("-seq")
    chosen = (detail.get("next_action") for detail in details.values_list("detail", flat=True))
    return str(next((text for text in chosen if text), ""))


def verify_again(baton_pk: int) -> Verification:
    """All pointers of one baton again, by a person's wish: never runs a `cmd`, never takes a lease."""
    row = Baton.objects.select_related("relay", "leg").get(pk=baton_pk)
    return climb(row.relay, row, purpose="verify", leg=None, now=timezone.now()).row

"""Start a relay: everything is checked first; a refused start makes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models.functions import Length
from django.utils import timezone

from relays.actions.base import Actor, Held, Refused, Usage, need, record
from relays.agents import registry
from relays.agents.base import AgentArgError
from relays.core import baton, donewhen, objective, policy, policyfile, region
from relays.core.vocabulary import Ask, Extra, Mode
from relays.driver import adopt, leases, places, rebaton, successor
from relays.driver.changes import INBOX, RELAYS, bump, ring, topic
from relays.models import Decision, Relay, RelayStatus
from relays.stores import git as git_store
from relays.stores import ownconfig
from relays.stores.base import StoreUnavailable


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What the form, the API and the command line hand over."""

    repo: str
    objective: str
    done_when: str
    agent: str
    region: Sequence[str] = ()
    agent_args: Mapping[str, str] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    sets: Sequence[str] = ()
    mode: str = ""
    watch: bool = False
    origin: Mapping[str, Any] = field(default_factory=dict)  # what it came from: kept with the decision
    form: str = ""  # names one filled-in form: sent twice, it starts one relay


class _Again(Exception):
    """The form has started a relay already."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay


def start(actor: Actor, request: StartRequest) -> Relay:
    """Make the relay, its region lease and leg 0 in one transaction, and ring for a driver.

    A form that this person sent before gives the relay that it started then. Raises Usage, Held (exit 6,
    COLLISION_RISK with the holder) or NotPermitted; nothing is made then.
    """
    need(actor, "operate", "start a relay")
    if (before := _started(actor, request)) is not None:
        return before
    try:
        done = donewhen.parse(request.done_when)
        pin = objective.make_pin("pin", request.objective)
        held_region = region.check_region(tuple(request.region) or ("**",))
        adapter = registry.adapter(request.agent)
        adapter.check_args(dict(request.agent_args))
    except (
        donewhen.DoneWhenError,
        objective.ObjectiveError,
        region.RegionError,
        registry.UnknownAgent,
        AgentArgError,
    ) as error:
        raise Usage(f"start: {error}") from error
    if request.watch and done.prose:
        raise Usage(
            f"start: --watch: done_when is prose ({done.why_prose}), which no store can say holds; "
            'use clauses such as issues:none open, file:GLOB or cmd:"…"'
        )
    place, store, tip = _repository(request.repo)
    snapshot = _policy(request, done, store, tip)
    try:
        rebaton.check_room(pin, done.text, held_region, snapshot.baton)
    except baton.BatonError as error:
        raise Usage(f"start: {error}") from error
    in_place = snapshot.workspace == "in_place"
    if in_place and not place.head_branch:
        raise Usage(f"start: {place.top} has no branch checked out; switch to one, or leave workspace at worktree")
    moment = timezone.now()
    while True:
        relay_id = _next_id(store, moment)
        relay = Relay(
            id=relay_id,
            status=RelayStatus.READY,
            status_at=moment,
            created_at=moment,
            objective=pin.text,
            done_when=done.text,
            watch=request.watch,
            region=list(held_region),
            repo=str(place.top),
            git_dir=str(place.git_dir),
            branch=(place.head_branch or "") if in_place else f"relay/{relay_id}",
            worktree=str(place.top) if in_place else str(places.worktree(relay_id)),
            start_sha=tip,
            agent=adapter.name,
            agent_args=dict(request.agent_args),
            policy=policy.to_snapshot(snapshot),
            mode=Mode(snapshot.mode),
            owner=actor.user,
            os_user=actor.os_user,
            findings=[f"{ownconfig.FINDING}{line}" for line in ownconfig.lint(place.git_dir)],
        )
        own = objective.make_pin(f"pin-{relay_id.lower()}", request.objective)
        relay.pin_id, relay.objective_digest = own.pin_id, own.digest
        try:
            with transaction.atomic():
                _create(actor, relay, held_region, moment, request)
        except _Again as again:
            return again.relay
        except IntegrityError:
            if Relay.objects.filter(pk=relay_id).exists():
                continue  # another start took the number
            raise
        return relay


def _started(actor: Actor, request: StartRequest) -> Relay | None:
    """The relay that this person started with the same form."""
    if not request.form:
        return None
    same = Decision.objects.filter(act="start", actor=actor.user, detail__form=request.form)
    row = same.select_related("relay").first()
    return row.relay if row is not None else None


def _create(actor: Actor, relay: Relay, held_region: tuple[str, ...], moment: datetime, request: StartRequest) -> None:
    relay.save(force_insert=True)
    holder = leases.acquire(relay, held_region, moment)
    # starts on one repository come one after the other from here on: of two that were sent at once one sees the other
    if (before := _started(actor, request)) is not None:
        raise _Again(before)
    if holder:
        raise Held(
            f"start: {Extra.COLLISION_RISK}: region {' '.join(held_region)} in {relay.repo} overlaps the one that "
            f"{holder} holds; narrow --region, or wait until {holder} is done or stopped"
        )
    successor.first(relay)
    record(
        actor,
        "start",
        now=moment,
        relay=relay,
        detail={
            "objective_digest": relay.objective_digest,
            "done_when": relay.done_when,
            "watch": relay.watch,
            "region": list(held_region),
            "agent": relay.agent,
            "agent_args": relay.agent_args,
            **({"origin": dict(request.origin)} if request.origin else {}),
            **({"form": request.form} if request.form else {}),
        },
    )
    bump(topic(relay.pk), RELAYS, INBOX)
    ring(relay.pk)


def _repository(repo: str) -> tuple[git_store.RepoPlace, git_store.GitStore, str]:
    if not repo.strip() or "\0" in repo:
        raise Usage("start: --repo names no folder; name one inside a git repository")
    try:
        place = git_store.discover(Path(repo))
        if place.bare:
            raise Usage(f"start: --repo {repo} is a bare repository; name a work tree")
        if place.top is None:
            raise Usage(f"start: --repo {repo} is inside a git folder; name the work tree itself")
        store = git_store.GitStore(place.git_dir, places.shield())
    except StoreUnavailable as error:
        fix = error.fix or "name a folder inside a git repository"
        raise Usage(f"start: --repo {repo}: {error.evidence}; {fix}") from error
    if not place.head_sha:
        raise Usage(f"start: --repo {repo} has no commit yet; make a first commit")
    return place, store, place.head_sha


def in_words(relay: Relay) -> str:
    """What a person should know of the goal before they leave it alone; "" where the store alone decides.

    rules.md, done_when: "one clause that does not parse makes the whole line prose, and the start form and command say
    so".
    """
    done = donewhen.parse(relay.done_when)
    if done.prose:
        return (
            f"done_when is prose ({done.why_prose}): it is never true by itself; "
            f"a reviewer confirms it ({Ask.DONE_UNCONFIRMED}) when the agent believes it reached"
        )
    if relay.watch:
        return "done_when is an invariant: the relay idles while it holds and nothing is pending, and never ends by it"
    return ""


def _policy(request: StartRequest, done: donewhen.DoneWhen, store: git_store.GitStore, tip: str) -> policy.Policy:
    """Defaults < site < the repository's `[relay]` in dos.toml at its tip (tighten only) < start, checked against the
    goal: prose and a watch have no end of their own, so that the envelope must have one."""
    try:
        text = store.read_file(tip, "dos.toml")
        own = policyfile.parse_toml_relay_table(text.decode("utf-8", "replace")) if text else None
        start = dict(request.policy)
        if request.mode:
            start["mode"] = request.mode
        built = policy.build(settings.SITE_POLICY, own, start, request.sets)
        has_cmd = any(clause.kind == "cmd" for clause in done.clauses)
        policy.check_goal(built, prose=done.prose, watch=request.watch, has_cmd=has_cmd)
        return built
    except policy.PolicyError as error:
        goal = f"done_when is prose ({done.why_prose}): " if done.prose else ""
        raise Usage(f"start: {goal}{error}") from error
    except StoreUnavailable as error:
        raise Refused(f"start: dos.toml of {request.repo} cannot be read: {error.evidence}") from error


def _next_id(store: git_store.GitStore, moment: datetime) -> str:
    """`RLY-YYYYMMDD-NNNN`, free here, in the repository and among the worktrees: another database may have them."""
    day = f"RLY-{timezone.localtime(moment, timezone.get_default_timezone()):%Y%m%d}-"
    # the longest first: the ten-thousandth of a day sorts before the second as text
    today = Relay.objects.filter(pk__startswith=day).order_by(Length("pk").desc(), "-pk")
    newest = today.values_list("pk", flat=True).first()
    number = int(newest.removeprefix(day)) if newest else 0
    taken = set(adopt.relays_in(store))
    while True:
        number += 1
        relay_id = f"{day}{number:04d}"
        if relay_id not in taken and not places.worktree(relay_id).exists():
            return relay_id

"""Start a relay: everything is checked first; a refused start makes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models.functions import Length
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from relays.actions import reviewers
from relays.actions.base import Actor, Held, Refused, Usage, need, record
from relays.agents import registry
from relays.agents.base import AgentArgError
from relays.core import baton, donewhen, objective, policy, policyfile, policytable, readout, region, reset, rotation
from relays.core.vocabulary import Ask, Extra, Mode
from relays.driver import adopt, leases, places, rebaton, successor
from relays.driver.changes import INBOX, RELAYS, bump, ring, topic
from relays.models import Decision, PolicyVersion, Relay, RelayStatus, Request, ReviewerGroup
from relays.reports.sentences import refused, told
from relays.stores import git as git_store
from relays.stores import ownconfig
from relays.stores.base import StoreUnavailable

#: how far ahead a start may be planned
FURTHEST = timedelta(days=366)
SCHEDULED = gettext_noop("its start is planned for then")


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
    reviewers: str = ""  # the group whose members alone decide on its gates; "": whoever may review
    form: str = ""  # names one filled-in form: sent twice, it starts one relay
    version: PolicyVersion | None = None  # the stored policy that it starts with; `policy` and `sets` go over it
    at: datetime | None = None  # when its first leg may start; None = now
    try_one: bool = False  # it parks when its first leg has ended


@dataclass(frozen=True, slots=True)
class Plan:
    """A start of which everything is checked and nothing is made: what `start` writes and a dry run shows."""

    request: StartRequest
    place: git_store.RepoPlace
    store: git_store.GitStore
    tip: str
    done: donewhen.DoneWhen
    region: tuple[str, ...]
    policy: policy.Policy
    repository_table: Mapping[str, Any]  # `[relay]` of dos.toml at the tip
    sources: Mapping[str, str]  # key of the policy -> site, repository, policy or start; what none says is a default
    agent: str
    reviewers: ReviewerGroup | None

    @property
    def in_place(self) -> bool:
        return self.policy.workspace == "in_place"

    @property
    def branch(self) -> str:
        """The branch that is worked on in place; a relay with a worktree has one of its own."""
        return (self.place.head_branch or "") if self.in_place else ""


class _Again(Exception):
    """The form has started a relay already."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay


def plan(actor: Actor, request: StartRequest) -> Plan:
    """Everything that a start checks, but who holds the region: nothing is made. Raises Usage or NotPermitted."""
    need(actor, "operate", _("start a relay"))
    done, pin, held_region, agent = _goal(request)
    if request.watch and done.prose:
        raise Usage(
            _(
                "start: --watch: done_when is prose (%(why_prose)s), which no store can say holds; use clauses "
                'such as issues:none open, file:GLOB or cmd:"…"'
            )
            % {"why_prose": told(done.why_prose)},
            "done_when",
        )
    check_when(request.at)
    place, store, tip = _repository(request.repo)
    table = _repository_table(request, store, tip)
    snapshot = _policy(request, done, table)
    try:
        rebaton.check_room(pin, done.text, held_region, snapshot.baton)
    except baton.BatonError as error:
        raise Usage(_("start: %(error)s") % {"error": refused(error)}, "objective") from error
    if snapshot.workspace == "in_place" and not place.head_branch:
        raise Usage(
            _("start: %(place_top)s has no branch checked out; switch to one, or leave workspace at worktree")
            % {"place_top": place.top},
            "repo",
        )
    group = reviewers.choose(request.reviewers) if request.reviewers else None
    if group is not None:
        reviewers.check_enough(_("start"), group, snapshot, actor.user.get_username())
    return Plan(request, place, store, tip, done, held_region, snapshot, table, _sources(request, table), agent, group)


def _goal(request: StartRequest) -> tuple[donewhen.DoneWhen, objective.Pin, tuple[str, ...], str]:
    field = ""
    try:
        field = "done_when"
        done = donewhen.parse(request.done_when)
        field = "objective"
        pin = objective.make_pin("pin", request.objective)
        field = "region"
        held_region = region.check_region(tuple(request.region) or ("**",))
        field = "agent"
        adapter = registry.adapter(request.agent)
        adapter.check_args(dict(request.agent_args))
    except (
        donewhen.DoneWhenError,
        objective.ObjectiveError,
        region.RegionError,
        registry.UnknownAgent,
        AgentArgError,
    ) as error:
        raise Usage(_("start: %(error)s") % {"error": refused(error)}, field) from error
    return done, pin, held_region, adapter.name


def check_when(at: datetime | None) -> None:
    """Raise Usage for a time that is over or too far ahead."""
    if at is None:
        return
    now = timezone.now()
    if at <= now:
        raise Usage(
            _("start: --at %(at)s is over; name a time ahead, or leave it out to start now") % {"at": at.isoformat()},
            "at",
        )
    if at > now + FURTHEST:
        raise Usage(
            _("start: --at %(at)s is more than %(days)s days ahead; name an earlier one")
            % {"at": at.isoformat(), "days": FURTHEST.days},
            "at",
        )


def start(actor: Actor, request: StartRequest) -> Relay:
    """Make the relay, its region lease and leg 0 in one transaction, and ring for a driver.

    A form that this person sent before gives the relay that it started then. With `at` it waits until then ("waiting:
    schedule ahead"), its region held and its start commit fixed; with `try_one` it parks behind its first leg. Raises
    Usage, Held (exit 6, COLLISION_RISK with the holder) or NotPermitted; nothing is made then.
    """
    need(actor, "operate", _("start a relay"))
    if (before := _started(actor, request)) is not None:
        return before
    found = plan(actor, request)
    place = found.place
    moment = timezone.now()
    while True:
        relay_id = next_id(found.store, moment)
        own = objective.make_pin(pin_name(relay_id), request.objective)
        relay = Relay(
            id=relay_id,
            status=RelayStatus.WAITING if request.at else RelayStatus.READY,
            status_why=SCHEDULED if request.at else "",
            status_at=moment,
            next_at=request.at,
            created_at=moment,
            pin_id=own.pin_id,
            objective=own.text,
            objective_digest=own.digest,
            done_when=found.done.text,
            watch=request.watch,
            region=list(found.region),
            repo=str(place.top),
            git_dir=str(place.git_dir),
            branch=found.branch or f"relay/{relay_id}",
            worktree=str(place.top) if found.in_place else str(places.worktree(relay_id)),
            start_sha=found.tip,
            agent=found.agent,
            agent_args=dict(request.agent_args),
            policy=policy.to_snapshot(found.policy),
            policy_version=request.version,
            mode=Mode(found.policy.mode),
            owner=actor.user,
            reviewers=found.reviewers,
            os_user=actor.os_user,
            park=Request.LEG if request.try_one else Request.NONE,
            findings=[f"{ownconfig.FINDING}{line}" for line in ownconfig.lint(place.git_dir)],
        )
        try:
            with transaction.atomic():
                _create(actor, relay, found, moment)
        except _Again as again:
            return again.relay
        except IntegrityError:
            if Relay.objects.filter(pk=relay_id).exists():
                continue  # another start took the number
            raise
        return relay


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a start would lead to: the bytes that its first leg begins with, and its readout as it would stand then."""

    plan: Plan
    relay_id: str  # the next one that is free now
    prompt: reset.Seed
    readout: readout.Readout
    holder: str  # the relay that holds an overlapping region, "" = none


def dry_run(actor: Actor, request: StartRequest) -> DryRun:
    """All that a start checks, and what it would begin with; nothing is made. Raises Usage or NotPermitted.

    Of the readout only those lines have a value that no leg is needed for: the objective, and what the envelope gives.
    """
    found = plan(actor, request)
    relay_id = next_id(found.store, timezone.now())
    pin = objective.make_pin(pin_name(relay_id), request.objective)
    envelope = found.policy.envelope
    window = policy.window_for(found.policy, str(request.agent_args.get("model", "")))
    lines = readout.build(
        objective=objective.reconcile(None, pin),
        budget=readout.BudgetLeft(
            turns=envelope.turns,
            tokens=envelope.output_tokens,
            context=rotation.ceiling_tokens(found.policy, window),
            queries=envelope.queries,
            time=envelope.wall,
        ),
    )
    holder = leases.holder_of(str(found.place.git_dir), found.region)
    return DryRun(found, relay_id, reset.seed(reset.PREAMBLE, pin, b""), lines, holder)


def pin_name(relay_id: str) -> str:
    """How the objective of a relay is named in its batons."""
    return f"pin-{relay_id.lower()}"


def _started(actor: Actor, request: StartRequest) -> Relay | None:
    """The relay that this person started with the same form."""
    if not request.form:
        return None
    same = Decision.objects.filter(act="start", actor=actor.user, detail__form=request.form)
    row = same.select_related("relay").first()
    return row.relay if row is not None else None


def _create(actor: Actor, relay: Relay, found: Plan, moment: datetime) -> None:
    request, held_region = found.request, found.region
    relay.save(force_insert=True)
    holder = leases.acquire(relay, held_region, moment)
    # starts on one repository come one after the other from here on: of two that were sent at once one sees the other
    if (before := _started(actor, request)) is not None:
        raise _Again(before)
    if holder:
        raise Held(held_by(holder, held_region, relay.repo))
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
            **({"reviewers": request.reviewers} if request.reviewers else {}),
            **({"form": request.form} if request.form else {}),
            **({"policy": str(request.version)} if request.version else {}),
            **({"policy_from": dict(found.sources)} if found.sources else {}),
            **({"at": request.at.isoformat()} if request.at else {}),
            **({"try_one": True} if request.try_one else {}),
        },
    )
    bump(topic(relay.pk), RELAYS, INBOX)
    ring(relay.pk)


def held_by(holder: str, held_region: Sequence[str], repo: str) -> str:
    """Why a start is refused whose region overlaps another relay's."""
    text = _(
        "start: %(token)s: region %(region)s in %(repo)s overlaps the one that %(holder)s holds; narrow --region, "
        "or wait until %(holder)s is done or stopped"
    )
    return text % {"token": Extra.COLLISION_RISK, "region": " ".join(held_region), "repo": repo, "holder": holder}


def _repository(repo: str) -> tuple[git_store.RepoPlace, git_store.GitStore, str]:
    if not repo.strip() or "\0" in repo:
        raise Usage(_("start: --repo names no folder; name one inside a git repository"), "repo")
    try:
        place = git_store.discover(Path(repo))
        if place.bare:
            raise Usage(_("start: --repo %(repo)s is a bare repository; name a work tree") % {"repo": repo}, "repo")
        if place.top is None:
            raise Usage(
                _("start: --repo %(repo)s is inside a git folder; name the work tree itself") % {"repo": repo}, "repo"
            )
        store = git_store.GitStore(place.git_dir, places.shield())
    except StoreUnavailable as error:
        fix = told(error.fix) or _("name a folder inside a git repository")
        raise Usage(
            _("start: --repo %(repo)s: %(evidence)s; %(fix)s")
            % {"repo": repo, "evidence": told(error.evidence), "fix": fix},
            "repo",
        ) from error
    if not place.head_sha:
        raise Usage(_("start: --repo %(repo)s has no commit yet; make a first commit") % {"repo": repo}, "repo")
    return place, store, place.head_sha


def in_words(relay: Relay) -> str:
    """What a person should know of the goal before they leave it alone; "" where the store alone decides.

    rules.md, done_when: "one clause that does not parse makes the whole line prose, and the start form and command say
    so".
    """
    done = donewhen.parse(relay.done_when)
    if done.prose:
        return _(
            "done_when is prose (%(why)s): it is never true by itself; a reviewer confirms it (%(token)s) when the "
            "agent believes it reached"
        ) % {"why": told(done.why_prose), "token": Ask.DONE_UNCONFIRMED}
    if relay.watch:
        return _(
            "done_when is an invariant: the relay idles while it holds and nothing is pending, and never ends by it"
        )
    return ""


def _repository_table(request: StartRequest, store: git_store.GitStore, tip: str) -> dict[str, Any]:
    """The `[relay]` table of dos.toml at the tip; {} where there is none."""
    try:
        text = store.read_file(tip, "dos.toml")
        return dict(policyfile.parse_toml_relay_table(text.decode("utf-8", "replace"))) if text else {}
    except policy.PolicyError as error:
        raise Usage(_("start: %(error)s") % {"error": refused(error)}, "policy") from error
    except StoreUnavailable as error:
        raise Refused(
            _("start: dos.toml of %(repo)s cannot be read: %(evidence)s")
            % {"repo": request.repo, "evidence": told(error.evidence)}
        ) from error


def start_table(request: StartRequest) -> dict[str, Any]:
    """The start's own layer: the stored policy, over it what was given as a table, over that the mode."""
    table = policytable.merged(request.version.table if request.version else {}, request.policy)
    return {**table, **({"mode": request.mode} if request.mode else {})}


def _sources(request: StartRequest, table: Mapping[str, Any]) -> dict[str, str]:
    mode = {"mode": request.mode} if request.mode else {}
    own = policytable.merged(policytable.merged(request.policy, mode), policytable.sets_table(request.sets))
    named = request.version.table if request.version else {}
    return policytable.sources(
        [("site", settings.SITE_POLICY), ("repository", table), ("policy", named), ("start", own)]
    )


def _policy(request: StartRequest, done: donewhen.DoneWhen, table: Mapping[str, Any]) -> policy.Policy:
    """Defaults < site < the repository's `[relay]` in dos.toml at its tip (tighten only) < start, checked against the
    goal: prose and a watch have no end of their own, so that the envelope must have one."""
    try:
        built = policy.build(settings.SITE_POLICY, table, start_table(request), request.sets)
        has_cmd = any(clause.kind == "cmd" for clause in done.clauses)
        policy.check_goal(built, prose=done.prose, watch=request.watch, has_cmd=has_cmd)
        return built
    except policy.PolicyError as error:
        goal = _("done_when is prose (%(why)s): ") % {"why": told(done.why_prose)} if done.prose else ""
        raise Usage(_("start: %(goal)s%(error)s") % {"goal": goal, "error": refused(error)}, "policy") from error


def next_id(store: git_store.GitStore, moment: datetime) -> str:
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

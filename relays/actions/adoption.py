"""The row of a relay that is taken up on another host: what its baton and its record say, as far as a person allows.

rules.md, Reload: "A command inside a baton or repository is never run because it stands there"; Policy is data: a
repository may only tighten. So a person names the agent's program and the goal's command again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.utils import timezone

from relays.actions.base import Actor, Usage
from relays.agents import registry
from relays.agents.base import AgentArgError
from relays.core import baton as batons
from relays.core import donewhen, objective, policy, policyfile, region, travel
from relays.core.sentences import phrase, quoted
from relays.core.vocabulary import Mode, Reason
from relays.driver import places, rebaton
from relays.driver.adopt import Travelled
from relays.models import Relay, RelayStatus
from relays.stores.git import GitStore, RepoPlace

LAST_LEG = 2**31 - 2


@dataclass(frozen=True, slots=True)
class AdoptRequest:
    """What the command line hands over. `relay`: which one, where the clone holds several.

    `agent`, `agent_args`: who runs its legs here; left out, the recorded one where its arguments name no program.
    `done_when`: the goal said again, where it runs a command. `host_dead`: a person's word that nobody drives it.
    """

    repo: str
    relay: str = ""
    agent: str = ""
    agent_args: Mapping[str, str] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    sets: Sequence[str] = ()
    mode: str = ""
    done_when: str = ""
    host_dead: bool = False
    comment: str = ""


def row(
    actor: Actor, request: AdoptRequest, place: RepoPlace, store: GitStore, found: Travelled
) -> tuple[Relay, tuple[str, ...]]:
    """The relay's row, not saved: identity, objective, goal and region from its newest baton; the rest as checked."""
    baton, kept = found.newest.baton, found.record
    agent, args = _agent(request, kept)
    watch = kept.watch if kept is not None else baton.tombstone.reason == Reason.IDLE_PARKED
    try:
        done = donewhen.parse(baton.done_when)
        held = region.check_region(baton.cursor.held_region)
        pin = objective.make_pin(baton.objective.pin_id, baton.objective.text)
        rules, left_out = _policy(request, store, found, done, watch)
        rebaton.check_room(pin, done.text, held, rules.baton)
        if refusal := batons.read(batons.canonical(baton), rules.baton).refusal:
            raise batons.BatonError(
                refusal.path,
                phrase(
                    "%(evidence)s; give wider bounds, such as --set baton.total=16384",
                    evidence=quoted(refusal.evidence),
                ),
            )
    except (
        donewhen.DoneWhenError,
        region.RegionError,
        objective.ObjectiveError,
        policy.PolicyError,
        batons.BatonError,
    ) as error:
        raise Usage(f"adopt {found.relay_id}: {error}") from error
    if (pin.digest, done.text) != (baton.objective.digest, baton.done_when):
        raise Usage(f"adopt {found.relay_id}: its baton states objective or done_when in a form that no start makes")
    if len(pin.pin_id) > 200 or baton.leg > LAST_LEG:
        raise Usage(f"adopt {found.relay_id}: its baton holds a name or a number that no relay of ours has")
    _said_again(found, done, request)
    in_place = rules.workspace == "in_place"
    if in_place and place.head_branch != found.branch:
        raise Usage(f"adopt {found.relay_id}: workspace=in_place needs {found.branch} checked out in {place.top}")
    spent = travel.spent(kept, baton.leg) if kept is not None else None
    moment = timezone.now()
    relay = Relay(
        id=found.relay_id,
        status=RelayStatus.READY,
        status_at=moment,
        created_at=moment,
        pin_id=pin.pin_id,
        objective=pin.text,
        objective_digest=pin.digest,
        done_when=done.text,
        watch=watch,
        region=list(held),
        repo=str(place.top),
        git_dir=str(place.git_dir),
        branch=found.branch,
        worktree=str(place.top) if in_place else str(places.worktree(found.relay_id)),
        start_sha=kept.start_sha if kept is not None else found.noted[0].baton.cursor.start_sha,
        agent=agent,
        agent_args=args,
        policy=policy.to_snapshot(rules),
        mode=Mode(rules.mode),
        owner=actor.user,
        os_user=actor.os_user,
        legs_used=baton.leg + 1,
    )
    if spent is not None:
        relay.turns_used, relay.output_used, relay.spend_used = spent.turns, spent.output_tokens, spent.spend
        relay.unpriced_calls, relay.wall_used = spent.unpriced_calls, spent.wall
        relay.legs_used, relay.queries_used = spent.legs, spent.queries
    said = f"limits and settings that were not taken over: {', '.join(left_out)}; give them with --set"
    return relay, (said,) if left_out else ()


def _agent(request: AdoptRequest, kept: travel.Record | None) -> tuple[str, dict[str, str]]:
    """The agent that a person names; else the recorded one, where nothing of it is a program to run."""
    name, args = request.agent, dict(request.agent_args)
    if not name and kept is not None and kept.agent in travel.HARMLESS_AGENTS:
        name, args = kept.agent, {**kept.agent_args, **args}
    if not name:
        ran = f"it ran with agent {kept.agent!r}" if kept is not None else "nothing says which agent ran it"
        raise Usage(
            f"adopt: {ran}, and no program is run because a repository names it; "
            "say it with --agent NAME --agent-arg K=V"
        )
    try:
        registry.adapter(name).check_args(args)
    except (registry.UnknownAgent, AgentArgError) as error:
        raise Usage(f"adopt: {error}") from error
    return name, args


def _policy(
    request: AdoptRequest, store: GitStore, found: Travelled, done: donewhen.DoneWhen, watch: bool
) -> tuple[policy.Policy, tuple[str, ...]]:
    text = store.read_file(found.tip, "dos.toml")
    own = policyfile.parse_toml_relay_table(text.decode("utf-8", "replace")) if text else None
    start = {**request.policy, **({"mode": request.mode} if request.mode else {})}
    rules, left_out = travel.build_policy(settings.SITE_POLICY, own, found.record, start, request.sets)
    has_cmd = any(clause.kind == "cmd" for clause in done.clauses)
    policy.check_goal(rules, prose=done.prose, watch=watch, has_cmd=has_cmd)
    return rules, left_out


def _said_again(found: Travelled, done: donewhen.DoneWhen, request: AdoptRequest) -> None:
    """ "A command inside a baton or repository is never run because it stands there": a person states it again."""
    if request.done_when and request.done_when.strip() != done.text:
        raise Usage(f"adopt {found.relay_id}: --done-when is not the relay's own, which is: {done.text}")
    if any(clause.kind == "cmd" for clause in done.clauses) and not request.done_when:
        raise Usage(
            f"adopt {found.relay_id}: its goal runs a command, which a baton may not decide: {done.text}; "
            "say it again, exactly, in --done-when to let it run here"
        )

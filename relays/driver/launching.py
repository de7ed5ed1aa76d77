"""Start one leg's agent: its channel, its environment, its marker, its contained process."""

import hashlib
import secrets
from pathlib import Path

from django.db import transaction

from relays.agents import limits, outliving, process, registry
from relays.agents.base import LegContext, env_names
from relays.agents.channel import Channel
from relays.agents.outliving import OutlivingAgent
from relays.agents.process import AgentProcess
from relays.agents.withheld import Withheld, of_names
from relays.core import reset
from relays.core.baton import read
from relays.core.vocabulary import Mode
from relays.driver import unheard, userfacts
from relays.driver.claim import Claim
from relays.driver.places import leg_folder
from relays.driver.prepare import Ready
from relays.models import Leg, Relay

SEED = "seed.txt"  # in the leg's folder: what its agent began with


def outlives(relay: Relay) -> bool:
    """Whether this relay's agents go on when their supervisor dies, and are taken over by the next one."""
    try:
        return registry.adapter(relay.agent).reconnects(relay.agent_args)
    except registry.UnknownAgent:
        return False


def launch(relay: Relay, leg: Leg, claim: Claim, ready: Ready, channel: Channel) -> AgentProcess | OutlivingAgent:
    """Start the agent on an open channel; it is attached when this returns.

    Raises AgentArgError, LaunchError, ChannelError or OSError, and LostClaim.
    """
    folder = leg_folder(relay.pk, leg.number)
    facts = userfacts.pointers(relay.pk)
    token, marker = secrets.token_urlsafe(24), f"{relay.pk}.{leg.number}.{secrets.token_hex(8)}"
    wanted = registry.adapter(relay.agent).launch(
        LegContext(
            relay_id=relay.pk,
            leg=leg.number,
            baton_path=ready.baton_path,
            worktree=relay.worktree,
            objective=relay.objective,
            done_when=relay.done_when,
            next_action=ready.next_action,
            window_tokens=leg.window_tokens,
            ceiling_tokens=leg.ceiling_tokens,
            log_dir=str(folder),
            socket_path=channel.socket_path,
            token=token,
            marker=marker,
            args=relay.agent_args,
            facts=facts,
            seed_path=_seed_file(relay, ready, facts, folder),
            bounded=relay.mode == Mode.ENFORCE,
        )
    )
    # the marker is stored before the process exists: whoever finds this leg later finds its strays
    with transaction.atomic():
        claim.hold()
        Leg.objects.filter(pk=leg.pk).update(marker=marker, token_hash=hashlib.sha256(token.encode()).hexdigest())
    agent: AgentProcess | OutlivingAgent
    channel.withheld = Withheld(wanted.env)
    channel.on_pipes = wanted.on_pipes
    bounds = limits.read(relay.agent_args)
    argv, env, place = list(wanted.argv), dict(wanted.env), Path(relay.worktree)
    if outlives(relay):
        path = channel.socket_path
        agent = outliving.launch(
            argv, cwd=place, env=env, marker=marker, log_dir=folder, socket_path=path, limits=bounds
        )
        channel.attach(None)
    else:
        agent = process.launch(argv, cwd=place, env=env, marker=marker, log_dir=folder, limits=bounds)
        channel.attach(agent)
    try:
        with transaction.atomic():
            claim.hold()
            Leg.objects.filter(pk=leg.pk).update(
                agent_pid=agent.pid, agent_started=agent.started, agent_boot_id=agent.boot_id
            )
    except Exception:
        # nobody would know of it: a claim that was lost, or a database that takes nothing
        agent.kill_tree()
        agent.close()
        raise
    leg.refresh_from_db()
    return agent


def _seed_file(relay: Relay, ready: Ready, facts: tuple[str, ...], folder: Path) -> str:
    """The leg's seed as a file of its own: constant preamble, pin, baton, pointers, and nothing else.

    Raises LaunchError where anything else would get into it.
    """
    baton = Path(ready.baton_path).read_bytes() if ready.baton_path else b""
    carried = read(baton).baton if baton else None
    try:
        made = reset.seed(
            preamble=reset.PREAMBLE,
            pin=carried.objective if carried else relay.pin,
            baton=baton,
            user_facts=facts,
        )
    except reset.SeedError as error:
        raise process.LaunchError(f"no seed can be made: {error}") from error
    path = folder / SEED
    path.write_bytes(made.bytes)
    return str(path)


def withheld(relay: Relay) -> Withheld:
    """What must not be kept of an agent that was started before; its variables are taken as they are now."""
    return of_names(env_names(str(relay.agent_args.get("env", ""))))


def find(relay: Relay, leg: Leg) -> tuple[OutlivingAgent, str] | None:
    """The living agent of this leg that a supervisor before us started, and the path of its socket; None: it is gone.

    Told by its pid, start time and boot, never by the pid alone.
    """
    folder = leg_folder(relay.pk, leg.number)
    record = outliving.read_record(folder)
    agent = outliving.find(leg.agent_pid, leg.agent_started, leg.agent_boot_id, leg.marker, folder)
    return None if record is None or agent is None else (agent, record.socket_path)


def open_channel(relay: Relay, leg: Leg, socket_path: str = "") -> Channel:
    """The leg's folder and its socket: a new one, or again the one that an agent comes back to."""
    folder = leg_folder(relay.pk, leg.number)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not socket_path:
        unheard.begin(folder)
    return Channel(folder, socket_path=socket_path)


def last_words(relay: Relay, leg: Leg) -> str:
    """The last line that the agent wrote to stderr, printable, for the words of a failed start."""
    path = leg_folder(relay.pk, leg.number) / "stderr.log"
    try:
        lines = path.read_bytes()[-2000:].decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return "".join(sign if sign.isprintable() else " " for sign in lines[-1])[:300] if lines else ""

"""Start one leg's agent: its channel, its environment, its marker, its contained process."""

import hashlib
import secrets
from pathlib import Path

from django.db import transaction

from relays.agents import process, registry
from relays.agents.base import LegContext
from relays.agents.channel import Channel
from relays.agents.process import AgentProcess
from relays.driver.claim import Claim
from relays.driver.places import leg_folder
from relays.driver.prepare import Ready
from relays.models import Leg, Relay


def launch(relay: Relay, leg: Leg, claim: Claim, ready: Ready, channel: Channel) -> AgentProcess:
    """Start the agent on an open channel; it is attached when this returns.

    Raises AgentArgError, LaunchError, ChannelError or OSError, and LostClaim.
    """
    folder = leg_folder(relay.pk, leg.number)
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
        )
    )
    # the marker is stored before the process exists: whoever finds this leg later finds its strays
    with transaction.atomic():
        claim.hold()
        Leg.objects.filter(pk=leg.pk).update(marker=marker, token_hash=hashlib.sha256(token.encode()).hexdigest())
    agent = process.launch(
        list(wanted.argv), cwd=Path(relay.worktree), env=dict(wanted.env), marker=marker, log_dir=folder
    )
    channel.attach(agent)
    Leg.objects.filter(pk=leg.pk).update(agent_pid=agent.pid, agent_started=agent.started, agent_boot_id=agent.boot_id)
    leg.refresh_from_db()
    return agent


def open_channel(relay: Relay, leg: Leg) -> Channel:
    """The leg's folder and its socket."""
    folder = leg_folder(relay.pk, leg.number)
    folder.mkdir(parents=True, exist_ok=True)
    return Channel(folder)


def last_words(relay: Relay, leg: Leg) -> str:
    """The last line that the agent wrote to stderr, printable, for the words of a failed start."""
    path = leg_folder(relay.pk, leg.number) / "stderr.log"
    try:
        lines = path.read_bytes()[-2000:].decode("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return "".join(sign if sign.isprintable() else " " for sign in lines[-1])[:300] if lines else ""

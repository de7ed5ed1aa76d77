"""Ask the supervisors of this host to end at their next safe point: what Ctrl-C of `make run` does."""

import contextlib
import logging
import os
import signal
import time

from relays.agents import process
from relays.driver import attached
from relays.models import LIVE_STATES, DriverClaim, Leg

log = logging.getLogger(__name__)


def wind_down(seconds: float) -> list[str]:
    """Ask every living supervisor, wait up to `seconds`; the relays that still run then.

    A leg that ends this way rotates as always: its successor is pending, and the next start goes on with it.
    """
    asked = living()
    for claim in asked:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(claim.pid, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while (left := [claim for claim in asked if _lives(claim)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return [claim.relay_id for claim in left]


def end_now() -> list[str]:
    """Kill every living supervisor, and their agents with them. The next start judges from records.

    The kernel takes along those that do not outlive a supervisor; the others are ended here.
    """
    ended = []
    for claim in living():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(claim.pid, signal.SIGKILL)
            ended.append(claim.relay_id)
    for leg in Leg.objects.filter(relay__in=ended, state__in=LIVE_STATES).select_related("relay"):
        try:
            attached.end_strays(leg)
        except process.StillAlive as error:
            log.error("%s: %s", leg, error)
    return ended


def said(ended: list[str]) -> str:
    """What `end_now` did, a leg at a time: it is a leg that has safe points, and its relay goes on."""
    legs = dict(Leg.objects.filter(relay__in=ended, state__in=LIVE_STATES).values_list("relay_id", "number"))
    cut = [f"leg {legs[relay]} of {relay}" for relay in ended if relay in legs]
    between = [relay for relay in ended if relay not in legs]
    parts = [f"{', '.join(cut)} {'was' if len(cut) == 1 else 'were'} ended without a safe point"] if cut else []
    parts += [f"the supervisor of {', '.join(between)} was ended between two legs"] if between else []
    return "; ".join(parts) or "nothing was running"


def living() -> list[DriverClaim]:
    """The claims of supervisors of this host whose process lives."""
    host = process.this_process()[3]
    return [claim for claim in DriverClaim.objects.filter(host=host).exclude(holder="") if _lives(claim)]


def _lives(claim: DriverClaim) -> bool:
    return process.alive(claim.pid, claim.pid_started, claim.boot_id)

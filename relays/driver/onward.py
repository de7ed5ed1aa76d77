"""Legs that follow each other in one supervisor's process: a process of its own for each costs a second of start.

Nothing but the start is saved. Each leg takes the kernel lock and a fence of its own, and a process that dies between
two legs leaves what one leaves that was never started: a pending leg, which `reconcile` finds.
"""

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

from relays.driver import spawn
from relays.driver.supervise import supervise

LEGS = 50  # in one process: whatever it gathers ends with it
OURS = ("relays", "relaysite", "manage")


class Onward:
    """Starts a successor in this process instead of in a new one, while nothing speaks against it."""

    def __init__(self, leg_pk: int) -> None:
        self.began = time.time()
        self.left = LEGS
        self.leg = leg_pk
        self.next: int | None = None
        self.down = False  # the house was asked to go down: no further leg starts here

    def on_term(self, _signum: int, _frame: FrameType | None) -> None:
        self.down = True

    def start(self, relay_id: str, leg_pk: int) -> bool:
        """What `spawn.supervisor` promises; the leg is in `next` where it is this process that goes on with it."""
        if leg_pk == self.leg or self.left <= 1 or self._old():
            # a leg that is tried again gets a process of its own, too: it may have been this one that failed
            return spawn.supervisor(relay_id, leg_pk)
        if not spawn.reserve(relay_id):
            return False
        self.next = leg_pk
        return True

    def _old(self) -> bool:
        """Whether a module of ours was written since this process began: the next leg is driven by the new code."""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if file is None or name.partition(".")[0] not in OURS:
                continue
            try:
                if os.stat(file).st_ctime >= self.began:
                    return True
            except OSError:
                return True
        return False


def drive(leg_pk: int, say: Callable[[int, str], None]) -> None:
    """Drive a leg to its end, and then the legs that follow it for as long as they may run in this process.

    `say` gets each leg's key with the line that says what happened. SIGTERM ends the running leg at its next safe
    point, and no further one starts, at whatever moment it comes.
    """
    host = Onward(leg_pk)
    gc.freeze()  # what is loaded stays: looking through it would make an agent wait
    before = signal.signal(signal.SIGTERM, host.on_term)
    try:
        following: int | None = leg_pk
        while following is not None:
            host.leg, host.next = following, None
            say(following, supervise(following, host))
            host.left -= 1
            following = host.next
    finally:
        signal.signal(signal.SIGTERM, before)

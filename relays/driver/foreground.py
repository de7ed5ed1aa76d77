"""Drive one relay from the foreground: the same steps that a worker takes, on this process's clock."""

import time
from collections.abc import Callable

from relays.driver import advance, outbox
from relays.models import Relay, RelayStatus

PAUSE = 0.1
#: where a foreground drive ends: nothing more happens by itself
RESTING = (RelayStatus.DONE, RelayStatus.STOPPED, RelayStatus.PARKED, RelayStatus.IDLE)


def drive(relay_id: str, seconds: float, *, say: Callable[[Relay], None] = lambda relay: None) -> Relay:
    """Ring for the relay until it ends, parks or idles, or the time is over; no worker needed."""
    deadline = time.monotonic() + seconds
    while True:
        relay = Relay.objects.get(pk=relay_id)
        say(relay)
        if relay.status in RESTING or time.monotonic() >= deadline:
            outbox.carry_out()
            return relay
        advance.advance(relay_id)
        time.sleep(PAUSE)

"""The people of a house: they start its relays, say which, and then approve whatever waits, until stdin is closed.

`python -m tests.chaos.people REQUEST…`: one request for each relay, the JSON of a StartRequest.
"""

import json
import os
import select
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relaysite.settings")
django.setup()

from relays.actions import decide, start  # noqa: E402
from relays.actions.base import Actor, Refused  # noqa: E402
from relays.models import GateEpisode, GateState  # noqa: E402
from relays.reports import gate as gate_report  # noqa: E402
from tests.web_builders import make_user  # noqa: E402


def decide_all(reviewer: Actor) -> None:
    for gate in GateEpisode.objects.filter(state=GateState.WAITING).select_related("relay"):
        seen = gate_report.seen_digest(gate, decide._tip(gate.relay))
        try:
            decide.approve(reviewer, gate.pk, seen=seen, comment="go on", next_action="Close the next issue.")
        except Refused as refusal:
            sys.stderr.write(f"{refusal}\n")


def main() -> None:
    operator, reviewer = Actor(make_user("pat", "operator")), Actor(make_user("rae", "reviewer"))
    for text in sys.argv[1:]:
        relay = start.start(operator, start.StartRequest(**json.loads(text)))
        sys.stdout.write(json.dumps({"relay": relay.pk}) + "\n")
        sys.stdout.flush()
    while not select.select([sys.stdin], [], [], 0.7)[0]:
        decide_all(reviewer)


if __name__ == "__main__":
    main()

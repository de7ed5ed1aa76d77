"""Start the tour."""

from relays.actions.base import Actor
from relays.actions.people import os_user
from relays.actions.start import StartRequest, start
from relays.driver import tour
from relays.models import Relay


def start_tour(pace: str = "0.6") -> Relay | None:
    """Start the tour relay on an empty database; None when there is a relay already."""
    if not tour.wanted():
        return None
    folder = tour.repository()
    return start(
        Actor(tour.user(), os_user()),
        StartRequest(
            repo=str(folder),
            objective="Close every issue of the tour's backlog, one commit each.",
            done_when="issues:none open",
            agent="scripted",
            agent_args={"pace": pace},
            # a start and stop of the whole house is a rotation too; the tour never waits an hour for its cap
            sets=("rotations_per_hour=60",),
        ),
    )

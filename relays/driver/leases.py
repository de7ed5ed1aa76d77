"""The region lease: no two living relays hold regions of one repository that could match one path.

Mission: "Disjointness before fan-out. A relay holds a lane across legs."
"""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import F

from relays.core import region as regions
from relays.models import FINAL_STATUSES, RegionLease, Relay, Repository


def acquire(relay: Relay, region: Sequence[str], now: datetime) -> str:
    """Take or take again a region inside the caller's transaction: "" when held, else the holder's relay id."""
    repository, _ = Repository.objects.get_or_create(git_dir=relay.git_dir)
    # the row's lock puts competing claims on one repository in order, on either database
    Repository.objects.filter(pk=repository.pk).update(leases=F("leases") + 1)
    holder = holder_of(relay.git_dir, region, but=relay.pk)
    if holder:
        return holder
    if relay.policy.get("workspace") == "in_place":
        other = (
            Relay.objects.filter(git_dir=relay.git_dir, worktree=relay.worktree)
            .exclude(pk=relay.pk)
            .exclude(status__in=FINAL_STATUSES)
            .first()
        )
        if other:
            return other.pk
    RegionLease.objects.update_or_create(
        relay=relay, defaults={"repository": repository, "region": list(region), "held": True, "since": now}
    )
    return ""


def holder_of(git_dir: str, region: Sequence[str], *, but: str = "") -> str:
    """The first relay whose held region is not proven disjoint from `region`, or ""."""
    held = RegionLease.objects.filter(repository__git_dir=git_dir, held=True).exclude(relay_id=but)
    for lease in held.order_by("since"):
        if not regions.proven_disjoint(tuple(lease.region), tuple(region)):
            return lease.relay_id
    return ""


def release(relay_id: str) -> None:
    """A relay that is done or stopped holds nothing."""
    RegionLease.objects.filter(relay_id=relay_id).update(held=False)

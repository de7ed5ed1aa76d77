"""Who may decide on a relay's gates: everybody who may review, or the members of the group that the relay names.

Interface, Roles: "With `four_eyes` nobody approves what they started … With fewer than two people who may approve,
four_eyes does not bind, and the decision says so."
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import QuerySet

from relays.models import Relay, ReviewerGroup

#: no person: the tour's relays belong to it
MACHINES = ("tour",)


@dataclass(frozen=True, slots=True)
class Deciders:
    """`names`: who may decide, by name. `group`: "" where everybody who may review does. `bound`: the one who started

    the relay and so may not approve it; "" where four eyes do not bind. `loose`: four eyes are asked for, and fewer
    than two people may approve in this house.
    """

    group: str
    names: tuple[str, ...]
    bound: str
    loose: bool

    @property
    def approving(self) -> tuple[str, ...]:
        """Who may approve: all who may decide, but whoever four eyes keep from it."""
        return tuple(name for name in self.names if name != self.bound)


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group as the page of groups shows it. `silent`: members without the role that may review."""

    name: str
    names: tuple[str, ...]
    silent: tuple[str, ...]
    relays: int  # that name it and go on

    @property
    def everybody(self) -> tuple[str, ...]:
        return tuple(sorted((*self.names, *self.silent)))


def approvers() -> QuerySet[User]:
    """Active users with the right to review, machines left out, by name."""
    holders = User.objects.filter(is_active=True, groups__name__in=["reviewer", "admin"]) | User.objects.filter(
        is_active=True, is_superuser=True
    )
    return holders.exclude(username__in=MACHINES).order_by("username").distinct()


def able(group: ReviewerGroup | int | None) -> QuerySet[User]:
    """Those who may decide where a relay names this group, or none."""
    return approvers() if group is None else approvers().filter(reviewer_groups=group)


def names_of(group: ReviewerGroup | int | None) -> tuple[str, ...]:
    """Their names. One query."""
    return tuple(able(group).values_list("username", flat=True))


def deciders(relay: Relay, four_eyes: bool) -> Deciders:
    """At most three queries."""
    group = relay.reviewers
    everybody = names_of(None)
    owner = relay.owner.get_username()
    return Deciders(
        group=group.name if group else "",
        names=names_of(group) if group else everybody,
        bound=owner if four_eyes and binds(owner, everybody) else "",
        loose=four_eyes and not binds(owner, everybody) and owner in everybody,
    )


def binds(owner: str, everybody: Iterable[str]) -> bool:
    """Whether four eyes bind: somebody else in this house may approve. A group never lifts them."""
    return any(name != owner for name in everybody)


def groups() -> tuple[str, ...]:
    """The names of all groups, for a form."""
    return tuple(ReviewerGroup.objects.values_list("name", flat=True))


def group_rows() -> tuple[GroupRow, ...]:
    """Every group with its people and how many relays stand on it. Four queries whatever their number."""
    able = set(approvers().values_list("pk", flat=True))
    open_relays = Relay.objects.exclude(status__in=("done", "stopped")).exclude(reviewers=None)
    counts: dict[int | None, int] = {}
    for pk in open_relays.values_list("reviewers_id", flat=True):
        counts[pk] = counts.get(pk, 0) + 1
    rows = []
    for group in ReviewerGroup.objects.prefetch_related("members"):
        members = sorted(group.members.all(), key=lambda one: one.get_username())
        rows.append(
            GroupRow(
                group.name,
                tuple(one.get_username() for one in members if one.pk in able),
                tuple(one.get_username() for one in members if one.pk not in able),
                counts.get(group.pk, 0),
            )
        )
    return tuple(rows)

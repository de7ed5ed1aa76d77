"""People as an admin sees them: their roles, when they came last, what is theirs. A constant number of queries."""

from collections import defaultdict
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Count, Q
from django.utils import timezone

from relays.models import ApiToken, Relay
from relays.reports.roles import ROLES

SHOWN = 25
MACHINES = frozenset({"local", "tour"})


@dataclass(frozen=True, slots=True)
class Person:
    """`machine`: a user of the product itself, which nobody signs in as."""

    user: User
    roles: tuple[str, ...]
    relays: int
    tokens: int
    machine: bool

    @property
    def may_get(self) -> tuple[str, ...]:
        return tuple(role for role in ROLES if role not in self.roles)


@dataclass(frozen=True, slots=True)
class Page:
    """`active`: people who may sign in; `by_role`: how many of them hold each role. `rows` list the product's too."""

    rows: tuple[Person, ...]
    total: int
    active: int
    page: int
    pages: int
    query: str
    by_role: tuple[tuple[str, int], ...]


def _holds(role: str) -> Q:
    """Who has this role: by its group, and the admin of the first start by being one (`roles_of`)."""
    grouped = Q(groups__name=role)
    return grouped | Q(is_superuser=True) if role == "admin" else grouped


def people(query: str, page: int) -> Page:
    """One page of people, the active first, then by name. Six queries whatever their number."""
    found = User.objects.order_by("-is_active", "username")
    query = query.strip()[:150]
    if query and query.isprintable():
        holders = _holds(query) if query in ROLES else Q()
        found = found.filter(Q(username__icontains=query) | holders).distinct()
    total = found.count()
    pages = max(1, -(-total // SHOWN))
    page = min(max(page, 1), pages)
    users = list(found[(page - 1) * SHOWN : page * SHOWN])
    keys = [user.pk for user in users]
    roles: dict[int, set[str]] = defaultdict(set)
    for pk, name in User.groups.through.objects.filter(user_id__in=keys).values_list("user_id", "group__name"):
        roles[pk].add(name)
    owned = dict(Relay.objects.filter(owner__in=keys).order_by().values_list("owner").annotate(n=Count("pk")))
    standing = ApiToken.objects.filter(user__in=keys, revoked_at=None, expires_at__gt=timezone.now())
    tokens = dict(standing.order_by().values_list("user").annotate(n=Count("pk")))
    signing = User.objects.filter(is_active=True).exclude(username__in=MACHINES)
    counts = signing.aggregate(**{role: Count("pk", filter=_holds(role), distinct=True) for role in ROLES})
    return Page(
        rows=tuple(
            Person(
                user,
                tuple(role for role in ROLES if role in roles[user.pk]),
                owned.get(user.pk, 0),
                tokens.get(user.pk, 0),
                user.get_username() in MACHINES,
            )
            for user in users
        ),
        total=total,
        active=signing.count(),
        page=page,
        pages=pages,
        query=query,
        by_role=tuple((role, counts[role]) for role in ROLES),
    )

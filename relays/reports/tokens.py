"""API tokens as their owner, or an admin, sees them: never the secret."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import QuerySet

from relays.models import ApiToken
from relays.reports import roles
from relays.reports.status import moment

SHOWN = 50  # of a page


@dataclass(frozen=True, slots=True)
class TokenRow:
    token: ApiToken
    owner: str
    state: str  # stands, over, revoked


@dataclass(frozen=True, slots=True)
class Page:
    """`page` counts from 1; `total` is of all pages."""

    rows: tuple[TokenRow, ...]
    total: int
    page: int
    pages: int


def listing(user: User, now: datetime) -> tuple[TokenRow, ...]:
    """All of one's own, for an admin everybody's; newest first. One query beside the roles."""
    return tuple(_row(one, now) for one in _seen_by(user))


def page(user: User, now: datetime, number: int) -> Page:
    """SHOWN of them; a number that is no page is the nearest one. Two queries beside the roles."""
    found = _seen_by(user)
    total = found.count()
    pages = max(1, -(-total // SHOWN))
    number = min(max(number, 1), pages)
    rows = found[(number - 1) * SHOWN : number * SHOWN]
    return Page(tuple(_row(one, now) for one in rows), total, number, pages)


def _seen_by(user: User) -> QuerySet[ApiToken]:
    rows = ApiToken.objects.select_related("user").order_by("-created_at", "-id")
    return rows if roles.may(user, roles.ADMINISTER) else rows.filter(user=user)


def _row(token: ApiToken, now: datetime) -> TokenRow:
    return TokenRow(token, token.user.get_username(), state_of(token, now))


def state_of(token: ApiToken, now: datetime) -> str:
    return "revoked" if token.revoked_at else "stands" if token.stands(now) else "over"


def as_mapping(row: TokenRow) -> dict[str, Any]:
    one = row.token
    return {
        "token": one.pk,
        "name": one.name,
        "starts": one.start,
        "owner": row.owner,
        "role": one.role,
        "state": row.state,
        "created": moment(one.created_at),
        "expires": moment(one.expires_at),
        "used": moment(one.used_at),
        "revoked": moment(one.revoked_at),
    }

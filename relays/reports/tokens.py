"""API tokens as their owner, or an admin, sees them: never the secret."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User

from relays.models import ApiToken
from relays.reports import roles
from relays.reports.status import moment

SHOWN = 200


@dataclass(frozen=True, slots=True)
class TokenRow:
    token: ApiToken
    owner: str
    state: str  # stands, over, revoked


def listing(user: User, now: datetime) -> tuple[TokenRow, ...]:
    """One's own, for an admin everybody's; newest first, SHOWN at most. One query beside the roles."""
    rows = ApiToken.objects.select_related("user").order_by("-created_at", "-id")
    if not roles.may(user, roles.ADMINISTER):
        rows = rows.filter(user=user)
    return tuple(TokenRow(row, row.user.get_username(), state_of(row, now)) for row in rows[:SHOWN])


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

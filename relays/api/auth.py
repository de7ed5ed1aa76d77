"""Who calls: a token in `Authorization: Bearer …`, with the rights of its role and never more than its person's.

interface.md, HTTP: "token auth, 401 without". A sign-in of the browser is no way in here, so that no page of another
site can make one call.
"""

import hmac
from datetime import datetime, timedelta

from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from ninja.security import HttpBearer

from relays.actions.tokens import digest_of
from relays.models import ApiToken
from relays.reports.roles import SENDER, may_give, narrowed

LONGEST = 200  # signs of a secret that are looked at
USED_EVERY = timedelta(minutes=1)  # how exact "last used" is: most calls write nothing


def token_of(secret: str, now: datetime) -> ApiToken | None:
    """The standing token with this secret, of an active person; None for every other one, in the same time.

    Only digests are compared, by the index and once more in constant time: nothing of a secret shows in how long it
    takes. One query.
    """
    if not secret or len(secret) > LONGEST:
        return None
    digest = digest_of(secret)
    token = ApiToken.objects.select_related("user").filter(digest=digest).first()
    same = hmac.compare_digest(digest, token.digest if token else "0" * 64)
    if token is None or not same or not token.stands(now) or not token.user.is_active:
        return None
    if token.used_at is None or now - token.used_at >= USED_EVERY:
        ApiToken.objects.filter(Q(used_at=None) | Q(used_at__lte=now - USED_EVERY), pk=token.pk).update(used_at=now)
    return token


def may_send(token: ApiToken) -> bool:
    """Whether the token may send what a program did: a sender's, an operator's or an admin's whose person still may."""
    return token.role in (SENDER, "operator", "admin") and may_give(token.user, token.role)


class TokenAuth(HttpBearer):
    """For every call of a person's program: `request.user` is the token's person, narrowed to the token's role."""

    def authenticate(self, request: HttpRequest, token: str) -> ApiToken | None:
        found = token_of(token, timezone.now())
        if found is not None:
            request.user = narrowed(found.user, found.role)
        return found

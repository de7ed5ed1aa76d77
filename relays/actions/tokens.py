"""A person makes or revokes an API token: recorded in the chain of decisions, and the secret is shown once.

interface.md, Roles: "API tokens belong to a person, are stored hashed, have a role and an expiry, and are shown once."
"""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from relays.actions.base import Actor, NotFound, NotLegalNow, NotPermitted, Usage, record
from relays.models import ApiToken
from relays.reports import roles

PREFIX = "rly_"
MOST_DAYS = 366
MOST = 50  # tokens of one person that stand at a time
NAME_LENGTH = 80


@dataclass(frozen=True, slots=True)
class Made:
    """A new token and its secret, which is nowhere kept."""

    token: ApiToken
    secret: str


def digest_of(secret: str) -> str:
    """How a secret is kept: SHA-256 of its text."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def add(actor: Actor, *, name: str, role: str, days: int, owner: str = "") -> Made:
    """Make a token for the actor, or (an admin only) for `owner`, that lasts `days` days.

    Raises Usage, NotPermitted (a role that its person does not hold, or another's token without the right to
    administer), NotFound (no such owner), NotLegalNow (they have MOST already).
    """
    name = name.strip()
    if not name or len(name) > NAME_LENGTH or not name.isprintable():
        raise Usage(f"token: its name is one line of 1 to {NAME_LENGTH} printable characters; say what it is for")
    if role not in roles.TOKEN_ROLES:
        raise Usage(f"token {name}: role {role[:40]!r} is not known; take one of {', '.join(roles.TOKEN_ROLES)}")
    if not 1 <= days <= MOST_DAYS:
        raise Usage(f"token {name}: it lasts 1 to {MOST_DAYS} days, not {days}")
    user = _owner(actor, owner, "make a token for")
    if not user.is_active or not roles.may_give(user, role):
        needed = "operator" if role == roles.SENDER else role
        raise NotPermitted(
            f"token {name}: user {user.get_username()} has not the role {needed}; a token never has more rights than "
            "its person, so take a narrower role or ask an admin"
        )
    secret = PREFIX + secrets.token_urlsafe(32)
    now = timezone.now()
    with transaction.atomic():
        standing = ApiToken.objects.filter(user=user, revoked_at=None, expires_at__gt=now).count()
        if standing >= MOST:
            raise NotLegalNow(f"token {name}: user {user.get_username()} has {standing}; revoke one first")
        token = ApiToken.objects.create(
            user=user,
            name=name,
            digest=digest_of(secret),
            start=secret[:8],
            role=role,
            created_at=now,
            expires_at=now + timedelta(days=days),
        )
        record(actor, "token", now=now, detail={"token": token.pk, "of": user.get_username(), "role": role})
    return Made(token, secret)


def revoke(actor: Actor, token_id: object) -> ApiToken:
    """End a token at once. Raises NotFound (also for another's, unless an admin asks), NotLegalNow (it has ended)."""
    text = str(token_id)
    token = None
    if text.isascii() and text.isdecimal() and len(text) < 19:
        token = ApiToken.objects.select_related("user").filter(pk=int(text)).first()
    if token is None or not (token.user_id == actor.user.pk or roles.may(actor.user, roles.ADMINISTER)):
        raise NotFound(f"token {text[:40]!r} is not known here; `relay token list` shows those that are")
    now = timezone.now()
    with transaction.atomic():
        if not ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
            raise NotLegalNow(f"token {token.pk}: it is revoked already; nothing was changed")
        record(actor, "revoke_token", now=now, detail={"token": token.pk, "of": token.user.get_username()})
    token.refresh_from_db()
    return token


def _owner(actor: Actor, owner: str, what: str) -> User:
    if not owner or owner == actor.user.get_username():
        return actor.user
    if not roles.may(actor.user, roles.ADMINISTER):
        raise NotPermitted(f"token: user {actor.user.get_username()} may not {what} {owner[:60]!r}; an admin may")
    user = User.objects.filter(username=owner).first() if owner.isprintable() else None
    if user is None:
        raise NotFound(f"token: user {owner[:150]!r} is not known; make one with `relay user add NAME --role operator`")
    return user

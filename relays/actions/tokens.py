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
from django.utils.translation import gettext as _

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
        raise Usage(
            _("token: its name is one line of 1 to %(NAME_LENGTH)s printable characters; say what it is for")
            % {"NAME_LENGTH": NAME_LENGTH}
        )
    if role not in roles.TOKEN_ROLES:
        raise Usage(
            _("token %(name)s: role %(role)s is not known; take one of %(TOKEN_ROLES)s")
            % {"name": name, "role": repr(role[:40]), "TOKEN_ROLES": ", ".join(map(_, roles.TOKEN_ROLES))}
        )
    if not 1 <= days <= MOST_DAYS:
        raise Usage(
            _("token %(name)s: it lasts 1 to %(MOST_DAYS)s days, not %(days)s")
            % {"name": name, "MOST_DAYS": MOST_DAYS, "days": days}
        )
    user = _owner(actor, owner, _("make a token for"))
    if not user.is_active or not roles.may_give(user, role):
        needed = "operator" if role == roles.SENDER else role
        raise NotPermitted(
            _(
                "token %(name)s: user %(username)s has not the role %(needed)s; a token never has more "
                "rights than its person, so take a narrower role or ask an admin"
            )
            % {"name": name, "username": user.get_username(), "needed": _(needed)}
        )
    secret = PREFIX + secrets.token_urlsafe(32)
    now = timezone.now()
    with transaction.atomic():
        standing = ApiToken.objects.filter(user=user, revoked_at=None, expires_at__gt=now).count()
        if standing >= MOST:
            raise NotLegalNow(
                _("token %(name)s: user %(username)s has %(standing)s; revoke one first")
                % {"name": name, "username": user.get_username(), "standing": standing}
            )
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
        raise NotFound(
            _("token %(text)s is not known here; `relay token list` shows those that are") % {"text": repr(text[:40])}
        )
    now = timezone.now()
    with transaction.atomic():
        if not ApiToken.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=now):
            raise NotLegalNow(_("token %(pk)s: it is revoked already; nothing was changed") % {"pk": token.pk})
        record(actor, "revoke_token", now=now, detail={"token": token.pk, "of": token.user.get_username()})
    token.refresh_from_db()
    return token


def _owner(actor: Actor, owner: str, what: str) -> User:
    if not owner or owner == actor.user.get_username():
        return actor.user
    if not roles.may(actor.user, roles.ADMINISTER):
        raise NotPermitted(
            _("token: user %(username)s may not %(what)s %(owner)s; an admin may")
            % {"username": actor.user.get_username(), "what": what, "owner": repr(owner[:60])}
        )
    user = User.objects.filter(username=owner).first() if owner.isprintable() else None
    if user is None:
        raise NotFound(
            _("token: user %(owner)s is not known; make one with `relay user add NAME --role operator`")
            % {"owner": repr(owner[:150])}
        )
    return user

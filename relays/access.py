"""Authorise and load: the only way a page or a call gets an object; and one-time sign-in links.

Interface: "every page and call needs sign-in". A refusal says what is missing, and what is not there says so without
telling more to those who may not look.
"""

import hashlib
import secrets
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import Http404, HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from relays.models import GateEpisode, Relay, Session, SignInLink
from relays.reports.roles import ADMINISTER, OPERATE, READ, REVIEW, may, rights_of, role_words

__all__ = [
    "load_gate",
    "load_relay",
    "load_session",
    "make_sign_in_link",
    "may",
    "require",
    "rights_of",
    "role_words",
    "use_sign_in_link",
]

_NEEDS = {
    OPERATE: gettext_noop("the role operator"),
    REVIEW: gettext_noop("the role reviewer"),
    READ: gettext_noop("one of the roles operator, reviewer, manager or admin"),
    ADMINISTER: gettext_noop("the role admin"),
}


def require(request: HttpRequest, right: str) -> None:
    """Passes when the signed-in user holds the right; else a 403 page that names the role that is missing."""
    if not may(request.user, right):
        raise PermissionDenied(
            _("This needs %(_NEEDS)s; %(username)s has %(user)s. Ask an admin for it.")
            % {
                "_NEEDS": _NEEDS[right],
                "username": request.user.get_username() or "you",
                "user": role_words(request.user),
            }
        )


def load_relay(request: HttpRequest, relay_id: str) -> Relay:
    """The relay with its owner, in one query; 403 without the right to read, 404 when there is none by that name."""
    require(request, READ)
    relay = Relay.objects.select_related("owner").filter(pk=relay_id[:40]).first() if "\0" not in relay_id else None
    if relay is None or relay.pk != relay_id:
        raise Http404(
            _("There is no relay %(relay_id)s. The list of relays has every one that was started here.")
            % {"relay_id": repr(relay_id[:60])}
        )
    return relay


def load_gate(request: HttpRequest, pk: int) -> GateEpisode:
    """The gate episode with its relay, leg and owner, in one query; 403 and 404 as for a relay."""
    require(request, READ)
    gate = None
    if 0 < pk < 2**63:
        gate = GateEpisode.objects.select_related("relay__owner", "relay__reviewers", "leg").filter(pk=pk).first()
    if gate is None:
        raise Http404(_("There is no gate %(pk)s. What waits for a person is on the page Needs you.") % {"pk": pk})
    return gate


def load_session(request: HttpRequest, pk: int) -> Session:
    """The session, in one query; 403 without the right to read, 404 when none has that number."""
    require(request, READ)
    session = Session.objects.filter(pk=pk).first() if 0 < pk < 2**63 else None
    if session is None:
        raise Http404(
            _("There is no session %(pk)s. The list of sessions has every one that was imported here.") % {"pk": pk}
        )
    return session


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def make_sign_in_link(user: User, minutes: int = 60) -> str:
    """The path of a link that signs `user` in once within `minutes`; the secret is stored as its SHA-256 only."""
    secret = secrets.token_urlsafe(32)
    SignInLink.objects.create(user=user, digest=_digest(secret), expires_at=timezone.now() + timedelta(minutes=minutes))
    return reverse("sign_in_link", args=[secret])


def link_is_open(secret: str, now: datetime) -> bool:
    """Whether a press on the page's button would sign somebody in; looking does not use the link up."""
    return SignInLink.objects.filter(
        digest=_digest(secret), used_at=None, expires_at__gt=now, user__is_active=True
    ).exists()


def use_sign_in_link(secret: str, now: datetime) -> User | None:
    """Uses the link up and returns its user; None when it is unknown, used, over, or its user is not active.

    The conditional update lets one of two presses win.
    """
    digest = _digest(secret)
    with transaction.atomic():
        taken = SignInLink.objects.filter(digest=digest, used_at=None, expires_at__gt=now, user__is_active=True).update(
            used_at=now
        )
        if taken != 1:
            return None
        return SignInLink.objects.select_related("user").get(digest=digest).user

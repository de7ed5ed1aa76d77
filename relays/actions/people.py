"""Users: `--as USER` of the command line and its user `local`, and what an admin does with people.

Interface, Roles: "Admin: users, tokens, sites." A person is deactivated, never deleted: what they decided stays theirs.
"""

import os
import pwd
import re
from collections.abc import Sequence

from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from relays import access
from relays.actions.base import Actor, NotFound, NotLegalNow, Usage, need, record
from relays.models import SignInLink
from relays.reports import reviewers, roles
from relays.reports.users import MACHINES

LOCAL = "local"
LINK_MINUTES = 60
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,149}")


def os_user() -> str:
    """The operating system's user, recorded beside the actor: of this process, whatever its environment says."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name[:100]
    except KeyError:
        return f"uid {os.getuid()}"


def actor(name: str = "") -> Actor:
    """The actor of a command: the named user, else `local`, who holds every role of this machine's command line."""
    if not name:
        return Actor(_with_roles(LOCAL, roles.ROLES), os_user())
    # what is not printable (a NUL, a lone surrogate) never reaches a database
    user = User.objects.filter(username=name).first() if name.isprintable() else None
    if user is None:
        raise NotFound(
            _("--as %(name)s: no such user; make one with `relay user add NAME --role operator`") % {"name": name[:150]}
        )
    return Actor(user, os_user())


def approvers() -> tuple[str, ...]:
    """The names of those who may approve in this house, whatever group a relay names."""
    return reviewers.names_of(None)


def _with_roles(name: str, names: Sequence[str]) -> User:
    user = User.objects.filter(username=name).first()
    if user is None:
        try:
            with transaction.atomic():
                user = User.objects.create_user(name)
                user.groups.set([Group.objects.get_or_create(name=role)[0] for role in names])
        except IntegrityError:
            user = User.objects.get(username=name)
    return user


def add(name: str, role: str) -> User:
    """Make a user with one role; an existing user gets the role in addition."""
    if not NAME.fullmatch(name):
        raise Usage(
            _("user name %(name)s is not usable: take letters, digits and . _ @ + -, at most 150")
            % {"name": repr(name[:80])}
        )
    if role not in roles.ROLES:
        raise Usage(
            _("role %(role)s is not known: take one of %(ROLES)s")
            % {"role": repr(role), "ROLES": ", ".join(map(_, roles.ROLES))}
        )
    user = _with_roles(name, (role,))
    user.groups.add(Group.objects.get_or_create(name=role)[0])
    return user


def make(actor: Actor, name: str, role: str) -> User:
    """An admin makes a person with one role. Raises NotPermitted, Usage, NotLegalNow (there is one of that name)."""
    need(actor, roles.ADMINISTER, _("make a user"))
    name = name.strip()
    if NAME.fullmatch(name) and User.objects.filter(username__iexact=name).exists():
        raise NotLegalNow(
            _("user %(name)s: there is one of that name; give them a role in the list") % {"name": name[:60]}
        )
    with transaction.atomic():
        _one_after_the_other(actor, _("make a user"))
        user = add(name, role)
        record(actor, "user", now=timezone.now(), detail={"user": name, "role": role})
    return user


def give(actor: Actor, user_id: object, role: str) -> User:
    """An admin gives a person one more role."""
    user = _person(actor, user_id, _("give a role to a user"))
    _role(role)
    with transaction.atomic():
        _one_after_the_other(actor, _("give a role to a user"))
        if user.groups.filter(name=role).exists():
            raise NotLegalNow(
                _("user %(user)s: has the role %(role)s already; nothing was changed")
                % {"user": user.get_username(), "role": _(role)}
            )
        user.groups.add(Group.objects.get_or_create(name=role)[0])
        record(actor, "give_role", now=timezone.now(), detail={"user": user.get_username(), "role": role})
    return user


def take(actor: Actor, user_id: object, role: str) -> User:
    """An admin takes a role from a person; the site keeps at least one active admin."""
    user = _person(actor, user_id, _("take a role from a user"))
    _role(role)
    with transaction.atomic():
        _one_after_the_other(actor, _("take a role from a user"))
        if not user.groups.filter(name=role).exists():
            raise NotLegalNow(
                _("user %(user)s: has not the role %(role)s; nothing was changed")
                % {"user": user.get_username(), "role": role}
            )
        if role == "admin":
            _keeps_an_admin(user)
        user.groups.remove(Group.objects.get(name=role))
        record(actor, "take_role", now=timezone.now(), detail={"user": user.get_username(), "role": role})
    return user


def deactivate(actor: Actor, user_id: object) -> User:
    """Nobody signs in as them any more, no token of theirs is answered, open pages end; what they did stays."""
    user = _person(actor, user_id, _("deactivate a user"))
    if user.pk == actor.user.pk:
        raise NotLegalNow(
            _("user %(user)s: nobody deactivates themselves; another admin does") % {"user": user.get_username()}
        )
    with transaction.atomic():
        _one_after_the_other(actor, _("deactivate a user"))
        _keeps_an_admin(user)
        if not User.objects.filter(pk=user.pk, is_active=True).update(is_active=False):
            raise NotLegalNow(
                _("user %(user)s: is not active already; nothing was changed") % {"user": user.get_username()}
            )
        # one that was never used would let them in again on the day they are active again
        SignInLink.objects.filter(user=user, used_at=None).update(expires_at=timezone.now())
        record(actor, "deactivate_user", now=timezone.now(), detail={"user": user.get_username()})
    return user


def activate(actor: Actor, user_id: object) -> User:
    """The other way."""
    user = _person(actor, user_id, _("activate a user"))
    with transaction.atomic():
        _one_after_the_other(actor, _("activate a user"))
        if not User.objects.filter(pk=user.pk, is_active=False).update(is_active=True):
            raise NotLegalNow(
                _("user %(user)s: is active already; nothing was changed") % {"user": user.get_username()}
            )
        record(actor, "activate_user", now=timezone.now(), detail={"user": user.get_username()})
    return user


def link(actor: Actor, user_id: object) -> tuple[User, str]:
    """The person, and the path of a link that signs them in once within LINK_MINUTES; only its hash is kept."""
    user = _person(actor, user_id, _("make a sign-in link for a user"))
    if not user.is_active:
        raise NotLegalNow(_("user %(user)s: is not active; activate them first") % {"user": user.get_username()})
    with transaction.atomic():
        path = access.make_sign_in_link(user, LINK_MINUTES)
        record(actor, "sign_in_link", now=timezone.now(), detail={"user": user.get_username()})
    return user, path


def _person(actor: Actor, user_id: object, what: str) -> User:
    need(actor, roles.ADMINISTER, what)
    text = str(user_id)
    user = User.objects.filter(pk=int(text)).first() if text.isascii() and text.isdecimal() and len(text) < 10 else None
    if user is None:
        raise NotFound(
            _("user %(text)s is not known here; the page Users lists those that are") % {"text": repr(text[:40])}
        )
    if user.get_username() in MACHINES:
        raise NotLegalNow(
            _("user %(user)s: belongs to the product itself; nobody signs in as it") % {"user": user.get_username()}
        )
    return user


def _role(role: str) -> None:
    if role not in roles.ROLES:
        raise Usage(
            _("role %(role)s is not known: take one of %(ROLES)s")
            % {"role": repr(role[:40]), "ROLES": ", ".join(map(_, roles.ROLES))}
        )


def _one_after_the_other(actor: Actor, what: str) -> None:
    """First in the transaction of an act on people: such acts wait for each other on either database, and the actor's
    right is read anew after that. So of two admins who remove each other at once, one does and the other is refused.
    """
    Group.objects.select_for_update(no_key=True).get_or_create(name="admin")
    need(Actor(User.objects.get(pk=actor.user.pk), actor.os_user), roles.ADMINISTER, what)


def _keeps_an_admin(but: User) -> None:
    """Raise where, without this person, nobody could sign in as an admin."""
    admins = User.objects.filter(Q(groups__name="admin") | Q(is_superuser=True), is_active=True).distinct()
    admins = admins.exclude(username__in=MACHINES)
    if not admins.exclude(pk=but.pk).exists() and admins.filter(pk=but.pk).exists():
        raise NotLegalNow(_("user %(user)s: is the last admin; make another one first") % {"user": but.get_username()})

"""Users of the command line: `--as USER`, the user `local`, and making users with a role."""

import os
import pwd
import re
from collections.abc import Sequence

from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction

from relays.actions.base import Actor, NotFound, Usage
from relays.reports import reviewers, roles

LOCAL = "local"
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
        raise NotFound(f"--as {name[:150]}: no such user; make one with `relay user add NAME --role operator`")
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
        raise Usage(f"user name {name!r} is not usable: take letters, digits and . _ @ + -, at most 150")
    if role not in roles.ROLES:
        raise Usage(f"role {role!r} is not known: take one of {', '.join(roles.ROLES)}")
    user = _with_roles(name, (role,))
    user.groups.add(Group.objects.get_or_create(name=role)[0])
    return user

"""Who may do what: the four rights of the roles, decided in one place for pages, command line and API.

Interface, Roles: "Operator: start, park, stop, resume. Reviewer: approve or refuse a gate. Manager: read everything.
Admin: users, tokens, sites."
"""

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

OPERATE, REVIEW, READ, ADMINISTER = "operate", "review", "read", "administer"
RIGHTS = frozenset({OPERATE, REVIEW, READ, ADMINISTER})

#: the groups that migration 0002 makes
ROLES: tuple[str, ...] = ("operator", "reviewer", "manager", "admin")

#: right -> the least role that holds it
ROLE_FOR: dict[str, str] = {OPERATE: "operator", REVIEW: "reviewer", READ: "manager", ADMINISTER: "admin"}

_RIGHTS_OF: dict[str, frozenset[str]] = {
    "operator": frozenset({OPERATE, READ}),
    "reviewer": frozenset({REVIEW, READ}),
    "manager": frozenset({READ}),
    "admin": RIGHTS,
}

#: what a token of a program that only sends has: no right of a person; whose it is may operate
SENDER = "sender"
TOKEN_ROLES: tuple[str, ...] = (*ROLES, SENDER)

_KEPT = "_relaysite_roles"


def roles_of(user: "User | AnonymousUser") -> tuple[str, ...]:
    """The user's roles in the order of `ROLES`; one query per user object, then kept on it."""
    if not user.is_authenticated or not user.is_active:
        return ()
    kept: tuple[str, ...] | None = getattr(user, _KEPT, None)
    if kept is None:
        names = set(user.groups.values_list("name", flat=True))
        if getattr(user, "is_superuser", False):
            names.add("admin")
        kept = tuple(role for role in ROLES if role in names)
        setattr(user, _KEPT, kept)
    return kept


def rights_of(user: "User | AnonymousUser") -> frozenset[str]:
    """The union of the rights of a user's roles; an inactive or anonymous user has none."""
    return frozenset().union(*(_RIGHTS_OF[role] for role in roles_of(user)))


def may(user: "User | AnonymousUser", right: str) -> bool:
    """Whether the user holds `operate`, `review`, `read` or `administer`; another word is a mistake of ours."""
    if right not in RIGHTS:
        raise ValueError(f"{right!r} is no right; rights are {', '.join(sorted(RIGHTS))}.")
    return right in rights_of(user)


def narrowed(user: "User", role: str) -> "User":
    """The user with no more rights than one role has, for this object only; with none where they lost that role's."""
    rights = _RIGHTS_OF.get(role, frozenset())
    setattr(user, _KEPT, (role,) if rights and rights <= rights_of(user) else ())
    return user


def may_give(user: "User", role: str) -> bool:
    """Whether a token of this role may belong to the user: it never holds a right that they do not hold."""
    return OPERATE in rights_of(user) if role == SENDER else role in ROLES and _RIGHTS_OF[role] <= rights_of(user)


def role_words(user: "User | AnonymousUser") -> str:
    """For the top bar: `operator, reviewer`, or `no role`."""
    return ", ".join(map(_, roles_of(user))) or _("no role")

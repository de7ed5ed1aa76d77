"""A manager sets what the relays of one owner may cost in a month: it warns, and stops nothing.

Interface, Pages: "budget per owner and month". What stops a relay is its envelope.
"""

from datetime import date
from decimal import Decimal

from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.actions.base import Actor, NotFound, NotPermitted, Usage, need, record
from relays.costs import rollups
from relays.models import OwnerBudget, OwnerMonth
from relays.models.pulse import bump
from relays.reports.figures import whole
from relays.reports.roles import READ, roles_of

SETTERS = frozenset({"manager", "admin"})
MOST = Decimal(10) ** 9


def set_limit(
    actor: Actor, owner: str, limit: Decimal | None, *, month: date | None = None, warn_at: float = 0.8
) -> OwnerBudget | None:
    """Set the limit in dollars for one month (its first day), or for each month without one of its own.

    `limit` None takes the budget away. A recorded decision; the months that it holds for are judged at once. Raises
    Refused.
    """
    need(actor, READ, _("budget"))
    if not SETTERS & set(roles_of(actor.user)):
        raise NotPermitted(
            _("budget: user %(user)s has no role that may set budgets; ask an admin for the role manager")
            % {"user": actor.user.get_username()}
        )
    user = owner_or_refuse(owner)
    if limit is not None and not (limit.is_finite() and 0 < limit <= MOST):
        raise Usage(
            _("budget: --limit %(limit)s: must be dollars, more than 0 and at most %(most)s")
            % {"limit": limit, "most": whole(MOST)}
        )
    if not 0 < warn_at <= 1:
        raise Usage(
            _("budget: --warn-at %(warn_at)s: must be a part of the limit, more than 0 and at most 1")
            % {"warn_at": warn_at}
        )
    now = timezone.now()
    with rollups.serialised():
        detail = {
            "owner": user.get_username(), "month": month.isoformat() if month else None,
            "limit": str(limit) if limit is not None else None, "warn_at": warn_at,
        }  # fmt: skip
        standing = OwnerBudget.objects.filter(owner=user, month=month)
        if limit is None and not standing.exists():
            raise NotFound(
                _("budget: %(user)s has no budget for %(month)s; `relay budget` lists them")
                % {"user": user.get_username(), "month": _named(month)}
            )
        record(actor, "budget", now=now, detail=detail)
        row = None
        if limit is None:
            standing.delete()
        else:
            values = {"limit": limit, "warn_at": warn_at, "set_by": actor.user, "set_at": now}
            row, _made = OwnerBudget.objects.update_or_create(owner=user, month=month, defaults=values)
        for one in OwnerMonth.objects.filter(owner=user, **({"month": month} if month else {})):
            rollups.judge_month(one)
        bump(rollups.COST)
    return row


def owner_or_refuse(name: str) -> User:
    """The user of that name, or a refusal."""
    user = User.objects.filter(username=name).first() if name.isprintable() else None
    if user is None:
        raise NotFound(
            _("budget: %(name)s: no such user; `relay list` shows the owners of relays") % {"name": repr(name[:150])}
        )
    return user


def _named(month: date | None) -> str:
    return f"{month:%Y-%m}" if month else _("each month")

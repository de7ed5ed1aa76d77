"""The monthly report: what each owner's relays cost in the month that ended, told once.

Interface, Pages 7: "budget per owner and month with a scheduled report".
"""

from datetime import datetime, timedelta

from django.db import transaction
from django.utils.translation import gettext as _

from relays.costs.rollups import dollars, zone
from relays.models import Notice, OwnerMonth, owed

HOUR = 6  # of the first day of the next month, in the fleet's zone: by then its last calls are priced


def report(now: datetime) -> int:
    """Write the notices of the month that ended, unless they are written or it is too early; how many."""
    local = now.astimezone(zone())
    if local.day == 1 and local.hour < HOUR:
        return 0
    month = (local.date().replace(day=1) - timedelta(days=1)).replace(day=1)
    if Notice.objects.filter(key=f"report:{month}").exists():
        return 0
    rows = list(OwnerMonth.objects.filter(month=month).select_related("owner").order_by("-units", "owner__username"))
    if not rows:
        return 0
    named = f"{month:%Y-%m}"
    with transaction.atomic():
        for row in rows:
            detail = {"month": named, "lines": [_line(row)]}
            key = f"report:{month}:{row.owner_id}"
            owed.owe(Notice.Event.MONTHLY_REPORT, key, now, owner_id=row.owner_id, detail=detail)
        total = sum(dollars(row.units) for row in rows)
        lines = [_("all owners: $%(spent)s") % {"spent": f"{total:,.2f}"}, *(_line(row) for row in rows[:20])]
        if len(rows) > 20:
            lines.append(_("and %(n)d more owners") % {"n": len(rows) - 20})
        owed.owe(Notice.Event.MONTHLY_REPORT, f"report:{month}", now, detail={"month": named, "lines": lines})
    return len(rows) + 1


def _line(row: OwnerMonth) -> str:
    spent = f"{row.owner.get_username()}: ${dollars(row.units):,.2f}"
    if row.limit:
        share = dollars(row.units) / row.limit
        spent = _("%(spent)s of $%(limit)s (%(share)s)") % {
            "spent": spent,
            "limit": f"{row.limit:,.2f}",
            "share": f"{share:.0%}",
        }
    if row.unpriced:
        spent = _("%(spent)s, partial: %(n)s calls have no price") % {"spent": spent, "n": f"{row.unpriced:,}"}
    return spent

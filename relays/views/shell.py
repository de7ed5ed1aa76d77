"""What every page shows around its content: navigation, the count of waiting gates, the viewer and the fleet's zone."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from relays.reports import figures, layout
from relays.reports.needs_you import waiting_count
from relays.reports.roles import OPERATE, READ, may, rights_of, role_words
from relays.views import viewer
from relaysite.assets import build

#: name of the address, label, and the pages that belong to it
_NAV: tuple[tuple[str, Promise | str, frozenset[str]], ...] = (
    ("needs_you", _("Needs you"), frozenset({"needs_you", "gate", "gate_decide", "gate_reviewers"})),
    ("relays", _("Relays"), frozenset({"relays", "relay", "leg", "leg_log", "baton", "relay_policy"})),
    ("fleet_cost", _("Cost"), frozenset({"fleet_cost", "relay_cost", "session_cost"})),
    ("sessions", _("Sessions"), frozenset({"sessions", "session", "session_texts", "session_promote", "imports"})),
    ("start", _("Start a relay"), frozenset({"start"})),
    ("decisions", _("Decisions"), frozenset({"decisions"})),
    ("vocabulary", _("Vocabulary"), frozenset({"vocabulary"})),
)


#: pages that one sees first: the three hints stand there until they are read or skipped
_HINTS_ON = frozenset({"needs_you", "relays"})


@dataclass(frozen=True, slots=True)
class NavItem:
    name: str
    label: str
    href: str
    current: bool


def _nav(here: str, user: User | AnonymousUser) -> tuple[NavItem, ...]:
    return tuple(
        NavItem(name, str(label), reverse(name), here in pages)
        for name, label, pages in _NAV
        if name != "start" or may(user, OPERATE)
    )


def shell(request: HttpRequest) -> dict[str, object]:
    """Context of `base.html`. Counts are callables: a part or an error page that does not show them asks nothing."""
    zone = viewer.zone_of(request)
    base = {
        "zone": zone,
        "fleet_zone": settings.TIME_ZONE,
        "theme": viewer.theme_of(request),
        "signs": "".join(figures.signs()),
        "build": build(),
    }
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {**base, "waiting_count": 0, "nav": (), "role_words": ""}
    match = request.resolver_match
    count: Callable[[], int] = cache(lambda: waiting_count() if may(user, READ) else 0)
    here = match.url_name or "" if match else ""
    chosen = cache(lambda: layout.of(user))
    return {
        **base,
        "waiting_count": count,
        "nav": cache(lambda: _nav(here, user)),
        "role_words": cache(lambda: role_words(user)),
        "rights_here": cache(lambda: rights_of(user)),
        "layout": chosen,
        "hints_due": cache(lambda: here in _HINTS_ON and may(user, READ) and not chosen().hints_done),
    }

"""How a person has pages laid out."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from zoneinfo import available_timezones

from django.conf import settings
from django.utils.translation import gettext_lazy as _

from relays.models import Layout
from relays.reports.figures import STYLES
from relays.reports.relay import TABS

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

DENSITIES = {"roomy": _("roomy"), "compact": _("compact: more rows on a screen")}
THEMES = {"": _("as the system"), "light": _("light"), "dark": _("dark")}
#: WCAG 2.1.4: shortcuts of one character can be switched off, for who dictates or hits keys unawares
KEYS = {"on": _("j k / ? move, search and help"), "off": _("no key by itself does anything")}
#: panels beside a relay's graph -> what they are called
PANELS = {
    "verdicts": _("Verdicts"),
    "advice": _("Advice"),
    "findings": _("Findings"),
    "readout": _("Operator readout"),
    "pin": _("Objective pin"),
    "facts": _("Pins and facts"),
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What stands for a person; the defaults where they chose nothing."""

    density: str = "roomy"
    first_tab: str = TABS[0]
    closed: tuple[str, ...] = ()
    language: str = ""
    zone: str = ""
    numbers: str = ""
    theme: str = ""
    keys: str = "on"
    hints_done: bool = False


def languages() -> dict[str, str]:
    """Languages that the texts are there in, in their own words."""
    return dict(settings.LANGUAGES)


@cache
def zones() -> tuple[str, ...]:
    """Names of zones that a person may choose, in order of their names."""
    return tuple(sorted(name for name in available_timezones() if "/" in name and not name.startswith("posix")))


def of(user: "User | AnonymousUser") -> Chosen:
    """One query. A word that is no choice any more counts as the default."""
    row = Layout.objects.filter(user=user.pk).first() if user.is_authenticated else None
    if row is None:
        return Chosen()
    return Chosen(
        row.density if row.density in DENSITIES else "roomy",
        row.first_tab if row.first_tab in TABS else TABS[0],
        tuple(name for name in PANELS if name in row.closed),
        row.language if row.language in languages() else "",
        row.zone if row.zone in zones() or row.zone == "UTC" else "",
        row.numbers if row.numbers in STYLES else "",
        row.theme if row.theme in THEMES else "",
        row.keys if row.keys in KEYS else "on",
        row.hints_done,
    )

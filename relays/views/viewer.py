"""How the one who looks reads: language, time zone, numbers. Kept in cookies, so that no page asks for it.

Interface: "Times in the viewer's zone, buckets in the fleet's." A person's choice (`/layout/`) comes first, then what
the browser says (`shell.js` keeps its zone), then the fleet's zone and English. Programs get English and UTC's words.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.utils import timezone, translation
from django.utils.cache import patch_vary_headers
from django.utils.decorators import sync_and_async_middleware

from relays.reports import figures
from relays.reports.layout import Chosen

ZONE_CHOSEN, ZONE_SEEN, NUMBERS, THEME = "rs-zone-chosen", "rs-zone", "rs-numbers", "rs-theme"
YEAR = 365 * 86400
#: addresses that programs read
PROGRAMS = ("/api/", "/healthz", "/readyz", "/metrics")


@dataclass(frozen=True, slots=True)
class Zone:
    """`whose`: chosen (by the person), browser, or fleet (nobody said: the fleet's zone stands in)."""

    name: str
    whose: str


def zone_named(name: str) -> ZoneInfo | None:
    """The zone of that name, or None; a name from a cookie may be anything."""
    try:
        return ZoneInfo(name) if 0 < len(name) <= 64 else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def zone_of(request: HttpRequest) -> Zone:
    """The viewer's zone and how it is known."""
    for cookie, whose in ((ZONE_CHOSEN, "chosen"), (ZONE_SEEN, "browser")):
        name = request.COOKIES.get(cookie, "")
        if name and zone_named(name):
            return Zone(name, whose)
    return Zone(settings.TIME_ZONE, "fleet")


def language_of(request: HttpRequest) -> str:
    """The chosen language, else the browser's first that there is, else English."""
    if request.path_info.startswith(PROGRAMS):
        return settings.LANGUAGE_CODE
    return translation.get_language_from_request(request)


def theme_of(request: HttpRequest) -> str:
    """light or dark, chosen here; "" = the system's."""
    chosen = request.COOKIES.get(THEME, "")
    return chosen if chosen in ("light", "dark") else ""


def key() -> tuple[str, str, str]:
    """What a rendering depends on beside its data and rights: part of the key of every kept region."""
    return translation.get_language() or "", timezone.get_current_timezone_name(), figures.style()


def _begin(request: HttpRequest) -> None:
    program = request.path_info.startswith(PROGRAMS)
    translation.activate(language_of(request))
    figures.use("" if program else request.COOKIES.get(NUMBERS, ""))
    zone = None if program else zone_named(zone_of(request).name)
    timezone.activate(zone or timezone.get_default_timezone())


def _end(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    language = translation.get_language() or settings.LANGUAGE_CODE
    if not request.path_info.startswith(PROGRAMS):
        response.headers.setdefault("Content-Language", language)
        patch_vary_headers(response, ("Accept-Language", "Cookie"))
    _leave()
    return response


def _leave() -> None:
    """A thread that serves many requests keeps nothing of one."""
    translation.deactivate()
    timezone.deactivate()
    figures.use("")


@sync_and_async_middleware
def middleware(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Read as this viewer reads, for the length of one request."""
    if iscoroutinefunction(get_response):

        async def later(request: HttpRequest) -> HttpResponseBase:
            _begin(request)
            try:
                answer: Awaitable[HttpResponseBase] = get_response(request)
                return _end(request, await answer)
            finally:
                _leave()

        return later

    def now(request: HttpRequest) -> HttpResponseBase:
        _begin(request)
        try:
            return _end(request, get_response(request))
        finally:
            _leave()

    return now


def remember(response: HttpResponseBase, chosen: Chosen) -> None:
    """Put a person's choices where this browser sends them back with every request; "" takes one away."""
    kept = {
        settings.LANGUAGE_COOKIE_NAME: chosen.language,
        ZONE_CHOSEN: chosen.zone,
        NUMBERS: chosen.numbers,
        THEME: chosen.theme,
    }
    for name, value in kept.items():
        if value:
            response.set_cookie(name, value, max_age=YEAR, samesite="Lax", secure=settings.SESSION_COOKIE_SECURE)
        else:
            response.delete_cookie(name, samesite="Lax")

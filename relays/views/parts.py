"""One region of a page: rendered once per change and role, sent only when it is not what the page has already.

Interface: "each region rendered once per change and role, whatever the number of viewers"; "204 or 304 when nothing
changed".
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from relays.models import Topic
from relays.reports.roles import rights_of
from relays.views import viewer
from relaysite.assets import build as build_here

KEPT = 200  # regions
AGES = 10  # seconds after which a region is rendered again without a change, because ages in it have moved


@dataclass(frozen=True, slots=True)
class Rendered:
    html: bytes
    etag: str


class Regions:
    """The last renderings of this process. A second viewer of the same region waits for the first one's rendering."""

    def __init__(self, kept: int = KEPT) -> None:
        self.kept = kept
        self.rows: OrderedDict[tuple[object, ...], Rendered] = OrderedDict()
        self.making: dict[tuple[object, ...], threading.Lock] = {}
        self.lock = threading.Lock()

    def get(self, key: tuple[object, ...], make: Callable[[], str]) -> Rendered:
        with self.lock:
            if key in self.rows:
                self.rows.move_to_end(key)
                return self.rows[key]
            mine = self.making.setdefault(key, threading.Lock())
        with mine:
            with self.lock:
                if key in self.rows:
                    return self.rows[key]
            try:
                html = make().encode()
                made = Rendered(html, f'"{hashlib.sha256(html).hexdigest()[:32]}"')
                with self.lock:
                    self.rows[key] = made
                    while len(self.rows) > self.kept:
                        self.rows.popitem(last=False)
            finally:
                with self.lock:
                    self.making.pop(key, None)
        return made

    def clear(self) -> None:
        with self.lock:
            self.rows.clear()


regions = Regions()


def whole_number(text: str) -> int | None:
    """A number of an address or a form; None for whatever else is written there."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 18 else None


def part_response(
    request: HttpRequest,
    template: str,
    build: Callable[[], dict[str, object]],
    topics: Sequence[str],
) -> HttpResponse:
    """The region `template` with the context of `build()`, kept until one of `topics` changes or ages move.

    The template is rendered without the request: it may depend on the address, on the viewer's rights (as `rights`
    in its context), language, zone and numbers, not on who the viewer is. 304 without a body when the page has it.
    """
    # read before the data: what is kept under a number is at least as new as that number
    numbers = tuple(Topic.objects.filter(name__in=topics).order_by("name").values_list("name", "number"))
    rights = rights_of(request.user)
    key = (template, request.get_full_path(), rights, tuple(topics), numbers, int(time.time() // AGES), viewer.key())
    rendered = regions.get(key, lambda: render_to_string(template, {**build(), "rights": rights}))
    if request.headers.get("If-None-Match") == rendered.etag:
        response = HttpResponse(status=304)
    else:
        response = HttpResponse(rendered.html)
    response["ETag"] = rendered.etag
    response["Cache-Control"] = "private, no-cache"
    response["Relaysite-Build"] = build_here()
    response.topics = frozenset(topics)  # type: ignore[attr-defined]  # what a live page gives it again for
    return response

"""No page holds a character that a person cannot see and a browser obeys.

Mission: "a human is called once … with everything needed to decide": what is decided on must read as it is stored.
Templates escape markup; marks of direction, control characters and characters without width are no markup, and agent
text that holds them can look like other text. They become the replacement character, wherever they stand.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.http import HttpRequest, HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

#: controls but tab, line feed and return; marks, overrides and isolates of direction; what has no width (but joiners,
#: which scripts and emoji need); line and paragraph separators
UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]"
)
SHOWN = "\N{REPLACEMENT CHARACTER}"


def only_visible(response: HttpResponseBase) -> HttpResponseBase:
    """The response, its unseen characters replaced where it is a whole page; data and streams are left as they are."""
    kind = response.headers.get("Content-Type", "")
    content = getattr(response, "content", None)
    if response.streaming or content is None or not kind.startswith("text/html"):
        return response
    text = content.decode(response.charset or "utf-8", "replace")
    if UNSEEN.search(text):
        response.content = UNSEEN.sub(SHOWN, text).encode(response.charset or "utf-8")  # type: ignore[attr-defined]
    return response


@sync_and_async_middleware
def middleware(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Django's middleware around `only_visible`."""
    if iscoroutinefunction(get_response):

        async def later(request: HttpRequest) -> HttpResponseBase:
            answer: Awaitable[HttpResponseBase] = get_response(request)
            return only_visible(await answer)

        return later

    def now(request: HttpRequest) -> HttpResponseBase:
        return only_visible(get_response(request))

    return now

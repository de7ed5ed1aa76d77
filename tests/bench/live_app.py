"""The site as it is served, with one more address that says how many pages listen: for the bench alone."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from relaysite.asgi import application as site  # sets Django up: what follows needs it

from relays.live import hub  # isort: skip

LISTENERS = "/bench/listeners"


async def application(scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[..., Any]) -> None:
    """`LISTENERS` answers with the number of listeners of this process; everything else is the site's."""
    if scope["type"] == "http" and scope["path"] == LISTENERS:
        body = json.dumps(len(hub().listeners)).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": body})
        return
    await site(scope, receive, send)

"""Hooks of programs that nobody drives. Whatever comes, the program gets an answer that it can bear.

interface.md, HTTP: "`POST hooks/claude-code` (the program's own hook JSON; always 200 with an empty body or JSON)".
"""

import logging

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.request import UnreadablePostError
from django.utils import timezone
from ninja import Router

from relays.actions import hooks
from relays.api.auth import may_send, token_of

log = logging.getLogger(__name__)

router = Router(tags=["hooks"])


@router.post("/hooks/claude-code", auth=None, summary="One hook call of Claude Code")
def claude_code(request: HttpRequest) -> HttpResponse:
    """Always 200. The header `Relaysite-Hook` says what became of it: kept, dropped (more than the bound of a minute),
    torn (no JSON object with `session_id` and `hook_event_name`, or larger than 1 MiB), or refused (no token that
    stands, or one whose role may not send), or failed (this site could not keep it; its log says why). The body is
    empty, or JSON where this site lets no session compact."""
    try:
        return _answer(*_became(request))
    except Exception:  # a program that runs elsewhere does not pay for what breaks here
        log.exception("a hook call could not be kept")
        return _answer("failed", {})


def _became(request: HttpRequest) -> hooks.Answer:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    token = token_of(secret.strip(), timezone.now()) if scheme.lower() == "bearer" else None
    if token is None or not may_send(token):
        hooks.refuse()
        return "refused", {}
    try:
        length = int(request.headers.get("Content-Length") or 0)
        body = request.body if length <= hooks.MOST_BYTES else b" " * (hooks.MOST_BYTES + 1)
    except (RequestDataTooBig, UnreadablePostError, ValueError):
        body = b""
    return hooks.receive(token, body)


def _answer(became: str, said: dict[str, str]) -> HttpResponse:
    response = JsonResponse(said) if said else HttpResponse(b"", content_type="application/json")
    response["Relaysite-Hook"] = became
    response["Cache-Control"] = "no-store"
    return response

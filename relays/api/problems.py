"""Errors of the API as problem+json (RFC 9457): one line that says what, where and what to do, never a traceback."""

import functools
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from relays.actions.base import Refused

log = logging.getLogger(__name__)

TITLES = {
    400: "Bad request", 401: "No token that stands", 403: "Not permitted", 404: "Not found", 405: "Method not allowed",
    409: "Not legal now", 413: "Too large", 422: "Not usable", 429: "Too many calls", 500: "Something broke here",
}  # fmt: skip
#: exit code of a refused act -> status, so that page, command line and API refuse alike
STATUS_OF_EXIT = {2: 422, 6: 409, 12: 403, 13: 409, 14: 404}


def problem(status: int, detail: str, **more: Any) -> HttpResponse:
    """`{"type", "title", "status", "detail"}` and what else a refusal names."""
    body: Mapping[str, Any] = {
        "type": "about:blank",
        "title": TITLES.get(status, "Refused"),
        "status": status,
        "detail": detail,
        **more,
    }
    response = HttpResponse(json.dumps(body), status=status, content_type="application/problem+json")
    response["Cache-Control"] = "no-store"
    if status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="relaysite"'
    return response


def unauthorised() -> HttpResponse:
    return problem(401, "This call needs a token: send `Authorization: Bearer …`, made with `relay token add`.")


def install(api: NinjaAPI) -> None:
    """Every error that a route of `api` can end with."""
    handlers: list[tuple[type[Exception], Callable[[Any], HttpResponse]]] = [
        (AuthenticationError, lambda error: unauthorised()),
        (PermissionDenied, lambda error: problem(403, str(error) or "This token may not do that.")),
        (Http404, lambda error: problem(404, str(error) or "There is nothing at this address.")),
        (Refused, lambda error: problem(STATUS_OF_EXIT.get(error.exit_code, 422), str(error))),
        (HttpError, lambda error: problem(error.status_code, str(error))),
        (ValidationError, _invalid),
        (Exception, _broke),
    ]
    for kind, answer in handlers:
        api.add_exception_handler(kind, _handler(answer))


def _handler(answer: Callable[[Any], HttpResponse]) -> Callable[[HttpRequest, Any], HttpResponse]:
    return lambda request, error: answer(error)


def _invalid(error: ValidationError) -> HttpResponse:
    places = [
        {"path": ".".join(str(part) for part in one.get("loc", ())), "why": str(one.get("msg", ""))}
        for one in error.errors[:20]
    ]
    first = places[0] if places else {"path": "", "why": ""}
    return problem(422, f"{first['path']}: {first['why']}", errors=places)


def _broke(error: Exception) -> HttpResponse:
    log.error("a call of the API broke", exc_info=error)
    return problem(500, "The call could not be answered; the log of the server says why.")


def served(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """A route as the site serves it: no page's sign-in before it, and no error of the framework in another form."""

    @functools.wraps(view)
    def call(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        response = view(request, *args, **kwargs)
        if response.status_code == 405:
            plain = problem(405, f"{request.method} is not known here; use {response.get('Allow', '')}.")
            plain["Allow"] = response.get("Allow", "")
            return plain
        return response

    call.login_required = False  # type: ignore[attr-defined]
    call.csrf_exempt = True  # type: ignore[attr-defined]
    return call

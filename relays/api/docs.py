"""What the API is, as a page for people and as OpenAPI for programs; both come from the routes themselves."""

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from ninja import NinjaAPI

from relays.api.auth import token_of
from relays.api.problems import unauthorised


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    summary: str
    what: str
    open: bool  # it judges the token by itself
    parameters: tuple[tuple[str, str, bool], ...]  # name, where, required
    answers: tuple[tuple[str, str], ...]  # status, schema's name


def page(api: NinjaAPI, request: HttpRequest) -> HttpResponseBase:
    """`/api/v1/`: the routes in words; behind sign-in as every page."""
    return render(request, "relays/api_docs/page.html", {"routes": routes(api), "title": api.title})


def openapi(api: NinjaAPI, request: HttpRequest) -> HttpResponse:
    """The OpenAPI document, for a token or a signed-in person."""
    if not request.user.is_authenticated:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or token_of(secret.strip(), timezone.now()) is None:
            return unauthorised()
    return JsonResponse(api.get_openapi_schema(path_prefix="/api/v1/"))


def routes(api: NinjaAPI) -> tuple[Route, ...]:
    """One row per method and path, in the order of the document."""
    found = []
    paths: dict[str, dict[str, dict[str, Any]]] = api.get_openapi_schema(path_prefix="/api/v1/")["paths"]
    for path, methods in paths.items():
        for method, told in methods.items():
            found.append(Route(
                method.upper(), path, told.get("summary", ""),
                " ".join(told.get("description", "").replace("`", "").split()),
                not told.get("security"),
                tuple((one["name"], one["in"], bool(one.get("required"))) for one in told.get("parameters", ())),
                tuple((str(code), _schema(answer)) for code, answer in told.get("responses", {}).items()),
            ))  # fmt: skip
    return tuple(found)


def _schema(answer: dict[str, Any]) -> str:
    content = answer.get("content", {}).get("application/json", {})
    return str(content.get("schema", {}).get("$ref", "")).rpartition("/")[2]

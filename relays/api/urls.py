"""`/api/v1/`: the routers of the API, its documents, and an answer for every address that it does not have.

interface.md, HTTP: "`/api/v1/` (OpenAPI served; token auth, 401 without; errors as problem+json".
"""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import URLPattern, path, re_path
from django.utils import timezone
from django.views.decorators.http import require_safe
from ninja import NinjaAPI

from relays.api import docs, hooks, problems, relays_read
from relays.api.auth import TokenAuth, token_of

api = NinjaAPI(
    title="Relaysite",
    version="1",
    auth=TokenAuth(),
    docs_url=None,
    openapi_url=None,
    urls_namespace="api",
    description="Money is a decimal string, times are ISO 8601 in UTC. Errors are problem+json.",
)
problems.install(api)
for router in (relays_read.router, hooks.router):
    api.add_router("", router)


@require_safe
def _page(request: HttpRequest) -> HttpResponseBase:
    return docs.page(api, request)


@require_safe
def _openapi(request: HttpRequest) -> HttpResponseBase:
    return docs.openapi(api, request)


def _unknown(request: HttpRequest) -> HttpResponse:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "bearer" or token_of(secret.strip(), timezone.now()) is None:
        return problems.unauthorised()
    return problems.problem(404, f"There is nothing at {request.path[:200]}; /api/v1/openapi.json has every route.")


def _patterns() -> list[URLPattern]:
    routes = [one for one in api.urls[0] if isinstance(one, URLPattern) and one.name != "api-root"]
    for one in routes:
        one.callback = problems.served(one.callback)
    return [
        path("", _page, name="api_docs"),
        path("openapi.json", problems.served(_openapi), name="api_openapi"),
        *routes,
        re_path("^.*$", problems.served(_unknown)),
    ]


urlpatterns = _patterns()

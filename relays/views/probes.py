"""`/healthz`: this process answers. `/readyz`: it can serve pages. Both are open; the Health page is another one."""

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from relays.reports import health


@login_not_required
@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """200 while the process answers at all; asks nothing of anything."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@never_cache
@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """200 `{"ready": true}`; else 503 with what is missing and what to do: the doctor's check of the database."""
    found = next(health.database())
    if found.state == "ok":
        return JsonResponse({"ready": True})
    return JsonResponse({"ready": False, "what": found.detail, "fix": found.fix}, status=503)

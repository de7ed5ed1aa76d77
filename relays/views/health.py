"""`/healthz`: this process answers. `/readyz`: it can serve pages. Both are open; the Health page is another one."""

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe


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
    """200 `{"ready": true}`; else 503 with what is missing and what to do."""
    try:
        executor = MigrationExecutor(connection)
        behind = bool(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    except DatabaseError:
        return _not_ready("the database does not answer", "start it, or check DATABASE_URL")
    if behind:
        return _not_ready("the database is behind this version", "run `python manage.py migrate`")
    return JsonResponse({"ready": True})


def _not_ready(what: str, fix: str) -> JsonResponse:
    return JsonResponse({"ready": False, "what": what, "fix": fix}, status=503)

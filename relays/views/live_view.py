"""`/live/?topics=inbox,relay:ID`: which of the asked topics changed, as server-sent events."""

import re

from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest, PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.views.decorators.http import require_GET

from relays import access
from relays.live import CAP, TooManyListeners, Viewer, hub, stream
from relays.reports.roles import READ

MOST_TOPICS = 20
_TOPIC = re.compile(
    r"inbox|relays|audit|(?:relay|cost):[A-Za-z0-9._-]{1,60}|sessions|(?:session|import|cost:session):[0-9]{1,18}|cost"
)


def asked_topics(request: HttpRequest) -> frozenset[str]:
    """The topics of the query; raises BadRequest for none, too many, or a word that is no topic."""
    topics = frozenset(word for word in request.GET.get("topics", "").split(",") if word)
    if not topics or len(topics) > MOST_TOPICS or not all(_TOPIC.fullmatch(word) for word in topics):
        raise BadRequest(
            f"topics must be 1 to {MOST_TOPICS} of inbox, relays, audit, relay:<id>, sessions, session:<n>, "
            "import:<n>, cost, cost:<relay>, cost:session:<n>, with commas between them."
        )
    return topics


def viewer_of(request: HttpRequest) -> Viewer:
    """Who listens, as they are now; raises PermissionDenied without the right to read."""
    access.require(request, READ)
    user = request.user
    if not isinstance(user, User):
        raise PermissionDenied("This needs sign-in.")
    return Viewer(
        user_id=user.pk,
        session_key=request.session.session_key or "",
        session_hash=user.get_session_auth_hash(),
        rights=access.rights_of(user),
    )


@require_GET
async def live(request: HttpRequest) -> HttpResponseBase:
    """204 where streams are not served (no ASGI): the page polls; 429 above the cap of streams of one user."""
    viewer = await sync_to_async(viewer_of)(request)
    topics = asked_topics(request)
    if not isinstance(request, ASGIRequest):
        return HttpResponse(status=204)
    at = hub()
    try:
        listener = at.join(viewer.user_id, topics)
    except TooManyListeners:
        return HttpResponse(
            f"{CAP} live pages of this user are open already; this page polls.",
            status=429,
            headers={"Retry-After": "15"},
        )
    response = StreamingHttpResponse(stream(listener, at, viewer), content_type="text/event-stream")
    response["Cache-Control"] = "no-cache, no-transform"
    response["X-Accel-Buffering"] = "no"
    return response

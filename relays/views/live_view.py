"""`/live/?topics=inbox,relay:ID&r=/relays/ID/?part=head`: which of the asked topics changed, and what the regions `r`
of the pages show then, as server-sent events.

One stream serves all windows of one person in a browser. When another window opens, the next stream takes the place of
this one: `since` is the change number up to which this one told everything, and `k` the regions that are shown already,
which are given again only where they changed after it. `who` is the user whom the windows were made for: after somebody
else signed in in the same browser, they are told so and given nothing.
"""

import json
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest, PermissionDenied
from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, QueryDict, StreamingHttpResponse
from django.urls import Resolver404, resolve
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from relays import access
from relays.live import CAP, Look, Made, TooManyListeners, Viewer, hub, line, stream
from relays.reports.roles import READ
from relays.views import viewer as reading
from relays.views.parts import whole_number
from relays.views.visible import only_visible
from relaysite.assets import build

MOST_TOPICS = 60
MOST_REGIONS = 96
REGION = 400  # characters of its address
#: pages that have regions. All others would be made whole, in the one thread that serves everybody's regions
PAGES = frozenset(
    "baton decisions fleet_cost gate health imports leg maintenance maintenance_act needs_you relay relay_cost relays "
    "session session_cost sessions".split()
)
_TOPIC = re.compile(
    r"inbox|relays|audit|notices|maintenance|(?:relay|cost):[A-Za-z0-9._-]{1,60}|sessions|(?:session|import|cost:session):[0-9]{1,18}|cost"
)


def asked_topics(request: HttpRequest) -> frozenset[str]:
    """The topics of the query; raises BadRequest for none, too many, or a word that is no topic."""
    topics = frozenset(word for word in request.GET.get("topics", "").split(",") if word)
    if not topics or len(topics) > MOST_TOPICS or not all(_TOPIC.fullmatch(word) for word in topics):
        raise BadRequest(
            _("topics must be 1 to %(most)s of %(topics)s, with commas between them.")
            % {
                "most": MOST_TOPICS,
                "topics": "inbox, relays, audit, notices, maintenance, relay:<id>, sessions, session:<n>, import:<n>, "
                "cost, cost:<relay>, cost:session:<n>",
            }
        )
    return topics


def viewer_of(request: HttpRequest) -> Viewer:
    """Who listens, as they are now; raises PermissionDenied without the right to read."""
    access.require(request, READ)
    user = request.user
    if not isinstance(user, User):
        raise PermissionDenied(_("This needs sign-in."))
    return Viewer(
        user_id=user.pk,
        session_key=request.session.session_key or "",
        session_hash=user.get_session_auth_hash(),
        rights=access.rights_of(user),
        language=get_language() or settings.LANGUAGE_CODE,
    )


def asked_regions(request: HttpRequest, name: str = "r") -> tuple[str, ...]:
    """The addresses in `r` that are parts of our pages; what is none is left out, and the page asks for it itself."""
    found = []
    for address in dict.fromkeys(request.GET.getlist(name)[:MOST_REGIONS]):
        parts = urlsplit(address) if len(address) <= REGION else None
        if parts is None or parts.scheme or parts.netloc:
            continue
        asked = QueryDict(parts.query)
        if "part" not in asked or "format" in asked:
            continue
        try:
            match = resolve(parts.path)
        except Resolver404:
            continue
        if match.url_name in PAGES:
            found.append(address)
    return tuple(found)


def look_of(request: HttpRequest, who: Viewer) -> Look:
    """How this viewer reads regions: as if each had been asked for by the page, by the same views."""
    user, cookies = request.user, dict(request.COOKIES)
    kept = ("HTTP_ACCEPT_LANGUAGE", "HTTP_HOST", "SERVER_NAME", "SERVER_PORT")
    meta = {name: value for name, value in request.META.items() if name in kept}

    def render(address: str) -> Made | None:
        parts = urlsplit(address)
        asked = HttpRequest()
        asked.method, asked.path, asked.path_info = "GET", parts.path, parts.path
        asked.META = {**meta, "REQUEST_METHOD": "GET", "PATH_INFO": parts.path, "QUERY_STRING": parts.query}
        asked.GET, asked.COOKIES = QueryDict(parts.query), cookies
        asked.user = user
        asked.resolver_match = match = resolve(parts.path)
        answer = reading.middleware(lambda one: match.func(one, *match.args, **match.kwargs))
        try:
            response = only_visible(answer(asked))
        except (Http404, PermissionDenied, BadRequest):
            return None
        topics = getattr(response, "topics", None)
        if response.status_code != 200 or topics is None:
            return None
        return Made(response["ETag"], region_event(address, response), topics)

    return Look((who.rights, *reading.key()), render)


def region_event(address: str, response: HttpResponseBase) -> bytes:
    """A region as an event: its address as the page wrote it, so that the page finds it; never a raw line end."""
    body = bytes(getattr(response, "content", b"")).decode()
    told = {"region": address, "etag": response["ETag"], "type": response["Content-Type"], "body": body}
    return b"event: region\ndata: " + json.dumps(told, ensure_ascii=False).encode() + b"\n\n"


def asked_since(request: HttpRequest) -> int | None:
    """The change number that the stream before this one ended with; None for none, or what is no number."""
    return whole_number(request.GET.get("since", ""))


def _asked(
    request: HttpRequest,
) -> tuple[Viewer, frozenset[str], tuple[Sequence[str], Look, Sequence[str], int | None]]:
    who, topics = viewer_of(request), asked_topics(request)
    shown, kept = asked_regions(request), asked_regions(request, "k")
    return who, topics, (shown, look_of(request, who), kept, asked_since(request))


@require_GET
async def live(request: HttpRequest) -> HttpResponseBase:
    """204 where streams are not served (no ASGI): the page polls; 429 above the cap of streams of one user."""
    viewer, topics, how = await sync_to_async(_asked)(request)
    if not isinstance(request, ASGIRequest):
        return HttpResponse(status=204)
    if request.GET.get("who", str(viewer.user_id)) != str(viewer.user_id):
        why = _("signed out: reload the page")
        return HttpResponse(
            line("bye", why=why), content_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )
    at = hub()
    try:
        listener = at.join(viewer.user_id, topics, *how)
    except TooManyListeners:
        return HttpResponse(
            f"{CAP} browsers of this user are live already; this one polls.",
            status=429,
            headers={"Retry-After": "15"},
        )
    response = StreamingHttpResponse(stream(listener, at, viewer, build=build()), content_type="text/event-stream")
    response["Cache-Control"] = "no-cache, no-transform"
    response["X-Accel-Buffering"] = "no"
    return response

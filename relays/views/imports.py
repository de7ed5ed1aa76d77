"""`/sessions/import/`: start, follow, cancel and resume the reading of session files, and see how far it is."""

from collections.abc import Callable

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from relays import access
from relays.actions import import_sessions
from relays.actions.base import NotFound, Refused
from relays.reports import imports as report
from relays.reports.roles import OPERATE, READ
from relays.views.parts import part_response
from relays.views.relay import actor_of


@require_http_methods(["GET", "HEAD", "POST"])
def imports(request: HttpRequest) -> HttpResponse:
    """The page; `?part=jobs` its live region; POST `path` (one or more) and `follow` starts one."""
    access.require(request, READ)
    if request.method == "POST":
        return _start(request)
    part = request.GET.get("part")
    if part is None:
        return render(request, "relays/imports/page.html", _context(request))
    if part != "jobs":
        raise Http404(_("There is no such part of this page."))
    # which topics it hears follows from the imports that live; they are read again for the region itself
    topics = report.imports_page().topics
    return part_response(request, "relays/imports/_jobs.html", lambda: _context(request), ("sessions", *topics))


def _context(request: HttpRequest) -> dict[str, object]:
    rights = access.rights_of(request.user)
    return {
        "page": report.imports_page(),
        "rights": rights,
        "may_import": OPERATE in rights,
        "keeps_texts": settings.KEEP_TRANSCRIPTS,
    }


def _start(request: HttpRequest) -> HttpResponse:
    follow = "1" in (request.POST.get("follow"), request.GET.get("follow"))
    paths = [line for text in request.POST.getlist("path") for line in text.splitlines()]

    def act() -> str:
        job = import_sessions.start(actor_of(request), paths, follow=follow)
        return (
            _("Import %(pk)s follows: it reads what is there and then what is added.") % {"pk": job.pk}
            if follow
            else (
                _("Import %(pk)s begins: a worker reads it in the background; this page shows how far it is.")
                % {"pk": job.pk}
            )
        )

    return _act(request, act)


@require_POST
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    return _act(request, lambda: _ended(import_sessions.cancel(actor_of(request), pk).pk))


def _ended(pk: int) -> str:
    return _("Import %(pk)s ends within a second or two; what was read stays.") % {"pk": pk}


@require_POST
def resume(request: HttpRequest, pk: int) -> HttpResponse:
    def act() -> str:
        return _("Import %(pk)s goes on where it stood.") % {"pk": import_sessions.resume(actor_of(request), pk).pk}

    return _act(request, act)


def _act(request: HttpRequest, act: Callable[[], str]) -> HttpResponse:
    """Carry out one act and go back to the page, which says what follows or why nothing happened."""
    access.require(request, OPERATE)
    try:
        messages.success(request, act())
    except NotFound as refusal:
        if "pk" in (request.resolver_match.kwargs if request.resolver_match else {}):
            raise Http404(str(refusal)) from refusal
        messages.error(request, str(refusal))
    except Refused as refusal:
        messages.error(request, str(refusal))
    response = HttpResponseRedirect(reverse("imports"))
    response.status_code = 303
    return response

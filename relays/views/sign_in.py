"""Signing in by name and password or by a one-time link, and signing out."""

import hashlib
from dataclasses import dataclass
from typing import cast

from django.contrib.auth import authenticate, login, logout
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from relays import access
from relays.reports import layout
from relays.views import viewer

FREE = 5  # failures of one name from one address before it must wait
FREE_ADDRESS = 50  # failures of one address, whatever the names
FIRST_WAIT, LONGEST_WAIT = 30, 900  # seconds; doubles with each further failure
REMEMBER = 3600  # seconds that failures count

BACKEND = "django.contrib.auth.backends.ModelBackend"


@dataclass(frozen=True, slots=True)
class Failures:
    """Failed sign-ins of one name from one address, kept in the cache of the process."""

    name: str
    address: str

    def _keys(self) -> tuple[tuple[str, int], ...]:
        both = hashlib.sha256(f"{self.name.casefold()}\0{self.address}".encode("utf-8", "replace")).hexdigest()
        alone = hashlib.sha256(self.address.encode("utf-8", "replace")).hexdigest()
        return (f"sign-in:{both}", FREE), (f"sign-in-from:{alone}", FREE_ADDRESS)

    def wait(self) -> int:
        """Seconds to wait before the next try; 0 = none. A try before that is not even checked."""
        now = timezone.now().timestamp()
        return max(0, *(int(cache.get(f"{key}:until", 0) - now + 0.999) for key, _ in self._keys()))

    def count(self) -> None:
        now = timezone.now().timestamp()
        for key, free in self._keys():
            cache.add(key, 0, REMEMBER)
            failed = cache.incr(key)
            if failed >= free:
                wait = min(FIRST_WAIT * 2 ** min(failed - free, 10), LONGEST_WAIT)
                cache.set(f"{key}:until", now + wait, wait)

    def forget(self) -> None:
        (key, _), *_ = self._keys()
        cache.delete_many([key, f"{key}:until"])


def _next(request: HttpRequest) -> str:
    """Where to go after signing in: only an address of this site."""
    target = request.POST.get("next") or request.GET.get("next") or ""
    fine = url_has_allowed_host_and_scheme(target, {request.get_host()}, require_https=request.is_secure())
    return target if fine else ""


@login_not_required
@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponseBase:
    """400 for a wrong name or password, 429 while one has to wait."""
    if request.user.is_authenticated:
        return HttpResponseRedirect(_next(request) or "/")
    context: dict[str, object] = {"next": _next(request)}
    if request.method != "POST":
        return render(request, "relays/sign_in/page.html", context)
    name = request.POST.get("username", "")[:150].replace("\0", "")
    failures = Failures(name, request.META.get("REMOTE_ADDR", ""))
    wait = failures.wait()
    if wait:
        return _wait(request, wait, {**context, "name": name})
    user = authenticate(request, username=name, password=request.POST.get("password", "")[:4096])
    if user is None:
        failures.count()
        wait = failures.wait()
        if wait:
            return _wait(request, wait, {**context, "name": name})
        error = _("This name and password do not fit together, or the account is not active.")
        return render(request, "relays/sign_in/page.html", {**context, "name": name, "error": error}, status=400)
    failures.forget()
    login(request, user)
    return _read_as_before(HttpResponseRedirect(_next(request) or "/"), user)


def _read_as_before(response: HttpResponseRedirect, user: AbstractBaseUser) -> HttpResponseRedirect:
    """This browser is told the language, zone, numbers and theme that the person chose in another one."""
    viewer.remember(response, layout.of(cast(User, user)))
    return response


def _wait(request: HttpRequest, seconds: int, context: dict[str, object]) -> HttpResponse:
    error = _("Too many failed tries for this name from here. Wait %(n)s s, then try again.") % {"n": seconds}
    response = render(request, "relays/sign_in/page.html", {**context, "error": error}, status=429)
    response["Retry-After"] = str(seconds)
    return response


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: HttpRequest, secret: str) -> HttpResponseBase:
    """GET shows one button, so that a preview does not use the link up; POST signs in once. 410 when it is over."""
    now = timezone.now()
    if request.method == "POST":
        user = access.use_sign_in_link(secret, now)
        if user is not None:
            login(request, user, backend=BACKEND)
            return _read_as_before(redirect("needs_you"), user)
    fine = request.method != "POST" and access.link_is_open(secret, now)
    return render(request, "relays/sign_in/link.html", {"fine": fine}, status=200 if fine else 410)


@never_cache
@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    """Ends the sign-in; open live streams of it close within 15 s."""
    logout(request)
    return redirect("sign_in")

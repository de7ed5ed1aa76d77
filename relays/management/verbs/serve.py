"""`serve`: web, worker and beat as one, on this machine alone; what `make run` does after the environment is made.

Interface: "migrates an SQLite file under `var/` [...] starts web + worker + beat on 127.0.0.1:8000 with no server
installed, and, on an empty database, starts the tour [...] Ctrl-C ends all of it cleanly; `make run` again continues
where it was."
"""

import argparse
import errno
import fcntl
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import FrameType

from django.conf import settings
from django.contrib.auth.models import User
from django.core import checks
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from relays.management.children import Children, TooManyRestarts
from relays.management.cli import Exit, refuse, say

HOST = "127.0.0.1"
ADMIN = "admin"
LINK_MINUTES = 60
WEB_SECONDS = 60
#: a task takes a minute at most
WORKER_SECONDS = 65
#: without a terminal nobody can press Ctrl-C a second time
UNATTENDED_SECONDS = 60
#: so long a supervisor may take from its start to its claim on a busy machine
SPAWN_SECONDS = 15


class EndNow(BaseException):
    """The second Ctrl-C: nothing is waited for any more."""


class Signals:
    """First SIGINT or SIGTERM: `asked`. The second raises EndNow wherever the main thread is."""

    def __init__(self) -> None:
        self.asked = False
        self.ending = False
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on)

    def _on(self, _number: int, _frame: FrameType | None) -> None:
        if self.asked and not self.ending:
            self.ending = True
            raise EndNow
        self.asked = True


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=_port, default=8000, metavar="N", help="default 8000")
    parser.add_argument("--no-tour", action="store_true", help="start no tour on an empty database")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (1 to 65535)")
    return int(text)


def run(options: argparse.Namespace) -> int:
    _check_port(options.port)
    public = settings.PUBLIC_URL if os.environ.get("PUBLIC_URL") else f"http://{HOST}:{options.port}"
    with _alone(public):
        signals = Signals()
        _prepare()
        children = Children(_environment(public), Path(settings.BASE_DIR), say)
        try:
            return _serve(options, public, children, signals)
        except EndNow:
            return _end_at_once(children)
        finally:
            children.kill()


def _serve(options: argparse.Namespace, public: str, children: Children, signals: Signals) -> int:
    logs = Path(settings.RELAY_VAR) / "log"
    celery = [sys.executable, "-m", "celery", "-A", "relaysite"]
    children.add(
        "web",
        [
            *[
                sys.executable,
                "-m",
                "uvicorn",
                "relaysite.asgi:application",
                "--host",
                HOST,
                "--port",
                str(options.port),
            ],
            *["--lifespan", "off", "--log-level", "warning", "--no-access-log", "--timeout-graceful-shutdown", "2"],
        ],
        logs / "web.log",
    )
    children.add(
        "worker",
        [
            *[*celery, "worker", "-Q", "drive", "--pool", "prefork", "--concurrency", "2", "--loglevel", "WARNING"],
            *["--without-gossip", "--without-mingle", "--without-heartbeat"],
        ],
        logs / "worker.log",
    )
    children.add("beat", [*celery, "beat", "--loglevel", "WARNING"], logs / "beat.log")
    try:
        _wait_for_web(options.port, children, signals)
        if not signals.asked:
            _greet(public, options)
        while not signals.asked:
            children.watch()
            time.sleep(0.2)
    except TooManyRestarts as error:
        say(f"relay serve: {error}; mend the cause and start again")
        _wind_down(children)
        return Exit.FAILED
    say("ending: beat, worker and web stop; a running leg goes on to its next safe point")
    _wind_down(children)
    say("ended; `make run` goes on from here")
    return Exit.FINE


# the start -----------------------------------------------------------------------------------------------------------


def _check_port(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                why = f"port {port} is taken: end what listens there, or choose another with `make run PORT=8001`"
            else:
                why = f"port {port} cannot be used ({error.strerror}): choose another, `make run PORT=8001`"
            refuse(f"relay serve: {why}", Exit.FAILED)


@contextmanager
def _alone(public: str) -> Iterator[None]:
    """One serve for one RELAY_VAR; the kernel frees the lock whatever happens to its holder."""
    path = Path(settings.RELAY_VAR) / "serve.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 200).decode("utf-8", "replace").strip()
            refuse(
                f"relay serve: {settings.RELAY_VAR} is served already ({holder}): open that, or end it first",
                Exit.FAILED,
            )
        os.ftruncate(handle, 0)
        os.write(handle, f"{public}, process {os.getpid()}".encode())
        yield
    finally:
        os.close(handle)


def _prepare() -> None:
    """System checks, migrations, an admin. What is in order stays as it is."""
    errors = [found for found in checks.run_checks() if found.is_serious() and not found.is_silenced()]
    if errors:
        refuse(
            f"relay serve: {' '.join(f'{found.msg} {found.hint or str()}'.strip() for found in errors)}", Exit.FAILED
        )
    call_command("migrate", verbosity=0, interactive=False)
    if not User.objects.filter(is_superuser=True).exists():
        User.objects.create_superuser(ADMIN, password=None)


def _environment(public: str) -> dict[str, str]:
    return {
        **os.environ,
        "RELAY_VAR": str(settings.RELAY_VAR),
        "PUBLIC_URL": public,
        "DJANGO_SETTINGS_MODULE": "relaysite.settings",
        "CELERY_SKIP_CHECKS": "1",  # made above, once
        "PYTHONUNBUFFERED": "1",
    }


def _wait_for_web(port: int, children: Children, signals: Signals) -> None:
    deadline = time.monotonic() + WEB_SECONDS
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    while not signals.asked:
        children.watch()
        try:
            with direct.open(f"http://{HOST}:{port}/healthz", timeout=2):
                return
        except urllib.error.HTTPError:
            return  # it answers, whatever it says
        except (OSError, urllib.error.URLError):
            if time.monotonic() > deadline:
                log = Path(settings.RELAY_VAR) / "log" / "web.log"
                raise TooManyRestarts(f"web did not answer within {WEB_SECONDS} s; see {log}") from None
            time.sleep(0.1)


def _greet(public: str, options: argparse.Namespace) -> None:
    from relays.access import make_sign_in_link

    say(f"Relaysite is at {public}/")
    admin = User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first()
    if admin is not None and not admin.has_usable_password():
        say(f"sign in as {admin.get_username()} (once, within {LINK_MINUTES} minutes):")
        say(f"  {public}{make_sign_in_link(admin, LINK_MINUTES)}")
    if not options.no_tour:
        from relays.actions.tour import start_tour

        relay = start_tour()
        if relay is not None:
            say(f"the tour: a scripted worker drains a small backlog: {public}/relays/{relay.pk}/")
    say("Ctrl-C ends everything; logs are in " + str(Path(settings.RELAY_VAR) / "log"))


# the end -------------------------------------------------------------------------------------------------------------


def _wind_down(children: Children) -> None:
    """Nothing new begins, then every running leg is asked to end at its next safe point."""
    from relays.driver import shutdown

    killed = children.stop(["beat", "worker", "web"], WORKER_SECONDS)
    if killed:
        say(f"{', '.join(killed)} did not end in {WORKER_SECONDS} s and was killed; the records hold what was done")
    connection.close()
    until = None if sys.stdin is not None and sys.stdin.isatty() else time.monotonic() + UNATTENDED_SECONDS
    told: list[str] = []
    quiet = 0
    # one look is not enough: a supervisor that has just let go may still be starting the next one
    while quiet < 3:
        left = shutdown.wind_down(1.0) or [claim.relay_id for claim in shutdown.living()] or _just_spawned()
        quiet = 0 if left else quiet + 1
        if not left:
            time.sleep(0.3)
            continue
        if left != told:
            told = left
            hint = "Ctrl-C again ends at once" if until is None else f"at most {UNATTENDED_SECONDS} s"
            say(f"waiting for the next safe point of {', '.join(left)} ({hint})")
        if until is not None and time.monotonic() > until:
            ended = shutdown.end_now()
            say(f"{shutdown.said(ended)}; the next start judges from the records")
            return


def _just_spawned() -> list[str]:
    """Relays whose supervisor was started a moment ago and has not claimed its relay yet."""
    from relays.models import DriverClaim

    since = timezone.now() - timedelta(seconds=SPAWN_SECONDS)
    found = DriverClaim.objects.filter(holder="", spawned_at__gte=since).values_list("relay_id", flat=True)
    if found:
        time.sleep(0.2)
    return sorted(found)


def _end_at_once(children: Children) -> int:
    from relays.driver import shutdown

    children.kill()
    connection.close()
    ended = shutdown.end_now()
    what = f" {shutdown.said(ended)};" if ended else ""
    say(f"ended at once;{what} `make run` judges what was running from its records")
    return Exit.FINE

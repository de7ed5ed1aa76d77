"""A site of its own for tests of live pages: its web process alone, and a relay whose turns the test itself makes.

Run as `python -m tests.e2e.stage` with RELAY_VAR set; it answers each line of JSON on stdin with one on stdout.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class Stage:
    """The other end: what a test says to the site. `relay`, `cookie`: of the relay, and of an operator's sign-in."""

    def __init__(self, var: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        env = {**os.environ, "RELAY_VAR": str(var), "DJANGO_SETTINGS_MODULE": "relaysite.settings"}
        env.pop("DATABASE_URL", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.stage", str(self.port)], cwd=ROOT, env=env, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        told = self._answer()
        self.relay, self.cookie = told["relay"], told["cookie"]

    def say(self, **what: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the stage fell silent"
        told: dict[str, Any] = json.loads(line)
        return told

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def main(port: int) -> None:
    import django

    django.setup()
    from django.contrib.auth.models import Group, User
    from django.contrib.sessions.models import Session
    from django.core.management import call_command
    from django.db import connection

    from relays.models.live import raise_number
    from relays.reports import leglog
    from tests.bench import live

    call_command("migrate", verbosity=0)
    relay, cookies = live._people(1)
    user = User.objects.get(pk=Session.objects.get(pk=cookies[0]).get_decoded()["_auth_user_id"])
    user.groups.add(Group.objects.get_or_create(name="operator")[0])
    log = leglog.path(relay, live.LEGS)
    log.parent.mkdir(parents=True)
    log.write_text("".join(json.dumps({"kind": "note", "text": f"line {n}"}) + "\n" for n in range(200)))
    web = _web(port)
    _say({"relay": relay, "cookie": cookies[0]})
    lines = 200
    for line in sys.stdin:
        what = json.loads(line)
        if "turn" in what:
            live.update(relay, what["turn"])
        if "begun" in what:
            _begin(relay, live.LEGS)
        if "called" in what:
            _call(relay, live.LEGS, what["called"])
        if "gate" in what:
            _gate(relay)
        if "log" in what:
            with log.open("a") as file:
                for _ in range(what["log"]):
                    file.write(json.dumps({"kind": "note", "text": f"line {lines}"}) + "\n")
                    lines += 1
            raise_number([f"relay:{relay}"])
        if "database" in what:  # a table that is away fails as a server that is away does: each statement that needs it
            names = ("relays_topic", "away_topic")
            before, after = names if what["database"] == "away" else names[::-1]
            with connection.cursor() as cursor:
                cursor.execute(f"ALTER TABLE {before} RENAME TO {after}")
        if "ended" in what:
            Session.objects.filter(pk=what["ended"]).delete()
        if "session" in what:
            _say({"cookie": _session(user if what["session"] is True else _reader(what["session"]))})
            continue
        if what.get("web") == "down":
            web.kill()
            web.wait()
        if what.get("web") == "up":
            web = _web(port)
        _say({"at": time.time()})
    web.kill()
    web.wait()


def _reader(name: str) -> Any:
    """Somebody who may look, and nothing else."""
    from django.contrib.auth.models import Group, User

    user = User.objects.create_user(name)
    user.groups.add(Group.objects.get_or_create(name="manager")[0])
    return user


def _session(user: Any) -> str:
    """One more sign-in."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore

    store = SessionStore()
    store[SESSION_KEY], store[BACKEND_SESSION_KEY] = str(user.pk), "django.contrib.auth.backends.ModelBackend"
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.create()
    return store.session_key or ""


def _begin(relay: str, number: int) -> None:
    """A turn begins: it is counted, and the one before is held; its call is not known yet."""
    from django.db.models import F
    from django.utils import timezone

    from relays.models import Boundary, Leg
    from relays.models.live import raise_number

    Leg.objects.filter(relay_id=relay, number=number).update(turns=F("turns") + 1)
    leg = Leg.objects.get(relay_id=relay, number=number)
    Boundary.objects.create(
        leg=leg, number=1_000 + leg.turns, seq=1_000_000 + leg.turns, turn=leg.turns - 1, at=timezone.now(),
        resident_tokens=leg.resident_tokens, hold="TREE_DIRTY_UNPARKED", answer="go",
    )  # fmt: skip
    raise_number([f"relay:{relay}"])


def _call(relay: str, number: int, tokens: int) -> None:
    """The call of the turn that began."""
    from django.utils import timezone

    from relays.models import Call, Leg
    from relays.models.live import raise_number

    Leg.objects.filter(relay_id=relay, number=number).update(resident_tokens=tokens)
    leg = Leg.objects.get(relay_id=relay, number=number)
    Call.objects.create(
        leg=leg, key=f"stage-{leg.turns}", turn=leg.turns, resident_tokens=tokens, input_tokens=12,
        cache_read=tokens - 12, at=timezone.now(),
    )  # fmt: skip
    raise_number([f"relay:{relay}"])


def _gate(relay: str) -> None:
    """A gate opens that waits for a person; the relay runs on."""
    from relays.models import Relay
    from relays.models.live import raise_number
    from tests.web_builders import make_gate

    make_gate(Relay.objects.get(pk=relay))
    raise_number([f"relay:{relay}", "inbox"])


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def _web(port: int) -> "subprocess.Popen[bytes]":
    web = subprocess.Popen(
        [
            sys.executable, "-m", "uvicorn", "relaysite.asgi:application", "--host", "127.0.0.1", "--port", str(port),
            "--lifespan", "off", "--log-level", "warning", "--no-access-log",
        ],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=sys.stderr,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and web.poll() is None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2).close()
            return web
        time.sleep(0.1)
    raise RuntimeError("the web process did not come up")


if __name__ == "__main__":
    main(int(sys.argv[1]))

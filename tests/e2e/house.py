"""The whole house (`tests/whole_house.py`) as a site of its own, and a browser that is signed in there as anybody."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = (
    os.environ.get("CHROMIUM")
    or shutil.which("chromium")
    or shutil.which("chromium-browser")
    or shutil.which("google-chrome")
    or ""
)
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
#: builds the house and prints its addresses and a session of everybody in it
BUILT = """
import json, sys
from pathlib import Path
import django
django.setup()
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from tests.whole_house import build, patterns
world = build(Path(sys.argv[1]))
sessions = {}
for role, user in world.users.items():
    store = SessionStore()
    store[SESSION_KEY], store[BACKEND_SESSION_KEY] = str(user.pk), "django.contrib.auth.backends.ModelBackend"
    store[HASH_SESSION_KEY] = user.get_session_auth_hash()
    store.create()
    sessions[role] = store.session_key
addresses = {
    name: world.address(name, words) for name, words, route in patterns() if name and not route.startswith("/api/v1/r")
}
print(json.dumps({"sessions": sessions, "addresses": addresses}))
"""
#: addresses that are no page for a person to look at
NO_PAGES = {"live", "sign_out", "api_openapi", "session_calls", "healthz", "readyz", "claude_code"}


@dataclass(slots=True)
class House:
    """Its address, every address in it by name, and the session of each role."""

    url: str
    addresses: dict[str, str]
    sessions: dict[str, str]

    def pages(self, role: str) -> dict[str, str]:
        """Name -> address of every page that the role may see."""
        found = {}
        for name, row in tomllib.loads((ROOT / "tests/access.toml").read_text(encoding="utf-8"))["pages"].items():
            who = _WHO[row["see"]] if "see" in row else frozenset()
            if role in who and name not in NO_PAGES:
                found[name] = self.addresses[name]
        return found

    def context(self, browser: Browser, role: str, **options: Any) -> BrowserContext:
        """A browser of this role, with its zone and its hints as somebody who was here before."""
        context = browser.new_context(timezone_id="Europe/Berlin", locale="en-GB", **options)
        if role != "nobody":
            context.add_cookies([{"name": "sessionid", "value": self.sessions[role], "url": self.url}])
        return context


_WHO = {
    "open": frozenset({"nobody", "norole", "operator", "reviewer", "manager", "admin"}),
    "signed": frozenset({"norole", "operator", "reviewer", "manager", "admin"}),
    "read": frozenset({"operator", "reviewer", "manager", "admin"}),
    "operate": frozenset({"operator", "admin"}),
    "review": frozenset({"reviewer", "admin"}),
    "manage": frozenset({"manager", "admin"}),
    "administer": frozenset({"admin"}),
}


@contextlib.contextmanager
def open_house(folder: Path) -> Iterator[House]:
    """A database in the folder, the whole house in it, and one web process on a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    env = {
        **os.environ, "RELAY_VAR": str(folder / "var"), "PUBLIC_URL": url, "PYTHONPATH": str(ROOT),
        "DJANGO_SETTINGS_MODULE": "relaysite.settings", "GIT_CONFIG_GLOBAL": os.devnull,
    }  # fmt: skip
    env.pop("DATABASE_URL", None)

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], env=env, cwd=ROOT, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("manage.py", "migrate", "-v0")
    told = json.loads(run("-c", BUILT, str(folder)).strip().splitlines()[-1])
    log = folder / "web.log"
    with log.open("wb") as out:
        web = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "relaysite.asgi:application", "--port", str(port), "--log-level=warning"],
            env=env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(f"{url}/healthz", timeout=5):
                    break
            except OSError:
                assert web.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")
                time.sleep(0.2)
        yield House(url, told["addresses"], told["sessions"])
    finally:
        web.terminate()
        try:
            web.wait(timeout=20)
        except subprocess.TimeoutExpired:
            web.kill()
            web.wait()


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()

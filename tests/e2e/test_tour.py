"""The first five minutes in a real browser: the graph grows; park now, approve, park and resume by clicking."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.builders import git

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
#: a page shows a change within a second; a whole leg may take longer on a busy machine
SOON = 30_000
LEG = 120_000

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(600)]


class Serve:
    """`relay serve` on a free port with everything in one folder."""

    def __init__(self, var: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.var, self.url = var, f"http://127.0.0.1:{self.port}"
        self.log = var.parent / "serve.log"
        self.env = {**os.environ, "RELAY_VAR": str(var)}
        self.env.pop("DATABASE_URL", None)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), "relay", "serve", "--port", str(self.port)],
                env=self.env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip

    def said(self, pattern: str, seconds: float = 120) -> str:
        deadline = time.monotonic() + seconds
        while not (found := re.search(pattern, self.log.read_text(errors="replace"))):
            assert self.process is not None and self.process.poll() is None, self.log.read_text(errors="replace")
            assert time.monotonic() < deadline, f"{pattern!r} was not said: {self.log.read_text(errors='replace')}"
            time.sleep(0.1)
        return found.group(0)

    def stop(self) -> int:
        """Ctrl-C, as a person presses it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(timeout=120)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@pytest.fixture
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium was found: install Debian's package chromium")
        pytest.skip("left out: no Chromium was found (Debian's package chromium)")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"],
        )
        yield launched
        launched.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    running = Serve(tmp_path / "var")
    yield running
    running.kill()


def points(page: Page) -> int:
    """How many turns the drawn graph has."""
    return int(
        page.evaluate(
            "() => (document.getElementById('chart-flat').data || [])"
            ".filter(t => t.mode === 'lines' && /^leg/.test(t.name || '')).reduce((n, t) => n + t.x.length, 0)"
        )
    )


def press(page: Page, act: str) -> None:
    """Open an act's menu, read what it will do, confirm."""
    menu = page.locator(f"#d-{act}")
    menu.locator("summary").click()
    menu.locator("button[type=submit]").click()


def test_the_tour_in_a_browser(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    serve.start()
    link = serve.said(r"http://127.0.0.1:\d+/sign-in/\S+")
    tour = serve.said(r"http://127.0.0.1:\d+/relays/RLY-\S+/")
    relay = tour.rstrip("/").rpartition("/")[2]
    began = time.monotonic()
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    complaints: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(message.text)

    page.on("console", hear)
    page.goto(link)
    page.locator("main button[type=submit]").click()
    page.goto(tour)

    # the graph grows, without a reload
    page.wait_for_function("() => (document.getElementById('chart-flat').data || []).length > 0", timeout=SOON)
    first = points(page)
    deadline = time.monotonic() + 30
    while points(page) <= first:
        assert time.monotonic() < deadline, "the graph did not grow within 30 s"
        page.wait_for_timeout(200)
    assert time.monotonic() - began < 60

    # park now: the leg ends at once, a person is needed, and decides by clicking
    expect(page.locator("#d-park_now")).to_be_attached(timeout=SOON)
    press(page, "park_now")
    decide = page.get_by_role("link", name="Decide")
    expect(decide).to_be_visible(timeout=SOON)
    expect(page.locator("#r-legs, .t-legs").first).to_contain_text("RELAY_PARKED_UNSAFE", timeout=SOON)
    expect(page).to_have_title(re.compile(r"^\(1\) "), timeout=SOON)
    decide.click()
    expect(page.locator("main")).to_contain_text("park_now")
    own = page.locator("input[name=next][value=own]")
    if own.count():
        own.check()
        page.locator("input[name=next_own]").fill("Close the next open issue.")
    page.locator("#comment").fill("Looked at what is durable; go on.")
    page.locator("button[value=approve]").click()
    page.goto(tour)
    expect(page.locator("#r-head .crumb .st")).to_have_text("running", timeout=LEG)

    # park: drains to a safe point, no gate; resume: goes on
    press(page, "park")
    expect(page.locator("#r-head .crumb .st")).to_have_text("parked", timeout=LEG)
    expect(page.get_by_role("link", name="Decide")).to_have_count(0)
    press(page, "resume")
    expect(page.locator("#r-head .crumb .st")).to_have_text("running", timeout=LEG)

    # Ctrl-C and start again: it goes on, and no second relay is made
    assert serve.stop() == 0
    serve.start()
    serve.said("Relaysite is at")
    page.goto(tour)
    expect(page.locator("#r-head .crumb .st")).to_have_text("done", timeout=4 * LEG)
    expect(page.locator(".t-legs").first).to_contain_text("RELAY_GOAL_DONE")
    assert page.locator(".t-legs a.leg").count() >= 5
    assert points(page) > first
    repo = next((serve.var / "tour").iterdir())
    subjects = git(repo, "log", "--format=%s", f"relay/{relay}").splitlines()
    assert sorted(s.split(":")[0] for s in subjects if s.startswith("Close #")) == sorted(
        f"Close #{n}" for n in range(1, 17)
    )

    # again: the tour is done and stays done
    assert serve.stop() == 0
    legs = page.locator(".t-legs a.leg").count()
    serve.start()
    serve.said("Relaysite is at")
    page.wait_for_timeout(5000)
    page.goto(f"{serve.url}/relays/")
    expect(page.locator("main")).to_contain_text(relay)
    page.goto(tour)
    expect(page.locator("#r-head .crumb .st")).to_have_text("done")
    assert page.locator(".t-legs a.leg").count() == legs
    assert serve.stop() == 0
    policy = [line for line in complaints if "Content Security Policy" in line]
    assert policy == []

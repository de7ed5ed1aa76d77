"""The cost of a relay that lost, in a real browser: in words, every chart drawn, and with a viewer's parameters."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import ConsoleMessage, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(300)]

#: the database of the site under test, made by the builders of the other tests
MADE = """
import django
django.setup()
from relays.costs import refresh
from tests.costs.relays import losing_relay, winning_relay
print(losing_relay().pk, winning_relay().pk)
refresh.bring_up()
print(losing_relay().pk)
"""
TASK = """
import sys, django
django.setup()
from relays.costs import refresh
from relays.models import Relay
refresh.bring_up_relay(Relay.objects.get(pk=sys.argv[1]))
"""


class Site:
    """A site of its own: a database in one folder, one web process on a free port."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = {
            **os.environ, "RELAY_VAR": str(folder / "var"), "PUBLIC_URL": self.url, "PYTHONPATH": str(ROOT),
            "DJANGO_SETTINGS_MODULE": "relaysite.settings",
        }  # fmt: skip
        self.env.pop("DATABASE_URL", None)
        self.run("manage.py", "migrate", "-v0")
        self.losing, self.winning, self.new = self.run("-c", MADE).split()
        self.log = folder / "web.log"
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "uvicorn", "relaysite.asgi:application", "--port", str(self.port)],
                env=self.env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip
        self.answers()

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], env=self.env, cwd=ROOT, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def answers(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/healthz", timeout=5):
                    return
            except OSError:
                assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
                time.sleep(0.1)

    def link(self) -> str:
        said = self.run("manage.py", "relay", "user", "add", "mara", "--role", "manager", "--link")
        found = re.search(r"http\S+", said)
        assert found, said
        return found.group(0)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.process.terminate()
    made.process.wait(timeout=30)


@pytest.fixture
def page() -> Iterator[Page]:
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium was found: install Debian's package chromium")
        pytest.skip("left out: no Chromium was found (Debian's package chromium)")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield launched.new_page(viewport={"width": 1440, "height": 900}, color_scheme="dark")
        launched.close()


def drawn(page: Page) -> None:
    """Every chart of the page holds a drawing, and nothing goes over its side."""
    charts = page.locator("[data-chart]")
    assert charts.count() >= 1
    for nth in range(charts.count()):
        expect(charts.nth(nth).locator(".main-svg").first).to_be_attached()
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0


def test_a_relay_that_lost_says_so_and_other_parameters_are_one_link(site: Site, page: Page) -> None:
    said: list[str] = []

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            said.append(message.text)

    page.on("console", heard)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(site.link())
    page.click("main form button")
    page.goto(f"{site.url}/relays/{site.losing}/cost/")
    expect(page.locator("h1")).to_contain_text("Dearer than compaction by $")
    expect(page.locator(".facts")).to_contain_text("cheaper: violated")
    expect(page.locator("[data-chart]")).to_have_count(6)
    drawn(page)
    # the source of a figure, by the keyboard alone
    page.locator(".prov[data-source]").first.focus()
    expect(page.locator("#tip")).to_contain_text("usage records")
    page.keyboard.press("Escape")
    expect(page.locator("#tip")).to_be_hidden()
    # a table stands behind each chart
    page.locator("#sensitivity summary").click()
    expect(page.locator("#sensitivity table")).to_be_visible()

    page.goto(f"{site.url}/relays/{site.winning}/cost/")
    expect(page.locator("h1")).to_contain_text("Cheaper than compaction by $")
    page.locator("#change summary").click()
    page.fill("[name=reread]", "many")
    page.click("text=Play with these")
    expect(page.locator("#e-reread")).to_contain_text("is no number: write a whole number of tokens")
    page.fill("[name=reread]", "0")
    page.fill("[name=residue]", "0.0")
    page.fill("[name=trigger]", "0.5")
    page.click("text=Play with these")
    expect(page.locator("main .msg")).to_contain_text("With your own parameters:")
    shared = page.url
    assert "reread=0" in shared and "residue=0.0" in shared
    drawn(page)
    page.goto(shared)
    expect(page.locator("main .msg")).to_contain_text("As stored: Cheaper than compaction")

    # what the background task computes is on the open page, charts too
    page.goto(f"{site.url}/relays/{site.new}/cost/")
    expect(page.locator("h1")).to_contain_text("not yet")
    expect(page.locator("[data-chart]")).to_have_count(0)
    page.wait_for_selector(".live[data-state=live]")
    site.run("-c", TASK, site.new)
    expect(page.locator("h1")).to_contain_text("Dearer than compaction by $")
    expect(page.locator("[data-chart] .main-svg").nth(5)).to_be_attached()
    drawn(page)

    page.set_viewport_size({"width": 360, "height": 800})
    for address in (shared, f"{site.url}/cost/?range=all"):
        page.goto(address)
        drawn(page)
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    page.emulate_media(media="print")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "light")  # paper is light, charts too
    expect(page.locator(".top")).to_be_hidden()
    expect(page.locator("#by-relay")).to_contain_text("dearer")
    assert said == []

"""Maintenance and notices in a real browser on a whole site: all is drained and goes on, and people are told."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from tests.e2e.test_tour import LEG, SOON, Serve, browser, serve  # noqa: F401 - fixtures
from tests.notices.receiver import Receiver, receiving

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(600)]
PAGES = ("/health/", "/maintenance/", "/notifications/", "/budgets/", "/users/", "/vocabulary/", "/tokens/")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


def sees_nothing_wrong(page: Page) -> None:
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]})
    assert found.violations_count == 0, f"{page.url}: {found.generate_report()}"
    wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wider <= 0, f"{page.url} is {wider} px wider than its window"


def test_a_site_is_drained_goes_on_and_tells_people(
    serve: Serve,  # noqa: F811
    browser: Browser,  # noqa: F811
    receiver: Receiver,
    tmp_path: Path,
) -> None:
    serve.env["NOTIFY_PRIVATE"] = "1"
    serve.start()
    link = serve.said(r"http://127.0.0.1:\d+/sign-in/\S+")
    relay = serve.said(r"/relays/RLY-\S+/").strip("/").rpartition("/")[2]
    page = browser.new_page(viewport={"width": 1440, "height": 1000})
    complaints: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type == "error":
            complaints.append(message.text)

    page.on("console", hear)
    page.goto(link)
    page.locator("main button[type=submit]").click()

    # a channel, its secret once, a test whose answer is shown, and a subscription
    page.goto(f"{serve.url}/notifications/")
    page.locator("#c-name").fill("Team")
    page.locator("#c-url").fill(f"{receiver.url}/hook")
    page.get_by_role("button", name="Make it").click()
    secret = page.locator("code.secret").inner_text()
    assert re.fullmatch(r"[0-9a-f]{64}", secret)
    receiver.answers = [(200, {}, b"well received"), (200, {}, b"")]
    page.get_by_role("button", name="Test").first.click()
    expect(page.locator("main .msg")).to_contain_text("well received")
    assert json.loads(receiver.got[0].body)["event"] == "test"
    assert secret not in page.content()
    page.get_by_label("a gate was approved, refused, has expired, or needs nobody any more").check()
    page.get_by_role("button", name="Tell me").click()
    expect(page.locator("main")).to_contain_text("You are told in 1 way")

    # park all: what will happen is said, it is confirmed, and the leg that runs drains to its safe point
    page.goto(f"{serve.url}/maintenance/")
    expect(page.locator("main h1")).to_contain_text("1 relay goes on", timeout=SOON)
    page.get_by_label("Yes, park 1 relay").check()
    page.locator("#park-why").fill("a new disk")
    page.get_by_role("button", name="Park all").click()
    expect(page.locator("#acts")).to_contain_text("Park all", timeout=SOON)
    expect(page.locator("#earlier table")).to_contain_text("done", timeout=LEG)
    page.goto(f"{serve.url}/relays/{relay}/")
    expect(page.locator("#r-head .crumb .st")).to_have_text("parked", timeout=LEG)
    expect(page.get_by_role("link", name="Decide")).to_have_count(0)

    # resume all: it goes on by itself
    page.goto(f"{serve.url}/maintenance/")
    page.get_by_label("Yes, resume 1 relay").check()
    page.get_by_role("button", name="Resume all").click()
    page.goto(f"{serve.url}/relays/{relay}/")
    expect(page.locator("#r-head .crumb .st")).to_have_text(re.compile("running|done"), timeout=LEG)

    # it is done some legs later, which is told, once, with its link
    deadline = time.monotonic() + 240
    while not (told := [got for got in receiver.got if b'"relay_done"' in got.body]):
        assert time.monotonic() < deadline, [got.body for got in receiver.got]
        page.wait_for_timeout(300)
    assert len(told) == 1 and json.loads(told[0].body)["url"] == f"{serve.url}/relays/{relay}/"

    # clean up: a list first; the worktree of the relay that has ended goes, its branch stays
    page.goto(f"{serve.url}/maintenance/")
    page.get_by_role("button", name="Look").click()
    expect(page.get_by_role("button", name=re.compile("^Remove th"))).to_be_visible(timeout=LEG)
    expect(page.locator("#acts")).to_contain_text(f"worktrees/{relay}")
    expect(page.locator("#acts")).to_contain_text("git merge")
    sees_nothing_wrong(page)
    page.get_by_role("button", name=re.compile("^Remove th")).click()
    expect(page.locator("#acts")).not_to_contain_text("would go", timeout=LEG)
    assert not (serve.var / "worktrees" / relay).exists()

    # every page of the desk: nothing for axe, no wider than its window, light and dark, on a phone and without scripts
    for scheme, width in (("light", 1440), ("dark", 1440), ("light", 360)):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 900})
        for address in PAGES:
            page.goto(f"{serve.url}{address}")
            sees_nothing_wrong(page)
    plain = browser.new_context(java_script_enabled=False, storage_state=page.context.storage_state())
    bare = plain.new_page()
    for address in PAGES:
        bare.goto(f"{serve.url}{address}")
        assert bare.locator("main h1").inner_text() and bare.locator("main").inner_text().count("\n") > 5, address
    assert complaints == []
    assert serve.stop() == 0

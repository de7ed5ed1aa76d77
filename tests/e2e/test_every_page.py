"""Every page in Chromium as each role and as nobody: axe, console, policy, keyboard, motion, and a narrow screen.

Issue: "Playwright in Chromium walks every page as each role (and as nobody) […] axe finds nothing; no console error, no
CSP report".
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from tests.e2e.house import House, chromium, open_house

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(1200)]
ROLES = ("nobody", "norole", "operator", "reviewer", "manager", "admin")
#: WCAG 2.2 A and AA, and what axe calls best practice
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
#: what a page that was refused says in the console by itself: a missing page or link is looked at on purpose
EXPECTED = ("the server responded with a status of 410",)
HEARD = """window.reported = [];
document.addEventListener('securitypolicyviolation', event =>
  window.reported.push(event.violatedDirective + ' ' + event.blockedURI));
"""
#: whatever a person can press or fill in, and can see, but the focus does not come to
REACHABLE = """() => Array.from(document.querySelectorAll(
  'a[href], button, input, select, textarea, summary, [onclick], [role=button]'
)).filter(e => e.getClientRects().length && !e.disabled && e.type !== 'hidden' && e.tabIndex < 0)
  .map(e => e.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("house")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def listening(page: Page, complaints: list[str]) -> None:
    """Errors of the console, of scripts and of the content policy are told with the page where they were said."""

    def hear(text: str) -> None:
        if not any(one in text for one in EXPECTED):
            complaints.append(f"{page.url}: {text}")

    page.on("console", lambda message: hear(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: hear(str(error)))
    page.add_init_script(HEARD)


def faults(page: Page) -> list[str]:
    """What axe finds, one line for each rule with the first element."""
    found = Axe().run(page, options=RULES).response["violations"]
    return [
        f"{one['id']} ({len(one['nodes'])}): {one['nodes'][0]['target'][0]} {one['nodes'][0]['failureSummary'][:160]!r}"
        for one in found
    ]


@pytest.mark.parametrize("role", ROLES)
def test_every_page_as_each_role(house: House, browser: Browser, role: str) -> None:
    wrong: list[str] = []
    only = os.environ.get("PAGES", "").split()
    with house.context(browser, role, viewport={"width": 1440, "height": 900}, reduced_motion="reduce") as context:
        page = context.new_page()
        listening(page, wrong)
        seen = 0
        for name, address in house.pages(role).items():
            if (only and name not in only) or (role == "norole" and name == "sign_in"):
                continue  # signed in without a role, it leads to a start page that is refused
            page.goto(house.url + address, wait_until="load")
            seen += 1
            wrong += [f"{name}: {fault}" for fault in faults(page)]
            wrong += [f"{name}: policy {one}" for one in page.evaluate("window.reported")]
            wrong += [f"{name}: the keyboard does not reach {one}" for one in page.evaluate(REACHABLE)]
            moving = page.evaluate("document.getAnimations().filter(a => a.playState === 'running').length")
            wrong += [f"{name}: {moving} things move although less motion is wanted"] if moving else []
            assert page.title().strip(), name
        assert seen >= (2 if role in ("nobody", "norole") else 20) or only
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("theme", ["dark", "phone"])
def test_every_page_in_the_dark_and_on_a_phone(house: House, browser: Browser, theme: str) -> None:
    wrong: list[str] = []
    only = os.environ.get("PAGES", "").split()
    size = {"width": 360, "height": 740} if theme == "phone" else {"width": 1440, "height": 900}
    options = {"color_scheme": "light" if theme == "phone" else "dark"}
    with house.context(browser, "admin", viewport=size, **options) as context:
        page = context.new_page()
        listening(page, wrong)
        for name, address in house.pages("admin").items():
            if only and name not in only:
                continue
            page.goto(house.url + address, wait_until="load")
            wrong += [f"{name}: {fault}" for fault in faults(page)]
            width = page.evaluate("document.documentElement.scrollWidth")
            wrong += [f"{name}: {width} pixels wide on a screen of {size['width']}"] if width > size["width"] else []
    assert not wrong, "\n".join(wrong)


def test_a_first_page_is_turned_into_the_browsers_zone_and_the_next_one_comes_so(
    house: House, browser: Browser
) -> None:
    with house.context(browser, "manager") as context:
        page = context.new_page()
        for whose in ("fleet", "browser"):
            page.goto(house.url + "/relays/", wait_until="load")
            assert page.locator("body").get_attribute("data-zone") == whose
            assert page.locator(".foot").inner_text().startswith("Times in Europe/Berlin, days cut in UTC")
            assert page.locator("h1").is_visible() and page.locator("time").count() > 3
            title = page.locator("time").first.get_attribute("title") or ""
            assert title.endswith(" Europe/Berlin")


def test_by_keyboard_alone(house: House, browser: Browser) -> None:
    """Skip link first, a ring wherever the focus is, an explanation on focus that Escape takes away, hints by keys."""
    with house.context(browser, "operator", viewport={"width": 1440, "height": 900}) as context:
        page = context.new_page()
        page.goto(house.url + "/relays/", wait_until="load")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        for _ in range(12):
            page.keyboard.press("Tab")
            ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert ring != "none", page.evaluate("document.activeElement.outerHTML.slice(0, 200)")
        page.goto(house.url + "/docs/tokens/", wait_until="load")
        page.locator("a.tok").first.focus()
        assert page.locator("#tip").is_visible() and "Fix:" in (page.locator("#tip").text_content() or "")
        assert page.locator("a.tok").first.get_attribute("aria-describedby") == "tip"
        page.keyboard.press("Escape")
        assert page.locator("#tip").is_hidden()

        page.goto(house.url + "/", wait_until="load")
        assert page.locator("#hints li:visible").count() == 1
        page.locator("#hints [data-next]").focus()
        page.keyboard.press("Enter")
        assert "Relays" in (page.locator("#hints li:visible").text_content() or "")
        assert page.locator("nav .pointed").text_content() == "Relays"
        with page.expect_response("**/layout/hints/"):
            page.keyboard.press("Escape")
        assert page.locator("#hints").count() == 0
        page.reload()
        assert page.locator("#hints").count() == 0


def test_the_pages_read_without_a_script(house: House, browser: Browser) -> None:
    with house.context(browser, "reviewer", java_script_enabled=False) as context:
        page = context.new_page()
        for name, address in house.pages("reviewer").items():
            page.goto(house.url + address)
            assert page.locator("h1").first.is_visible(), name
            assert page.locator("main").inner_text().strip(), name


def test_on_paper(house: House, browser: Browser, tmp_path: Path) -> None:
    """Printed, a page has its content and neither navigation, buttons nor forms."""
    with house.context(browser, "manager", viewport={"width": 1000, "height": 900}) as context:
        page = context.new_page()
        page.emulate_media(media="print")
        for name, address in house.pages("manager").items():
            page.goto(house.url + address, wait_until="load")
            assert page.locator("h1").first.is_visible(), name
            for gone in (".top", ".foot", ".skip", ".hints"):
                assert page.locator(gone).first.is_hidden(), f"{name}: {gone}"
            colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert colour == "rgb(255, 255, 255)", name
            assert page.locator("main button:visible").count() == page.locator("main button.sha:visible").count(), name

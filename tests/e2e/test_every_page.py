"""Every page in Chromium as each role and as nobody: axe, console, policy, motion, and each size, theme and setting.

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
#: WCAG 2.2 A and AA, and what axe calls best practice; two more that it holds to be experimental
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "rules": {"label-content-name-mismatch": {"enabled": True}, "td-has-header": {"enabled": True}},
}
#: WCAG 1.4.12: what a reader may set without losing anything
SPACED = "* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important; }"
#: what stands further right than the screen is wide and is in nothing that scrolls by itself
BEYOND = """() => document.documentElement.scrollWidth <= innerWidth ? [] :
  Array.from(document.querySelectorAll('body *')).filter(e => {
    const box = e.getBoundingClientRect();
    if (!box.width || box.right <= innerWidth + 1) return false;
    for (let up = e.parentElement; up; up = up.parentElement)
      if (/auto|scroll|hidden/.test(getComputedStyle(up).overflowX)) return false;
    return true;
  }).slice(0, 3).map(e => e.outerHTML.slice(0, 120))"""
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


LOOKS = {
    "dark": {"color_scheme": "dark", "viewport": {"width": 1440, "height": 900}},
    "phone": {"color_scheme": "light", "viewport": {"width": 360, "height": 740}},
    "dark phone": {"color_scheme": "dark", "viewport": {"width": 360, "height": 740}},
    "tablet": {"color_scheme": "light", "viewport": {"width": 768, "height": 1000}},
    "small desk": {"color_scheme": "light", "viewport": {"width": 1280, "height": 800}},
    "wide": {"color_scheme": "dark", "viewport": {"width": 2560, "height": 1300}},
}


@pytest.mark.parametrize("look", LOOKS)
def test_every_page_in_each_look_with_all_that_opens_open(house: House, browser: Browser, look: str) -> None:
    wrong: list[str] = []
    only = os.environ.get("PAGES", "").split()
    width = LOOKS[look]["viewport"]["width"]  # type: ignore[index]
    with house.context(browser, "admin", reduced_motion="reduce", **LOOKS[look]) as context:
        page = context.new_page()
        listening(page, wrong)
        for name, address in house.pages("admin").items():
            if only and name not in only:
                continue
            page.goto(house.url + address, wait_until="load")
            page.evaluate("document.querySelectorAll('main details:not(.menu)').forEach(one => { one.open = true; })")
            wrong += [f"{name}: {fault}" for fault in faults(page)]
            wrong += [f"{name}: wider than {width}: {one}" for one in page.evaluate(BEYOND)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("width", [320, 1280])
def test_nothing_is_lost_at_four_hundred_percent_or_with_more_space_between_letters(
    house: House, browser: Browser, width: int
) -> None:
    """WCAG 1.4.10 and 1.4.12: 320 CSS pixels are 1280 at 400 %; no page scrolls sideways, and nothing is cut off."""
    wrong: list[str] = []
    cut = """() => Array.from(document.querySelectorAll('main a, main button, main label, main b, main td, .top a'))
      .filter(e => !e.matches('.visually-hidden') && getComputedStyle(e).overflowX === 'hidden')
      .filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 1)
      .map(e => e.outerHTML.slice(0, 120))"""
    options = {"viewport": {"width": width, "height": 600}, "bypass_csp": True, "reduced_motion": "reduce"}
    with house.context(browser, "admin", **options) as context:
        page = context.new_page()
        for name, address in house.pages("admin").items():
            page.goto(house.url + address, wait_until="load")
            wrong += [f"{name}: wider than {width}: {one}" for one in page.evaluate(BEYOND)]
            if width == 320:
                continue
            page.add_style_tag(content=SPACED)
            wrong += [f"{name}, spaced: wider than {width}: {one}" for one in page.evaluate(BEYOND)]
            wrong += [f"{name}, spaced: cut off: {one}" for one in page.evaluate(cut)]
    assert not wrong, "\n".join(wrong)


def test_graphs_and_marks_are_seen_in_the_systems_colours(house: House, browser: Browser) -> None:
    """Forced colours: a graph keeps its own on its own ground, and where one is is told by more than a ground."""
    with house.context(browser, "admin", color_scheme="dark", forced_colors="active") as context:
        context.add_cookies([{"name": "rs-theme", "value": "light", "url": house.url}])
        page = context.new_page()
        page.goto(house.url + house.addresses["relay"], wait_until="load")
        ground = "getComputedStyle(document.querySelector('.chart')).backgroundColor"
        assert page.evaluate("matchMedia('(forced-colors: active)').matches")
        assert page.evaluate(ground) == "rgb(255, 255, 255)", "light lines on the system's black"
        under = "e => getComputedStyle(e).borderBottomColor"
        here = page.locator(".nav-main a[aria-current]").evaluate(under)
        assert here != page.locator(".nav-main a:not([aria-current])").first.evaluate(under)


def test_a_graph_writes_numbers_as_its_reader_does(house: House, browser: Browser) -> None:
    with house.context(browser, "manager") as context:
        context.add_cookies([{"name": "rs-numbers", "value": "de", "url": house.url}])
        page = context.new_page()
        page.goto(house.url + house.addresses["relay_cost"], wait_until="load")
        assert "$8,25" in page.locator("main").inner_text() and "372.000" in page.locator("main").inner_text()
        page.wait_for_function("document.querySelector('[data-chart]')._fullLayout")
        assert page.evaluate("document.querySelector('[data-chart]')._fullLayout.separators") == ",."
        field = page.locator("#what-if input").first
        page.locator("#change summary").click()
        assert "," not in (field.get_attribute("placeholder") or ","), "what is typed keeps its own form"


#: a form that is refused: address, what presses it
REFUSED = {
    "start": "main button[value=start]",
    "users": "main form.decide button[type=submit]",
    "tokens": "main form.decide button[type=submit]",
    "budgets": "main form[method=post] button[type=submit]",
    "reviewers": "main form[method=post] button[type=submit]",
    "policy_new": "main button[value=save], main form[method=post] button[type=submit]",
    "gate": "#decide button[value=approve], form.decide button[value=approve]",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refused_form_says_so_where_the_focus_is(house: House, browser: Browser, name: str) -> None:
    wrong: list[str] = []
    with house.context(browser, "admin", viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.goto(house.url + house.addresses[name], wait_until="load")
        page.evaluate("document.querySelectorAll('main form').forEach(form => { form.noValidate = true; })")
        with page.expect_navigation():
            page.locator(REFUSED[name]).first.click()
        focused = page.locator(":focus")
        assert focused.get_attribute("role") == "alert" and (focused.text_content() or "").strip(), name
        assert focused.evaluate(
            "e => e.getBoundingClientRect().top >= 0 && e.getBoundingClientRect().top < innerHeight"
        )
        wrong += faults(page)
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


def test_the_pages_read_without_a_script(house: House, browser: Browser) -> None:
    with house.context(browser, "reviewer", java_script_enabled=False) as context:
        page = context.new_page()
        for name, address in house.pages("reviewer").items():
            page.goto(house.url + address)
            assert page.locator("h1").first.is_visible(), name
            assert page.locator("main").inner_text().strip(), name


def test_on_paper(house: House, browser: Browser, tmp_path: Path) -> None:
    """Printed, a page has its content and in which zone its times are, and neither navigation, buttons nor forms."""
    with house.context(browser, "manager", viewport={"width": 1000, "height": 900}) as context:
        page = context.new_page()
        page.emulate_media(media="print")
        for name, address in house.pages("manager").items():
            page.goto(house.url + address, wait_until="load")
            assert page.locator("h1").first.is_visible(), name
            assert page.locator(".foot").inner_text() == "Times in Europe/Berlin, days cut in UTC", name
            for gone in (".top", ".skip", ".hints"):
                assert page.locator(gone).first.is_hidden(), f"{name}: {gone}"
            colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert colour == "rgb(255, 255, 255)", name
            assert page.locator("main button:visible").count() == page.locator("main button.sha:visible").count(), name

"""On a phone of 360 px a row of a table is a card, and each label explains itself as its head does on a wide screen.

Issue: "every token and figure explains itself on hover or focus, with the link to its page in the docs".
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.house import House, chromium, open_house

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(600)]
PHONE = {"viewport": {"width": 360, "height": 740}}
#: labels that a finger misses (WCAG 2.2, 2.5.8: 24 px), that have no words, or that stand outside of the screen
MISSED = """() => Array.from(document.querySelectorAll('a.k')).filter(one => one.getClientRects().length).map(one => {
  const box = one.getBoundingClientRect(), words = getComputedStyle(one, '::before').content;
  const wrong = box.width < 24 || box.height < 24 || box.left < 0 || box.right > innerWidth || words === 'none';
  return wrong ? one.outerHTML.slice(0, 120) : '';
}).filter(Boolean)"""
#: cells whose words are cut off or stand over the cell beside
CUT = """() => Array.from(document.querySelectorAll('.t-cards td')).filter(one => one.getClientRects().length
  && one.scrollWidth > one.clientWidth + 1).map(one => one.textContent.trim().slice(0, 60) + ' in ' + one.className)"""
#: how many labels the Tab key stops at
STOPS = """() => Array.from(document.querySelectorAll('a.k'))
  .filter(one => one.getClientRects().length && one.tabIndex >= 0).length"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("house")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def boundaries(house: House, page: Page) -> None:
    page.goto(f"{house.url}{house.addresses['relay']}?tab=boundaries", wait_until="load")


def test_a_tap_on_a_label_tells_it_and_a_second_tap_leads_to_the_docs(house: House, browser: Browser) -> None:
    with house.context(browser, "operator", has_touch=True, is_mobile=True, **PHONE) as context:
        page = context.new_page()
        boundaries(house, page)
        here = page.url
        label = page.locator('#records a.k[href$="#resident"]').nth(1)
        head = page.locator('#records thead a.ex[href$="#resident"]')
        sentence = head.get_attribute("title") or head.get_attribute("data-tip") or ""
        assert sentence and head.is_hidden()
        label.tap()
        tip = page.locator("#tip")
        expect(page.locator("#announce")).to_have_text(sentence)
        expect(tip).to_be_visible()
        expect(tip).to_contain_text(sentence)
        expect(label).to_have_attribute("aria-describedby", "tip")
        assert page.url == here
        box = tip.bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= 360
        label.tap()
        page.wait_for_url("**/docs/figures/#resident")


def test_the_first_card_is_reached_by_the_keyboard_and_those_after_it_add_no_stop(
    house: House, browser: Browser
) -> None:
    with house.context(browser, "operator", **PHONE) as context:
        page = context.new_page()
        boundaries(house, page)
        rows = page.locator("#records tbody tr")
        assert rows.count() > 1
        first, second = (rows.nth(at).locator('a.k[href$="#turn"]') for at in (0, 1))
        first.focus()
        expect(page.locator("#tip")).to_be_visible()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "k"
        assert first.evaluate("one => one.tabIndex") == 0 and second.evaluate("one => one.tabIndex") == -1
        page.keyboard.press("Escape")
        assert page.locator("#tip").is_hidden()
        page.set_viewport_size({"width": 1440, "height": 900})
        assert page.evaluate(STOPS) == 0 and first.is_hidden()
        assert page.locator('#records thead a.ex[href$="#turn"]').is_visible()


def test_a_label_is_heard_by_its_name_and_leads_to_the_docs_without_scripts(house: House, browser: Browser) -> None:
    with house.context(browser, "operator", java_script_enabled=False, **PHONE) as context:
        page = context.new_page()
        boundaries(house, page)
        page.locator("#records").get_by_role("link", name="resident", exact=True).first.click()
        assert page.url.endswith("/docs/figures/#resident")


def test_every_card_of_every_page_reads_on_a_phone(house: House, browser: Browser) -> None:
    wrong: list[str] = []
    labels = 0
    with house.context(browser, "admin", **PHONE) as context:
        page = context.new_page()
        for name, address in house.pages("admin").items():
            page.goto(house.url + address, wait_until="load")
            labels += page.locator("a.k:visible").count()
            wrong += [f"{name}: missed {one}" for one in page.evaluate(MISSED)]
            wrong += [f"{name}: cut off {one}" for one in page.evaluate(CUT)]
    assert labels > 100
    assert not wrong, "\n".join(wrong)

"""By keyboard alone: where the focus is it is seen, nothing covers or loses it, and keys can be switched off."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.house import House, chromium, open_house

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(600)]
DESK = {"width": 1280, "height": 700}
#: what is wrong with where the focus is now, or null at the end of the page
SEEN = """() => {
  const at = document.activeElement;
  if (!at || at === document.body) return null;
  const box = at.getBoundingClientRect(), style = getComputedStyle(at), bar = document.querySelector('.top');
  const own = at.outerHTML.slice(0, 120), wrong = [];
  if (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 2) wrong.push('has no ring');
  const link = getComputedStyle(document.querySelector('.skip')).color;  // 4.5:1 in each theme
  if (style.outlineColor !== link) wrong.push('has a ring of ' + style.outlineColor);
  if (!bar.contains(at) && !at.classList.contains('skip') && box.top < bar.getBoundingClientRect().bottom - 1)
    wrong.push('is behind the bar');
  if (box.bottom < 1 || box.top > innerHeight - 1) wrong.push('is not on the screen');
  const x = Math.min(Math.max(box.left + box.width / 2, 1), innerWidth - 1);
  const over = document.elementFromPoint(x, Math.min(Math.max(box.top + box.height / 2, 1), innerHeight - 1));
  if (over && !at.contains(over) && !over.contains(at) && over.id !== 'tip')
    wrong.push('lies under ' + over.outerHTML.slice(0, 60));
  return wrong.map(one => own + ' ' + one);
}"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("house")) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


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


@pytest.mark.parametrize("name", ["needs_you", "relays", "relay", "gate", "start", "policy_edit", "fleet_cost"])
def test_where_the_focus_is_there_it_is_seen_on_the_way_and_on_the_way_back(
    house: House, browser: Browser, name: str
) -> None:
    """WCAG 2.1.2, 2.4.7, 2.4.11: no trap, a ring, and neither the bar nor anything else over it."""
    wrong: list[str] = []
    with house.context(browser, "admin", viewport=DESK, reduced_motion="reduce") as context:
        page = context.new_page()
        page.goto(house.url + house.addresses[name], wait_until="load")
        page.evaluate("document.activeElement.blur()")
        stops = 0
        for key in ("Tab", "Shift+Tab"):
            for n in range(600):
                page.keyboard.press(key)
                found = page.evaluate(SEEN)
                if found is None:
                    break
                wrong += [f"{key}: {one}" for one in found]
                stops = max(stops, n + 1)
            else:
                wrong.append(f"{key} comes to no end")
    assert stops > 20 and not wrong, "\n".join(sorted(set(wrong)))


def _at(page: Page) -> str:
    found: str = page.evaluate("document.activeElement.tagName + ' ' + document.activeElement.textContent.trim()")
    return found


def test_a_menu_gives_the_focus_back_and_lies_over_nothing_that_has_it(house: House, browser: Browser) -> None:
    with house.context(browser, "operator", viewport=DESK) as context:
        page = context.new_page()
        page.goto(house.url + house.addresses["relay"], wait_until="load")
        stop = page.locator("#d-stop")
        stop.locator("summary").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.locator(":focus").get_attribute("id") == "c-stop"
        page.keyboard.type("j k ? /")  # words, not keys, while one types
        assert page.locator("#c-stop").input_value() == "j k ? /" and not page.locator("#keys[open]").count()
        page.keyboard.press("Escape")
        assert stop.get_attribute("open") is None and _at(page).startswith("SUMMARY Stop")
        page.keyboard.press("Enter")
        for _ in range(3):
            page.keyboard.press("Tab")
        assert stop.get_attribute("open") is None, "the menu stays open over what has the focus"


def test_keys_open_their_list_and_can_be_switched_off(house: House, browser: Browser) -> None:
    """WCAG 2.1.4: there is a way to turn shortcuts of one character off."""
    with house.context(browser, "reviewer", viewport=DESK) as context:
        page = context.new_page()
        page.goto(house.url + "/relays/", wait_until="load")
        page.keyboard.press("j")
        assert page.locator(":focus").get_attribute("data-open") is not None
        before = page.locator(":focus").get_attribute("href")
        page.keyboard.press("?")
        assert _at(page) == "BUTTON Close"
        page.keyboard.press("Escape")
        assert page.locator(":focus").get_attribute("href") == before, "the list gives the focus back"
        page.keyboard.press("/")
        assert page.locator(":focus").get_attribute("id") == "q"
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        page.locator("#keys a").click()
        page.wait_for_url("**/layout/#keys-off")
        page.locator("input[name=keys][value=off]").check()
        page.get_by_role("button", name="Keep it").click()
        page.wait_for_url("**/layout/")
        said = page.locator(":focus")
        assert said.get_attribute("role") == "status" and "Kept" in (said.text_content() or "")
        page.goto(house.url + "/relays/", wait_until="load")
        for key in ("j", "/", "?"):
            page.keyboard.press(key)
        assert page.evaluate("document.activeElement === document.body") and not page.locator("#keys[open]").count()

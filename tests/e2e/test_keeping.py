"""On every live page: what a reader did stays as it is while every region of the page is given anew under it.

Interface: "scroll, focus, selection and open menus survive". The regions are the house's own, as its pages ask for
them, with other words in them than before; they come as the stream hands them over.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.e2e.house import House, chromium, open_house
from tests.e2e.keeping import IN_LAST_ROW, SELECT, WORKER, Reader

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(900)]
TABS = ("gates", "ledger", "regions", "decisions", "notices", "effects")
MOST = 6  # places of the focus in one region
#: pages that must be among those that are looked at
LIVE = {
    "needs_you", "relays", "relay", "leg", "baton", "gate", "sessions", "session", "imports", "fleet_cost",
    "relay_cost", "decisions", "maintenance", "notifications", "budgets",
}  # fmt: skip


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with open_house(tmp_path_factory.mktemp("keeping")) as opened:
        yield opened


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def context(browser: Browser, house: House) -> Iterator[BrowserContext]:
    made = house.context(browser, "admin", viewport={"width": 1100, "height": 700})
    made.add_init_script(WORKER)
    yield made
    made.close()


def live_pages(page: Page, house: House) -> Iterator[str]:
    """Goes to each page that has regions, by its name."""
    for name, address in house.pages("admin").items():
        for tab in ("", *TABS) if name == "relay" else ("",):
            page.goto(house.url + address + (f"?tab={tab}" if tab else ""))
            if page.evaluate("() => !!document.body.dataset.live && !!document.querySelector('main [hx-get]')"):
                yield f"{name} {tab}".strip()


def regions_of(reader: Reader) -> list[str]:
    return [region for region in reader.touch() if "part=" in region]


def test_what_is_open_typed_ticked_and_scrolled_stays(context: BrowserContext, house: House) -> None:
    page, seen, lost = context.new_page(), set[str](), dict[str, list[str]]()
    page.on("pageerror", lambda error: lost.setdefault("errors", []).append(str(error)))
    for name in live_pages(page, house):
        reader = Reader(page)
        regions = regions_of(reader)
        for region in regions:
            reader.give(region)
        if regions:
            seen.add(name.split()[0])
        if found := reader.lost():
            lost[name] = found
    assert lost == {}
    assert LIVE <= seen
    page.close()


def test_the_focus_and_what_is_marked_stay_in_every_region(context: BrowserContext, house: House) -> None:
    page, lost = context.new_page(), list[str]()
    page.on("pageerror", lambda error: lost.append(str(error)))
    marked = focused = 0
    for name in live_pages(page, house):
        reader = Reader(page)
        regions = regions_of(reader)
        page.evaluate("() => document.querySelectorAll('main details').forEach(one => { one.open = true; })")
        for region in regions:
            able = reader.focus(region, 0)
            for at in range(0, able, max(1, able // MOST)):
                reader.focus(region, at)
                what = page.evaluate("() => focused.outerHTML.slice(0, 120)")
                reader.give(region)
                focused += 1
                if not reader.focused():
                    lost.append(f"{name}, {region}: the focus on {what}")
            page.evaluate("() => document.activeElement.blur()")
            chosen = page.evaluate(SELECT, region)
            if chosen:
                reader.give(region)
                marked += 1
                now = page.evaluate("() => String(getSelection())")
                if now != chosen:
                    lost.append(f"{name}, {region}: marked {chosen!r}, now {now!r}")
    assert lost == []
    assert marked > 20 and focused > 60
    page.close()


def test_the_focus_stays_on_its_row_when_rows_come_and_move(context: BrowserContext, house: House) -> None:
    """Who is about to press Enter opens, or acts on, what they chose, and not what has taken its place."""
    page, lost, looked = context.new_page(), list[str](), set[str]()
    for name in live_pages(page, house):
        reader = Reader(page)
        for region in regions_of(reader):
            for rows in ("above", "moved"):
                chosen = page.evaluate(IN_LAST_ROW, region)
                if not chosen:
                    continue
                looked.add(name.split()[0])
                reader.give(region, rows)
                now = page.evaluate(
                    "() => document.activeElement.getAttribute('href') || document.activeElement.textContent"
                )
                if now != chosen:
                    lost.append(f"{name}, {region}, {rows}: {chosen!r} -> {now[:60]!r}")
    assert lost == []
    assert {"relays", "relay", "needs_you", "decisions", "fleet_cost"} <= looked
    page.close()

"""Live pages in a real browser: zoom and back, hover and marks, turns that are added, a lost connection, and what a
reader did stays as it is: scroll, focus, typed text, open details. The log follows, and stands still when it should."""

import os
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.e2e.stage import Stage

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SOON = 20_000

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    running = Stage(tmp_path_factory.mktemp("stage") / "var")
    yield running
    running.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        if os.environ.get("CI"):
            pytest.fail("no Chromium was found: install Debian's package chromium")
        pytest.skip("left out: no Chromium was found (Debian's package chromium)")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser, stage: Stage) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_cookies([{"name": "sessionid", "value": stage.cookie, "url": stage.url}])
    opened = context.new_page()
    opened.complaints = []  # type: ignore[attr-defined]
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))  # type: ignore[attr-defined]
    yield opened
    assert opened.complaints == []  # type: ignore[attr-defined]
    context.close()


_turn = iter(range(61_003, 170_000, 13))


def next_turn(stage: Stage) -> str:
    """One more turn of the running leg; its resident tokens as the page writes them."""
    tokens = next(_turn)
    stage.say(turn=tokens)
    return f"{tokens:,}"


def open_relay(page: Page, stage: Stage, query: str = "") -> None:
    page.goto(f"{stage.url}/relays/{stage.relay}/{query}")
    expect(page.locator(".live[data-state=live]")).to_be_visible(timeout=SOON)
    page.wait_for_function("() => document.getElementById('chart-flat')._fullLayout", timeout=SOON)
    page.wait_for_function("() => window.rsPushed(document.getElementById('chart-flat').dataset.tail)", timeout=SOON)


def title(page: Page) -> str:
    return str(page.evaluate("() => document.getElementById('chart-flat').layout.xaxis.title.text"))


def place(page: Page, trace: str, index: int) -> tuple[float, float]:
    """Where a point of the graph lies in the window."""
    x, y = page.evaluate(
        """([name, at]) => {
          const e = document.getElementById('chart-flat'), r = e.getBoundingClientRect(), l = e._fullLayout;
          const t = e.data.find(one => one.name === name), n = at < 0 ? t.x.length + at : at;
          return [r.left + l.xaxis._offset + l.xaxis.d2p(t.x[n]), r.top + l.yaxis._offset + l.yaxis.d2p(t.y[n])];
        }""",
        [trace, index],
    )
    return x, y


_WITHIN = """x => {
  const e = document.getElementById('chart-flat');
  return x - e.getBoundingClientRect().left - e._fullLayout.xaxis._offset;
}"""


def hover(page: Page, trace: str, index: int) -> str:
    x, y = place(page, trace, index)
    page.mouse.move(x + 4, y + 4)
    page.mouse.move(x, y)
    page.wait_for_function(
        "([x, y]) => { const now = document.getElementById('chart-flat')._hoverdata; return now && now.length === 1"
        " && Math.abs(now[0].xaxis.d2p(now[0].x) - x) < 1.5; }",
        arg=[page.evaluate(_WITHIN, x), y],
        timeout=SOON,
    )
    expect(page.locator("#chart-flat .hoverlayer .hovertext")).to_have_count(1, timeout=SOON)
    return page.locator("#chart-flat .hoverlayer .hovertext").text_content() or ""


def test_a_zoom_is_an_address_and_back_leads_out_of_it(page: Page, stage: Stage) -> None:
    open_relay(page, stage)
    page.locator("tr[data-row=leg-7] td.l-peak").click()
    expect(page).to_have_url(f"{stage.url}/relays/{stage.relay}/?leg=7#graph")
    page.wait_for_function("() => /leg 7 alone/.test(document.getElementById('chart-flat').layout.xaxis.title.text)")
    expect(page.locator("#r-series .zoom")).to_contain_text("Leg 7 alone", timeout=SOON)
    page.locator("#r-series [data-zoom='8']").click()
    expect(page.locator("#r-series .zoom")).to_contain_text("Leg 8 alone", timeout=SOON)
    next_turn(stage)  # the zoom stays when the relay goes on
    page.wait_for_timeout(1_200)
    assert "leg 8 alone" in title(page)
    expect(page.locator("#r-series .zoom")).to_contain_text("Leg 8 alone")
    page.go_back()
    page.go_back()
    expect(page.locator("#r-series .zoom")).not_to_contain_text("alone", timeout=SOON)
    page.wait_for_function("() => !/alone/.test(document.getElementById('chart-flat').layout.xaxis.title.text)")
    page.goto(f"{stage.url}/relays/{stage.relay}/?leg=3")  # shared as a link
    page.wait_for_function("() => /leg 3 alone/.test(document.getElementById('chart-flat').layout.xaxis.title.text)")
    x, y = place(page, "leg-b", 4)
    page.mouse.move(x, y)
    page.mouse.click(x, y)
    expect(page).to_have_url(f"{stage.url}/relays/{stage.relay}/legs/3/?turn=5#turns")


def test_a_mark_leads_to_the_baton_of_its_rotation(page: Page, stage: Stage) -> None:
    open_relay(page, stage)
    assert "leg 2 ended: RELAY_ROTATED" in hover(page, "drain", 2)
    with page.expect_navigation():
        page.mouse.click(*place(page, "drain", 2))
    assert page.url == f"{stage.url}/relays/{stage.relay}/batons/2/"


def test_new_turns_lengthen_the_line_and_what_is_looked_at_stays(page: Page, stage: Stage) -> None:
    open_relay(page, stage, "?leg=14")  # its points stand apart
    page.evaluate("""() => {
      const e = document.getElementById('chart-flat');
      window.drawn = 0; e.addEventListener('rs-drawn', () => { window.drawn++; });
    }""")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    points = "() => document.getElementById('chart-flat').data.find(t => t.name === 'leg-a').x.length"
    before = page.evaluate(points)
    told = hover(page, "leg-a", 2)
    assert "resident tokens" in told and "cache read" in told and "cache writes" in told
    asked.clear()
    for grown in (1, 2, 3):
        shown = next_turn(stage)
        expect(page.locator("#r-kpis")).to_contain_text(shown, timeout=SOON)
        page.wait_for_function(f"() => ({points})() === {before + grown}", timeout=SOON)
    assert page.locator("#chart-flat .hoverlayer .hovertext").text_content() == told
    assert page.evaluate("() => window.drawn") == 0, "added, not drawn anew"
    assert asked == [], "the stream hands over what changed"


def test_a_turn_whose_call_is_known_later_is_drawn_all_the_same(page: Page, stage: Stage) -> None:
    open_relay(page, stage, "?leg=14")
    line = "() => document.getElementById('chart-flat').data.find(t => t.name === 'leg-a').x.length"
    turns = "() => Number(document.querySelector('#r-kpis').innerText.match(/(\\d+) turns/)[1])"
    for _round in range(2):
        before, counted = page.evaluate(line), page.evaluate(turns)
        stage.say(begun=True)
        page.wait_for_function(f"() => ({turns})() === {counted + 1}", timeout=SOON)
        page.wait_for_timeout(1_200)
        stage.say(called=next(_turn))
        page.wait_for_function(f"() => ({line})() === {before + 1}", timeout=SOON)


def test_scroll_focus_selection_and_what_is_open_survive_a_change(page: Page, stage: Stage) -> None:
    open_relay(page, stage)
    page.locator("#r-series summary").click()
    page.locator("#d-park summary").click()
    comment = page.locator("#c-park")
    comment.fill("half a sent")
    page.evaluate("() => document.getElementById('c-park').setSelectionRange(2, 6)")
    page.evaluate("() => window.scrollTo(0, 37)")
    shown = next_turn(stage)
    expect(page.locator("#r-kpis")).to_contain_text(shown, timeout=SOON)
    page.wait_for_timeout(500)
    assert page.evaluate(
        """() => [document.activeElement.id, document.activeElement.value, document.activeElement.selectionStart,
          document.activeElement.selectionEnd, document.getElementById('d-park').open,
          document.querySelector('#r-series details').open, window.scrollY]"""
    ) == ["c-park", "half a sent", 2, 6, True, True, 37]


def test_a_lost_connection_is_said_and_what_was_missed_comes_back(page: Page, stage: Stage) -> None:
    open_relay(page, stage)
    stage.say(web="down")
    try:
        expect(page.locator(".live")).to_have_attribute("data-state", "lost", timeout=SOON)
        expect(page.locator("[data-live-word]")).to_contain_text("last data at")
        shown = next_turn(stage)
    finally:
        stage.say(web="up")
    expect(page.locator(".live")).to_have_attribute("data-state", "live", timeout=40_000)
    expect(page.locator("#r-kpis")).to_contain_text(shown, timeout=SOON)


def test_without_a_stream_the_page_polls(page: Page, stage: Stage) -> None:
    page.add_init_script("delete window.SharedWorker")  # what a worker asks for is not routed
    page.route("**/live/**", lambda route: route.fulfill(status=204))
    page.goto(f"{stage.url}/relays/{stage.relay}/")
    expect(page.locator("[data-live-word]")).to_contain_text("polling", timeout=SOON)
    shown = next_turn(stage)
    expect(page.locator("#r-kpis")).to_contain_text(shown, timeout=SOON)


def test_the_log_follows_and_stands_still_where_the_reader_is(page: Page, stage: Stage) -> None:
    page.goto(f"{stage.url}/relays/{stage.relay}/legs/14/")
    box = page.locator("#log-lines")
    expect(box).to_contain_text("line 199")
    page.wait_for_function("() => window.rsPushed(document.getElementById('log-lines').dataset.region)", timeout=SOON)
    stage.say(log=3)
    expect(box).to_contain_text("line 202", timeout=SOON)
    at_end = """() => {
      const e = document.getElementById('log-lines');
      return e.scrollHeight - e.scrollTop - e.clientHeight < 24;
    }"""
    page.wait_for_function(at_end, timeout=SOON)
    page.evaluate("() => { document.getElementById('log-lines').scrollTop = 40; }")
    stage.say(log=200)  # more than is handed over at once: the lines between are asked for
    expect(page.locator("[data-tail-new]")).to_contain_text("200 new lines", timeout=SOON)
    assert page.evaluate("() => document.getElementById('log-lines').scrollTop") == 40
    assert page.evaluate(
        "() => [...document.querySelectorAll('#log-lines p')].map(p => +/line ([0-9]+)/.exec(p.textContent)[1])"
        ".every((n, i, all) => !i || n === all[i - 1] + 1)"
    ), "none is missing, none stands twice"
    page.locator("[data-tail-new]").click()
    page.wait_for_function(at_end, timeout=SOON)
    page.locator("[data-tail-pause]").click()
    stage.say(log=1)
    page.wait_for_timeout(1_500)
    expect(box).not_to_contain_text("line 403")
    page.locator("[data-tail-pause]").click()
    expect(box).to_contain_text("line 403", timeout=SOON)

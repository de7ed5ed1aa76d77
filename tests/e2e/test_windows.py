"""Many windows of one browser: one connection, all live, the next page still quick; what a new version says to a page
that stayed open; and windows that are hidden, put away, asleep, or without a worker."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.e2e.house import ARGUMENTS, CHROMIUM, chromium
from tests.e2e.stage import Stage

SOON = 20_000
MANY = 10
FIGURES = "w => document.getElementById('r-kpis').innerText.includes(w)"

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(600)]
_turn = iter(range(61_003, 170_000, 13))


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    running = Stage(tmp_path_factory.mktemp("windows") / "var")
    yield running
    running.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


@pytest.fixture
def context(browser: Browser, stage: Stage) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1440, "height": 900})
    made.add_cookies([{"name": "sessionid", "value": stage.cookie, "url": stage.url}])
    complaints: list[str] = []
    made.on("weberror", lambda error: complaints.append(str(error.error)))
    yield made
    made.close()
    assert complaints == []


def opened(context: BrowserContext, stage: Stage, path: str = "") -> Page:
    page = context.new_page()
    page.goto(f"{stage.url}{path or f'/relays/{stage.relay}/'}")
    expect(page.locator(".live")).to_have_attribute("data-state", "live", timeout=SOON)
    expect(page.locator(".live")).to_be_visible(timeout=SOON)
    return page


def turn(stage: Stage) -> str:
    tokens = next(_turn)
    stage.say(turn=tokens)
    return f"{tokens:,}"


def streams(stage: Stage) -> int:
    """Connections that stand; with nothing asked and the browser's own put away, those are the streams."""
    here = f":{stage.port:04X}"
    rows = [row.split() for name in ("tcp", "tcp6") for row in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return sum(row[1].endswith(here) and row[3] == "01" for row in rows)


def eventually(page: Page, what: Callable[[], bool], seconds: float = 30) -> None:
    for _ in range(int(seconds * 5)):
        if what():
            return
        page.wait_for_timeout(200)
    assert what()


def test_many_windows_have_one_stream_and_all_are_live(context: BrowserContext, stage: Stage) -> None:
    pages = [opened(context, stage, "" if n % 2 else "/relays/") for n in range(MANY)]
    relays = [page for page in pages if "/RLY-" in page.url]
    assert all(not page.evaluate("document.hidden") for page in pages)
    for page in relays:
        page.wait_for_function("() => window.rsPushed(document.getElementById('r-kpis').getAttribute('hx-get'))")
    asked: list[str] = []
    for page in relays:
        page.on("request", lambda request: asked.append(request.url))
    pages[0].wait_for_timeout(2_000)
    asked.clear()
    for _ in range(3):
        shown = turn(stage)
        for page in relays:
            page.wait_for_function(FIGURES, arg=shown, timeout=SOON)
    assert asked == [], "the one stream hands over to every window what it shows"
    eventually(pages[0], lambda: streams(stage) == 1)
    eleventh = opened(context, stage, "/")
    eleventh.goto(f"{stage.url}/decisions/", timeout=SOON)
    for page in pages[1:]:
        page.close()
    eleventh.close()
    left = opened(context, stage)
    left.wait_for_function(FIGURES, arg=turn(stage), timeout=SOON)
    for page in (pages[0], left):
        page.close()
    last = context.new_page()
    eventually(last, lambda: streams(stage) == 0)


def test_a_window_that_opens_takes_nothing_from_the_others(context: BrowserContext, stage: Stage) -> None:
    first = opened(context, stage)
    first.wait_for_function("() => window.rsPushed(document.getElementById('r-kpis').getAttribute('hx-get'))")
    first.evaluate("""() => { window.states = [];
      new MutationObserver(() => states.push(document.querySelector('.live').dataset.state))
        .observe(document.querySelector('.live'), { attributes: true, attributeFilter: ['data-state'] }); }""")
    for _ in range(4):
        other = opened(context, stage, "/relays/")
        shown = turn(stage)  # while the stream is opened anew
        first.wait_for_function(FIGURES, arg=shown, timeout=SOON)
        other.close()
        first.wait_for_function(FIGURES, arg=turn(stage), timeout=SOON)
    assert "lost" not in first.evaluate("() => states")


def test_a_lost_site_is_said_in_every_window_and_all_catch_up(context: BrowserContext, stage: Stage) -> None:
    pages = [opened(context, stage) for _ in range(3)]
    stage.say(web="down")
    try:
        for page in pages:
            expect(page.locator(".live")).to_have_attribute("data-state", "lost", timeout=SOON)
            expect(page.locator("[data-live-word]")).to_contain_text("last data at")
        shown = turn(stage)
    finally:
        stage.say(web="up")
    for page in pages:
        expect(page.locator(".live")).to_have_attribute("data-state", "live", timeout=SOON)
        page.wait_for_function(FIGURES, arg=shown, timeout=SOON)
        expect(page.locator("#newer")).to_be_hidden()  # the same version is back


def test_a_database_that_does_not_answer_is_said_and_its_return_too(context: BrowserContext, stage: Stage) -> None:
    page = opened(context, stage)
    page.wait_for_function("() => window.rsPushed(document.getElementById('r-kpis').getAttribute('hx-get'))")
    stage.say(database="away")
    try:
        expect(page.locator(".live")).to_have_attribute("data-state", "lost", timeout=SOON)
        expect(page.locator("[data-live-word]")).to_contain_text("last data at")
        page.wait_for_timeout(4_000)
        expect(page.locator(".live")).to_have_attribute("data-state", "lost")
    finally:
        stage.say(database="back")
    expect(page.locator(".live")).to_have_attribute("data-state", "live", timeout=SOON)
    page.wait_for_function(FIGURES, arg=turn(stage), timeout=SOON)


@pytest.mark.parametrize(
    "without",
    [
        "delete window.SharedWorker",
        "window.SharedWorker = function () { throw new Error('forbidden'); }",
        # one whose script does not come
        "window.SharedWorker = function () { this.port = new MessageChannel().port1;"
        " setTimeout(() => this.onerror(new Event('error')), 50); }",
        # one that never answers
        "window.SharedWorker = function () { this.port = new MessageChannel().port1; }",
    ],
)
def test_without_a_worker_a_window_has_a_stream_of_its_own(context: BrowserContext, stage: Stage, without: str) -> None:
    context.add_init_script(without)
    pages = [opened(context, stage) for _ in range(2)]
    for page in pages:
        page.wait_for_function("() => window.rsPushed(document.getElementById('r-kpis').getAttribute('hx-get'))")
    shown = turn(stage)
    for page in pages:
        page.wait_for_function(FIGURES, arg=shown, timeout=SOON)
    eventually(pages[0], lambda: streams(stage) == 2)


def test_a_hidden_window_gives_its_part_back_and_catches_up_when_it_is_looked_at(
    context: BrowserContext, stage: Stage
) -> None:
    page = opened(context, stage)
    eventually(page, lambda: streams(stage) >= 1)
    page.evaluate("""() => { Object.defineProperty(document, 'hidden', { get: () => window.away, configurable: true });
      window.away = true; document.dispatchEvent(new Event('visibilitychange')); }""")
    eventually(page, lambda: streams(stage) == 0, 60)
    shown = turn(stage)
    page.wait_for_timeout(1_500)
    assert not page.evaluate(FIGURES, shown)
    page.evaluate("() => { window.away = false; document.dispatchEvent(new Event('visibilitychange')); }")
    page.wait_for_function(FIGURES, arg=shown, timeout=SOON)
    page.wait_for_function(FIGURES, arg=turn(stage), timeout=SOON)


def test_a_page_that_was_frozen_catches_up(context: BrowserContext, stage: Stage) -> None:
    """A laptop that sleeps: nothing runs in the page, then all of it goes on."""
    page = opened(context, stage)
    control = context.new_cdp_session(page)
    control.send("Page.setWebLifecycleState", {"state": "frozen"})
    shown = turn(stage)
    other = opened(context, stage, "/relays/")
    other.wait_for_timeout(3_000)
    control.send("Page.setWebLifecycleState", {"state": "active"})
    page.wait_for_function(FIGURES, arg=shown, timeout=SOON)
    page.wait_for_function(FIGURES, arg=turn(stage), timeout=SOON)


def test_a_sign_out_ends_every_window(browser: Browser, stage: Stage) -> None:
    context = browser.new_context()
    cookie = stage.say(session=True)["cookie"]  # one of its own: the others stay signed in
    context.add_cookies([{"name": "sessionid", "value": cookie, "url": stage.url}])
    pages = [opened(context, stage) for _ in range(3)]
    context.request.get(f"{stage.url}/")
    stage.say(ended=cookie)
    for page in pages:
        expect(page.locator("[data-live-word]")).to_have_text("signed out: reload the page", timeout=40_000)
    context.close()


def test_who_signs_in_after_somebody_else_has_a_stream_of_their_own(browser: Browser, stage: Stage) -> None:
    """The windows of the one who was signed in before show nothing that was made for the next."""
    context = browser.new_context()
    first, second = (stage.say(session=name)["cookie"] for name in ("first", "second"))
    context.add_cookies([{"name": "sessionid", "value": first, "url": stage.url}])
    left = opened(context, stage)
    context.add_cookies([{"name": "sessionid", "value": second, "url": stage.url}])
    stage.say(ended=first)
    page = opened(context, stage)
    page.wait_for_function(FIGURES, arg=turn(stage), timeout=SOON)
    expect(left.locator("[data-live-word]")).to_have_text("signed out: reload the page", timeout=40_000)
    shown = turn(stage)
    page.wait_for_function(FIGURES, arg=shown, timeout=SOON)
    expect(page.locator(".live")).to_have_attribute("data-state", "live")
    left.wait_for_timeout(1_500)
    assert not left.evaluate(FIGURES, shown)
    context.close()


def test_a_hidden_window_that_was_signed_out_stays_so_when_it_is_looked_at(browser: Browser, stage: Stage) -> None:
    context = browser.new_context()
    cookie = stage.say(session=True)["cookie"]
    context.add_cookies([{"name": "sessionid", "value": cookie, "url": stage.url}])
    page = context.new_page()
    page.clock.install()
    page.goto(f"{stage.url}/relays/{stage.relay}/")
    page.evaluate("""() => { Object.defineProperty(document, 'hidden', { get: () => window.away, configurable: true });
      window.away = true; document.dispatchEvent(new Event('visibilitychange')); }""")
    page.clock.run_for(21_000)
    stage.say(ended=cookie)
    page.clock.run_for(31_000)  # the count is asked for
    expect(page.locator("[data-live-word]")).to_have_text("signed out: reload the page", timeout=SOON)
    page.evaluate("() => { window.away = false; document.dispatchEvent(new Event('visibilitychange')); }")
    page.clock.run_for(3_000)
    page.wait_for_timeout(1_500)
    page.clock.run_for(1_000)
    expect(page.locator("[data-live-word]")).to_have_text("signed out: reload the page")
    context.close()


def test_a_page_of_an_earlier_version_says_so_once_and_keeps_what_is_typed(
    context: BrowserContext, stage: Stage
) -> None:
    page = context.new_page()

    def earlier(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=re.sub(r'data-build="\w+"', 'data-build="0123456789ab"', answer.text()))

    address = f"{stage.url}/relays/{stage.relay}/"
    page.route(address, earlier)
    page.goto(address)
    page.locator("#d-park summary").click()
    page.locator("#c-park").fill("half a sent")
    newer = page.locator("#newer")
    expect(newer).to_be_visible(timeout=SOON)
    expect(newer).to_contain_text("A new version runs here")
    expect(page.locator("#announce")).to_contain_text("A new version runs here")
    assert page.evaluate("() => document.activeElement.id") == "c-park", "nothing is taken from who writes"
    newer.get_by_role("button", name="Later").click()
    page.wait_for_function(FIGURES, arg=turn(stage), timeout=SOON)
    expect(newer).to_be_hidden()
    page.reload()
    page.locator("#d-park summary").click()
    page.locator("#c-park").fill("half a sentence")
    page.unroute(address)
    newer.get_by_role("button", name="Reload").click()
    page.wait_for_function("() => document.body.dataset.build !== '0123456789ab'", timeout=SOON)
    expect(page.locator("#c-park")).to_have_value("half a sentence", timeout=SOON)
    expect(page.locator("#c-park")).to_be_visible()
    expect(page.locator(".live")).to_have_attribute("data-state", "live", timeout=SOON)
    page.wait_for_timeout(1_500)
    expect(newer).to_be_hidden()
    page.reload()
    expect(page.locator("#c-park")).to_have_value("")  # once


def test_what_somebody_typed_is_not_put_back_for_the_next(browser: Browser, stage: Stage) -> None:
    context = browser.new_context()
    mine, theirs = (stage.say(session=name)["cookie"] for name in ("third", "fourth"))
    for cookie, kept in ((mine, "half a word"), (theirs, "")):
        context.add_cookies([{"name": "sessionid", "value": mine, "url": stage.url}])
        page = opened(context, stage, "/relays/")
        page.locator("main #q").fill("half a word")
        page.evaluate("document.body.dispatchEvent(new CustomEvent('rs-build', { detail: 'another' }))")
        context.add_cookies([{"name": "sessionid", "value": cookie, "url": stage.url}])
        with page.expect_navigation():
            page.locator("#newer").get_by_role("button", name="Reload").click()
        expect(page.locator(".live")).to_be_visible(timeout=SOON)
        expect(page.locator("main #q")).to_have_value(kept)
        page.close()
    context.close()


def test_back_from_another_page_is_live_again(browser: Browser, stage: Stage) -> None:
    """Also where the browser kept the page whole."""
    kept = browser.browser_type.launch(
        executable_path=CHROMIUM, args=ARGUMENTS, ignore_default_args=["--disable-back-forward-cache"]
    )
    try:
        context = kept.new_context()
        context.add_cookies([{"name": "sessionid", "value": stage.cookie, "url": stage.url}])
        page = opened(context, stage)
        page.wait_for_timeout(1_500)
        page.goto(f"{stage.url}/vocabulary/")
        shown = turn(stage)
        page.go_back(wait_until="commit")
        page.wait_for_function(FIGURES, arg=shown, timeout=SOON)
        page.wait_for_function(FIGURES, arg=turn(stage), timeout=SOON)
    finally:
        kept.close()

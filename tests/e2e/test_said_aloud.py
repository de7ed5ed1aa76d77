"""What a screen reader hears of a live page: a change once, in words, and nothing while only numbers grow."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.house import chromium
from tests.e2e.stage import Stage

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(300)]
#: every text that the region for announcements had since the page was opened
HEARD = """window.heard = []; new MutationObserver(() => {
  window.heard.push(document.getElementById('announce').textContent);
}).observe(document.getElementById('announce'), { childList: true, characterData: true, subtree: true })"""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    running = Stage(tmp_path_factory.mktemp("stage") / "var")
    yield running
    running.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def test_a_gate_is_said_once_and_turns_are_not_said(stage: Stage, browser: Browser) -> None:
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        context.add_cookies([{"name": "sessionid", "value": stage.cookie, "url": stage.url}])
        page = context.new_page()
        page.goto(f"{stage.url}/relays/{stage.relay}/", wait_until="load")
        expect(page.locator(".live")).to_have_attribute("data-state", "live")
        page.evaluate(HEARD)
        for tokens in (63_001, 64_001, 65_001):
            stage.say(turn=tokens)
            expect(page.locator("#r-head, .kpis").filter(has_text=f"{tokens:,}").first).to_be_visible(timeout=20_000)
        assert page.evaluate("window.heard") == []
        stage.say(gate=True)
        expect(page.locator("#announce")).to_contain_text("1 waits for a person", timeout=20_000)
        stage.say(turn=66_001)
        expect(page.locator(".kpis").filter(has_text="66,001").first).to_be_visible(timeout=20_000)
        said = page.evaluate("window.heard")
        assert sum("waits for a person" in one for one in said) == 1, said
        assert page.title().startswith("(1) ")

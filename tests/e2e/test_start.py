"""Starting a relay in a real browser with the keyboard alone: what is typed is judged while it is typed."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from tests.builders import commit, make_repo
from tests.e2e.test_tour import LEG, SOON, Serve, browser, serve

__all__ = ["browser", "serve"]
pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(600)]


def signed_in(serve: Serve, browser: Browser, said: list[str], **context: object) -> Page:
    page = browser.new_context(base_url=serve.url, **context).new_page()  # type: ignore[arg-type]

    def heard(message: ConsoleMessage) -> None:
        # a page that goes away ends its stream
        if message.type in ("error", "warning") and "ERR_INCOMPLETE" not in message.text:
            said.append(message.text)

    page.on("console", heard)
    page.goto(serve.said(r"http://127\.0\.0\.1:\d+/sign-in/\S+/"))
    page.get_by_role("button", name=re.compile("sign in", re.IGNORECASE)).click()
    return page


def type_into(page: Page, label: str, text: str) -> None:
    """By keyboard: the field is reached by Tab from where the focus is."""
    for _ in range(60):
        if page.evaluate("document.activeElement.labels?.[0]?.textContent.trim() ?? ''").startswith(label):
            break
        page.keyboard.press("Tab")
    else:
        raise AssertionError(f"no Tab leads to {label}")
    page.keyboard.type(text)


def press(page: Page, name: str) -> None:
    for _ in range(90):
        if page.evaluate("document.activeElement.textContent.trim()") == name:
            return page.keyboard.press("Enter")
        page.keyboard.press("Tab")
    raise AssertionError(f"no Tab leads to {name}")


def test_a_relay_is_started_by_keyboard_and_really_runs(serve: Serve, browser: Browser, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "orders", issues=3)
    commit(repo, {"Makefile": "test:\n\ttrue\n", "src/a.py": "a = 1\n"}, "Sources")
    serve.start()
    said: list[str] = []
    page = signed_in(serve, browser, said)
    page.goto("/start/")
    expect(page.get_by_label("Repository")).to_be_focused()
    page.keyboard.type(str(repo))
    expect(page.locator("#said-repo")).to_contain_text("It starts from this commit", timeout=SOON)
    expect(page.locator("#suggest-done")).to_contain_text("its Makefile has a target test", timeout=SOON)
    type_into(page, "Objective", "Close the three issues")
    type_into(page, "Done when", "it is all nice")
    expect(page.locator("#said-done_when")).to_contain_text("Needs a person", timeout=SOON)
    expect(page.locator("#objective")).to_have_value("Close the three issues")
    for _ in "it is all nice":
        page.keyboard.press("Backspace")
    page.keyboard.type("issues:none open")
    expect(page.locator("#said-done_when")).to_contain_text("does not hold yet (3 open: #1, #2, #3)", timeout=SOON)
    expect(page.get_by_label("Done when")).to_be_focused()
    type_into(page, "Region", "work/**\n.relay/**")
    expect(page.locator("#said-region")).to_contain_text("Matches 1 file", timeout=SOON)
    type_into(page, "Agent", "scripted")
    expect(page.locator("#agent")).to_have_value("scripted")
    press(page, "Dry run")
    expect(page.locator("#dry")).to_contain_text("You are one leg of a relay.", timeout=SOON)
    expect(page.locator("#dry")).to_contain_text("Close the three issues")
    press(page, "Start the relay")
    expect(page).to_have_url(re.compile(r"/relays/RLY-\d{8}-\d{4}/$"), timeout=SOON)
    expect(page.locator("main")).to_contain_text("is started in")
    page.goto("/relays/?q=Close+the+three")
    expect(page.locator("#list")).to_contain_text("RELAY_GOAL_DONE", timeout=LEG)
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    assert said == []


def test_without_javascript_a_suggestion_fills_its_field_and_a_refusal_keeps_all(
    serve: Serve, browser: Browser, tmp_path: Path
) -> None:
    repo = make_repo(tmp_path / "orders", issues=1)
    serve.start()
    page = signed_in(serve, browser, [], java_script_enabled=False)
    page.goto("/start/")
    page.get_by_label("Repository").fill(str(repo))
    page.get_by_role("button", name="Check what I wrote").click()
    page.get_by_role("button", name=re.compile("issues:none open")).click()
    expect(page.get_by_label("Done when")).to_have_value("issues:none open")
    page.get_by_label("Other values").fill("leg.trns=4")
    page.get_by_role("button", name="Start the relay").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was started")
    expect(page.locator("#said-policy")).to_contain_text("did you mean leg.turns?")
    expect(page.get_by_label("Repository")).to_have_value(str(repo))
    page.goto("/policies/new/")
    page.get_by_label("Name").fill("nightly")
    page.get_by_label("ceiling", exact=True).fill("7")
    page.get_by_role("button", name="Keep this policy").click()
    expect(page.locator("main")).to_contain_text("ceiling: must be above 0 and at most 1")
    page.get_by_label("ceiling", exact=True).fill("0.8")
    page.get_by_role("button", name="Keep this policy").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("nightly@1")

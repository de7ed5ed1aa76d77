"""A reviewer decides in a real browser: by keyboard alone, without JavaScript, in two tabs, and against another."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from relays.access import make_sign_in_link
from relays.actions import base, decide
from relays.actions.base import Actor
from relays.models import Decision, GateEpisode, GateState
from relays.reports import gate as report
from tests.report_builders import Story
from tests.web_builders import make_user

ROOT = Path(__file__).resolve().parents[2]
SOON = 30_000
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(600)]
SignIn = Callable[..., Page]


@pytest.fixture
def site(transactional_db: None, process_env: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The web process alone, over the test's database."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    argv = [sys.executable, "-m", "uvicorn", "relaysite.asgi:application", "--lifespan", "off", "--port", str(port)]
    log = (tmp_path / "web.log").open("wb")
    web = subprocess.Popen(argv, env=process_env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    deadline = time.monotonic() + 120
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            break
        assert time.monotonic() < deadline and web.poll() is None, (tmp_path / "web.log").read_text()
        time.sleep(0.1)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        web.kill()
        web.wait()
        log.close()


@pytest.fixture
def browser(chromium_path: str) -> Iterator[Browser]:
    # the driver keeps an event loop in this thread; the ORM here talks to the database beside it
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setitem(os.environ, "DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        launched = playwright.chromium.launch(executable_path=chromium_path, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def sign_in(site: str, browser: Browser) -> Iterator[SignIn]:
    """`sign_in("rae", "reviewer", js=False)` -> a page of that person; complaints of the console fail the test."""
    complaints: list[str] = []
    contexts: list[BrowserContext] = []

    def make(name: str, *roles: str, js: bool = True, width: int = 1440) -> Page:
        user = User.objects.filter(username=name).first() or make_user(name, *roles)
        context = browser.new_context(java_script_enabled=js, viewport={"width": width, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.goto(site + make_sign_in_link(user))
        page.locator("main button[type=submit]").click()
        return page

    yield make
    for context in contexts:
        context.close()
    # the browser reports the answer "changed since you looked" of the server, too
    assert [line for line in complaints if "409 (Conflict)" not in line] == []


@pytest.fixture
def gate(transactional_db: None, tmp_path: Path) -> GateEpisode:
    told = Story(tmp_path / "repo", policy={})
    told.leg(turns=3)
    told.leg(
        turns=3, reason="RELAY_PARKED_UNSAFE", cause="ceiling", hold="TREE_DIRTY_UNPARKED",
        end_decision={"dirty": ["src/orders.py"], "candidates": ["Stub the gateway."]},
    )  # fmt: skip
    base.record(Actor(told.relay.owner), "start", now=timezone.now(), relay=told.relay)
    return told.park()


def now(gate: GateEpisode) -> str:
    return GateEpisode.objects.get(pk=gate.pk).state


def digest(gate: GateEpisode) -> str:
    found = GateEpisode.objects.select_related("relay").get(pk=gate.pk)
    return report.seen_digest(found, report.branch_tip(found.relay)[0])


def until(page: Page, found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON / 1000
    while not found():
        assert time.monotonic() < deadline, page.url
        page.wait_for_timeout(100)


def tab_to(page: Page, selector: str, most: int = 80) -> None:
    """Press Tab until that element has the focus; each stop on the way can be seen."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("s => document.activeElement.matches(s)", selector):
            shown = "() => document.activeElement.getClientRects().length > 0"
            assert page.evaluate(shown), selector
            return
    raise AssertionError(f"{selector} is not reached with Tab")


def test_approve_by_keyboard_alone(site: str, gate: GateEpisode, sign_in: SignIn) -> None:
    page = sign_in("rae", "reviewer")
    page.goto(site)
    page.locator("body").press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{site}/gates/{gate.pk}/")
    tab_to(page, "input[name=next]")
    page.keyboard.press("ArrowDown")
    assert page.locator("input[name=next]:checked").input_value() == "Stub the gateway."
    # Enter in a line of text decides nothing
    tab_to(page, "input[name=next_own]")
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    assert now(gate) == GateState.WAITING and not Decision.objects.filter(gate=gate).exists()
    tab_to(page, "#comment")
    page.keyboard.type("The stub is enough.")
    tab_to(page, "button[value=approve]")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("the gate is requested", timeout=SOON)
    row = Decision.objects.get(act="approve")
    assert (row.actor.username, row.comment, row.gate) == ("rae", "The stub is enough.", gate)
    assert Decision.objects.get(act="next_action").detail["next_action"] == "Stub the gateway."


@pytest.mark.parametrize("width", [1440, 360])
def test_refuse_and_reopen_without_javascript(site: str, gate: GateEpisode, sign_in: SignIn, width: int) -> None:
    page = sign_in("rae", "reviewer", js=False, width=width)
    page.goto(f"{site}/gates/{gate.pk}/")
    expect(page.locator("h1")).to_contain_text("without a safe point")
    page.locator("summary", has_text="Narrow the region").click()
    page.locator("#objective").fill("Only the gateway, not the dump.")
    page.locator("#comment").fill("The dump must go first.")
    page.locator("button[value=refuse]").click()
    expect(page.locator("main")).to_contain_text("the gate is refused")
    expect(page.locator(".gate-way .now")).to_contain_text("rae")
    assert {row.act for row in Decision.objects.filter(gate=gate)} == {"refuse", "objective"}
    page.locator("#comment").fill("After all.")
    page.locator("button[value=reopen]").click()
    again = GateEpisode.objects.get(state=GateState.WAITING)
    expect(page).to_have_url(f"{site}/gates/{again.pk}/")
    expect(page.locator("main")).to_contain_text(f"gate {gate.pk} was reopened")


def test_a_comment_is_required_by_the_browser_too(site: str, gate: GateEpisode, sign_in: SignIn) -> None:
    page = sign_in("rae", "reviewer", js=False)
    page.goto(f"{site}/gates/{gate.pk}/")
    page.locator("button[value=approve]").click()
    expect(page).to_have_url(f"{site}/gates/{gate.pk}/")
    assert page.locator("#comment").evaluate("e => e.validity.valueMissing")
    assert now(gate) == GateState.WAITING


def test_decided_elsewhere_closes_the_page_and_keeps_what_was_typed(
    site: str, gate: GateEpisode, sign_in: SignIn
) -> None:
    sam = sign_in("sam", "reviewer")
    sam.goto(f"{site}/gates/{gate.pk}/")
    sam.locator("#comment").fill("I am still thinking")
    expect(sam.locator("button[value=approve]")).to_be_enabled()
    looked = digest(gate)
    decide.approve(Actor(make_user("rae", "reviewer")), gate.pk, seen=looked, comment="Quicker.")
    expect(sam.locator("#r-acts")).to_contain_text("By rae, meanwhile.", timeout=SOON)
    expect(sam.locator("button[value=approve]")).to_have_count(0)
    assert sam.locator("#comment").input_value() == "I am still thinking"
    expect(sam.locator(".gate-steps [aria-current=step]")).to_have_text("requested")
    sam.get_by_role("link", name="Show it as it is now").first.click()
    expect(sam.locator("button[value=approve]")).to_have_count(0)


def test_what_changes_behind_an_open_page_is_said_and_nothing_happens(
    site: str, gate: GateEpisode, sign_in: SignIn
) -> None:
    from relays.driver import changes, gates

    page = sign_in("rae", "reviewer")
    page.goto(f"{site}/gates/{gate.pk}/")
    page.locator("#comment").fill("Fine as it was.")
    gates.open_episode(gate.relay_id, gate.token, leg=None, items=["one more path"], now=timezone.now())
    changes.bump(changes.topic(gate.relay_id))
    expect(page.locator("#r-state")).to_contain_text("Changed since you looked", timeout=SOON)
    page.locator("button[value=approve]").click()
    expect(page.locator(".decide")).to_contain_text("Nothing was decided; what you typed is kept below.")
    assert page.locator("#comment").input_value() == "Fine as it was."
    expect(page.locator("main")).to_contain_text("one more path")
    assert not Decision.objects.filter(gate=gate).exists()
    page.locator("button[value=approve]").click()  # seen now, and decided
    until(page, lambda: now(gate) == GateState.REQUESTED)


def test_a_double_click_and_a_second_tab_are_one_decision(site: str, gate: GateEpisode, sign_in: SignIn) -> None:
    page = sign_in("rae", "reviewer")
    second = page.context.new_page()
    for tab in (page, second):
        tab.goto(f"{site}/gates/{gate.pk}/")
        tab.locator("#comment").fill("Go on.")
    page.locator("button[value=approve]").dblclick()
    expect(page.locator("main")).to_contain_text(re.compile("the gate is requested|was recorded already"), timeout=SOON)
    if second.locator("button[value=approve]").count():
        second.locator("button[value=approve]").click()
        expect(second.locator("main")).to_contain_text("was recorded already", timeout=SOON)
    assert Decision.objects.filter(gate=gate).count() == 1


def test_the_audit_by_keyboard_and_its_verification(site: str, gate: GateEpisode, sign_in: SignIn) -> None:
    decide.approve(Actor(make_user("rae", "reviewer")), gate.pk, seen=digest(gate), comment="Fine.")
    page = sign_in("max", "manager")
    page.goto(f"{site}/decisions/")
    page.locator("body").press("/")
    page.keyboard.type(gate.relay_id)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"relay={gate.relay_id}"))
    expect(page.locator("tr[data-row]")).to_have_count(2)
    page.locator("button", has_text="Verify").click()
    expect(page.locator("#r-audit")).to_contain_text("2 rows read again", timeout=SOON)
    with page.expect_download() as waiting:
        page.get_by_role("link", name="JSON lines").click()
    path = waiting.value.path()
    assert path is not None and len(Path(path).read_text().splitlines()) == 2

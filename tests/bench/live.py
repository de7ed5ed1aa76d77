"""Open pages of one relay with an update a second: from the commit to the bytes and to the pixel, and what it costs.

Interface: "a change is on the screen within a second […] each region rendered once per change and role, whatever the
number of viewers". Every page is a stream that names the regions of the relay's page, as the page's own script does;
one of them is a real browser, which says when its pixels had changed.
"""

import asyncio
import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.bench.table import Row, median, percentile

ROOT = Path(__file__).resolve().parents[2]
EACH = 5  # pages of one person; the site allows eight
LEGS, TURNS = 14, 45
PIXEL_GOAL, CPU_GOAL = 1.0, 25.0  # seconds, percent of a core
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
LISTENERS = "/bench/listeners"  # of live_app, which only the served process may import
_NOW = re.compile(rb"context now[^0-9]*([0-9,]+)")


@dataclass
class Measured:
    """Seconds from the commit of an update until it was heard, or seen; percent of a core; what stayed behind."""

    heard: list[float] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)
    missed: int = 0
    cpu: float = 0.0
    left: int = 0
    bytes: int = 0


def rows(folder: Path, pages: int = 300, updates: int = 20, dropped: int = 200) -> list[Row]:
    """The lines of the table. Without a Chromium there is no pixel, and no line that claims one."""
    relay, cookies = _people(-(-pages // EACH))
    with _served(folder) as (port, pid):
        found = asyncio.run(_measure(port, pid, relay, cookies, pages, updates, dropped))
    detail = {"pages": pages, "updates": updates, "missed": found.missed, "bytes": found.bytes}
    told = [
        Row(f"{pages} pages, commit to the page's stream, 50 in 100", median(found.heard), "s"),
        Row(
            f"{pages} pages, commit to the page's stream, 95 in 100", percentile(found.heard, 0.95), "s",
            goal=PIXEL_GOAL, detail=detail,
        ),
        Row(f"{pages} pages, updates that a page did not hear", float(found.missed), "of them", goal=0.0),
        Row(f"{pages} pages, web process at one update a second", found.cpu, "% of a core", goal=CPU_GOAL),
        Row(f"{dropped} dropped connections, listeners left behind", float(found.left), "of them", goal=0.0),
    ]  # fmt: skip
    if found.seen:
        told.insert(
            2, Row("commit to the pixel of a real browser among them, 95 in 100", percentile(found.seen, 0.95), "s",
                   goal=PIXEL_GOAL, detail={"all": found.seen}),
        )  # fmt: skip
    return told


# ---- what is looked at ----


def _people(count: int) -> tuple[str, list[str]]:
    """A relay in its fifteenth leg, and that many people who are signed in: their cookies."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.auth.models import Group
    from django.contrib.sessions.backends.db import SessionStore

    from relays.models import Relay
    from tests.web_builders import make_leg, make_relay, make_user

    Relay.objects.filter(pk="RLY-20260101-0300").delete()
    relay = make_relay(id="RLY-20260101-0300", objective="Close the open issues while many look on")
    shape = [24_000 + 2_200 * turn for turn in range(TURNS)]
    for number in range(LEGS):
        make_leg(
            relay, number, resident=shape, reason="RELAY_ROTATED", peak_turn=TURNS, fidelity_verified=12,
            fidelity_dangling=0, fidelity_unknown=0, coverage_made=4, coverage_reached=4, progress=3,
        )  # fmt: skip
    make_leg(relay, LEGS, resident=shape[:5])
    Group.objects.get_or_create(name="manager")
    cookies = []
    for number in range(count):
        user = make_user(f"viewer-{time.time_ns()}-{number}", "manager")
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
        session[HASH_SESSION_KEY] = user.get_session_auth_hash()
        session.set_expiry(timedelta(hours=1))
        session.create()
        cookies.append(session.session_key or "")
    return relay.pk, cookies


def update(relay_id: str, tokens: int) -> None:
    """What a supervisor stores of one turn: a call, the leg's and the relay's roll-ups, the change number."""
    from django.db import transaction
    from django.db.models import F
    from django.utils import timezone

    from relays.models import Call, Leg, Relay
    from relays.models.live import raise_number

    with transaction.atomic():
        now = timezone.now()
        leg = Leg.objects.get(relay_id=relay_id, number=LEGS)
        Leg.objects.filter(pk=leg.pk).update(
            turns=leg.turns + 1, calls=leg.calls + 1, resident_tokens=tokens, peak_tokens=max(tokens, leg.peak_tokens)
        )
        Call.objects.create(
            leg=leg, key=f"bench-{time.time_ns()}", turn=leg.turns + 1, resident_tokens=tokens, input_tokens=12,
            cache_read=tokens - 12, at=now,
        )  # fmt: skip
        Relay.objects.filter(pk=relay_id).update(last_data_at=now, turns_used=F("turns_used") + 1)
        raise_number([f"relay:{relay_id}", "relays", "inbox"])


def regions(relay_id: str) -> list[str]:
    """What the relay's page shows, as its script names it."""
    parts = ("head", "kpis", "series", "legs", "side", "records&tab=batons", "tail", "scores")
    return ["/?part=count", *(f"/relays/{relay_id}/?part={part}" for part in parts)]


# ---- the site ----


@contextmanager
def _served(folder: Path) -> Iterator[tuple[int, int]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (folder / "web.log").open("wb") as log:
        web = subprocess.Popen(
            [
                sys.executable, "-m", "uvicorn", "tests.bench.live_app:application", "--host", "127.0.0.1",
                "--port", str(port), "--lifespan", "off", "--log-level", "warning", "--no-access-log",
                "--timeout-graceful-shutdown", "2",
            ],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 60
            while True:
                with contextlib.suppress(OSError):
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2).close()
                    break
                if web.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError((folder / "web.log").read_text(errors="replace")[-2000:])
                time.sleep(0.1)
            yield port, web.pid
        finally:
            web.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                web.wait(10)
            web.kill()


def _busy(pid: int) -> float:
    """Processor seconds of a process so far, all of its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _listeners(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{LISTENERS}", timeout=5) as answer:
        return int(answer.read())


# ---- the pages ----


@dataclass
class Page:
    """One stream as a page opens it; `told` has when which figure of the running leg came."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    told: dict[int, float] = field(default_factory=dict)
    bytes: int = 0

    async def listen(self) -> None:
        waiting = b""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
            while size := int((await self.reader.readline()).strip() or b"0", 16):
                chunk = await self.reader.readexactly(size)
                await self.reader.readexactly(2)
                now = time.time()
                self.bytes += size
                waiting += chunk
                *events, waiting = waiting.split(b"\n\n")
                for event in events:
                    if event.startswith(b"event: bye"):
                        raise RuntimeError(event.decode())
                    if event.startswith(b"event: region") and b"?part=kpis" in event[:200]:
                        found = _NOW.search(event)
                        if found:
                            self.told.setdefault(int(found[1].replace(b",", b"")), now)


async def _open(port: int, relay_id: str, cookie: str) -> Page:
    query = f"topics=inbox,relay:{relay_id}" + "".join(f"&r={quote(one, safe='')}" for one in regions(relay_id))
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    writer.write(
        f"GET /live/?{query} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: sessionid={cookie}\r\n"
        "Accept: text/event-stream\r\n\r\n".encode()
    )
    await writer.drain()
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise RuntimeError(f"a stream was refused: {head[:200]!r}")
    return Page(reader, writer)


_WATCH = """() => {
  window.seen = [];
  new MutationObserver(() => {
    const text = document.getElementById('r-kpis').innerText, found = /context now[^0-9]*([0-9,]+)/.exec(text);
    if (!found) return;
    const tokens = +found[1].replace(/,/g, '');
    requestAnimationFrame(() => setTimeout(() => seen.push([tokens, Date.now() / 1000])));
  }).observe(document.getElementById('graph'), { subtree: true, childList: true, characterData: true });
}"""


@contextlib.asynccontextmanager
async def _browser(port: int, relay_id: str, cookie: str) -> Any:
    """A real page among the others, None without a Chromium."""
    if CHROMIUM is None:
        yield None
        return
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        context = await browser.new_context(viewport={"width": 1440, "height": 1000})
        where = {"url": f"http://127.0.0.1:{port}"}
        await context.add_cookies([{"name": "sessionid", "value": cookie, **where}])  # type: ignore[typeddict-item]
        page = await context.new_page()
        await page.goto(f"http://127.0.0.1:{port}/relays/{relay_id}/")
        await page.wait_for_selector(".live[data-state=live]", state="visible")
        await page.evaluate(_WATCH)
        yield page
        await browser.close()


def _waits(committed: dict[int, float], told: dict[int, float], into: list[float]) -> int:
    """Seconds from each commit until this or a newer state was there; how many never were."""
    missed = 0
    for tokens, at in committed.items():
        came = min((moment for figure, moment in told.items() if figure >= tokens), default=None)
        if came is None:
            missed += 1
        else:
            into.append(came - at)
    return missed


async def _measure(
    port: int, pid: int, relay_id: str, cookies: list[str], pages: int, updates: int, dropped: int
) -> Measured:
    found = Measured()
    async with _browser(port, relay_id, cookies[-1]) as witness:
        several = pages - 1 if witness is not None else pages
        opened = [await _open(port, relay_id, cookies[number // EACH]) for number in range(several)]
        tasks = [asyncio.create_task(page.listen()) for page in opened]
        await asyncio.sleep(3)
        for page in opened:
            page.told.clear()
        committed: dict[int, float] = {}
        busy, began = _busy(pid), time.monotonic()
        for number in range(updates):
            tokens = 60_001 + 7 * number
            await asyncio.to_thread(update, relay_id, tokens)
            committed[tokens] = time.time()
            await asyncio.sleep(max(0.0, began + number + 1 - time.monotonic()))
        await asyncio.sleep(1)
        found.cpu = 100 * (_busy(pid) - busy) / (time.monotonic() - began)
        for page in opened:
            found.bytes += page.bytes
            found.missed += _waits(committed, page.told, found.heard)
        if witness is not None:
            first: dict[int, float] = {}
            for tokens, at in await witness.evaluate("() => seen"):
                first.setdefault(tokens, at)
            found.missed += _waits(committed, first, found.seen)
        await asyncio.sleep(1)
        stay = await asyncio.to_thread(_listeners, port)
        if stay != pages:
            raise RuntimeError(f"{stay} of {pages} pages listen")
        gone = opened[: min(dropped, len(opened))]
        for page in gone:
            page.writer.transport.abort()  # as a lost connection: nothing is said
        deadline = time.monotonic() + 20
        while (now := await asyncio.to_thread(_listeners, port)) > stay - len(gone) and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        found.left = max(0, now - (stay - len(gone)))
        for page in opened:
            page.writer.close()
        for task in tasks:
            task.cancel()
        ended = [one for one in await asyncio.gather(*tasks, return_exceptions=True) if isinstance(one, RuntimeError)]
    if ended:
        raise RuntimeError(f"{len(ended)} streams were ended: {ended[0]}")
    return found

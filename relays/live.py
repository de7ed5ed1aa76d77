"""The live updates: one poll per process tells every listening page which topics changed, and hands it what it shows.

Interface: "a change is on the screen within a second …; one cheap query per process and second, each region rendered
once per change and role, whatever the number of viewers". A page names the regions that it shows; after a change each
is rendered once for all who look at it in the same way and written to their streams. Nobody asks for it: three hundred
viewers cost three hundred writes and no requests.
"""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.db import Error as DatabaseError
from django.db import connection
from django.db.models import Max
from django.utils import translation
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _

from relays.models import Topic
from relays.reports.roles import READ, may, rights_of

log = logging.getLogger(__name__)

POLL = 0.25  # seconds between two looks at the change number
PAUSE = 2.0  # seconds until a database that did not answer is asked again
KEEP_ALIVE = 15.0  # seconds between two signs of life, and between two looks at the viewer's sign-in
RETRY = 2000  # milliseconds a browser waits before it connects again
CAP = 8  # streams of one user
SHOWN = 160  # regions of one user, over all of their streams

MOST_BUSY = 3  # rests this many times as long as it rendered: a quarter of a core at most
TOGETHER = 0.15  # seconds that a region waits for those that are rendered behind it
KNOWN = 5_000  # regions of which it is remembered what they depend on

#: (numbers above, look) -> (highest number, topics that changed since)
Read = Callable[[int | None], tuple[int, frozenset[str]]]


class TooManyListeners(Exception):
    """The user has `CAP` streams open already."""


def changed_since(number: int | None) -> tuple[int, frozenset[str]]:
    """The highest change number and the topics above `number`; with None only where the numbers stand. One query."""
    if number is None:
        return Topic.objects.aggregate(top=Max("number"))["top"] or 0, frozenset()
    rows = list(Topic.objects.filter(number__gt=number).values_list("number", "name"))
    return max((at for at, _ in rows), default=number), frozenset(name for _, name in rows)


@dataclass(frozen=True, slots=True)
class Made:
    """A region as it is now: `event` is the whole event of the stream, `topics` what it depends on."""

    etag: str
    event: bytes
    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class Look:
    """How a page looks at its regions: pages with the same `manner` (rights, language, zone) see the same bytes.

    `render`: an address of a region -> what it shows, None where this viewer may not see it or it is gone.
    """

    manner: tuple[object, ...]
    render: Callable[[str], Made | None]


@dataclass(eq=False)
class Listener:
    """One stream: its topics, and what it has not been told yet (newest wins, topics merged: never a backlog).

    `regions`: addresses of what its pages show; `due`: those that they are given whatever changed; `shown`: the ETag of
    what it was given last; `news`: what it is to be given. `since`: the change number up to which another stream told
    all of it, until what was missed is told; `number`: up to which this one did. `lost`: the database does not answer.
    """

    user_id: int
    topics: frozenset[str]
    pending: set[str] = field(default_factory=set)
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    regions: tuple[str, ...] = ()
    look: Look | None = None
    due: set[str] = field(default_factory=set)
    since: int | None = None
    number: int | None = None
    lost: bool = False
    shown: dict[str, str] = field(default_factory=dict)
    news: dict[str, bytes] = field(default_factory=dict)

    def tell(self, topics: frozenset[str]) -> None:
        news = topics & self.topics
        if news:
            self.pending |= news
            self.woken.set()

    def give(self, region: str, made: Made) -> None:
        """What the region shows now, unless the page has it."""
        if self.shown.get(region) != made.etag:
            self.shown[region] = made.etag
            self.news[region] = made.event
            self.woken.set()

    def take(self) -> list[str]:
        news = sorted(self.pending)
        self.pending.clear()
        self.woken.clear()
        return news

    def take_regions(self) -> bytes:
        news = b"".join(self.news.values())
        self.news.clear()
        return news


class Hub:
    """The listeners of one event loop and the one task that polls for them; with no listener nothing runs."""

    def __init__(self, read: Read = changed_since, poll: float = POLL) -> None:
        self.read = read
        self.poll = poll
        self.listeners: set[Listener] = set()
        # its own thread: a request's thread ends with the request, and its connection would go with it
        self.thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="live")
        self.task: asyncio.Task[None] | None = None
        self.joined = asyncio.Event()
        self.depends: dict[str, frozenset[str]] = {}  # region -> topics

    async def ask(self, function: Callable[..., Any], *args: Any) -> Any:
        """A database question, asked in the hub's thread."""
        return await asyncio.get_running_loop().run_in_executor(self.thread, function, *args)

    def join(
        self,
        user_id: int,
        topics: frozenset[str],
        regions: Sequence[str] = (),
        look: Look | None = None,
        kept: Sequence[str] = (),
        since: int | None = None,
    ) -> Listener:
        """A new listener, which is given its `regions` soon, and those of `kept` that changed after the number `since`;
        raises TooManyListeners at the cap. Regions above `SHOWN` are left out, and their pages ask for them."""
        others = [one for one in self.listeners if one.user_id == user_id]
        if len(others) >= CAP:
            raise TooManyListeners
        room = max(0, SHOWN - sum(len(one.regions) for one in others)) if look else 0
        given = tuple(dict.fromkeys([*regions, *kept]))[:room]
        due = set(regions if since is not None else given).intersection(given)
        listener = Listener(user_id, topics, regions=given, look=look, due=due, since=since)
        self.listeners.add(listener)
        self.joined.set()
        if self.task is None or self.task.done():
            self.task = asyncio.get_running_loop().create_task(self._run(), name="live")
        return listener

    def leave(self, listener: Listener) -> None:
        self.listeners.discard(listener)

    async def close(self) -> None:
        """Ends the poll, the thread and its connection; the hub is of no use afterwards."""
        self.listeners.clear()
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
        await self.ask(_disconnect)
        self.thread.shutdown()

    async def _run(self) -> None:
        number: int | None = None
        while self.listeners:
            try:
                number, topics = await self.ask(_guarded, self.read, number)
            except DatabaseError as error:
                log.warning("live: the change number could not be read (%s); trying again in %g s", error, PAUSE)
                self._say_lost(True)  # no page says that it is live while its numbers stand still
                await asyncio.sleep(PAUSE)
                continue
            self._say_lost(False)
            took = await self._pass(number, topics)
            self.joined.clear()
            with contextlib.suppress(TimeoutError):  # a page that opens meanwhile is given its regions at once
                await asyncio.wait_for(self.joined.wait(), max(self.poll, MOST_BUSY * took))

    def _say_lost(self, lost: bool) -> None:
        for listener in self.listeners:
            if listener.lost is not lost:
                listener.lost = lost
                listener.woken.set()

    async def _pass(self, number: int, topics: frozenset[str]) -> float:
        """Tell everybody what changed up to `number`, the regions first; the processor seconds that it took."""
        listeners = tuple(self.listeners)
        missed = await self._missed(listeners, number)
        news = {listener: topics | missed if listener.since is not None else topics for listener in listeners}
        took = await self._render(news)
        for listener in listeners:
            listener.since, listener.number = None, number
            listener.tell(news[listener])
        return took

    async def _missed(self, listeners: Sequence[Listener], number: int) -> frozenset[str]:
        """What changed since the streams before those that have just joined; one query, whatever their number."""
        since = [one.since for one in listeners if one.since is not None]
        if not since:
            return frozenset()
        if max(since) > number:  # of another database: nothing is known
            for listener in listeners:
                if listener.since is not None:
                    listener.due.update(listener.regions)
            return frozenset().union(*(one.topics for one in listeners if one.since is not None))
        try:
            _, missed = await self.ask(_guarded, self.read, min(since))
        except DatabaseError as error:
            log.warning("live: what was missed could not be read (%s); all of it is told", error)
            return frozenset().union(*(one.topics for one in listeners if one.since is not None))
        return frozenset(missed)

    async def _render(self, news: Mapping[Listener, frozenset[str]]) -> float:
        """Render what changed for each, once for all pages that look at it in the same way, and give it to each of
        them; the processor seconds that it took."""
        wanted: dict[tuple[str, tuple[object, ...]], list[Listener]] = {}
        for listener, topics in news.items():
            if listener.look is not None and (listener.due or topics & listener.topics):
                for region in listener.regions:
                    depends = self.depends.get(region)
                    if region in listener.due or (topics & listener.topics if depends is None else depends & topics):
                        wanted.setdefault((region, listener.look.manner), []).append(listener)
                listener.due.clear()
        took = 0.0
        loop = asyncio.get_running_loop()
        since, ready = loop.time(), list[tuple[Listener, str, Made]]()
        for (region, _manner), listeners in wanted.items():
            look = listeners[0].look
            if look is None:
                continue
            made, again, seconds = await self.ask(_rendered, look.render, region)
            took += seconds
            if made is None:
                if again:
                    for listener in listeners:
                        listener.due.add(region)
                continue
            if len(self.depends) >= KNOWN:
                self.depends.clear()
            self.depends[region] = made.topics
            ready += [(listener, region, made) for listener in listeners]
            if loop.time() - since > TOGETHER:
                _give(ready)
                since = loop.time()
        _give(ready)
        return took


def _give(ready: list[tuple[Listener, str, Made]]) -> None:
    """Regions that are rendered soon after each other go out as one write a page."""
    for listener, region, made in ready:
        listener.give(region, made)
    ready.clear()


def _rendered(render: Callable[[str], Made | None], region: str) -> tuple[Made | None, bool, float]:
    """The region, whether it is to be tried again soon, and the processor seconds that it took. One that fails leaves
    the others as they are."""
    begun, again = time.thread_time(), False
    try:
        return render(region), again, time.thread_time() - begun
    except DatabaseError as error:
        log.warning("live: %s could not be rendered: %s", region, error)
        connection.close()
        again = True
    except Exception:
        log.exception("live: %s could not be rendered", region)
    return None, again, time.thread_time() - begun


def _guarded(function: Callable[..., Any], asked: Any) -> Any:
    try:
        return function(asked)
    except DatabaseError:
        connection.close()  # a broken connection must not be asked again
        raise


def _disconnect() -> None:
    connection.close()  # looked up here: each thread has its own


_hubs: "WeakKeyDictionary[asyncio.AbstractEventLoop, Hub]" = WeakKeyDictionary()


def hub() -> Hub:
    """The hub of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs[loop] = Hub()
    return _hubs[loop]


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who listens, as it was when the stream was opened."""

    user_id: int
    session_key: str
    session_hash: str
    rights: frozenset[str]
    language: str  # of the page


def why_not(viewer: Viewer) -> str:
    """Why a viewer may listen no longer, or ``""``: signed out, deactivated, password or roles changed.

    The page shows it as it is, so it is said in the page's language.
    """
    with translation.override(viewer.language):
        return _why_not(viewer)


def _why_not(viewer: Viewer) -> str:
    user = User.objects.filter(pk=viewer.user_id, is_active=True).first()
    if user is None:
        return _("this account is not active any more")
    if not SessionStore().exists(viewer.session_key):
        return _("signed out: reload the page")
    if not constant_time_compare(user.get_session_auth_hash(), viewer.session_hash):
        return _("signed out: reload the page")
    if not may(user, READ) or rights_of(user) != viewer.rights:
        return _("your roles changed: reload the page")
    return ""


def line(event: str, **data: object) -> bytes:
    """One event of the stream."""
    return f"event: {event}\ndata: {json.dumps(data)}\n\n".encode()


async def stream(
    listener: Listener, at: Hub, viewer: Viewer, keep_alive: float = KEEP_ALIVE, build: str = ""
) -> AsyncIterator[bytes]:
    """The body of one stream until the viewer leaves or may not look any more. `build` tells a page that stayed open
    across an upgrade that another version runs; `number` is what the next stream goes on from."""
    try:
        yield f"retry: {RETRY}\n\n".encode() + line("hello", build=build, regions=listener.regions)
        loop = asyncio.get_running_loop()
        check_at, lost = loop.time() + keep_alive, False
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(listener.woken.wait(), max(check_at - loop.time(), 0.01))
            if loop.time() >= check_at:  # also for one that reads so slowly that there is always news
                try:
                    why = await at.ask(_guarded, why_not, viewer)
                except DatabaseError:
                    check_at = loop.time() + PAUSE
                    continue
                if why:
                    yield line("bye", why=why)
                    return
                check_at = loop.time() + keep_alive
                # a comment keeps proxies awake; scripts cannot see it, so the page gets an event too
                yield b": keep-alive\n" + line("alive", number=listener.number)
            if not listener.woken.is_set():
                continue
            if listener.lost is not lost:
                lost = listener.lost
                yield line("down") if lost else line("alive", number=listener.number)
            topics = listener.take()
            if not topics and not listener.news:
                continue
            # the regions first: who hears of a change asks only for what it was not given
            yield listener.take_regions() + line("change", topics=topics, number=listener.number)
    finally:
        at.leave(listener)

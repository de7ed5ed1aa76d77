"""The live stream: topics that were asked for, merged and newest first; caps; an end when the viewer may not look."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.http import QueryDict
from django.test import AsyncClient, Client

from relays import live
from relays.live import CAP, SHOWN, Hub, TooManyListeners, Viewer, changed_since, stream, why_not
from relays.views import live_view
from relaysite.assets import build
from tests.web_builders import bump, make_relay, make_user

ClientOf = Callable[..., Client]
FEW = 0.01


class Numbers:
    """A change number that the test moves."""

    def __init__(self) -> None:
        self.number = 7
        self.topics: dict[str, int] = {}
        self.asked = 0
        self.broken = False

    def change(self, *topics: str) -> None:
        self.number += 1
        self.topics |= dict.fromkeys(topics, self.number)

    def read(self, number: int | None) -> tuple[int, frozenset[str]]:
        self.asked += 1
        if self.broken:
            self.broken = False
            raise OperationalError("gone")
        if number is None:
            return self.number, frozenset()
        return self.number, frozenset(name for name, at in self.topics.items() if at > number)


async def heard(listener: live.Listener) -> list[str]:
    while True:
        await asyncio.wait_for(listener.woken.wait(), 3)
        if news := listener.take():
            return news


def test_a_listener_hears_its_topics_and_no_others() -> None:
    async def run() -> None:
        numbers = Numbers()
        hub = Hub(numbers.read, FEW)
        inbox, relay = hub.join(1, frozenset({"inbox"})), hub.join(2, frozenset({"relay:RLY-1"}))
        await asyncio.sleep(5 * FEW)
        numbers.change("relay:RLY-1", "relay:RLY-2")
        assert await heard(relay) == ["relay:RLY-1"]
        assert not inbox.woken.is_set()
        numbers.change("inbox")
        assert await heard(inbox) == ["inbox"]

    asyncio.run(run())


def test_what_a_slow_listener_missed_is_merged_into_one() -> None:
    async def run() -> None:
        numbers = Numbers()
        hub = Hub(numbers.read, FEW)
        slow = hub.join(1, frozenset({"inbox", "relays"}))
        await asyncio.sleep(5 * FEW)
        for _ in range(20):
            numbers.change("inbox")
            await asyncio.sleep(FEW)
        numbers.change("relays")
        await asyncio.sleep(5 * FEW)
        assert await heard(slow) == ["inbox", "relays"] and not slow.woken.is_set()

    asyncio.run(run())


def test_one_poll_serves_all_and_none_runs_without_listeners() -> None:
    async def run() -> None:
        numbers = Numbers()
        hub = Hub(numbers.read, FEW)
        listeners = [hub.join(user, frozenset({"inbox"})) for user in range(50)]
        await asyncio.sleep(20 * FEW)
        assert 0 < numbers.asked <= 25
        for listener in listeners:
            hub.leave(listener)
        await asyncio.sleep(5 * FEW)
        asked = numbers.asked
        await asyncio.sleep(10 * FEW)
        assert numbers.asked == asked
        again = hub.join(1, frozenset({"inbox"}))  # and it starts again
        await asyncio.sleep(5 * FEW)
        numbers.change("inbox")
        assert await heard(again) == ["inbox"]

    asyncio.run(run())


@pytest.mark.slow
@pytest.mark.postgres
def test_a_database_that_fails_once_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        numbers = Numbers()
        numbers.broken = True
        hub = Hub(numbers.read, FEW)
        listener = hub.join(1, frozenset({"inbox"}))
        await asyncio.sleep(2.1)
        numbers.change("inbox")
        assert await heard(listener) == ["inbox"]

    monkeypatch.setattr(live.connection, "close", lambda: None)
    asyncio.run(run())


def test_no_page_says_live_while_the_database_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "PAUSE", 10 * FEW)
    monkeypatch.setattr(live.connection, "close", lambda: None)
    numbers, fails = Numbers(), [True]

    def render(region: str) -> live.Made:
        if fails[0]:
            fails[0] = False
            raise OperationalError("gone")
        return live.Made("1", b"event: region\ndata: {}\n\n", frozenset({"inbox"}))

    async def run() -> None:
        hub = Hub(numbers.read, FEW)
        listener = hub.join(1, frozenset({"inbox"}), ("/a",), live.Look((), render))
        content = stream(listener, hub, Viewer(1, "", "", frozenset(), ""), 60)
        assert "event: hello" in (await lines(content, 1))[0]
        assert "event: region" in (await lines(content, 1))[0], "a region that could not be read is tried again"
        numbers.broken = True
        numbers.change("inbox")
        (down, alive, change) = await lines(content, 3)
        assert down.startswith("event: down") and alive.startswith("event: alive")
        assert "event: change" in change and '"inbox"' in change, "what was missed is told"

    asyncio.run(run())


def test_streams_of_one_user_are_capped() -> None:
    async def run() -> None:
        hub = Hub(Numbers().read, FEW)
        mine = [hub.join(1, frozenset({"inbox"})) for _ in range(CAP)]
        with pytest.raises(TooManyListeners):
            hub.join(1, frozenset({"inbox"}))
        hub.join(2, frozenset({"inbox"}))
        hub.leave(mine[0])
        hub.join(1, frozenset({"inbox"}))

    asyncio.run(run())


@pytest.mark.django_db
def test_the_change_number_is_read_with_one_query(django_assert_num_queries: Callable[..., object]) -> None:
    bump("inbox", "relays")
    bump("inbox")
    with django_assert_num_queries(2):  # type: ignore[attr-defined]
        assert changed_since(None) == (2, frozenset())
        assert changed_since(1) == (2, frozenset({"inbox"}))
    assert changed_since(2) == (2, frozenset())


# ---- the viewer ----


def viewer_of(client: Client) -> Viewer:
    user = User.objects.get(pk=client.session["_auth_user_id"])
    return Viewer(user.pk, client.session.session_key or "", user.get_session_auth_hash(), live.rights_of(user), "en")


@pytest.mark.django_db
def test_a_stream_ends_for_who_may_not_look_any_more(client_of: ClientOf) -> None:
    client = client_of("reviewer")
    viewer = viewer_of(client)
    assert why_not(viewer) == ""
    user = User.objects.get(pk=viewer.user_id)
    user.groups.add(Group.objects.get_or_create(name="operator")[0])
    assert "roles changed" in why_not(viewer)
    user.groups.set([Group.objects.get(name="reviewer")])
    user.set_password("another one")
    user.save()
    assert "signed out" in why_not(viewer)
    client.force_login(user)
    viewer = viewer_of(client)
    User.objects.update(is_active=False)
    assert "not active" in why_not(viewer)
    User.objects.update(is_active=True)
    assert why_not(viewer) == ""
    client.post("/sign-out/")
    assert "signed out" in why_not(viewer)
    User.objects.all().delete()
    assert "not active" in why_not(viewer)


def test_one_that_reads_slowly_is_looked_at_again_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "why_not", lambda viewer: "this account is not active any more")

    async def run() -> None:
        hub = Hub(Numbers().read, FEW)
        listener = hub.join(1, frozenset({"inbox"}))
        content = stream(listener, hub, Viewer(1, "", "", frozenset(), "en"), 3 * FEW)
        got = [await anext(content)]
        for _ in range(8):  # whenever it comes back there is news
            listener.tell(frozenset({"inbox"}))
            await asyncio.sleep(FEW)
            try:
                got.append(await asyncio.wait_for(anext(content), 3))
            except StopAsyncIteration:
                break
        assert b"event: bye" in got[-1] and not hub.listeners

    asyncio.run(run())


# ---- over HTTP ----


async def lines(content: AsyncIterator[bytes], count: int) -> list[str]:
    got = []
    for _ in range(count):
        got.append((await asyncio.wait_for(anext(content), 5)).decode())
    return got


@pytest.mark.django_db(transaction=True)
def test_a_change_is_heard_within_a_second_and_a_sign_out_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "__defaults__", (0.5, ""))

    async def run() -> None:
        user = await sync_to_async(make_user)("", "manager")
        client = AsyncClient()
        await client.aforce_login(user)
        answer = await client.get("/live/?topics=inbox,relay:RLY-1")
        assert answer.status_code == 200 and answer["Content-Type"] == "text/event-stream"
        assert answer["X-Accel-Buffering"] == "no" and "no-cache" in answer["Cache-Control"]
        content = aiter(answer.streaming_content)
        (hello,) = await lines(content, 1)
        assert hello.startswith("retry: ") and "event: hello" in hello and f'"build": "{build()}"' in hello
        await asyncio.sleep(0.3)
        await sync_to_async(bump)("relay:RLY-2", "inbox")
        (change,) = await lines(content, 1)
        assert change.startswith("event: change")
        told = json.loads(change.split("data: ")[1])
        assert told["topics"] == ["inbox"] and told["number"] == 1
        (alive,) = await lines(content, 1)
        assert alive.startswith(": keep-alive\n") and "event: alive" in alive
        await sync_to_async(Session.objects.all().delete)()
        (bye,) = await lines(content, 1)
        assert "event: bye" in bye and "signed out" in bye
        with pytest.raises(StopAsyncIteration):
            await anext(content)
        assert not live.hub().listeners
        await live.hub().close()

    asyncio.run(run())


@pytest.mark.django_db(transaction=True)
def test_above_the_cap_the_page_polls() -> None:
    async def run() -> None:
        user = await sync_to_async(make_user)("", "manager")
        client = AsyncClient()
        await client.aforce_login(user)
        at = live.hub()
        for _ in range(CAP):
            at.join(user.pk, frozenset({"inbox"}))
        answer = await client.get("/live/?topics=inbox")
        assert answer.status_code == 429 and answer["Retry-After"] == "15"
        await at.close()

    asyncio.run(run())


@pytest.mark.django_db(transaction=True)
def test_windows_that_were_made_for_somebody_else_are_given_nothing() -> None:
    """Whoever signs in after them in the same browser has a stream of their own."""

    async def run() -> None:
        before, after = [await sync_to_async(make_user)(name, "manager") for name in ("before", "after")]
        client = AsyncClient()
        await client.aforce_login(after)
        answer = await client.get(f"/live/?who={before.pk}&topics=inbox")
        assert not answer.streaming and answer["Content-Type"] == "text/event-stream"
        assert answer.content.startswith(b"event: bye\n") and b"signed out" in answer.content
        own = await client.get(f"/live/?who={after.pk}&topics=inbox")
        (hello,) = await lines(aiter(own.streaming_content), 1)
        assert "event: hello" in hello
        await live.hub().close()

    asyncio.run(run())


@pytest.mark.django_db
def test_without_asgi_there_is_no_stream_and_no_error(client_of: ClientOf) -> None:
    assert client_of("manager").get("/live/?topics=inbox").status_code == 204


@pytest.mark.django_db
@pytest.mark.parametrize(
    "topics", ["", "secrets", "inbox,relay:", "relay:a b", "relay:" + "x" * 99, "inbox," * 3 + "*"]
)
def test_words_that_are_no_topics_are_refused(client_of: ClientOf, topics: str) -> None:
    assert client_of("manager").get("/live/", {"topics": topics}).status_code == 400


@pytest.mark.django_db
def test_too_many_topics_are_refused(client_of: ClientOf) -> None:
    many = ",".join(f"relay:{n}" for n in range(live_view.MOST_TOPICS + 1))
    assert client_of("manager").get("/live/", {"topics": many}).status_code == 400


@pytest.mark.django_db
def test_the_stream_needs_sign_in_a_role_and_get(client_of: ClientOf) -> None:
    assert Client().get("/live/?topics=inbox").status_code == 302
    assert client_of().get("/live/?topics=inbox").status_code == 403
    assert client_of("admin").post("/live/?topics=inbox").status_code == 405


# ---- regions that are handed over ----


def test_a_region_is_rendered_once_for_all_who_look_alike_and_only_when_it_changed() -> None:
    rendered: list[tuple[str, str]] = []
    text = {"/a": "one", "/b": "same"}

    def look(who: str) -> live.Look:
        def render(region: str) -> live.Made | None:
            rendered.append((who, region))
            if region == "/gone":
                return None
            return live.Made(text[region], f"{who} {text[region]};".encode(), frozenset({"relay:1"}))

        return live.Look((who,), render)

    async def run() -> None:
        numbers = Numbers()
        hub = Hub(numbers.read, FEW)
        pages = [hub.join(n, frozenset({"relay:1", "inbox"}), ("/a", "/b", "/gone"), look("reader")) for n in range(40)]
        other = hub.join(99, frozenset({"relay:1"}), ("/a",), look("admin"))
        await asyncio.sleep(10 * FEW)
        assert sorted(rendered) == [("admin", "/a"), ("reader", "/a"), ("reader", "/b"), ("reader", "/gone")]
        assert {page.take_regions() for page in pages} == {b"reader one;reader same;"}
        assert other.take_regions() == b"admin one;"
        rendered.clear()
        text["/a"] = "two"
        numbers.change("relay:1")
        await asyncio.sleep(10 * FEW)
        assert rendered.count(("reader", "/a")) == rendered.count(("admin", "/a")) == 1
        assert {page.take_regions() for page in pages} == {b"reader two;"}, "what did not change is not given again"
        rendered.clear()
        numbers.change("inbox")
        await asyncio.sleep(10 * FEW)
        assert [region for _, region in rendered] == ["/gone"], "what does not depend on a topic is not looked at"

    asyncio.run(run())


def test_a_stream_goes_on_where_the_one_before_it_ended() -> None:
    rendered: list[str] = []

    def render(region: str) -> live.Made:
        rendered.append(region)
        return live.Made(f"{numbers.number}", region.encode(), frozenset({region[1:]}))

    numbers = Numbers()
    look = live.Look((), render)

    async def run() -> None:
        hub = Hub(numbers.read, FEW)
        topics = frozenset({"a", "b", "c"})
        first = hub.join(1, topics, ("/a", "/b"), look)
        await asyncio.sleep(10 * FEW)
        assert (first.number, sorted(rendered)) == (7, ["/a", "/b"])
        hub.leave(first)
        numbers.change("b")  # nobody listens
        rendered.clear()
        second = hub.join(1, topics, ("/c",), look, ("/a", "/b"), first.number)
        assert await heard(second) == ["b"], "what was missed is told"
        assert sorted(rendered) == ["/b", "/c"], "what did not change meanwhile is not rendered again"
        assert second.take_regions() == b"/c/b" and second.number == 8
        rendered.clear()
        numbers.change("a")
        assert await heard(second) == ["a"] and rendered == ["/a"], "kept ones are followed as the others are"
        for since in (None, 99):  # unknown, and of another database
            rendered.clear()
            other = hub.join(2, topics, (), look, ("/a", "/b"), since)
            await asyncio.sleep(10 * FEW)
            assert sorted(rendered) == ["/a", "/b"], since
            hub.leave(other)

    asyncio.run(run())


def test_regions_of_one_user_are_capped_over_all_streams() -> None:
    async def run() -> None:
        hub = Hub(Numbers().read, FEW)
        look = live.Look((), lambda region: None)
        many = [f"/{n}" for n in range(SHOWN - 10)]
        assert len(hub.join(1, frozenset({"a"}), many, look).regions) == SHOWN - 10
        assert hub.join(1, frozenset({"a"}), many, look, ["/x"]).regions == tuple(many[:10])
        assert len(hub.join(2, frozenset({"a"}), many, look).regions) == SHOWN - 10

    asyncio.run(run())


def test_a_region_that_fails_leaves_the_others_as_they_are() -> None:
    def render(region: str) -> live.Made | None:
        if region == "/bad":
            raise ZeroDivisionError
        return live.Made("1", b"good;", frozenset())

    async def run() -> None:
        hub = Hub(Numbers().read, FEW)
        page = hub.join(1, frozenset({"inbox"}), ("/bad", "/good"), live.Look((), render))
        await asyncio.sleep(10 * FEW)
        assert page.take_regions() == b"good;"

    asyncio.run(run())


@pytest.mark.django_db
def test_regions_are_parts_of_our_pages_as_this_viewer_may_see_them(client_of: ClientOf) -> None:
    relay = make_relay()
    client = client_of("manager")
    request = client.get(f"/relays/{relay.pk}/?part=head").wsgi_request
    request.GET = QueryDict(
        f"r=/relays/{relay.pk}/?part=kpis&r=/relays/nobody/?part=kpis&r=//elsewhere/?part=a&r=/healthz&r=/live/?part=a"
        f"&r=/relays/{relay.pk}/&r=/nowhere/?part=a&r=/start/?part=a%26repo=/&r=/users/?part=a"
        f"&r=/relays/{relay.pk}/%3Fpart=kpis%26format=text"
    )
    assert live_view.asked_regions(request) == (f"/relays/{relay.pk}/?part=kpis", "/relays/nobody/?part=kpis")
    look = live_view.look_of(request, live_view.viewer_of(request))
    made = look.render(f"/relays/{relay.pk}/?part=kpis")
    assert made is not None and made.topics == {f"relay:{relay.pk}"}
    told = json.loads(made.event.partition(b"data: ")[2])
    answer = client.get(f"/relays/{relay.pk}/?part=kpis")
    assert (told["body"], told["etag"]) == (answer.content.decode(), answer["ETag"]), "the same as if it had been asked"
    assert look.render("/relays/nobody/?part=kpis") is None

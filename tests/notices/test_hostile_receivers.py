"""Receivers, names and words that mean ill: each costs a worker no more than its bound, and nobody else their turn."""

import contextlib
import hashlib
import importlib
import json
import logging
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from relays.actions import notifications as acting
from relays.actions.base import Actor, Refused
from relays.driver import gates
from relays.models import Channel, Delivery, Notice, Relay, Subscription
from relays.notices import delivery, sealed, sending, words
from relays.reports import health
from tests.notices.receiver import Receiver
from tests.web_builders import make_relay, make_user

pytestmark = pytest.mark.django_db


def channel_to(url: str) -> Channel:
    return acting.add_channel(Actor(make_user("", "admin")), name="team", url=url).channel


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Half a second of modules is no part of how long a receiver was waited for."""
    import apprise

    apprise.Apprise.instantiate("gotify://127.0.0.1/tokentokentoken")


def told(url: str) -> Subscription:
    user = make_user("", "reviewer")
    return acting.subscribe(Actor(user), channel_to(url).pk, scope="all", events=["gate_opened"])


def opened(n: int = 1, **values: object) -> list[Relay]:
    relays = [make_relay(**values) for _ in range(n)]
    for relay in relays:
        gates.open_episode(relay.pk, "RELAY_NO_PROGRESS", leg=None, items=["it stopped"], now=timezone.now())
    return relays


@contextmanager
def dripping(says: bytes) -> Iterator[int]:
    """A receiver that says this first and then one byte every 30 ms for as long as it is let; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        server.settimeout(10)

        def drip() -> None:
            link, _ = server.accept()
            with link, contextlib.suppress(OSError):
                link.sendall(says)
                for _ in range(1000):
                    link.sendall(b"x")
                    time.sleep(0.03)

        done = pool.submit(drip)
        yield server.getsockname()[1]
        done.result(20)


@pytest.mark.parametrize(
    ("scheme", "says"),
    [
        ("https://127.0.0.1:{}/", b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc"),  # a handshake that never ends
        ("gotify://127.0.0.1:{}/tokentokentoken", b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n"),
        ("gotifys://127.0.0.1:{}/tokentokentoken", b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc"),
        ("mailto://ann:secretsecret@example.org:{}/bob@example.org?smtp=127.0.0.1&mode=insecure", b"220-"),
    ],
)
def test_whoever_drips_is_given_up_in_time(
    scheme: str, says: bytes, private: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "WHOLE", 0.5)
    with dripping(says) as port:
        channel = channel_to(scheme.format(port))
        begun = time.monotonic()
        answer = delivery.test(channel, "me")
        took = time.monotonic() - begun
    assert not answer.sent and "no answer" in answer.text, answer
    assert took < 10


def test_a_name_server_that_is_silent_is_given_up(private: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "WHOLE", 0.3)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: time.sleep(30))
    begun = time.monotonic()
    answer = delivery.test(channel_to("https://receiver.example/"), "me")
    assert not answer.sent and "no answer" in answer.text and time.monotonic() - begun < 10


@pytest.mark.slow
def test_a_silent_receiver_takes_no_turn_of_others(
    receiver: Receiver, private: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "WHOLE", 0.3)
    monkeypatch.setattr(delivery, "SLOW", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        told(f"http://127.0.0.1:{silent.getsockname()[1]}/")
        told(receiver.url)
        opened(12)
        delivery.work()
    assert len(receiver.got) == 12
    tried = Delivery.objects.filter(answer__startswith="no answer")
    assert tried.count() == 1, "the others of that receiver wait as long as it"
    assert not delivery._due(timezone.now()).exists()


def test_words_of_a_person_are_no_markup_and_call_nobody(receiver: Receiver, private: None) -> None:
    told(f"gotify://127.0.0.1:{receiver.port}/tokentokentoken?format=markdown")
    objective = "Do [it](http://evil.example) *now*\r\nX-Header: 1 @everyone <!channel>\u202egnp.exe" + "\u05d0" * 9000
    opened(objective=objective)
    receiver.answers = [(200, {}, b"{}")]
    assert delivery.work() == 1
    (got,) = receiver.got
    body = json.loads(got.body)["message"]
    assert "X-Header" not in got.headers and "\u202e" not in body and len(body) < 2000
    assert "[it](http" not in body and "*now*" not in body.replace("\\*", "") and "@everyone" not in body
    title = json.loads(got.body)["title"]
    assert "\n" not in title and "waits for a person" in title


@pytest.mark.slow
def test_a_storm_is_one_message_to_people_and_each_event_to_a_program(receiver: Receiver, private: None) -> None:
    told(f"gotify://127.0.0.1:{receiver.port}/tokentokentoken")
    told(f"{receiver.url}/hook")
    receiver.answers = [(200, {}, b"{}")]
    relays = opened(60)
    for _ in range(3):
        delivery.work()
    people = [json.loads(got.body) for got in receiver.got if got.path == "/message"]
    assert len([got for got in receiver.got if got.path == "/hook"]) == 60
    (one,) = people
    assert "60 notices" in one["title"] and relays[0].pk in one["message"] and "and 50 more" in one["message"]
    assert set(Delivery.objects.values_list("state", flat=True)) == {"sent"}
    # the next one comes with whatever else came until a minute is over
    opened(2)
    delivery.work()
    assert sum(got.path == "/message" for got in receiver.got) == 1
    Delivery.objects.update(not_before=timezone.now())
    Delivery.objects.filter(state="sent").update(done_at=timezone.now() - timedelta(minutes=2))
    delivery.work()
    assert json.loads(receiver.got[-1].body)["title"] == "2 notices at once"


@pytest.mark.django_db
def test_a_gate_behind_those_that_are_named_makes_the_message_urgent_and_what_cannot_be_told_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    relay = make_relay()
    done = [Notice(pk=n, event=Notice.Event.RELAY_DONE, relay=relay) for n in range(words.NAMED)]
    gate = Notice(pk=99, event=Notice.Event.GATE_OPENED, relay=relay)
    assert not words.together(done).urgent and words.together([*done, gate]).urgent
    monkeypatch.setattr(words, "told", None)
    broken = Notice(pk=7, event=Notice.Event.MONTHLY_REPORT, detail={"lines": ["a"]})
    said = words.together([broken, *done])
    assert "and 2 more" in said.text and "notice 7 could not be told by name" in caplog.text


def test_a_storm_that_does_not_arrive_is_tried_again_as_one(receiver: Receiver, private: None) -> None:
    told(f"gotify://127.0.0.1:{receiver.port}/tokentokentoken")
    receiver.answers = [(500, {}, b"{}"), (200, {}, b"{}")]
    opened(20)
    delivery.work()
    assert len(receiver.got) == 1 and set(Delivery.objects.values_list("state", "attempts")) == {("waiting", 1)}
    Delivery.objects.update(not_before=timezone.now())
    delivery.work()
    assert len(receiver.got) == 2 and set(Delivery.objects.values_list("state", flat=True)) == {"sent"}


@pytest.mark.parametrize("how", ["let in no more", "without a role", "told no more"])
def test_a_try_hours_later_tells_nobody_who_may_not_hear_it_any_more(
    how: str, receiver: Receiver, private: None
) -> None:
    row = told(receiver.url)
    receiver.answers = [(503, {}, b"")]
    opened()
    delivery.work()
    assert Delivery.objects.get().state == "waiting"
    if how == "let in no more":
        type(row.user).objects.filter(pk=row.user_id).update(is_active=False)
    elif how == "without a role":
        row.user.groups.clear()
    else:
        acting.unsubscribe(Actor(row.user), row.pk)
    Delivery.objects.update(not_before=timezone.now())
    delivery.work()
    assert len(receiver.got) == 1 and not Delivery.objects.exists()


# --- what an address holds


SECRET = "TIiajkdnlazkcOXrIdevi7FQ"


def stored() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM relays_channel")
        return repr(cursor.fetchall())


def test_an_address_lies_sealed_in_the_database(receiver: Receiver, private: None, settings) -> None:  # type: ignore[no-untyped-def]
    channel = channel_to(f"{receiver.url}/services/{SECRET}")
    assert SECRET not in stored() and "/services/" not in stored()
    assert delivery.test(channel, "me").sent and receiver.got[0].path == f"/services/{SECRET}"
    with pytest.raises(Refused, match="has this address"):
        channel_to(f"{receiver.url}/services/{SECRET}")
    settings.SECRET_KEY = "another key of this site, long enough for it"
    Notice.objects.all().delete()
    answer = delivery.test(channel, "me")
    assert not answer.sent and "another SECRET_KEY" in answer.text and len(receiver.got) == 1


def test_addresses_of_before_are_sealed_by_the_migration(receiver: Receiver, private: None) -> None:
    row = told(f"{receiver.url}/{SECRET}")
    Channel.objects.update(url=f"{receiver.url}/{SECRET}", key="0" * 64)
    importlib.import_module("relays.migrations.0022_sealed_addresses").seal_all(apps, None)
    assert SECRET not in stored() and sealed.opened(Channel.objects.get(pk=row.channel_id).url) is not None
    opened()
    assert delivery.work() == 1
    with pytest.raises(Refused, match="has this address"):
        channel_to(f"{receiver.url}/{SECRET}")


def test_a_site_channel_keeps_its_secret_and_what_waits_through_the_migration_and_back(
    receiver: Receiver, private: None, settings
) -> None:  # type: ignore[no-untyped-def]
    migration = importlib.import_module("relays.migrations.0022_sealed_addresses")
    url, mine = f"{receiver.url}/{SECRET}", f"{receiver.url}/mine"
    settings.NOTIFY_URLS = (url,)
    told(mine)
    opened()
    delivery.spread(timezone.now())
    bare = {url: hashlib.sha256(f"site {url}".encode()).hexdigest(), mine: hashlib.sha256(mine.encode()).hexdigest()}
    Channel.objects.filter(site=True).update(key=bare[url], salt="of a secret that was shown")
    Channel.objects.filter(site=False).update(key=bare[mine], url=mine)
    before = list(Channel.objects.order_by("pk").values_list("pk", "key", "url", "salt"))
    migration.seal_all(apps, None)
    assert not any(digest in stored() for digest in bare.values())
    migration.open_all(apps, None)
    assert list(Channel.objects.order_by("pk").values_list("pk", "key", "url", "salt")) == before
    migration.seal_all(apps, None)
    assert delivery.work() == 2 and sorted(got.path for got in receiver.got) == sorted(["/mine", f"/{SECRET}"])
    site = Channel.objects.get(site=True)
    assert site.active and site.salt == "of a secret that was shown" and Channel.objects.count() == 2


def test_of_an_address_that_is_forgotten_no_bare_digest_stays(receiver: Receiver) -> None:
    migration = importlib.import_module("relays.migrations.0022_sealed_addresses")
    row, bare = channel_to(f"{receiver.url}/{SECRET}"), hashlib.sha256(b"site of before").hexdigest()
    Channel.objects.filter(pk=row.pk).update(site=True, url="", key=bare, salt=bare)
    migration.seal_all(apps, None)
    assert bare not in stored()


@pytest.mark.parametrize("scheme", ["gotify://127.0.0.1:{}/", "slack://T1JJ3T3L2/A1BRTD4JD/"])
def test_no_secret_of_an_address_is_logged_at_any_level(
    scheme: str, receiver: Receiver, private: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler, root = Kept(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        monkeypatch.setattr(sending, "WHOLE", 5.0)
        receiver.answers = [(500, {}, SECRET.encode()), (500, {}, b"")]
        answer = delivery.test(channel_to(f"{scheme.format(receiver.port)}{SECRET}"), "me")
        logging.getLogger("relays").debug("seen")
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert not answer.sent and SECRET not in answer.text
    assert lines and SECRET not in "\n".join(lines)


def test_what_a_client_raises_is_told_without_the_address(
    private: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> Callable[[], None]:
        raise RuntimeError(f"no way to https://receiver.example/{SECRET}")

    monkeypatch.setattr(sending, "_post", fail)
    answer = delivery.test(channel_to(f"https://receiver.example/{SECRET}"), "me")
    assert answer.text == "RuntimeError: it could not be sent; see the worker's log"
    assert "RuntimeError" in caplog.text and SECRET not in caplog.text
    assert Delivery.objects.get().state == "dead", "and no try of it is left open"


def test_health_says_that_links_lead_nowhere_where_nobody_set_the_address(settings) -> None:  # type: ignore[no-untyped-def]
    channel_to("http://127.0.0.1:9/hook")
    (fine,) = health.notices()
    assert fine.state == "ok", "a receiver on this machine reads them rightly"
    channel_to("https://receiver.example/hook")
    (found,) = health.notices()
    assert found.state == "warning" and "http://127.0.0.1:8000" in found.detail and "PUBLIC_URL" in found.fix
    settings.PUBLIC_URL = "https://relays.example"
    (fine,) = health.notices()
    assert fine.state == "ok"


def test_one_that_cannot_be_told_keeps_no_other_from_its_turn(
    receiver: Receiver, private: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(receiver.url)
    broken, _ = opened(2)
    payload = words.payload

    def of(notice: Notice, number: int) -> dict[str, object]:
        if notice.relay_id == broken.pk:
            raise KeyError(SECRET)
        return payload(notice, number)

    monkeypatch.setattr(words, "payload", of)
    assert delivery.work() == 1 and len(receiver.got) == 1
    assert Delivery.objects.get(notice__relay=broken).answer == "KeyError: it could not be sent; see the worker's log"


def test_among_many_one_that_cannot_be_told_is_counted(
    receiver: Receiver, private: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(f"gotify://127.0.0.1:{receiver.port}/tokentokentoken")
    broken, *others = opened(delivery.ALONE + 2)
    of = words.of

    def some(notice: Notice) -> words.Words:
        if notice.relay_id == broken.pk:
            raise KeyError(SECRET)
        return of(notice)

    monkeypatch.setattr(words, "of", some)
    assert delivery.work() == delivery.ALONE + 2
    said = json.loads(receiver.got[0].body)["message"]
    assert broken.pk not in said and others[0].pk in said and "and 3 more" in said


def test_what_a_worker_died_with_waits_with_the_others_for_the_next_message(receiver: Receiver, private: None) -> None:
    told(f"gotify://127.0.0.1:{receiver.port}/tokentokentoken")
    opened(delivery.ALONE + 2)
    delivery.work()
    opened(2)
    delivery.spread(timezone.now())
    left = Delivery.objects.filter(state="waiting")
    left.update(state="sending", attempts=1, claimed_at=timezone.now() - delivery.LOST)
    begun = time.monotonic()
    assert delivery.work(5.0) == 0 and time.monotonic() - begun < 4
    assert [row.not_before > timezone.now() for row in left.all()] == [True, True]

"""Notices: written with what they tell, delivered once to each channel, signed, retried, and never led inside."""

import contextlib
import hashlib
import hmac
import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from relays.actions import notifications as acting
from relays.actions.base import Actor
from relays.core import notify
from relays.driver import gates
from relays.models import (
    Channel,
    Delivery,
    GateState,
    Notice,
    OwnerMonth,
    Relay,
    RelayStatus,
    Subscription,
)
from relays.notices import delivery, guard, monthly, sending, words
from tests.notices.receiver import Receiver
from tests.web_builders import make_gate, make_relay, make_user

pytestmark = pytest.mark.django_db


def channel_to(url: str, name: str = "team") -> acting.Made:
    return acting.add_channel(Actor(make_user("", "admin")), name=name, url=url)


def told(url: str, *events: str, roles: tuple[str, ...] = ("reviewer",)) -> Subscription:
    """A person who hears of these events on a channel to `url`."""
    made = channel_to(url)
    chosen = events or ("gate_opened", "gate_decided", "gate_confirmed", "relay_done", "budget_warning")
    user = make_user("", *roles)
    return acting.subscribe(Actor(user), made.channel.pk, scope="all", events=chosen)


def opened(relay: Relay | None = None) -> Notice:
    relay = relay or make_relay()
    gates.open_episode(relay.pk, "RELAY_PARKED_UNSAFE", leg=None, items=["it stopped"], now=timezone.now())
    return Notice.objects.filter(event="gate_opened").latest("pk")


def test_a_notice_is_written_with_what_it_tells_or_not_at_all() -> None:
    relay = make_relay()
    with pytest.raises(RuntimeError), transaction.atomic():
        opened(relay)
        raise RuntimeError
    assert not Notice.objects.exists()
    notice = opened(relay)
    assert (notice.relay, notice.detail["token"]) == (relay, "RELAY_PARKED_UNSAFE")


def test_the_same_stop_is_told_once_and_a_new_item_again() -> None:
    relay, now = make_relay(), timezone.now()
    for items in (["one"], ["one"], ["two"]):
        gates.open_episode(relay.pk, "RELAY_NO_PROGRESS", leg=None, items=items, now=now)
    assert Notice.objects.filter(event="gate_opened").count() == 2


def test_a_gates_way_is_told_and_a_withdrawn_request_is_not() -> None:
    from relays.driver.changes import change_gate

    gate, now = make_gate(make_relay()), timezone.now()
    for frm, to in (("waiting", "approved"), ("approved", "requested"), ("requested", "dispatched")):
        change_gate(gate.pk, to, frm=[frm], now=now)
    change_gate(gate.pk, GateState.CONFIRMED, frm=["dispatched"], now=now)
    assert list(Notice.objects.values_list("event", flat=True)) == ["gate_decided", "gate_confirmed"]
    other = make_gate(make_relay(), state="requested")
    change_gate(other.pk, GateState.APPROVED, frm=["requested"], now=now)
    assert Notice.objects.count() == 2


def test_whoever_was_asked_hears_that_nobody_is_needed_any_more() -> None:
    from relays.driver import finals

    relay = make_relay(status="parked")
    opened(relay)
    other = make_gate(relay, token="RELAY_NO_PROGRESS", state="approved")
    assert finals.stopped(relay.pk, frm=["parked"], now=timezone.now(), why="stopped by pat")
    (told_of,) = Notice.objects.filter(event="gate_decided")
    assert told_of.gate_id != other.pk, "nobody waited for that one any more"
    assert "needs nobody any more" in words.of(told_of).title


def test_it_arrives_signed_with_its_link_and_says_nothing_that_an_agent_wrote(
    receiver: Receiver, private: None
) -> None:
    row = told(f"{receiver.url}/hook?team=a")
    secret = notify.secret_of(settings.SECRET_KEY, Channel.objects.get().salt)
    notice = opened()
    assert delivery.work() == 1
    (got,) = receiver.got
    body = json.loads(got.body)
    assert got.path == "/hook?team=a"
    assert body["url"] == f"{settings.PUBLIC_URL}/gates/{notice.gate_id}/"
    assert body["gate"]["token"] == "RELAY_PARKED_UNSAFE" and body["relay"]["id"] == notice.relay_id
    assert "it stopped" not in got.body.decode()
    signed = f"{got.headers['Relaysite-Timestamp']}.".encode() + got.body
    wanted = hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    assert got.headers["Relaysite-Signature"] == f"v1={wanted}"
    assert abs(int(got.headers["Relaysite-Timestamp"]) - time.time()) < 60
    sent = Delivery.objects.get()
    assert (sent.state, sent.readers, sent.answer) == ("sent", [row.user.get_username()], "HTTP 200 OK: thanks")
    assert got.headers["Relaysite-Delivery"] == str(sent.pk) == str(body["id"])
    assert delivery.work() == 0 and len(receiver.got) == 1


def test_who_wants_what(receiver: Receiver) -> None:
    mine, others = make_relay(), make_relay()
    channel = channel_to(receiver.url).channel

    def readers(scope: str, relay: Relay, **more: str) -> bool:
        Subscription.objects.all().delete()
        acting.subscribe(Actor(mine.owner), channel.pk, scope=scope, events=["gate_opened"], **more)
        return bool(delivery._readers(opened(relay)))

    assert readers("all", others) and readers("mine", mine) and not readers("mine", others)
    third = make_relay()
    assert readers("relay", third, relay_id=third.pk) and not readers("relay", make_relay(), relay_id=third.pk)
    acting.subscribe(Actor(mine.owner), channel.pk, scope="all", events=["relay_done"])
    Subscription.objects.exclude(scope="all").delete()
    assert not delivery._readers(opened(make_relay())), "an event that was not chosen"


def test_whoever_may_not_look_any_more_hears_nothing(receiver: Receiver, private: None) -> None:
    row = told(receiver.url)
    row.user.groups.clear()
    opened()
    delivery.work()
    assert receiver.got == []


def test_what_happened_before_somebody_subscribed_is_not_told_to_them(receiver: Receiver, private: None) -> None:
    opened()
    told(receiver.url)
    delivery.work()
    assert receiver.got == []


def test_two_people_on_one_channel_are_one_message(receiver: Receiver, private: None) -> None:
    first = told(receiver.url)
    acting.subscribe(Actor(make_user("", "manager")), first.channel.pk, scope="all", events=["gate_opened"])
    opened()
    delivery.work()
    assert len(receiver.got) == 1 and len(Delivery.objects.get().readers) == 2


def test_it_is_tried_again_later_each_time_and_dead_after_the_last(
    receiver: Receiver, private: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(receiver.url)
    receiver.answers = [(503, {}, b"busy")]
    opened()
    delivery.work()
    one = Delivery.objects.get()
    assert (one.state, one.attempts, one.answer) == ("waiting", 1, "HTTP 503 Service Unavailable: busy")
    gaps = []
    for _ in range(20):
        one.refresh_from_db()
        if one.state != "waiting":
            break
        assert delivery.work() == 0, "not before its time"
        gaps.append(one.not_before - timezone.now())
        Delivery.objects.update(not_before=timezone.now())
        delivery.work()
    assert one.state == "dead" and len(receiver.got) == len(delivery.DELAYS) + 1
    assert gaps == sorted(gaps) and gaps[-1] > timedelta(hours=2)
    assert len({got.headers["Relaysite-Delivery"] for got in receiver.got}) == 1, "a receiver knows it again"
    receiver.answers = [(200, {}, b"")]
    reader = Actor(Subscription.objects.get().user)
    acting.again(reader, one.pk)
    assert delivery.work() == 1


@pytest.mark.parametrize("status", [410, 302])
def test_a_redirect_is_not_followed_and_gone_is_final(receiver: Receiver, private: None, status: int) -> None:
    told(receiver.url)
    receiver.answers = [(status, {"Location": f"{receiver.url}/elsewhere"}, b"")]
    opened()
    delivery.work()
    assert [got.path for got in receiver.got] == ["/"]
    assert Delivery.objects.get().state == ("dead" if status == 410 else "waiting")


def test_an_address_inside_is_refused_when_it_is_connected_to(receiver: Receiver) -> None:
    told(receiver.url.replace("127.0.0.1", "localhost"))
    opened()
    delivery.work()
    one = Delivery.objects.get()
    assert receiver.got == [] and one.state == "dead"
    assert "NOTIFY_PRIVATE" in one.answer


def test_a_service_of_apprise_is_held_to_the_same(receiver: Receiver, settings) -> None:  # type: ignore[no-untyped-def]
    channel = channel_to(f"gotify://127.0.0.1:{receiver.port}/tokentokentoken").channel
    answer = delivery.test(channel, "me")
    assert not answer.sent and receiver.got == []
    assert "tokentokentoken" not in answer.text
    settings.NOTIFY_PRIVATE = True
    Notice.objects.all().delete()
    receiver.answers = [(302, {"Location": f"{receiver.url}/elsewhere"}, b"")]
    assert not delivery.test(channel, "me").sent and len(receiver.got) == 1, "its redirects are not followed either"
    Notice.objects.all().delete()
    receiver.answers = [(200, {}, b"{}")]
    assert delivery.test(channel, "me").sent
    assert b"A test of notices" in receiver.got[-1].body


def test_a_slow_receiver_is_given_up(receiver: Receiver, private: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "CONNECT", 0.1)
    receiver.wait = 0.5
    answer = delivery.test(channel_to(receiver.url).channel, "me")
    assert not answer.sent and "no answer" in answer.text


def test_an_answer_that_drips_is_given_up(private: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "WHOLE", 0.4)
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:

        def drip() -> None:
            link, _ = server.accept()
            with link, contextlib.suppress(OSError):
                for sign in b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n" + b"x" * 60:
                    link.sendall(bytes([sign]))
                    time.sleep(0.03)

        dripping = pool.submit(drip)
        channel = channel_to(f"http://127.0.0.1:{server.getsockname()[1]}").channel
        begun = time.monotonic()
        answer = delivery.test(channel, "me")
        took = time.monotonic() - begun
        assert not answer.sent and "no answer" in answer.text and took < 1.5
        dripping.result(5)


def test_a_test_is_sent_at_once_shown_and_a_double_press_is_one(receiver: Receiver, private: None) -> None:
    channel = channel_to(receiver.url).channel
    receiver.answers = [(400, {}, b"no such room")]
    answer = delivery.test(channel, "me")
    assert (answer.sent, answer.text) == (False, "HTTP 400 Bad Request: no such room")
    assert Delivery.objects.get().state == "dead", "a test is not tried again"
    key = Notice.objects.get().key
    Notice.objects.update(key=f"test:{channel.pk}:{int(timezone.now().timestamp())}")
    again = [delivery.test(channel, "me") for _ in range(2)]
    assert len(receiver.got) <= 2 and any("a moment ago" in one.text for one in again), key


def test_the_sites_own_channels_hear_every_event_and_go_with_the_setting(
    receiver: Receiver, private: None, settings
) -> None:  # type: ignore[no-untyped-def]
    settings.NOTIFY_URLS = (f"{receiver.url}/site",)
    opened()
    delivery.work()
    assert [got.path for got in receiver.got] == ["/site"]
    row = Channel.objects.get()
    assert row.site and row.url == "", "the setting holds the address, not the database"
    settings.NOTIFY_URLS = ()
    opened()
    delivery.work()
    row.refresh_from_db()
    assert len(receiver.got) == 1 and not row.active


def test_one_that_a_worker_died_with_is_sent_again_under_its_number(receiver: Receiver, private: None) -> None:
    told(receiver.url)
    opened()
    delivery.spread(timezone.now())
    one = Delivery.objects.get()
    assert delivery.claim(one.pk, 0, timezone.now()) and not delivery.claim(one.pk, 0, timezone.now())
    assert delivery.work() == 0, "it is that worker's"
    Delivery.objects.update(claimed_at=timezone.now() - delivery.LOST)
    assert delivery.work() == 1
    assert receiver.got[0].headers["Relaysite-Delivery"] == str(one.pk)


def test_a_months_report_is_written_once_when_the_month_is_over() -> None:
    ann = make_user("ann", "operator")
    OwnerMonth.objects.create(owner=ann, month=date(2026, 11, 1), units=123_400_000_000, calls=4, limit=100)
    assert monthly.report(datetime(2026, 12, 1, 3, tzinfo=UTC)) == 0, "too early"
    assert monthly.report(datetime(2026, 12, 1, 7, tzinfo=UTC)) == 2
    assert monthly.report(datetime(2026, 12, 3, 7, tzinfo=UTC)) == 0
    site = Notice.objects.get(owner=None)
    assert words.of(site).lines == ("all owners: $12.34", "ann: $12.34 of $100.00 (12%)")
    assert monthly.report(datetime(2027, 2, 3, 7, tzinfo=UTC)) == 0, "a month without cost has none"


@pytest.mark.parametrize("day", [1, 15, 31])
def test_a_months_report_is_not_written_again_when_it_is_forgotten(day: int) -> None:
    """Notices are kept for 30 days and December has 31: on its last day November is no news."""
    OwnerMonth.objects.create(owner=make_user("ann", "operator"), month=date(2026, 11, 1), units=1, calls=4)
    monthly.report(datetime(2026, 12, 1, 6, 30, tzinfo=UTC))
    now = datetime(2026, 12, day, 23, tzinfo=UTC)
    for _ in range(2):
        delivery.prune(now)
        assert monthly.report(now) == 0
    assert delivery.prune(datetime(2027, 4, 1, tzinfo=UTC)) > 0


def test_a_budget_that_comes_to_its_warning_is_told_once() -> None:
    from relays.costs.rollups import judge_month
    from relays.models import OwnerBudget

    ann = make_user("ann", "operator")
    OwnerBudget.objects.create(owner=ann, limit=10, set_at=timezone.now())
    row = OwnerMonth.objects.create(owner=ann, month=date(2026, 11, 1), units=90_000_000_000, calls=1)
    judge_month(row)
    judge_month(row)
    row.units = 120_000_000_000
    judge_month(row)
    assert [n.detail["state"] for n in Notice.objects.order_by("pk")] == ["warned", "over"]
    assert "Budget of ann for 2026-11" in words.of(Notice.objects.latest("pk")).title


def test_every_event_has_words_and_a_link() -> None:
    relay = make_relay(objective="Say\x1b it\u202e")
    gate = make_gate(relay)
    for event in Notice.Event.values:
        notice = Notice(event=event, key=event, at=timezone.now(), relay=relay, gate=gate, detail={"token": gate.token})
        told = words.of(notice)
        assert told.title and told.url.startswith(settings.PUBLIC_URL), event
        assert "\u202e" not in told.text and "\x1b" not in told.text


def test_the_guard_is_of_its_thread_alone(receiver: Receiver) -> None:
    import socket

    with guard.outward(private=False, seconds=20):
        with pytest.raises(guard.NotAllowed):
            socket.create_connection(("127.0.0.1", receiver.port), 2)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: socket.create_connection(("127.0.0.1", receiver.port), 2).close()).result()
    socket.create_connection(("127.0.0.1", receiver.port), 2).close()


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_deliver_each_notice_once(receiver: Receiver, private: None) -> None:
    told(receiver.url)
    for _ in range(30):
        opened()

    def worker(_: int) -> int:
        try:
            return delivery.work()
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        sent = sum(pool.map(worker, range(4)))
    numbers = [got.headers["Relaysite-Delivery"] for got in receiver.got]
    assert sent == len(numbers) == len(set(numbers)) == 30
    assert set(Delivery.objects.values_list("state", flat=True)) == {"sent"}


def test_a_relay_that_is_done_is_told() -> None:
    from relays.driver import finals

    relay = make_relay(status=RelayStatus.READY)
    assert finals.done(relay.pk, frm=[RelayStatus.READY], now=timezone.now())
    notice = Notice.objects.get(event="relay_done")
    assert words.of(notice).title == f"{relay.pk} is done" and notice.relay == relay

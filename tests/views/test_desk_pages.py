"""`/health/`, `/users/`, `/maintenance/`, `/notifications/`, `/budgets/`: who may look, what they show and do."""

import re
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from relays.access import make_sign_in_link
from relays.models import (
    Channel,
    Decision,
    Heartbeat,
    Maintenance,
    MaintenanceItem,
    OwnerBudget,
    OwnerMonth,
    Subscription,
)
from tests.reading import marked
from tests.web_builders import make_relay, make_user

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]


def test_health_says_what_to_do_where_it_is_not_well(client_of: ClientOf) -> None:
    client = client_of("manager")
    page = marked(client.get("/health/"))
    assert "never heard of" in page and "make run" in page
    assert "warning" in page and "Nothing failed" in page
    for kind in ("worker", "beat"):
        Heartbeat.objects.create(name=f"{kind}:host", at=timezone.now())
    part = client.get("/health/?part=checks")
    assert part.status_code == 200 and b"<html" not in part.content
    assert "never heard of" not in marked(part)
    assert client.get("/health/?part=nope").status_code == 404


def test_an_admin_lets_people_in_gives_and_takes_roles_and_lets_them_in_no_more(client_of: ClientOf) -> None:
    root = client_of("admin")
    page = marked(root.post("/users/", {"name": "noor", "role": "operator"}))
    link = page.partition('data-copy="')[2].partition('"')[0]
    noor = User.objects.get(username="noor")
    path = link[link.index("/sign-in/") :]
    theirs = Client()
    assert theirs.post(path).status_code == 302 and theirs.get("/").status_code == 200
    assert "sign-in/" not in marked(root.get("/users/")), "a link is shown once"

    assert root.post(f"/users/{noor.pk}/give/", {"role": "reviewer"}).status_code == 303
    assert root.post(f"/users/{noor.pk}/take/", {"role": "operator"}).status_code == 303
    assert set(noor.groups.values_list("name", flat=True)) == {"reviewer"}
    assert root.post(f"/users/{noor.pk}/deactivate/").status_code == 303
    assert theirs.get("/").status_code == 302, "whoever is deactivated is signed out"
    assert User.objects.filter(username="noor").exists()
    acts = list(Decision.objects.order_by("seq").values_list("act", flat=True))
    assert acts == ["user", "sign_in_link", "give_role", "take_role", "deactivate_user"]
    root.post(f"/users/{noor.pk}/activate/")
    noor.refresh_from_db()
    assert noor.is_active


def test_a_link_that_was_not_used_ends_with_the_person(client_of: ClientOf) -> None:
    root, noor = client_of("admin"), make_user("noor", "reviewer")
    path = make_sign_in_link(noor)
    root.post(f"/users/{noor.pk}/deactivate/")
    root.post(f"/users/{noor.pk}/activate/")
    assert Client().post(path).status_code == 410
    assert Client().post(make_sign_in_link(noor)).status_code == 302


def test_a_site_keeps_an_admin_and_nobody_deactivates_themselves(client_of: ClientOf) -> None:
    root = client_of("admin")
    me = User.objects.get(groups__name="admin")
    for act, data in (("deactivate", {}), ("take", {"role": "admin"})):
        page = marked(root.post(f"/users/{me.pk}/{act}/", data, follow=True))
        assert "last admin" in page or "themselves" in page
    me.refresh_from_db()
    assert me.is_active and me.groups.filter(name="admin").exists()
    local = make_user("local", "operator")
    assert "belongs to the product" in marked(root.post(f"/users/{local.pk}/link/", follow=True))
    assert root.post("/users/99999/give/", {"role": "admin"}).status_code == 404


@pytest.mark.parametrize(
    "typed",
    [
        {"name": "a b", "role": "operator"},
        {"name": "x", "role": "tsar"},
        {"name": ""},
        {"name": "A" * 70_000, "role": "operator"},
        {"name": "a\0", "role": "operator"},
    ],
)
def test_a_person_that_cannot_be_is_refused_in_words(client_of: ClientOf, typed: dict[str, str]) -> None:
    response = client_of("admin").post("/users/", typed)
    assert response.status_code == 400 and "Nobody was made" in marked(response)


def test_others_than_admins_change_nobody(client_of: ClientOf) -> None:
    noor = make_user("noor", "reviewer")
    operator = client_of("operator", "reviewer", "manager")
    for act in ("give", "take", "deactivate", "activate", "link"):
        assert operator.post(f"/users/{noor.pk}/{act}/", {"role": "admin"}).status_code == 403
    assert not Decision.objects.exists()


def test_managers_set_budgets_and_others_look(client_of: ClientOf) -> None:
    ann = make_user("ann", "operator")
    form = {"owner": "ann", "limit": "120.50", "warn_at": "70", "month": "2026-11"}
    assert client_of("operator").post("/budgets/", form).status_code == 403
    manager = client_of("manager")
    assert manager.post("/budgets/", form).status_code == 303
    row = OwnerBudget.objects.get()
    assert (row.owner, row.limit, row.warn_at, row.month) == (ann, Decimal("120.50"), 0.7, date(2026, 11, 1))
    assert "ann" in marked(manager.get("/budgets/?part=list"))
    for wrong in ({"limit": "much"}, {"month": "soon"}, {"owner": "nobody"}, {"limit": "-1"}, {"warn_at": "0"}):
        answer = manager.post("/budgets/", {**form, **wrong})
        assert answer.status_code == 400 and "Nothing was changed" in marked(answer), wrong
    assert manager.post("/budgets/?month=2026-11", {"owner": "ann", "remove": "1"}).status_code == 303
    assert not OwnerBudget.objects.exists()


def test_an_act_on_all_is_confirmed_and_says_how_many(client_of: ClientOf) -> None:
    operator = client_of("operator")
    assert "No relay goes on" in marked(operator.get("/maintenance/"))
    going, parked = make_relay(status="waiting"), make_relay(status="parked")
    page = marked(operator.get("/maintenance/"))
    assert "1 relay goes on" in page and "Yes, park 1 relay" in page
    assert "<b>1</b> relay that waits or rests parks at once." in page and "<b>1</b> is parked already" in page
    # as actions/maintenance takes up what came since
    assert "A relay that starts or is approved before all are parked is parked too" in page
    named = re.search(r'<p class="which">(.*?)</p>', page)
    assert named and f">{going.pk}</a>" in named[1] and parked.pk not in named[1], "what would be parked is named"
    operator.post("/maintenance/", {"do": "park_all", "expected": "1"})
    assert not Maintenance.objects.exists(), "nothing is done that was not confirmed"
    operator.post("/maintenance/", {"do": "park_all", "expected": "1", "sure": "1"})
    act = Maintenance.objects.get()
    assert act.items.count() == 1
    operator.post("/maintenance/", {"do": "park_all", "expected": "1", "sure": "1"})
    assert Maintenance.objects.count() == 1, "a double press is one act"
    assert f"/maintenance/{act.pk}/" in marked(operator.get("/maintenance/?part=acts"))
    assert operator.get(f"/maintenance/{act.pk}/").status_code == 200
    assert operator.get("/maintenance/99/").status_code == 404
    reviewer = client_of("reviewer", "manager")
    assert reviewer.post("/maintenance/", {"do": "park_all", "sure": "1"}).status_code == 403


def test_a_clean_up_says_for_what_it_waits_and_until_when_logs_are_kept_in_the_readers_time(
    client_of: ClientOf, settings: Any
) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"
    operator = client_of("operator")
    operator.post("/maintenance/", {"do": "clean"})
    act = Maintenance.objects.get()
    assert "It is under way." in marked(operator.get("/maintenance/?part=clean"))
    until = "2026-12-31T11:54:15+00:00"
    for path, why in (
        ("/var/legs/1/0", f"logs are kept until {until}"),
        ("/var/worktrees/1", f"uncommitted work: dump-{until}.sql"),
        ("/var/worktrees/2", "uncommitted work: 2026-02-31T11:54:15+00:00"),
    ):
        act.items.create(path=path, why=why, state=MaintenanceItem.State.KEPT)
    Maintenance.objects.update(status=Maintenance.Status.LISTED)
    page = marked(operator.get("/maintenance/"))
    assert "It is under way." not in page and f'It waits for a confirmation: <a href="#act-{act.pk}">' in page
    assert f'id="act-{act.pk}"' in page
    assert "logs are kept until 2026-12-31 17:24:15 Asia/Kolkata" in page, "the reader's time"
    assert f"dump-{until}.sql" in page and "2026-02-31T11:54:15+00:00" in page, "a name, or what is no time, stays"


def channel_by(client: Client, url: str = "https://hooks.example.org/s3cret/path") -> tuple[Channel, str]:
    page = marked(client.post("/notifications/channels/", {"name": "team", "url": url}))
    return Channel.objects.get(), page.partition('data-copy="')[2].partition('"')[0]


def test_a_webhooks_secret_and_address_are_shown_to_nobody_afterwards(client_of: ClientOf) -> None:
    root = client_of("admin")
    channel, secret = channel_by(root)
    assert len(secret) == 64
    for row in (*Channel.objects.values(), *Decision.objects.values()):
        assert secret not in str(row), "derived, and stored nowhere"
    page = marked(root.get("/notifications/"))
    assert "https://hooks.example.org/…" in page
    assert secret not in page and "s3cret" not in page
    assert "s3cret" not in str(list(Decision.objects.values()))
    again = marked(root.post(f"/notifications/channels/{channel.pk}/secret/"))
    assert secret not in again and 'data-copy="' in again


def test_only_an_admin_names_an_address(client_of: ClientOf) -> None:
    client = client_of("operator")
    assert client.post("/notifications/channels/", {"name": "x", "url": "https://example.org/"}).status_code == 403
    assert not Channel.objects.exists()
    channel, _ = channel_by(client_of("admin"))
    for act in ("secret", "remove", "test"):
        assert client.post(f"/notifications/channels/{channel.pk}/{act}/").status_code == 403, act


@pytest.mark.parametrize("url", ["file:///etc/passwd", "exec://x", "json://host", "https://a:b@host/", "nothing", ""])
def test_an_address_that_is_none_is_refused_in_words(client_of: ClientOf, url: str) -> None:
    response = client_of("admin").post("/notifications/channels/", {"name": "x", "url": url})
    assert response.status_code == 400 and "Nothing was changed" in marked(response)


def test_one_subscribes_for_oneself_of_all_ones_own_or_one_relay(client_of: ClientOf) -> None:
    channel, _ = channel_by(client_of("admin"))
    client, relay = client_of("reviewer"), make_relay()
    form = {"channel": channel.pk, "scope": "all", "event": ["gate_opened", "relay_done"]}
    assert client.post("/notifications/subscribe/", form).status_code == 303
    assert client.post("/notifications/subscribe/", {**form, "event": ["gate_opened"]}).status_code == 303
    row = Subscription.objects.get()
    assert row.events == ["gate_opened"], "chosen again, it replaces what was chosen"
    client.post("/notifications/subscribe/", {**form, "scope": "relay", "relay": relay.pk})
    assert Subscription.objects.filter(relay=relay).count() == 1
    assert relay.pk in marked(client.get("/notifications/"))
    for wrong in ({"scope": "relay", "relay": "RLY-1"}, {"event": []}, {"event": ["rain"]}, {"channel": "9"}):
        client.post("/notifications/subscribe/", {**form, **wrong})
    assert Subscription.objects.count() == 2
    other = client_of("manager")
    other.post(f"/notifications/{row.pk}/end/")
    assert Subscription.objects.filter(pk=row.pk).exists(), "one ends one's own only"
    client.post(f"/notifications/{row.pk}/end/")
    assert not Subscription.objects.filter(pk=row.pk).exists()
    client_of("admin").post(f"/notifications/channels/{channel.pk}/remove/")
    assert not Subscription.objects.exists()
    assert Channel.objects.get().url == "", "a removed channel's address is forgotten"


def test_a_months_cost_is_beside_its_budget(client_of: ClientOf) -> None:
    ann = make_user("ann", "operator")
    OwnerMonth.objects.create(
        owner=ann,
        month=date(2026, 11, 1),
        units=900_000_000_000,
        calls=3,
        unpriced=1,
        limit=Decimal(100),
        state="warned",
    )
    page = marked(client_of("manager").get("/budgets/"))
    assert "$90.00" in page and "90 %" in page and "partial: 1 unpriced" in page and "warning" in page


def test_what_can_be_done_to_all_is_a_live_region_without_anybodys_form(client_of: ClientOf) -> None:
    client = client_of("operator")
    page = marked(client.get("/maintenance/"))
    for part in ("title", "turns", "clean", "acts", "earlier"):
        assert f"?part={part}" in page
        region = client.get(f"/maintenance/?part={part}")
        assert region.status_code == 200 and "csrfmiddlewaretoken" not in marked(region)
    assert client.get("/maintenance/?part=page").status_code == 404


def test_the_admin_of_the_first_start_is_shown_as_one(client_of: ClientOf) -> None:
    User.objects.create_superuser("root-of-all", password=None)
    page = marked(client_of("admin").get("/users/?q=root-of-all"))
    assert "made by the first start" in page


def test_people_are_counted_and_found_by_the_roles_that_they_hold(client_of: ClientOf) -> None:
    client = client_of("admin")
    User.objects.create_superuser("first-of-all", password=None)
    both = make_user("both", "admin")
    both.is_superuser = True
    both.save()
    make_user("tour", "reviewer")
    make_user("rae", "reviewer")
    gone = make_user("gone", "reviewer")
    gone.is_active = False
    gone.save()
    page = marked(client.get("/users/"))
    assert "4 people may sign in" in page and "tour" in page
    assert "<span>admin 3</span>" in page, "the admin of the first start counts, and nobody twice"
    assert "<span>reviewer 1</span>" in page, "neither the product's own user nor one that is not let in"
    found = marked(client.get("/users/?q=admin"))
    assert "<b>first-of-all</b>" in found and found.count("<b>both</b>") == 1 and "<b>rae</b>" not in found
    assert "<b>first-of-all</b>" not in marked(client.get("/users/?q=reviewer"))

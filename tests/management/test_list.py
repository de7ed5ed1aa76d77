"""`relay list`: the shape, filters, and pages that stay where they are."""

from datetime import timedelta

import pytest
from django.utils import timezone

from relays.models import Relay
from tests.management.conftest import Cli
from tests.web_builders import make_leg, make_relay, make_user

pytestmark = pytest.mark.django_db


def test_the_shape(cli: Cli) -> None:
    relay = make_relay(owner=make_user("pat"), next_at=timezone.now())
    make_leg(relay, 0, resident=[20_000])
    bare = make_relay(created_at=timezone.now() - timedelta(days=1))
    done = cli("list", "--json")
    assert (done.code, done.err) == (0, "")
    assert set(done.json) == {"relays", "next"}
    first, second = done.json["relays"]
    assert {"relay", "status", "leg", "repo", "owner", "next_at", "context"} <= set(first)
    assert (first["relay"], first["status"], first["leg"], first["owner"]) == (relay.pk, "running", 0, "pat")
    assert first["context"] == {"now": 20_000, "mark": 120_000, "ceiling": 180_000}
    assert first["next_at"].endswith("Z")
    assert (second["relay"], second["leg"]) == (bare.pk, None)
    assert second["context"] == {"now": None, "mark": None, "ceiling": None}
    assert done.json["next"] is None


def test_pages_neither_repeat_nor_lose_one_while_others_start(cli: Cli) -> None:
    owner, at = make_user("pat"), timezone.now()
    # some of the very same instant: the id puts them in order
    made = [make_relay(owner=owner, created_at=at - timedelta(hours=n // 3)) for n in range(11)]
    found: list[str] = []
    cursor: list[str] = []
    for _ in range(20):
        page = cli("list", "--limit", "3", "--json", *cursor).json
        assert len(page["relays"]) <= 3
        found += [row["relay"] for row in page["relays"]]
        make_relay(owner=owner)  # newer: before the first page
        Relay.objects.filter(pk=made[0].pk).update(status="parked")
        if page["next"] is None:
            break
        cursor = ["--next", page["next"]]
    assert sorted(found) == sorted(relay.pk for relay in made)
    assert found == list(Relay.objects.filter(pk__in=found).order_by("-created_at", "-id").values_list("pk", flat=True))


def test_one_status(cli: Cli) -> None:
    owner = make_user("pat")
    parked = make_relay(owner=owner, status="parked")
    make_relay(owner=owner)
    assert [row["relay"] for row in cli("list", "--status", "parked", "--json").json["relays"]] == [parked.pk]
    assert cli("list", "--status", "idle").out.decode() == "no relay is idle now\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--status", "happy"], "happy"),
        (["--limit", "many"], "many"),
        (["--next", "here"], "no cursor"),
        (["--next", "2026-11-30~"], "no cursor"),
        (["--next", "\x1b[31m\udcff"], "no cursor"),
        (["more"], "more"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(cli: Cli, arguments: list[str], words: str) -> None:
    done = cli("list", *arguments)
    assert (done.code, words in done.line) == (2, True)
    assert done.line.isprintable()


@pytest.mark.parametrize("limit", ["0", "-3", "1000000"])
def test_a_limit_is_brought_within_bounds(cli: Cli, limit: str) -> None:
    make_relay()
    assert len(cli("list", f"--limit={limit}", "--json").json["relays"]) == 1


def test_an_empty_list_says_what_to_do(cli: Cli) -> None:
    assert "relay start --help" in cli("list").out.decode()
    assert cli("list", "--json").json == {"relays": [], "next": None}

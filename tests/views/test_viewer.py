"""Language, zone, numbers and theme of the one who looks: a person's choice, else the browser's, else the fleet's."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
import time_machine
from django.test import Client
from django.utils import timezone

from relays.models import Layout
from relays.reports import figures
from relays.reports.fleet_query import fleet_day
from relays.templatetags import words
from tests.reading import marked
from tests.web_builders import make_relay, make_user

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]
AT = datetime(2026, 11, 30, 22, 30, tzinfo=UTC)


def page(client: Client, address: str = "/relays/") -> str:
    return marked(client.get(address))


def test_the_zone_of_the_fleet_stands_in_and_says_so_until_the_browser_or_the_person_names_one(
    client_of: ClientOf,
) -> None:
    client = client_of("operator")
    make_relay(last_data_at=AT)
    with time_machine.travel(AT, tick=False):
        assert "Times in the fleet’s zone" in page(client) and ">22:30:00<" in page(client)
        client.cookies["rs-zone"] = "Asia/Tokyo"
        assert 'data-zone="browser" data-zone-name="Asia/Tokyo"' in page(client) and ">07:30:00<" in page(client)
        assert "days cut in UTC" in page(client)
        client.post("/layout/", {"density": "roomy", "first_tab": "batons", "zone": "America/New_York"})
        assert 'data-zone="chosen" data-zone-name="America/New_York"' in page(client) and ">17:30:00<" in page(client)
    assert timezone.get_current_timezone_name() == "UTC", "nothing of a request is left in the thread"


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../../etc/passwd", "x" * 5000, "Europe", "/etc/localtime"])
def test_a_zone_that_is_none_counts_as_none(client_of: ClientOf, name: str) -> None:
    client = client_of("operator")
    client.cookies["rs-zone"] = name
    assert 'data-zone="fleet" data-zone-name="UTC"' in page(client)


def test_a_region_is_kept_for_each_way_to_read_it(client_of: ClientOf) -> None:
    relay = make_relay(last_data_at=AT)
    one, other = client_of("operator"), client_of("operator")
    other.cookies["rs-zone"] = "Asia/Tokyo"
    address = "/relays/?part=list"
    with time_machine.travel(AT, tick=False):
        assert ">22:30:00<" in page(one, address) and relay.pk in page(one, address)
        assert ">07:30:00<" in page(other, address)


def test_days_are_cut_in_the_fleets_zone_whoever_looks() -> None:
    with time_machine.travel(AT, tick=False), timezone.override("Asia/Tokyo"):
        assert fleet_day().isoformat() == "2026-11-30" and timezone.localdate().isoformat() == "2026-12-01"


def test_numbers_are_written_as_the_person_chose(client_of: ClientOf) -> None:
    client = client_of("operator")
    client.post("/layout/", {"density": "roomy", "first_tab": "batons", "numbers": "de", "theme": "dark"})
    assert client.cookies["rs-numbers"].value == "de" and 'data-bs-theme="dark"' in page(client)
    assert 'data-signs=",."' in page(client), "graphs write as the page does"
    try:
        for style, text, amount in (("de", "178.612", "$1.234,50"), ("fr", "178\u202f612", "$1\u202f234,50")):
            figures.use(style)
            assert words.grouped(178612) == text and words.money("1234.5") == amount
        figures.use("nonsense")
        assert words.grouped(-178612) == "−178,612"
    finally:
        figures.use("")


def test_a_new_browser_reads_as_its_person_chose_and_the_next_person_as_they_did() -> None:
    pat, sam = (
        make_user("pat", "operator", password="secret-words"),
        make_user("sam", "manager", password="secret-words"),
    )
    Layout.objects.create(user=pat, zone="Asia/Tokyo", numbers="fr", theme="dark")
    client = Client()
    for user, zone in ((pat, "Asia/Tokyo"), (sam, "")):
        client.post("/sign-in/", {"username": user.username, "password": "secret-words"})
        assert client.cookies["rs-zone-chosen"].value == zone
        client.post("/sign-out/")


def test_programs_get_english_and_the_fleets_zone_whatever_they_accept() -> None:
    answer = Client(headers={"accept-language": "de"}).get("/api/v1/relays")
    assert answer.status_code == 401 and "Content-Language" not in answer.headers

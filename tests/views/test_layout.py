"""`/layout/` and `relay layout`: kept per person, seen on every page, and read by no rule."""

from collections.abc import Callable

import pytest
from django.test import Client

from relays.models import Decision, Layout
from tests.management.conftest import Cli, cli
from tests.reading import marked
from tests.web_builders import make_relay

__all__ = ["cli"]
pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]


def body(client: Client, address: str = "/") -> str:
    return marked(client.get(address)).partition("<body")[2].partition(">")[0]


def test_it_is_kept_per_person_and_on_every_page(client_of: ClientOf) -> None:
    pat, sam = client_of("operator"), client_of("manager")
    chosen = {"density": "compact", "first_tab": "evidence", "closed": ["verdicts", "pin"]}
    assert pat.post("/layout/", chosen).status_code == 303
    for address in ("/", "/relays/", "/layout/"):
        assert 'data-density="compact"' in body(pat, address)
        assert 'data-closed="verdicts pin"' in body(pat, address)
        assert 'data-density="roomy"' in body(sam, address)
        assert 'data-closed=""' in body(sam, address)
    assert not Decision.objects.exists()


def test_a_relays_records_open_with_the_first_tab_unless_another_is_asked_for(client_of: ClientOf) -> None:
    client, relay = client_of("operator"), make_relay()
    client.post("/layout/", {"density": "roomy", "first_tab": "ledger"})

    def shown(query: str = "") -> str:
        page = marked(client.get(f"/relays/{relay.pk}/{query}")).partition('id="records"')[2]
        return page.partition('aria-current="page">')[2].partition("<")[0].strip()

    assert shown() == "Ledger"
    assert shown("?tab=decisions") == "Decisions"


@pytest.mark.parametrize(
    "fields",
    [{"density": "huge", "first_tab": "batons"}, {"density": "roomy", "first_tab": "x"},
     {"density": "roomy", "first_tab": "batons", "closed": "everything"}],
)  # fmt: skip
def test_a_word_that_is_no_choice_is_refused(client_of: ClientOf, fields: dict[str, str]) -> None:
    page = marked(client_of("operator").post("/layout/", fields, follow=True))
    assert "is not known" in page
    assert not Layout.objects.exists()


def test_keys_of_one_character_can_be_switched_off(client_of: ClientOf) -> None:
    """WCAG 2.1.4; other choices are left alone, and what no key does is not promised in the foot."""
    client = client_of("operator")
    assert 'data-keys="on"' in body(client) and "<kbd>j</kbd>" in marked(client.get("/")).partition("<footer")[2]
    client.post("/layout/", {"density": "compact", "keys": "off"})
    assert 'data-keys="off"' in body(client) and 'data-density="compact"' in body(client)
    assert "<kbd>" not in marked(client.get("/")).partition("<footer")[2].partition("</footer>")[0]
    client.post("/layout/", {"keys": "loud"})
    client.post("/layout/", {"density": "roomy"})
    assert Layout.objects.get().keys == "off"
    client.post("/layout/", {"keys": "on"})
    assert 'data-keys="on"' in body(client)


def test_who_has_no_role_may_not_and_a_stored_word_of_before_counts_as_the_default(client_of: ClientOf) -> None:
    assert client_of().get("/layout/").status_code == 403
    client = client_of("manager")
    client.post("/layout/", {"density": "compact", "first_tab": "batons"})
    Layout.objects.update(density="before", first_tab="gone", closed=["gone", "pin"])
    assert 'data-density="roomy" data-closed="pin"' in body(client)


def test_the_verb(cli: Cli) -> None:
    assert cli("layout", "--json").json == {"density": "roomy", "first_tab": "batons", "closed": []}
    assert cli("layout", "--density", "compact", "--close", "pin", "facts", "--json").json["closed"] == ["pin", "facts"]
    assert cli("layout", "--open-all", "--json").json == {"density": "compact", "first_tab": "batons", "closed": []}
    assert cli("layout", "--density", "huge").code == 2
    assert "compact" in cli("layout").out.decode()

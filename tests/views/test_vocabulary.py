"""The vocabulary: every token with its category, meaning, fix and anchor."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone

from relays.core.vocabulary import TOKENS
from relays.models import GateEpisode, RelayStatus
from relays.reports.vocabulary import vocabulary
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]


def test_every_token_has_its_anchor_meaning_and_fix(client_of: ClientOf) -> None:
    page = client_of("manager").get("/vocabulary/").content.decode()
    for word in TOKENS.values():
        row = page[page.index(f'<tr id="{word.value}"') :].split("</tr>")[0]
        for text in (word.value, word.fix, word.meaning):
            assert text.replace("'", "&#x27;") in row


def test_no_token_is_in_two_groups_and_none_is_missing() -> None:
    words = [word.value for group in vocabulary() for word in group.tokens]
    assert sorted(words) == sorted(TOKENS) and len({group.category for group in vocabulary()}) == len(vocabulary())


@pytest.mark.parametrize("word", ["RELAY_NO_PROGRESS", "BUDGET_EXHAUSTED"])
def test_a_token_on_another_page_links_here_and_shows_its_fix(client_of: ClientOf, word: str) -> None:
    """rules.md, Reason tokens: "shown with its fix wherever the token is shown"."""
    relay = make_relay(status=RelayStatus.PARKED)
    leg = make_leg(relay, reason="RELAY_NO_PROGRESS")
    now = timezone.now()
    gate = GateEpisode.objects.create(relay=relay, leg=leg, token=word, items=["x"], opened_at=now, state_at=now)
    client = client_of("reviewer")
    for page in ("/", f"/gates/{gate.pk}/"):
        shown = client.get(page).content.decode()
        assert f'href="/vocabulary/#{word}"' in shown, page
        assert TOKENS[word].fix.casefold() in shown.casefold(), page


def test_who_has_no_role_may_not_look(client_of: ClientOf) -> None:
    assert client_of().get("/vocabulary/").status_code == 403
    assert Client().get("/vocabulary/").headers["Location"] == "/sign-in/?next=/vocabulary/"


def test_only_reading_is_possible(client_of: ClientOf) -> None:
    assert client_of("admin").post("/vocabulary/").status_code == 405


def test_there_is_nothing_below_it(client_of: ClientOf) -> None:
    assert client_of("admin").get("/vocabulary/RELAY_ARMED/").status_code == 404

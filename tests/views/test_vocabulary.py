"""The vocabulary: every token with its category, meaning, fix and anchor."""

import re
from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from relays.core.assumptions import Action
from relays.core.objective import Reconciliation
from relays.core.pointers import Verdict
from relays.core.promotion import Outcome as Promoted
from relays.core.residency import FaultOutcome
from relays.core.vocabulary import TOKENS, Ask, Cause, Hold, Mode, Reason, StopReason
from relays.core.words import WORDS
from relays.models import GateEpisode, GateState, RelayStatus
from relays.reports.vocabulary import vocabulary
from tests.reading import marked
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]


def test_every_token_has_its_anchor_meaning_and_fix(client_of: ClientOf) -> None:
    page = marked(client_of("manager").get("/vocabulary/"))
    for word in TOKENS.values():
        row = page[page.index(f'<tr id="{word.value}"') :].split("</tr>")[0]
        for text in (word.value, word.fix, word.meaning):
            assert text.replace("'", "&#x27;") in row


def test_every_cause_state_verdict_and_disposition_has_its_anchor_meaning_and_fix(client_of: ClientOf) -> None:
    page = marked(client_of("manager").get("/vocabulary/"))
    for one in WORDS.values():
        row = page[page.index(f'<tr id="{one.anchor}"') :].split("</tr>")[0]
        assert escape(one.meaning) in row and escape(one.fix) in row, one.anchor
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids)), "an anchor leads to one place"


def test_no_closed_set_of_the_rules_is_left_out() -> None:
    sets = {
        "cause": Cause, "mode": Mode, "pointer": Verdict, "assumption": Action, "memory": Promoted,
        "fault": FaultOutcome, "reconciled": Reconciliation, "status": RelayStatus, "gate": GateState,
    }  # fmt: skip
    for name, closed in sets.items():
        told = {one.value for one in WORDS.values() if one.group == name}
        assert told == {str(one.value) for one in closed}, name
    assert {str(one) for one in (*Reason, *Hold, *Ask, *StopReason)} <= set(TOKENS)


def test_the_search_finds_by_word_meaning_and_fix(client_of: ClientOf) -> None:
    client = client_of("manager")
    for query, there, gone in (
        ("hysteresis", 'id="HYSTERESIS"', 'id="RELAY_ARMED"'),
        ("sign the program in", 'id="cause-sign_in"', 'id="cause-ceiling"'),
        ("budget money", 'id="BUDGET_SPEND_EXHAUSTED"', 'id="BUDGET_TURNS_EXHAUSTED"'),
    ):
        page = marked(client.get("/vocabulary/", {"q": query}))
        assert there in page and gone not in page, query
    assert "No word says that" in marked(client.get("/vocabulary/?q=<script>"))


@pytest.mark.parametrize("cause", [Cause.CEILING, Cause.START_FAILED])
def test_a_cause_on_another_page_links_here(client_of: ClientOf, cause: Cause) -> None:
    relay = make_relay(status=RelayStatus.PARKED)
    leg = make_leg(relay, reason="RELAY_PARKED_UNSAFE", cause=cause)
    now = timezone.now()
    token = "RELAY_PARKED_UNSAFE"
    gate = GateEpisode.objects.create(relay=relay, leg=leg, token=token, items=["x"], opened_at=now, state_at=now)
    client = client_of("reviewer")
    for page in ("/", f"/gates/{gate.pk}/", f"/relays/{relay.pk}/"):
        shown = marked(client.get(page))
        assert f'href="/vocabulary/#cause-{cause}"' in shown, page


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
        shown = marked(client.get(page))
        assert f'href="/vocabulary/#{word}"' in shown, page
        assert TOKENS[word].fix.casefold() in shown.casefold(), page


def test_who_has_no_role_may_not_look(client_of: ClientOf) -> None:
    assert client_of().get("/vocabulary/").status_code == 403
    assert Client().get("/vocabulary/").headers["Location"] == "/sign-in/?next=/vocabulary/"


def test_only_reading_is_possible(client_of: ClientOf) -> None:
    assert client_of("admin").post("/vocabulary/").status_code == 405


def test_there_is_nothing_below_it(client_of: ClientOf) -> None:
    assert client_of("admin").get("/vocabulary/RELAY_ARMED/").status_code == 404

"""The baton's page: its text, its ladder, verify again and download."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from relays.models import Baton, Verification
from tests.reading import marked
from tests.report_builders import Story

pytestmark = pytest.mark.django_db
Clients = Callable[..., Client]


@pytest.fixture
def story(tmp_path: Path) -> Story:
    told = Story(tmp_path / "repo", objective="Close <b>all</b>", policy={})
    told.leg(turns=3)
    told.leg(turns=3)
    return told


def test_what_the_page_shows(story: Story, client_of: Clients) -> None:
    first = Baton.objects.get(leg__number=0)
    story.reloaded(first, story.legs[1], dangling=("progress_cursor.start_sha",))
    text = marked(client_of("manager").get(reverse("baton", args=[story.relay.pk, 0])))
    for words in (
        "Stale at step 6",
        "RELAY_BATON_STALE",
        "exists, not on the branch",
        "dangling",
        'class="hit"',
        "not reached",
        first.digest,
    ):
        assert words in text
    assert escape("\\u003cb\\u003eall\\u003c/b\\u003e") in text  # the canonical text, as it is
    assert 'form="act-verify"' not in text  # reading only


def test_download_gives_the_canonical_bytes(story: Story, client_of: Clients) -> None:
    baton = Baton.objects.get(leg__number=1)
    response = client_of("manager").get(reverse("baton", args=[story.relay.pk, 1]), {"download": "1"})
    assert response.content == baton.text.encode()
    assert response["Content-Type"] == "application/json"
    assert response["Content-Disposition"].startswith("attachment;")


def test_verify_again_is_a_new_record(story: Story, client_of: Clients) -> None:
    baton = Baton.objects.get(leg__number=1)
    url = reverse("baton_verify", args=[story.relay.pk, 1])
    assert client_of("manager").post(url).status_code == 403
    assert client_of("reviewer").get(url).status_code == 405
    response = client_of("reviewer").post(url, follow=True)
    made = Verification.objects.get(baton=baton)
    assert (made.purpose, made.outcome) == ("verify", "fresh")
    assert "Checked again: fresh." in marked(response)
    client_of("operator").post(
        url, {"baton": str(Baton.objects.get(leg__number=0).pk)}
    )  # of another leg: not found there
    assert Verification.objects.filter(purpose="verify").count() == 1


def test_missing_batons_and_earlier_checks(story: Story, client_of: Clients) -> None:
    client = client_of("manager")
    assert client.get(reverse("baton", args=[story.relay.pk, 9])).status_code == 404
    url = reverse("baton", args=[story.relay.pk, 0])
    first = Verification.objects.get(baton__leg__number=0)
    story.reloaded(Baton.objects.get(leg__number=0), story.legs[1], unknown=("artifacts[0].ref",))
    assert "Unknown at step 6" in marked(client.get(url))
    assert "Fresh: every step passed" in marked(client.get(url, {"check": first.pk}))
    part = client.get(url, {"part": "baton"})
    assert client.get(url, {"part": "baton"}, headers={"If-None-Match": part["ETag"]}).status_code == 304
    assert client.get(url, {"part": "nope"}).status_code == 404
    assert client_of().get(url).status_code == 403

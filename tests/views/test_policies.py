"""The pages of policies: list, version, editor as form and text, difference, and one relay's policy."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from relays.actions import policies
from relays.actions.base import Actor
from relays.core import policy
from relays.models import Decision, PolicyVersion, Relay, RelayStatus
from tests.reading import marked
from tests.web_builders import make_relay, make_user

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]

FIRST = "[relay]\n# the night\nceiling = 0.8\n"
SECOND = '[relay]\n# the night\nceiling = 0.8\ngreen = "make <check>"\n[relay.envelope]\nspend = "25"\n'


@pytest.fixture
def kept() -> list[PolicyVersion]:
    actor = Actor(make_user("mara", "operator"))
    return [policies.save(actor, "nightly", text, comment="Why <so>.") for text in (FIRST, SECOND)]


def snapshot(*sets: str) -> dict[str, Any]:
    return policy.to_snapshot(policy.build({}, None, {}, sets))


def test_the_list_names_versions_and_who_uses_them(client_of: ClientOf, kept: list[PolicyVersion]) -> None:
    make_relay(policy_version=kept[0], policy=snapshot())
    make_relay(policy_version=kept[1], policy=snapshot(), status=RelayStatus.DONE)
    page = marked(client_of("manager").get("/policies/"))
    assert "nightly" in page and "@2" in page and "Why &lt;so&gt;." in page
    assert re.search(r'aria-label="relays"></a>2</td>.*aria-label="of them living"></a>1<', page)
    assert "New policy" not in page, "a manager reads"
    assert "New policy" in marked(client_of("operator").get("/policies/"))


def test_without_any_policy_it_says_what_to_do(client_of: ClientOf) -> None:
    assert "No policy is kept yet" in marked(client_of("operator").get("/policies/"))


def test_a_version_says_what_holds_and_from_where(
    client_of: ClientOf, kept: list[PolicyVersion], settings: Any
) -> None:
    settings.SITE_POLICY = {"no_progress_legs": 5}
    make_relay(policy_version=kept[0], policy=snapshot(), objective="Close <them>")
    page = marked(client_of("reviewer").get("/policies/nightly/"))
    assert "make &lt;check&gt;" in page and "Close &lt;them&gt;" in page and "# the night" in page
    assert re.search(r"no_progress_legs</a>.*?>5</td>.*?src-site", page, re.DOTALL)
    assert re.search(r'src-policy" title="a repository may not set it"', page)
    old = marked(client_of("reviewer").get("/policies/nightly/1/"))
    assert "newer: nightly@2" in old and "make &lt;check&gt;" not in old
    assert client_of("manager").get("/policies/nightly/3/").status_code == 404
    assert client_of("manager").get("/policies/weekly/").status_code == 404


def test_the_difference_of_two_versions(client_of: ClientOf, kept: list[PolicyVersion]) -> None:
    page = marked(client_of("manager").get("/policies/nightly/diff/"))
    assert "nightly@2 says 2 keys otherwise than nightly@1" in page
    assert '<span class="add">+green = &quot;make &lt;check&gt;&quot;</span>' in page and "not set" in page
    same = marked(client_of("manager").get("/policies/nightly/diff/?from=2&to=2"))
    assert "nightly@2 and nightly@2 say the same" in same
    assert client_of("manager").get("/policies/nightly/diff/?from=9").status_code == 404


def test_the_form_keeps_a_version_and_marks_each_key_that_cannot_stand(client_of: ClientOf) -> None:
    client = client_of("operator")
    bad = {
        "name": "day",
        "as": "form",
        "do": "save",
        "key.ceiling": "7",
        "key.leg.turns": "many",
        "key.green": "make <x>",
    }
    answer = client.post("/policies/new/", bad)
    page = marked(answer)
    assert answer.status_code == 400 and "2 keys are marked below" in page
    assert "ceiling: must be above 0 and at most 1" in page and "leg.turns: must be a whole number" in page
    assert 'value="make &lt;x&gt;"' in page and 'value="many"' in page and not PolicyVersion.objects.exists()
    good = {**bad, "key.ceiling": "0.7", "key.leg.turns": "40", "key.mode": "shadow", "key.baseline": "window=1000"}
    answer = client.post("/policies/new/", good)
    assert (answer.status_code, answer["Location"]) == (303, "/policies/day/1/")
    row = PolicyVersion.objects.get()
    assert row.table == {
        "leg.turns": 40, "ceiling": 0.7, "green": "make <x>", "mode": "shadow", "baseline.window": 1000,
    }  # fmt: skip
    page = marked(client.get("/policies/day/edit/"))
    assert 'value="0.7"' in page and "window=1000" in page and "<option selected>shadow</option>" in page
    client.post("/policies/day/edit/", {**good, "key.green": "", "comment": "Less."})
    assert [(one.number, one.comment) for one in PolicyVersion.objects.order_by("number")] == [(1, ""), (2, "Less.")]
    assert "green" not in PolicyVersion.objects.get(number=2).table


def test_form_and_text_turn_into_each_other_and_text_keeps_its_comments(client_of: ClientOf) -> None:
    client = client_of("operator")
    answer = client.post("/policies/new/", {"name": "day", "as": "form", "do": "as_text", "key.leg.wall": "90s"})
    page = marked(answer)
    assert (
        "[relay.leg]\nwall = &quot;1m30s&quot;" in page and 'name="as" value="text"' in page and 'value="day"' in page
    )
    back = marked(client.post("/policies/new/", {"name": "day", "as": "text", "do": "as_form", "text": SECOND}))
    assert 'value="make &lt;check&gt;"' in back and 'name="as" value="form"' in back
    wrong = client.post("/policies/new/", {"name": "day", "as": "text", "do": "save", "text": "[relay]\nceilin = 1\n"})
    assert wrong.status_code == 400 and "ceilin: unknown key, did you mean ceiling?" in marked(wrong)
    assert "ceilin = 1" in marked(wrong)
    done = client.post(
        "/policies/new/", {"name": "day", "as": "text", "do": "save", "text": SECOND.replace("\n", "\r\n")}
    )
    assert done.status_code == 303 and PolicyVersion.objects.get().text == SECOND
    again = client.post("/policies/day/edit/", {"as": "text", "do": "save", "text": SECOND})
    assert "says so already" in marked(client.get(again["Location"]))
    assert PolicyVersion.objects.count() == 1


@pytest.mark.parametrize("role", ["reviewer", "manager"])
def test_who_reads_may_not_keep(role: str, client_of: ClientOf, kept: list[PolicyVersion]) -> None:
    client, relay = client_of(role), make_relay(policy=snapshot())
    assert client.get("/policies/new/").status_code == client.get("/policies/nightly/edit/").status_code == 403
    assert client.post("/policies/new/", {"name": "x", "as": "text", "do": "save", "text": FIRST}).status_code == 403
    assert client.get(f"/relays/{relay.pk}/policy/").status_code == 200
    assert client.post(f"/relays/{relay.pk}/policy/", {"sets": "ceiling=0.5", "comment": "x"}).status_code == 403
    assert PolicyVersion.objects.count() == 2


def test_a_relays_policy_is_shown_and_changed_with_a_reason(client_of: ClientOf, kept: list[PolicyVersion]) -> None:
    client, relay = client_of("operator"), make_relay(policy=snapshot("ceiling=0.85"))
    url = f"/relays/{relay.pk}/policy/"
    assert "no stored policy was named" in marked(client.get(url))
    refused = client.post(url, {"sets": "ceiling=0.7", "comment": ""})
    assert refused.status_code == 400 and "a comment is required" in marked(refused)
    assert "ceiling=0.7</textarea>" in marked(refused)
    done = client.post(url, {"policy": "nightly@2", "sets": "mark.context=0.5\r\nleg.turns=9", "comment": "Less <b>."})
    assert (done.status_code, done["Location"]) == (303, url)
    page = marked(client.get(url))
    assert "it holds from the next boundary on" in page and "nightly@2" in page and "Less &lt;b&gt;." in page
    relay = Relay.objects.get(pk=relay.pk)
    assert (relay.policy["ceiling"], relay.policy["leg"]["turns"], relay.policy_version) == (0.8, 9, kept[1])
    again = client.post(url, {"policy": "nightly@2", "comment": "x"})
    assert again.status_code == 409 and "says so already" in marked(again)
    assert Decision.objects.filter(act="relay_policy").count() == 1
    ended = make_relay(status=RelayStatus.DONE, policy=snapshot())
    assert "its policy stays as it was" in marked(client.get(f"/relays/{ended.pk}/policy/"))


def test_the_pages_ask_the_same_number_of_questions_for_few_and_for_many(
    client_of: ClientOf, kept: list[PolicyVersion]
) -> None:
    client, relay = client_of("operator"), make_relay(policy=snapshot())
    pages = ("/policies/", "/policies/nightly/", "/policies/nightly/diff/", f"/relays/{relay.pk}/policy/", "/start/")

    def counts() -> list[int]:
        found = []
        for page in pages:
            with CaptureQueriesContext(
                connection,
            ) as seen:
                assert client.get(page).status_code == 200
            found.append(len(seen))
        return found

    few = counts()
    actor = Actor(make_user("noor", "operator"))
    for n in range(12):
        version = policies.save(actor, f"p{n % 4}", f"[relay]\nno_progress_legs = {n + 1}\n")
        make_relay(policy_version=version, policy=snapshot())
        make_relay(policy_version=kept[0], policy=snapshot())
    assert counts() == few

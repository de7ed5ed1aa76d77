"""Named policies keep every version; a running relay's policy changes only by a recorded decision."""

from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from relays.actions import policies, reviewers
from relays.actions.base import Actor, NotFound, NotLegalNow, NotPermitted, Refused, Usage
from relays.actions.start import StartRequest, start
from relays.core import policy
from relays.driver import budgets
from relays.models import Decision, GateState, PolicyVersion, Relay, RelayStatus
from relays.reports import policies as report
from tests.actions.acts import People, check_chain, everything
from tests.web_builders import make_gate, make_relay, make_user

pytestmark = pytest.mark.django_db

NIGHTLY = '[relay]\n# what the night may cost\nceiling = 0.8\ngreen = "make check"\n[relay.envelope]\nspend = "25"\n'


def test_versions_are_counted_and_the_same_table_is_no_new_one(people: People) -> None:
    first = policies.save(people.operator, "nightly", NIGHTLY, comment="The night.")
    again = policies.save(people.operator, "nightly", NIGHTLY.replace("# what", "# that"))
    second = policies.save(people.operator, "nightly", NIGHTLY.replace("25", "30"))
    assert (first.number, again.pk, second.number) == (1, first.pk, 2)
    assert first.text == NIGHTLY, "a person's own words stay"
    assert first.table == {"ceiling": 0.8, "green": "make check", "envelope.spend": "25"}
    rows = list(Decision.objects.order_by("seq").values_list("act", "detail__number", "detail__digest", "comment"))
    assert rows == [("policy", 1, first.digest, "The night."), ("policy", 2, second.digest, "")]
    assert check_chain() == 2
    assert policies.version_or_refuse("nightly") == second
    assert policies.version_or_refuse("nightly@1") == first


REFUSED = {
    "key": ("[relay]\nceilin = 0.8\n", "ceilin: unknown key, did you mean ceiling?", "ceilin"),
    "value": ("[relay]\nceiling = 8\n", "ceiling: must be above 0 and at most 1", "ceiling"),
    "outside": ("[relay]\n[other]\nx = 1\n", "other: stands outside", "other"),
    "empty": ("", "no [relay] table", "relay"),
    "no TOML": ("[relay", "not valid TOML", "relay"),
    "long": ("[relay]\n" + "#" * 70_000, "longer than", "relay"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_names_the_key_and_keeps_nothing(what: str, people: People) -> None:
    text, words, key = REFUSED[what]
    before = everything()
    with pytest.raises(Usage) as refusal:
        policies.save(people.operator, "nightly", text)
    assert words in str(refusal.value) and refusal.value.field == key
    assert everything() == before and not PolicyVersion.objects.exists()


@pytest.mark.parametrize("name", ["", "new", "A", "a/b", "-a", "a b", "a" * 61, "ä", "a\n"])
def test_a_name_that_could_be_no_address_is_refused(name: str, people: People) -> None:
    with pytest.raises(Usage) as refusal:
        policies.save(people.operator, name, NIGHTLY)
    assert refusal.value.field == "name" and not PolicyVersion.objects.exists()


@pytest.mark.parametrize("who", ["reviewer", "manager", "outsider"])
def test_only_an_operator_keeps_or_changes(who: str, people: People) -> None:
    relay = make_relay(owner=people.operator.user)
    with pytest.raises(NotPermitted, match="role operator"):
        policies.save(getattr(people, who), "nightly", NIGHTLY)
    with pytest.raises(NotPermitted, match="role operator"):
        policies.change(getattr(people, who), relay.pk, sets=["ceiling=0.5"], comment="x")


def test_a_name_that_is_not_there_says_which_are(people: People) -> None:
    with pytest.raises(NotFound, match="none is stored yet"):
        policies.version_or_refuse("nightly")
    policies.save(people.operator, "nightly", NIGHTLY)
    with pytest.raises(NotFound, match="stored are: nightly"):
        policies.version_or_refuse("weekly@1")
    with pytest.raises(NotFound):
        policies.version_or_refuse("nightly@9")
    with pytest.raises(Usage, match="NAME@NUMBER"):
        policies.version_or_refuse("nightly@x")


def test_what_can_be_no_name_never_reaches_the_database(people: People) -> None:
    given: list[Any] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        given.extend(params or ())
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        with pytest.raises(NotFound):
            policies.version_or_refuse("a\0b")
        with pytest.raises(NotFound):
            reviewers.change_group(Actor(make_user("root", "admin")), "core", add=["ann\0"])
    assert not any("\0" in str(one) for one in given)


def test_a_relay_starts_with_a_version_and_its_own_values_over_it(people: People, repo: Path) -> None:
    version = policies.save(people.operator, "nightly", NIGHTLY)
    policies.save(people.operator, "nightly", NIGHTLY.replace("0.8", "0.7"))
    request = StartRequest(
        repo=str(repo), objective="Close them.", done_when="issues:none open", agent="scripted", version=version,
        sets=["envelope.spend=40"],
    )  # fmt: skip
    relay = Relay.objects.get(pk=start(people.operator, request).pk)
    found = budgets.policy_of(relay)
    assert (found.ceiling, found.green, found.envelope.spend) == (0.8, "make check", 40)
    assert relay.policy_version == version
    assert Decision.objects.get(relay=relay).detail["policy"] == "nightly@1"
    sources = {"ceiling": "policy", "green": "policy", "envelope.spend": "start"}
    assert Decision.objects.get(relay=relay).detail["policy_from"] == sources
    shown = {row.key: row.source for group in report.relay_policy(relay).groups for row in group.rows if row.own}
    assert shown == sources
    named = report.list_page().names
    assert [(one.newest.number, one.versions, one.relays, one.living) for one in named] == [(2, 2, 1, 1)]
    page = report.version_page(version)
    assert [(one.relay_id, one.number) for one in page.used] == [(relay.pk, 1)]
    assert [(row.version.number, row.relays) for row in page.versions] == [(2, 0), (1, 1)]


def test_a_change_is_one_decision_that_says_what_changed(people: People, repo: Path) -> None:
    version = policies.save(people.operator, "nightly", NIGHTLY)
    request = StartRequest(repo=str(repo), objective="Close.", done_when="issues:none open", agent="scripted")
    relay = start(people.operator, request)
    policies.change(people.operator, relay.pk, version=version, sets=["mode=advise"], comment="Cheaper nights.")
    relay.refresh_from_db()
    found = budgets.policy_of(relay)
    assert (found.ceiling, found.green, relay.mode, relay.policy_version) == (0.8, "make check", "advise", version)
    row = Decision.objects.get(act="relay_policy")
    sets = ["mode=advise", "ceiling=0.8", "green=make check", "envelope.spend=25"]
    assert sorted(row.detail["sets"]) == sorted(sets) and row.detail["policy"] == "nightly@1"
    assert Decision.objects.get(act="limit").detail["of"] == row.seq
    assert check_chain() == 4
    shown = report.relay_policy(relay)
    assert shown.changed[0].policy == "nightly@1" and shown.changed[0].comment == "Cheaper nights."
    assert {r.key: r.source for g in shown.groups for r in g.rows if r.own}["ceiling"] == "decision"


def test_what_it_says_already_or_may_never_change_is_refused(people: People) -> None:
    relay = make_relay(owner=people.operator.user, policy=_snapshot(), done_when="issues:none open")
    version = policies.save(people.operator, "odd", "[relay]\napprovals = 3\n")
    before = everything()
    cases: list[tuple[dict[str, Any], str, type[Refused]]] = [
        ({"sets": ["ceiling=0.9"]}, "says so already", NotLegalNow),
        ({"sets": ["ceiling=0.90", "mark.context=.6"]}, "says so already", NotLegalNow),
        ({"sets": ["approvals=2"]}, "fixed when a relay starts", Usage),
        ({"sets": ["four_eyes=false"]}, "fixed when a relay starts", Usage),
        ({"version": version}, "approvals: fixed when a relay starts", Usage),
        ({"sets": ["ceilin=0.5"]}, "did you mean ceiling", Usage),
        ({"sets": ["ceiling"]}, "key=value", Usage),
        ({}, "name a stored policy", Usage),
    ]
    for values, words, kind in cases:
        with pytest.raises(kind, match=words):
            policies.change(people.operator, relay.pk, **values, comment="x")
    with pytest.raises(Usage, match="comment is required"):
        policies.change(people.operator, relay.pk, sets=["ceiling=0.5"], comment=" ")
    assert everything() == before
    done = make_relay(status=RelayStatus.DONE, policy=_snapshot())
    with pytest.raises(NotLegalNow, match="it is done"):
        policies.change(people.operator, done.pk, sets=["ceiling=0.5"], comment="x")


def test_limits_that_a_gate_asks_about_are_decided_there(people: People) -> None:
    relay = make_relay(status=RelayStatus.PARKED, policy=_snapshot())
    gate = make_gate(relay, "BUDGET_EXHAUSTED", state=GateState.WAITING)
    with pytest.raises(NotLegalNow, match=f"gate {gate.pk} asks about its limits"):
        policies.change(people.operator, relay.pk, sets=["envelope.legs=50"], comment="x")
    policies.change(people.operator, relay.pk, sets=["ceiling=0.5"], comment="x")


def test_a_prose_goal_keeps_a_limit(people: People) -> None:
    relay = make_relay(done_when="it reads well", policy=_snapshot("envelope.legs=3"))
    with pytest.raises(Usage, match="envelope: a goal in prose needs at least one limit"):
        policies.change(people.operator, relay.pk, sets=["envelope.legs=none"], comment="x")


def _snapshot(*sets: str) -> dict[str, Any]:
    return policy.to_snapshot(policy.build({}, None, {}, sets))

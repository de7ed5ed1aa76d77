"""Groups of reviewers: whose members alone decide, set at the start or by a recorded decision."""

from pathlib import Path

import pytest

from relays.actions import people as naming
from relays.actions import reviewers
from relays.actions.base import Actor, NotFound, NotLegalNow, NotPermitted, Usage
from relays.actions.start import StartRequest, start
from relays.models import Decision, GateEpisode, GateState, Relay, ReviewerGroup
from relays.reports import reviewers as report
from tests import builders
from tests.actions.acts import People, approve, check_chain, everything, refuse, seen
from tests.report_builders import Story
from tests.web_builders import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> Actor:
    return Actor(make_user("ada", "admin"))


@pytest.fixture
def backend(admin: Actor, people: People) -> ReviewerGroup:
    """`sam` alone is in it; `rae` may review as well."""
    reviewers.change_group(admin, "backend", add=["sam"])
    return ReviewerGroup.objects.get()


def give(actor: Actor, gate: GateEpisode, group: str = "backend") -> Decision:
    return reviewers.give(actor, gate.relay_id, group, "Only they know it.")


def test_only_a_member_decides_whatever_the_role(
    admin: Actor, people: People, backend: ReviewerGroup, gate: GateEpisode
) -> None:
    row = give(admin, gate)
    assert (row.act, row.detail, row.relay) == ("reviewers", {"group": "backend", "before": ""}, gate.relay)
    before = everything()
    for who in (people.reviewer, admin):
        for act in (approve, refuse):
            with pytest.raises(NotPermitted, match="only the reviewer group backend decides on .* in it: sam") as no:
                act(who, gate)
            assert no.value.exit_code == 12
    assert everything() == before
    assert refuse(people.second, gate).state == "refused"
    with pytest.raises(NotPermitted, match="only the reviewer group"):
        approve_reopened(people.reviewer, gate)
    assert check_chain() == Decision.objects.count()


def approve_reopened(actor: Actor, gate: GateEpisode) -> object:
    return refuse(actor, gate, reopen=True)


@pytest.mark.slow
def test_who_is_in_the_group_without_the_role_decides_nothing(
    admin: Actor, people: People, backend: ReviewerGroup, gate: GateEpisode
) -> None:
    reviewers.change_group(admin, "backend", add=["max"])
    give(admin, gate)
    with pytest.raises(NotPermitted, match="role reviewer"):
        approve(people.manager, gate)
    row = report.group_rows()[0]
    assert (row.name, row.names, row.silent, row.relays) == ("backend", ("sam",), ("max",), 1)


def test_approvals_of_before_lapse_and_who_looked_looks_again(
    admin: Actor, people: People, backend: ReviewerGroup, gate: GateEpisode
) -> None:
    Relay.objects.update(policy={"approvals": 1})
    looked = seen(gate)
    give(admin, gate)
    from relays.actions.base import ChangedSinceSeen

    with pytest.raises(ChangedSinceSeen):
        approve(people.second, gate, seen=looked)
    assert approve(people.second, gate).state == "requested"


def test_who_may_choose_it(admin: Actor, people: People, backend: ReviewerGroup, gate: GateEpisode) -> None:
    before = everything()
    for who in (people.operator, people.manager, people.outsider):
        with pytest.raises(NotPermitted):
            give(who, gate)
    assert everything() == before
    give(people.reviewer, gate)  # who may decide now may hand it on
    with pytest.raises(NotPermitted, match="only the reviewer group backend"):
        give(people.reviewer, gate, "")  # and cannot take it back
    give(people.second, gate, "")
    assert Relay.objects.get().reviewers is None
    with pytest.raises(NotLegalNow, match="decides already"):
        give(admin, gate, "")


@pytest.mark.slow
def test_who_started_it_does_not_choose_who_decides(
    admin: Actor, people: People, backend: ReviewerGroup, gate: GateEpisode
) -> None:
    Relay.objects.update(owner=people.reviewer.user)
    with pytest.raises(NotPermitted, match="four eyes: who started it does not choose"):
        give(people.reviewer, gate)


@pytest.mark.slow
def test_a_group_that_could_never_give_the_approvals_is_refused(
    admin: Actor, people: People, backend: ReviewerGroup, gate: GateEpisode
) -> None:
    Relay.objects.update(policy={"approvals": 2})
    with pytest.raises(Usage, match="2 approvals wanted, and group backend has 1 who may approve"):
        give(admin, gate)
    Relay.objects.update(policy={}, owner=people.second.user)
    with pytest.raises(Usage, match="has 0 who may approve, sam who started it not counted"):
        give(admin, gate)


def test_a_group_never_lifts_four_eyes(admin: Actor, people: People, backend: ReviewerGroup, gate: GateEpisode) -> None:
    """A group that has shrunk to the one who started it leaves nobody, not them alone."""
    give(admin, gate)
    Relay.objects.update(owner=people.second.user)
    with pytest.raises(NotPermitted, match="nobody is left in its group"):
        approve(people.second, gate)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"name": "x" * 61, "add": ["sam"]}, Usage),
        ({"name": "../a", "add": ["sam"]}, Usage),
        ({"name": "new"}, Usage),
        ({"name": "new", "add": ["nobody"]}, NotFound),
        ({"name": "backend", "add": ["rae"], "remove": ["rae"]}, Usage),
        ({"name": "backend", "remove": ["sam"]}, NotLegalNow),
    ],
)
def test_changes_of_a_group_that_are_refused(
    admin: Actor, people: People, backend: ReviewerGroup, gate: GateEpisode, values: dict[str, object], error: type
) -> None:
    give(admin, gate)
    before, members = everything(), sorted(backend.members.values_list("username", flat=True))
    with pytest.raises(error):
        reviewers.change_group(admin, **values)  # type: ignore[arg-type]
    assert everything() == before
    assert sorted(backend.members.values_list("username", flat=True)) == members
    with pytest.raises(NotPermitted):
        reviewers.change_group(people.reviewer, "mine", add=["rae"])


def test_a_change_of_a_group_is_a_decision(admin: Actor, people: People, backend: ReviewerGroup) -> None:
    row = reviewers.change_group(admin, "backend", add=["rae", "sam"], remove=["max"])
    assert row.detail == {"group": "backend", "made": False, "added": ["rae"], "removed": []}
    assert naming.approvers() == ("ada", "rae", "sam")
    assert check_chain() == 2


@pytest.mark.slow
def test_a_start_names_its_group(admin: Actor, people: People, backend: ReviewerGroup, tmp_path: Path) -> None:
    repo = builders.make_repo(tmp_path / "repo", issues=1)

    def request(**values: object) -> StartRequest:
        return StartRequest(str(repo), "Close them.", "issues:none open", "scripted", **values)  # type: ignore[arg-type]

    before = everything()
    with pytest.raises(NotFound, match="known: backend"):
        start(people.operator, request(reviewers="frontend"))
    with pytest.raises(Usage, match="start: 2 approvals wanted"):
        start(people.operator, request(reviewers="backend", sets=["approvals=2"]))
    assert everything() == before
    relay = start(people.operator, request(reviewers="backend"))
    assert relay.reviewers == backend
    assert Decision.objects.get(act="start").detail["reviewers"] == "backend"


@pytest.mark.slow
def test_a_relay_that_ended_has_nothing_to_decide(
    admin: Actor, people: People, backend: ReviewerGroup, story: Story
) -> None:
    gate = story.park(state=GateState.SUPERSEDED)
    from django.utils import timezone

    Relay.objects.update(status="stopped", ended_at=timezone.now(), ended_reason="STOPPED")
    with pytest.raises(NotLegalNow, match="it is stopped"):
        give(admin, gate)

"""rules.md, Objective: "A person may set a new objective, add or remove pins and explicit facts: recorded decisions
that the next leg gets by pointer"; Reset transaction: contributors are "objective pin, baton, recorded user facts by
pointer"."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from relays.actions import userfacts
from relays.actions.base import NotFound, NotLegalNow, NotPermitted, Usage
from relays.core import reset
from relays.core.userfacts import MOST
from relays.driver import reload, successor
from relays.driver import userfacts as standing
from relays.models import Baton, Decision, LedgerRow, Leg, Relay, RelayStatus, ResetTransaction
from relays.reports import seed
from relays.reports import userfacts as report
from tests.actions.acts import People, check_chain, everything
from tests.driver.course import Course
from tests.report_builders import Story

pytestmark = pytest.mark.django_db

PORT = "The port is 8001."


def given_by(reset: ResetTransaction) -> list[str]:
    """Pointers of user facts that crossed."""
    return [part["pointer"] for part in reset.contributors if part["kind"] == "user_fact"]


def current(relay: Relay) -> Baton:
    return Baton.objects.get(relay=relay, current=True)


def test_a_fact_is_a_decision_a_ledger_row_and_in_the_next_baton_and_seed(people: People, story: Story) -> None:
    before = current(story.relay)
    done = userfacts.add_fact(people.operator, story.relay.pk, f"  {PORT} ", comment="Told by the host.")
    row = Decision.objects.get()
    assert (row.act, row.seq, row.actor, row.comment) == (
        "fact_add",
        done.decision,
        people.operator.user,
        "Told by the host.",
    )
    pointer = f"ledger:{story.relay.pk}.1.p{row.seq}"
    assert [(one.kind, one.pointer, one.text) for one in done.facts] == [("fact", pointer, PORT)]
    mirror = LedgerRow.objects.get(pk=pointer.removeprefix("ledger:"))
    assert (mirror.by, json.loads(mirror.note)) == ("person", {"decision": row.seq, "fact": PORT})
    now = current(story.relay)
    assert (now.why, now.pin_digest) == ("decision", before.pin_digest), "the objective's pin is byte-identical"
    assert json.loads(now.text)["artifacts"][-1] == {"kind": "ledger", "ref": mirror.pk}
    assert {key: value for key, value in json.loads(now.text).items() if key != "artifacts"} == {
        key: value for key, value in json.loads(before.text).items() if key != "artifacts"
    }
    leg = successor.make(story.relay, story.legs[-1], now, story.clock)
    assert given_by(ResetTransaction.objects.get(new_leg=leg)) == [pointer]
    assert check_chain() == 1


def test_a_pin_is_given_to_every_leg_until_it_is_removed(people: People, story: Story) -> None:
    userfacts.add_pin(people.operator, story.relay.pk, "file:README.md")
    assert standing.pointers(story.relay.pk) == ("file:README.md",)
    first = successor.make(story.relay, story.legs[-1], current(story.relay), story.clock)
    Leg.objects.filter(pk=first.pk).update(state="ended", ended_at=story.clock, reason="RELAY_ROTATED")
    done = userfacts.remove(people.operator, story.relay.pk, "pin", "file:README.md")
    assert done.facts == () and Decision.objects.count() == 2
    second = successor.make(story.relay, first, current(story.relay), story.clock)
    resets = [ResetTransaction.objects.get(new_leg=leg) for leg in (first, second)]
    assert [given_by(one) for one in resets] == [["file:README.md"], []]
    mirrors = [LedgerRow.objects.get(pk=one["ref"]) for one in json.loads(current(story.relay).text)["artifacts"][-2:]]
    assert [mirror.refs for mirror in mirrors] == [["file:README.md"], [f"ledger:{mirrors[1].pk}"]]


def test_what_stood_when_the_leg_began_is_what_its_seed_proves(people: People, story: Story) -> None:
    """A fact that is stated between the rotation and the start is in the seed; one of later is not."""
    leg = successor.make(story.relay, story.legs[-1], current(story.relay), story.clock)
    rotation = ResetTransaction.objects.get(new_leg=leg)
    begun = seed.of(rotation)
    assert begun is not None and (begun.digest, begun.why) == (rotation.seed_digest, "") and begun.size
    userfacts.add_fact(people.operator, story.relay.pk, PORT)
    told = seed.of(rotation)
    assert told is not None and told.why == "a decision" and told.digest != rotation.seed_digest
    assert (
        told.digest
        == reset.seed(
            reset.PREAMBLE, story.pin, current(story.relay).text.encode(), standing.pointers(story.relay.pk)
        ).digest
    )
    leg.started_at = Decision.objects.get().at
    leg.save()
    userfacts.add_pin(people.operator, story.relay.pk, "file:README.md")
    rotation.refresh_from_db()
    assert seed.of(ResetTransaction.objects.get(new_leg=leg)) == told
    assert len(report.standing(story.relay.pk, leg.started_at)) == 1 < len(report.standing(story.relay.pk))


def test_before_any_leg_ended_the_first_baton_points_at_it(people: People, tmp_path: Path) -> None:
    story = Story(tmp_path / "early", owner=people.operator.user)
    done = userfacts.add_fact(people.operator, story.relay.pk, PORT)
    assert done.facts[0].pointer == f"ledger:{story.relay.pk}.r.p{done.decision}"
    assert LedgerRow.objects.filter(pk=done.facts[0].pointer.removeprefix("ledger:"), leg=None).exists()


def test_every_pointer_of_a_baton_with_facts_still_resolves(people: People, story: Story) -> None:
    userfacts.add_fact(people.operator, story.relay.pk, PORT)
    userfacts.add_pin(people.operator, story.relay.pk, "file:README.md")
    found = reload.climb(story.relay, current(story.relay), purpose="verify", leg=None, now=story.clock)
    assert found.ladder.outcome == "fresh", found.ladder.evidence


@pytest.mark.slow
def test_each_leg_is_told_and_a_rotation_records_it(course: Callable[..., Course], tmp_path: Path) -> None:
    """The agent has the pointers in its environment, from leg 0 on; what is stated later the next one has."""
    out = tmp_path / "facts.txt"
    worker = "from relays.agents import scripted_worker as w; import os, sys\n" + (
        f"open({str(out)!r}, 'a').write(os.environ['RELAY_FACTS'] + chr(10))\nsys.exit(w.main(['items=1']))"
    )
    root = str(Path(__file__).parents[2])
    code = f"import sys; sys.path.insert(0, {root!r})\n{worker}"
    relay = course(issues=2, agent="command", args={"argv": json.dumps([sys.executable, "-c", code])})
    from tests.driver.course import operator

    first = userfacts.add_fact(operator(), relay.pk, PORT).facts[0].pointer
    relay.step()
    userfacts.add_pin(operator(), relay.pk, "file:README.md")
    userfacts.remove(operator(), relay.pk, "fact", PORT)
    relay.drive()
    assert relay.relay.status == RelayStatus.DONE
    assert out.read_text().splitlines() == [first, "file:README.md"]
    assert given_by(ResetTransaction.objects.get(old_leg__relay=relay.pk)) == [first]
    assert relay.reload.outcome in ("fresh", "done")


# --- what does not happen


def test_the_same_again_is_one_decision(people: People, story: Story) -> None:
    once = userfacts.add_fact(people.operator, story.relay.pk, PORT)
    again = userfacts.add_fact(people.operator, story.relay.pk, PORT)
    assert (again.decision, again.facts) == (None, once.facts) and Decision.objects.count() == 1


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda who, pk: userfacts.add_fact(who, pk, " "), "must be one line of plain text"),
        (lambda who, pk: userfacts.add_fact(who, pk, "two\nlines"), "must be one line of plain text"),
        (lambda who, pk: userfacts.add_fact(who, pk, "x" * 600), "is too long for a ledger row"),
        (lambda who, pk: userfacts.add_fact(who, pk, '"' * 300), "is too long for a ledger row"),
        (lambda who, pk: userfacts.add_pin(who, pk, "keep it short"), "write it as kind:ref or #n"),
        (lambda who, pk: userfacts.add_pin(who, pk, "file:no/such/file"), "does not resolve"),
        (lambda who, pk: userfacts.remove(who, pk, "pin", "file:README.md"), "no such pin stands; standing are: none"),
        (lambda who, pk: userfacts.remove(who, pk, "fact", PORT), "no such fact stands"),
    ],
)
def test_what_cannot_stand_is_refused_in_one_line_and_changes_nothing(
    people: People, story: Story, act: Callable[..., object], words: str
) -> None:
    before = everything()
    with pytest.raises(Usage, match=words):
        act(people.operator, story.relay.pk)
    assert everything() == before


@pytest.mark.slow
def test_a_seed_holds_no_more_than_it_can(people: People, story: Story) -> None:
    for number in range(MOST):
        userfacts.add_fact(people.operator, story.relay.pk, f"Fact {number}.")
    with pytest.raises(NotLegalNow, match=f"{MOST} pins and facts stand"):
        userfacts.add_pin(people.operator, story.relay.pk, "file:README.md")
    successor.make(story.relay, story.legs[-1], current(story.relay), story.clock)


def test_only_an_operator_and_only_while_a_leg_may_follow(people: People, story: Story) -> None:
    before = everything()
    for who in (people.reviewer, people.manager, people.outsider):
        with pytest.raises(NotPermitted):
            userfacts.add_fact(who, story.relay.pk, PORT)
    with pytest.raises(NotFound):
        userfacts.add_fact(people.operator, "RLY-20200101-0001", PORT)
    assert everything() == before
    Relay.objects.filter(pk=story.relay.pk).update(status=RelayStatus.STOPPED, ended_at=story.clock)
    with pytest.raises(NotLegalNow, match="no leg follows"):
        userfacts.add_fact(people.operator, story.relay.pk, PORT)


def test_a_baton_that_does_not_read_can_carry_nothing(people: People, story: Story) -> None:
    row = current(story.relay)
    Baton.objects.filter(pk=row.pk).update(current=False)
    Baton.objects.create(
        relay=story.relay, leg=row.leg, text="{}", digest="0" * 64, pin_digest="", size=2, current=True, why="stale",
        at=story.clock,
    )  # fmt: skip
    before = everything()
    with pytest.raises(NotLegalNow, match="does not read"):
        userfacts.add_fact(people.operator, story.relay.pk, PORT)
    assert everything() == before

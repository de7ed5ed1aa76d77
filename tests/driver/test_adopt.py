"""architecture.md: "a clone with `refs/notes/relay` and `refs/relay/*` fetched can be taken up on another host
(`relay adopt --repo DIR`); two legs that end at one SHA append to its note". rules.md: Budgets never reset by accident;
Park: "never resumes by itself"; "A command inside a baton or repository is never run because it stands there".

The other house is this process with an empty database and a RELAY_VAR of its own.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from hypothesis import example, given
from hypothesis import strategies as st

from relays.actions import adopt as acts
from relays.actions import park, resume, userfacts
from relays.actions.adopt import adopt
from relays.actions.adoption import AdoptRequest
from relays.actions.base import Actor, Held, NotFound, NotLegalNow, NotPermitted, Refused, Usage
from relays.core import baton as batons
from relays.core import travel
from relays.core.pointers import read_entry
from relays.driver import adopt as taking_up
from relays.driver import outbox
from relays.models import (
    Baton,
    Counted,
    Decision,
    GateEpisode,
    LedgerRow,
    Leg,
    LegState,
    RegionLease,
    Relay,
    RelayStatus,
    Tombstone,
    Verification,
)
from relays.reports import audit, status
from relays.reports import userfacts as facts_report
from relays.stores import travel as travel_store
from relays.stores.git import GitStore
from tests.builders import git, make_repo
from tests.driver.course import Course, boundary, commit, operator, player, start_relay, turn, user
from tests.tamper import unguarded

pytestmark = pytest.mark.slow

Start = Callable[..., Course]
REFS = ("refs/notes/relay:refs/notes/relay", "refs/relay/*:refs/relay/*")


def owed() -> None:
    """All effects outside the database that are owed."""
    while outbox.carry_out():
        pass


def clone(repo: Path, to: Path, *, refs: tuple[str, ...] = REFS) -> Path:
    git(repo.parent, "clone", "-q", "--no-hardlinks", str(repo), str(to))
    if refs:
        git(to, "fetch", "-q", "origin", *refs)
    return to


@pytest.fixture
def elsewhere(tmp_path: Path, settings: Any) -> Callable[[], None]:
    """`elsewhere()`: from here on this is another house, which knows nothing."""

    def move() -> None:
        with unguarded():
            call_command("flush", interactive=False, verbosity=0)
        settings.RELAY_VAR = tmp_path / "another-var"

    return move


def repo_of(relay: Course) -> Path:
    return Path(relay.relay.repo)


@dataclass(frozen=True)
class Gone:
    """A relay of a house that is gone: two legs closed two of four issues, then a person parked it."""

    pk: str
    relay: Relay
    legs: tuple[Leg, ...]
    rows: tuple[dict[str, Any], ...]
    text: str
    repo: Path
    clone: Path = Path()

    @property
    def baton(self) -> batons.Baton:
        found = batons.read(self.text).baton
        assert found is not None
        return found

    @property
    def store(self) -> GitStore:
        return GitStore(self.clone, self.clone.parent / "shield")

    @property
    def tip(self) -> str:
        return git(self.clone, "rev-parse", f"refs/remotes/origin/{self.relay.branch}")


_KEPT: list[Gone] = []


@pytest.fixture
def parked(course: Start) -> Course:
    relay = course(issues=4, sets=["envelope.legs=9", "leg.turns=40"])
    relay.step()
    relay.step()
    assert relay.relay.status == RelayStatus.READY
    park.park(operator(), relay.pk)
    owed()
    return relay


@pytest.fixture
def gone(request: pytest.FixtureRequest, transactional_db: None, tmp_path: Path) -> Gone:
    """Driven once; each test is in another house already and has a clone of its own."""
    request.getfixturevalue("course")  # no bells, a RELAY_VAR of this test
    if not _KEPT:
        relay: Course = request.getfixturevalue("parked")
        kept = request.getfixturevalue("tmp_path_factory").mktemp("gone") / "repo"
        shutil.copytree(repo_of(relay), kept)
        rows = tuple(LedgerRow.objects.order_by("pk").values("pk", "refs", "at"))
        text = Baton.objects.get(relay=relay.pk, current=True).text
        _KEPT.append(Gone(relay.pk, relay.relay, tuple(relay.legs), rows, text, kept))
    request.getfixturevalue("elsewhere")()
    return replace(_KEPT[0], clone=clone(_KEPT[0].repo, tmp_path / "clone"))


def test_it_goes_on_on_another_host_to_its_end(gone: Gone) -> None:
    before, old_legs, place = gone.relay, gone.legs, gone.clone
    done = adopt(operator(), AdoptRequest(str(place), comment="the old machine is sold"))
    assert (done.relay, done.leg, done.outcome, done.status) == (before.pk, 1, "fresh", "parked")
    relay = Course(done.relay).relay
    for same in ("pin_id", "objective", "objective_digest", "done_when", "region", "branch", "start_sha", "agent"):
        assert getattr(relay, same) == getattr(before, same), same
    assert relay.agent_args == before.agent_args
    assert (relay.repo, relay.owner.get_username()) == (str(place), "pat")
    assert Path(relay.worktree) != Path(before.worktree) and (Path(relay.worktree) / ".git").is_file()
    assert git(Path(relay.worktree), "symbolic-ref", "--short", "HEAD") == relay.branch

    # what was spent stays spent, the limits of the start hold
    assert relay.spent == before.spent
    assert relay.policy["envelope"]["legs"] == 9 and relay.policy["leg"]["turns"] == 40
    assert "rotations_per_hour" in done.left_out[0], "0 (off) is looser than this house's"

    # legs, batons and ledger as they were
    assert Baton.objects.get(relay=relay, current=True).text == gone.text
    new_legs = list(Leg.objects.filter(relay=relay).order_by("number"))
    assert [(leg.number, leg.state, leg.reason, leg.trace) for leg in new_legs] == [
        (leg.number, LegState.ENDED, leg.reason, leg.trace) for leg in old_legs
    ]
    assert [leg.end_sha for leg in new_legs] == [leg.end_sha for leg in old_legs]
    assert list(LedgerRow.objects.order_by("pk").values("pk", "refs", "at")) == list(gone.rows)
    assert Tombstone.objects.filter(leg__relay=relay).count() == 2
    row = Decision.objects.get()
    assert (row.act, row.relay_id, row.comment, row.detail["outcome"]) == (
        "adopt", relay.pk, "the old machine is sold", "fresh",
    )  # fmt: skip
    assert Verification.objects.get().purpose == "adopt"
    assert RegionLease.objects.get(relay=relay).held
    assert audit.verify().ok

    # every page of it says what is known and nothing more
    client = Client()
    client.force_login(relay.owner)
    for page in (f"/relays/{relay.pk}/", f"/relays/{relay.pk}/legs/1/", f"/relays/{relay.pk}/batons/1/", "/relays/"):
        assert client.get(page).status_code == 200, page

    # a person parked it there: a person lets it go on here
    assert Course(relay.pk).open_leg is None
    resume.resume(operator(), relay.pk)
    ended = Course(relay.pk).drive()
    assert ended.status == RelayStatus.DONE
    assert [leg.number for leg in Course(relay.pk).legs] == [0, 1, 2, 3]
    assert [leg.progress for leg in Course(relay.pk).legs][2:] == [leg.progress for leg in old_legs]
    assert status.status(relay.pk)["verdicts"]["objective"] == "holds"
    assert status.status(relay.pk)["verdicts"]["attribution"] != "violated"


def test_a_host_that_may_still_drive_it_needs_a_persons_word(
    course: Start, tmp_path: Path, elsewhere: Callable[[], None]
) -> None:
    relay = course(issues=3)
    relay.step()
    owed()
    assert relay.relay.status == RelayStatus.READY
    place = clone(repo_of(relay), tmp_path / "clone")
    elsewhere()
    with pytest.raises(NotLegalNow, match="may still drive it.*--host-dead") as refusal:
        adopt(operator(), AdoptRequest(str(place)))
    assert refusal.value.exit_code == 13 and "\n" not in str(refusal.value)
    assert not Relay.objects.exists() and not Decision.objects.exists()
    assert git(place, "for-each-ref", "refs/heads/relay") == "", "a refused adoption makes nothing"

    done = adopt(operator(), AdoptRequest(str(place), host_dead=True))
    assert (done.status, done.outcome, done.leg) == ("ready", "fresh", 0)
    assert Decision.objects.get().detail["host_dead"] is True
    pending = Course(relay.pk).open_leg
    assert pending is not None and (pending.number, pending.state) == (1, LegState.PENDING)
    Course(relay.pk).step()
    assert [leg.reason for leg in Course(relay.pk).legs] == ["RELAY_ROTATED", "RELAY_ROTATED"]


def test_an_unsafe_end_asks_here_as_it_asked_there(
    course: Start, tmp_path: Path, elsewhere: Callable[[], None]
) -> None:
    relay = course(issues=3, args={"items": "1", "dirty": "1"})
    relay.drive()
    assert relay.waiting == ["RELAY_PARKED_UNSAFE"]
    wip = relay.baton.cursor.wip_tree
    owed()
    place = clone(repo_of(relay), tmp_path / "clone")
    elsewhere()
    done = adopt(operator(), AdoptRequest(str(place)))
    assert (done.outcome, done.status) == ("fresh", "parked")
    here = Course(relay.pk)
    assert here.waiting == ["RELAY_PARKED_UNSAFE"] and here.open_leg is None
    assert here.baton.cursor.wip_tree == wip
    here.approve("RELAY_PARKED_UNSAFE")
    here.step()
    leg = Leg.objects.get(relay=relay.pk, number=1)
    assert leg.wip_laid_back == "applied", "parked work crosses hosts"


def test_without_the_refs_the_relay_is_not_there(gone: Gone, tmp_path: Path) -> None:
    place = clone(gone.repo, tmp_path / "bare-clone", refs=())
    empty = make_repo(tmp_path / "empty")
    with pytest.raises(NotFound, match=r"git fetch origin 'refs/notes/relay:refs/notes/relay'") as refusal:
        adopt(operator(), AdoptRequest(str(place)))
    assert refusal.value.exit_code == 14
    with pytest.raises(NotFound, match="holds no relay"):
        adopt(operator(), AdoptRequest(str(empty)))
    with pytest.raises(NotFound):
        adopt(operator(), AdoptRequest(str(place), relay="RLY-none"))
    for bad in ("", str(tmp_path / "nowhere"), str(tmp_path), "a\0b"):
        with pytest.raises(Usage):
            adopt(operator(), AdoptRequest(bad))
    with pytest.raises(Usage):
        adopt(operator(), AdoptRequest(str(place), relay="../../x"))
    assert not Relay.objects.exists()


def test_notes_alone_need_word_and_agent_and_say_what_is_not_known(gone: Gone, tmp_path: Path) -> None:
    place = clone(gone.repo, tmp_path / "notes-alone", refs=REFS[:1])
    with pytest.raises(NotLegalNow, match="no record says"):
        adopt(operator(), AdoptRequest(str(place)))
    with pytest.raises(Usage, match="--agent NAME"):
        adopt(operator(), AdoptRequest(str(place), host_dead=True))
    done = adopt(operator(), AdoptRequest(str(place), host_dead=True, agent="scripted", agent_args={"items": "1"}))
    assert done.status == "ready"
    assert done.left_out == ("no record of its limits and of what it has spent travelled with it",)
    assert Relay.objects.get().legs_used == 2, "the batons prove as many"


def test_known_here_or_ended_is_refused(parked: Course, tmp_path: Path, elsewhere: Callable[[], None]) -> None:
    place = clone(repo_of(parked), tmp_path / "clone")
    with pytest.raises(NotLegalNow, match=f"known here and parked; use `relay resume {parked.pk}`"):
        adopt(operator(), AdoptRequest(str(place)))
    resume.resume(operator(), parked.pk)
    with pytest.raises(NotLegalNow, match="known here and ready; it goes on by itself"):
        adopt(operator(), AdoptRequest(str(place)))
    park.stop(operator(), parked.pk)
    owed()
    git(place, "fetch", "-q", "origin", *REFS)
    with pytest.raises(NotLegalNow, match="known here and stopped"):
        adopt(operator(), AdoptRequest(str(place)))
    elsewhere()
    with pytest.raises(NotLegalNow, match="it is stopped where it ran"):
        adopt(operator(), AdoptRequest(str(place), host_dead=True))
    assert not Relay.objects.exists()


def test_a_goal_that_is_reached_stays_reached(course: Start, tmp_path: Path, elsewhere: Callable[[], None]) -> None:
    relay = course(issues=1)
    relay.drive()
    owed()
    place = clone(repo_of(relay), tmp_path / "clone", refs=REFS[:1])
    elsewhere()
    with pytest.raises(NotLegalNow, match="it is done where it ran"):
        adopt(operator(), AdoptRequest(str(place), host_dead=True, agent="scripted"))


def test_of_several_relays_one_is_named(course: Start, tmp_path: Path, elsewhere: Callable[[], None]) -> None:
    repo = make_repo(tmp_path / "shared", issues=2)
    script = [*turn(), *boundary("Go on.", final=True)]
    both = [course(repo=repo, region=[f"{name}/**"], done=f"file:{name}/x", **player(script)) for name in "ab"]
    for relay in both:
        relay.step()
        park.park(operator(), relay.pk)
    owed()
    place = clone(repo, tmp_path / "clone")
    elsewhere()
    agent = player(script)
    request = AdoptRequest(str(place), agent=agent["agent"], agent_args=agent["args"])
    with pytest.raises(Usage, match=f"2 relays: {both[0].pk}, {both[1].pk}; name one with --relay"):
        adopt(operator(), request)
    assert adopt(operator(), replace(request, relay=both[1].pk)).relay == both[1].pk
    assert adopt(operator(), request).relay == both[0].pk, "the only one that is not known here yet"
    with pytest.raises(NotLegalNow, match="known here already"):
        adopt(operator(), request)


def test_a_region_that_is_held_here_is_exit_6_and_makes_nothing(gone: Gone) -> None:
    place = gone.clone
    holder = start_relay(place)
    with pytest.raises(Held, match=f"COLLISION_RISK.*{holder.pk}") as refusal:
        adopt(operator(), AdoptRequest(str(place)))
    assert refusal.value.exit_code == 6
    assert [relay.pk for relay in Relay.objects.all()] == [holder.pk]
    assert git(place, "for-each-ref", "refs/heads/relay") == ""
    assert git(place, "worktree", "list", "--porcelain").count("worktree ") == 1
    park.stop(operator(), holder.pk)
    assert adopt(operator(), AdoptRequest(str(place))).status == "parked"


def test_who_may(gone: Gone) -> None:
    place = gone.clone
    with pytest.raises(NotPermitted):
        adopt(Actor(user("rae", "reviewer")), AdoptRequest(str(place)))
    with pytest.raises(Usage, match="control character"):
        adopt(operator(), AdoptRequest(str(place), comment="\x1b[31m"))


def test_a_command_of_the_goal_runs_only_when_a_person_says_it_again(
    course: Start, tmp_path: Path, elsewhere: Callable[[], None]
) -> None:
    canary = tmp_path / "canary"
    goal = f'cmd:"touch {canary}; exit 1"'
    relay = course(done=goal, issues=3, sets=["no_progress_legs=0"])
    relay.step()
    park.park(operator(), relay.pk)
    owed()
    place = clone(repo_of(relay), tmp_path / "clone")
    canary.unlink()
    elsewhere()
    with pytest.raises(Usage, match="--done-when"):
        adopt(operator(), AdoptRequest(str(place)))
    with pytest.raises(Usage, match="not the relay's own"):
        adopt(operator(), AdoptRequest(str(place), done_when='cmd:"true"'))
    done = adopt(operator(), AdoptRequest(str(place), done_when=goal))
    assert (done.outcome, done.status) == ("fresh", "parked")
    assert not canary.exists(), "no command ran while it was taken up"


def test_a_program_that_ran_it_there_is_never_run_here_unless_it_is_named(
    course: Start, tmp_path: Path, elsewhere: Callable[[], None]
) -> None:
    script = [*commit("one.txt"), *turn(), *boundary("Go on.", final=True)]
    relay = course(done="file:two.txt", **player(script))
    relay.step()
    park.park(operator(), relay.pk)
    owed()
    kept = travel_store.read_record(GitStore(repo_of(relay), tmp_path / "shield"), relay.pk)
    assert kept is not None and (kept.agent, kept.agent_args) == ("command", {}), "no argument of a program travels"
    place = clone(repo_of(relay), tmp_path / "clone")
    elsewhere()
    with pytest.raises(Usage, match="ran with agent 'command'.*--agent NAME"):
        adopt(operator(), AdoptRequest(str(place)))
    again = player([*commit("two.txt"), *turn(), *boundary("Done.", final=True)])
    done = adopt(operator(), AdoptRequest(str(place), agent=again["agent"], agent_args=again["args"]))
    resume.resume(operator(), done.relay)
    assert Course(done.relay).drive().status == RelayStatus.DONE


def test_a_stale_baton_is_taken_up_and_rebuilt_before_its_first_leg(gone: Gone) -> None:
    """Git copies notes to amended commits where it is told to: the baton then names a commit that is not there."""
    place = gone.clone
    branch = gone.relay.branch
    git(place, "switch", "-q", "-c", "work", f"origin/{branch}")
    old, base = git(place, "rev-parse", "HEAD"), git(place, "rev-parse", "HEAD~1")
    git(place, "commit", "-q", "--amend", "-m", "Said otherwise")
    amended = git(place, "rev-parse", "HEAD")
    git(place, "notes", "--ref", "refs/notes/relay", "copy", old, amended)
    git(place, "switch", "-q", "main")
    git(place, "update-ref", f"refs/remotes/origin/{branch}", amended)
    done = adopt(operator(), AdoptRequest(str(place)))
    assert (done.leg, done.outcome, done.status, done.tip) == (1, "stale", "parked", amended)
    resume.resume(operator(), done.relay)
    here = Course(done.relay)
    here.step()
    assert (here.reload.outcome, here.reload.rebuilt, here.reload.cursor_sha) == ("stale", True, base)
    assert Baton.objects.get(relay=done.relay, why="stale").leg.number == 1
    assert here.drive().status == RelayStatus.DONE


def test_where_the_newest_note_hangs_off_the_branch_the_one_before_it_is_taken(gone: Gone) -> None:
    place = gone.clone
    git(place, "update-ref", f"refs/remotes/origin/{gone.relay.branch}", gone.legs[0].end_sha)
    done = adopt(operator(), AdoptRequest(str(place)))
    assert (done.leg, done.outcome, done.tip) == (0, "fresh", Leg.objects.get().end_sha)


def test_a_branch_that_parted_or_lags_is_for_a_person_to_settle(gone: Gone) -> None:
    place = gone.clone
    branch = gone.relay.branch
    tip = git(place, "rev-parse", f"refs/remotes/origin/{branch}")
    git(place, "branch", branch, f"{tip}~1")
    with pytest.raises(NotLegalNow, match="is behind its remote's"):
        adopt(operator(), AdoptRequest(str(place)))
    made = git(place, "commit-tree", f"{tip}^{{tree}}", "-p", f"{tip}~1", "-m", "Another")
    git(place, "update-ref", f"refs/heads/{branch}", made)
    with pytest.raises(NotLegalNow, match="parted"):
        adopt(operator(), AdoptRequest(str(place)))
    git(place, "update-ref", f"refs/heads/{branch}", tip)
    assert adopt(operator(), AdoptRequest(str(place))).status == "parked"
    assert git(place, "rev-parse", branch) == tip


def test_copies_of_commits_made_before_never_count_again(gone: Gone) -> None:
    """rules.md, Reload: "SHAs and patch-ids of earlier legs never count again"."""
    made = [one["sha"] for leg in gone.legs for one in leg.progress_detail["commits"]]
    place = gone.clone
    adopt(operator(), AdoptRequest(str(place)))
    known = set(Counted.objects.filter(kind="commit").values_list("value", flat=True))
    assert set(made) <= known
    assert Counted.objects.filter(kind="patch").count() >= len(made)
    assert set(Counted.objects.filter(kind="issue").values_list("value", flat=True)) == {"issue:#1", "issue:#2"}


def test_hostile_notes_and_ledger_are_read_strictly_and_named(gone: Gone) -> None:
    place = gone.clone
    tip = gone.tip
    newest = gone.baton
    store = gone.store
    for hostile in (
        "\x1b]0;pwned\x07 no baton",
        "[" * 5000,
        json.dumps({"schema": "fak.relay.baton.v1", "claimed": True}),
        batons.canonical(replace(newest, leg=7)).decode().replace('"leg":7', '"leg":7,"leg":9'),
        batons.canonical(replace(newest, relay_id="RLY-other", leg=40)).decode(),
    ):
        store.add_note(tip, hostile)
    store.add_note(git(place, "rev-parse", f"{tip}~1"), "x" * (travel_store.NOTE_BYTES + 10), append=False)
    rows = store.read_ledger_ref(gone.pk) or []
    other = [
        {"id": "RLY-other.0.e1", "refs": [], "note": "", "by": "agent", "at": ""},
        {"id": f"{gone.pk}.0.e77", "refs": ["commit:--upload-pack=x"], "note": "", "by": "agent", "at": ""},
        {"id": f"{gone.pk}.0.e78", "refs": "no list", "note": "", "by": "agent", "at": ""},
        {"id": f"{gone.pk}.0.e79", "refs": [], "note": "", "by": "root", "at": ""},
        {"id": f"{gone.pk}.0.e80" + "0" * 90, "refs": [], "note": "", "by": "agent", "at": ""},
        {"id": f"{gone.pk}.0.e81", "refs": [], "note": "a\x1b[31mb\nc", "by": "agent", "at": "9999-01-01T00:00:00Z"},
    ]
    store.write_ledger_ref(gone.pk, [*rows, *other])
    done = adopt(operator(), AdoptRequest(str(place)))
    assert (done.leg, done.outcome) == (1, "fresh")
    said = "\n".join(done.left_out)
    assert "5 rows of its ledger were not of its form" in said
    assert "is no baton" in said and "more than" in said
    assert "\x1b" not in said
    odd = LedgerRow.objects.get(pk=f"{gone.pk}.0.e81")
    assert odd.note.isprintable()
    assert odd.at == Leg.objects.get(number=1).ended_at, "a time that has not come tells nothing"
    assert LedgerRow.objects.exclude(relay=gone.pk).count() == 0


def test_a_forged_record_cannot_loosen_and_cannot_take_back_what_was_spent(
    gone: Gone, tmp_path: Path, settings: Any
) -> None:
    place = gone.clone
    store = gone.store
    kept = travel_store.read_record(store, gone.pk)
    assert kept is not None
    forged = kept.model_copy(
        update={
            "policy": {
                **kept.policy,
                "green": f"touch {tmp_path}/canary",
                "four_eyes": False,
                "approvals": 1,
                "ceiling": 1.0,
                "envelope": {"legs": 9000},
            },
            "spent": travel.SpentRecord(),
        }
    )
    travel_store.write_record(store, forged)
    settings.SITE_POLICY = {"envelope": {"legs": 5}, "approvals": 2}
    done = adopt(operator(), AdoptRequest(str(place)))
    relay = Relay.objects.get()
    rules = relay.policy
    assert (rules["green"], rules["four_eyes"], rules["approvals"], rules["ceiling"]) == ("", True, 2, 0.9)
    assert rules["envelope"]["legs"] == 5
    assert relay.legs_used == 2
    assert all(key in done.left_out[0] for key in ("green", "ceiling", "envelope.legs"))
    broken = "refs/relay/state/" + gone.pk
    git(place, "update-ref", broken, git(place, "rev-parse", f"refs/remotes/origin/{relay.branch}"))
    assert travel_store.read_record(store, gone.pk) is None


def test_a_forged_ask_cannot_have_a_goal_of_clauses_confirmed(gone: Gone) -> None:
    """rules.md, done_when: `DONE_UNCONFIRMED` is asked of a goal in prose; what the stores answer nobody confirms."""
    kept = travel_store.read_record(gone.store, gone.pk)
    assert kept is not None and kept.status == "parked"
    asked = travel.GateRecord(token="DONE_UNCONFIRMED", items=["done, believe me"])  # noqa: S106 - no secret
    travel_store.write_record(gone.store, kept.model_copy(update={"gates": [asked]}))
    done = adopt(operator(), AdoptRequest(str(gone.clone)))
    assert (done.status, GateEpisode.objects.count()) == ("parked", 0)


def test_a_record_that_does_not_read_is_as_good_as_none(gone: Gone) -> None:
    from relays.stores import gitwrite

    place = gone.clone
    store = gone.store
    gitwrite.write_files_ref(store, f"refs/relay/state/{gone.pk}", {"relay.json": b'{"form": 1}'}, "x")
    with pytest.raises(NotLegalNow, match="no record says"):
        adopt(operator(), AdoptRequest(str(place)))
    done = adopt(operator(), AdoptRequest(str(place), host_dead=True, agent="scripted"))
    assert "its record does not read" in done.left_out[0]


def test_a_spent_envelope_stays_spent_on_the_next_host(
    course: Start, tmp_path: Path, elsewhere: Callable[[], None]
) -> None:
    relay = course(issues=4, sets=["envelope.legs=1"])
    relay.drive()
    assert relay.waiting == ["BUDGET_EXHAUSTED"]
    owed()
    place = clone(repo_of(relay), tmp_path / "clone")
    elsewhere()
    done = adopt(operator(), AdoptRequest(str(place)))
    here = Course(done.relay)
    assert (done.status, here.waiting) == ("parked", ["BUDGET_EXHAUSTED"])
    with pytest.raises(Usage, match="needs a new limit"):
        here.approve("BUDGET_EXHAUSTED")
    here.approve("BUDGET_EXHAUSTED", sets=["envelope.legs=2"])
    here.drive()
    assert here.waiting == ["BUDGET_EXHAUSTED"], "the leg that ran elsewhere counts"


def test_what_people_pinned_and_stated_stands_on_the_next_host(
    course: Start, tmp_path: Path, elsewhere: Callable[[], None]
) -> None:
    relay = course(issues=4, sets=["envelope.legs=1"])
    relay.drive()
    fact = userfacts.add_fact(operator(), relay.pk, "The port is 8001.").facts[0].pointer
    userfacts.add_pin(operator(), relay.pk, "file:README.md")
    owed()
    place = clone(repo_of(relay), tmp_path / "clone")
    elsewhere()
    done = adopt(operator(), AdoptRequest(str(place)))
    assert [(one.kind, one.pointer) for one in facts_report.standing(done.relay)] == [
        ("fact", fact),
        ("pin", "file:README.md"),
    ]
    assert LedgerRow.objects.filter(pk=fact.removeprefix("ledger:"), note__contains="The port is 8001.").exists()
    assert userfacts.remove(operator(), done.relay, "fact", fact).facts[0].pointer == "file:README.md"


def test_a_decision_crosses_with_the_baton_that_it_wrote(
    course: Start, tmp_path: Path, elsewhere: Callable[[], None]
) -> None:
    """A new objective, chosen where it ran, is the objective on the next host: the newest paragraph of the note."""
    relay = course(issues=4, sets=["envelope.legs=1", "resume=by_operator"])
    relay.drive()
    relay.approve(
        "BUDGET_EXHAUSTED", sets=["envelope.legs=5"], next_action="Close the third issue.", objective="Other."
    )
    owed()
    tip = relay.baton.tombstone.at_sha
    paragraphs = next(travel_store.notes(GitStore(repo_of(relay), tmp_path / "shield"), [tip])).paragraphs
    assert len(paragraphs) == 2, "two batons at one SHA: the second is appended"
    place = clone(repo_of(relay), tmp_path / "clone")
    elsewhere()
    done = adopt(operator(), AdoptRequest(str(place)))
    assert done.outcome == "fresh"
    here = Course(done.relay)
    assert (here.relay.objective, here.baton.next_action) == ("Other.", "Close the third issue.")
    assert here.relay.policy["envelope"]["legs"] == 5


def test_the_record_follows_what_people_do_between_legs(course: Start, tmp_path: Path) -> None:
    relay = course(issues=3)
    store = GitStore(repo_of(relay), tmp_path / "shield")

    def seen() -> tuple[str, bool]:
        owed()
        kept = travel_store.read_record(store, relay.pk)
        assert kept is not None
        return kept.status, bool(kept.host)

    relay.step()
    assert seen() == ("ready", True)
    park.park(operator(), relay.pk)
    assert seen() == ("parked", False)
    resume.resume(operator(), relay.pk)
    assert seen() == ("ready", True)
    park.stop(operator(), relay.pk)
    assert seen() == ("stopped", False)


def test_two_at_once_take_it_up_once(gone: Gone) -> None:
    place = gone.clone
    from relays.driver.claim import kernel_lock

    with kernel_lock(gone.pk), pytest.raises(NotLegalNow, match="being taken up already"):
        adopt(operator(), AdoptRequest(str(place)))
    assert not Relay.objects.exists()
    adopt(operator(), AdoptRequest(str(place)))
    with pytest.raises(NotLegalNow, match="known here"):
        adopt(operator(), AdoptRequest(str(place)))


def test_a_store_that_breaks_in_the_middle_leaves_nothing(gone: Gone, monkeypatch: pytest.MonkeyPatch) -> None:
    place = gone.clone

    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("full disk")

    monkeypatch.setattr(acts, "record", fails)
    with pytest.raises(RuntimeError):
        adopt(operator(), AdoptRequest(str(place)))
    assert not Relay.objects.exists() and not LedgerRow.objects.exists()
    assert git(place, "for-each-ref", "refs/heads/relay") == ""
    assert git(place, "worktree", "list", "--porcelain").count("worktree ") == 1
    monkeypatch.undo()
    with pytest.raises(Usage, match="nonsense"):
        adopt(operator(), AdoptRequest(str(place), sets=["nonsense=1"]))
    shutil.rmtree(place / ".git" / "objects")
    with pytest.raises(Refused) as refusal:
        adopt(operator(), AdoptRequest(str(place)))
    assert "\n" not in str(refusal.value) and not Relay.objects.exists()


SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30)
ANY = SCALAR | st.lists(SCALAR, max_size=4) | st.dictionaries(st.text(max_size=8), SCALAR, max_size=4)
ROW = st.fixed_dictionaries(
    {},
    optional={
        "id": ANY | st.sampled_from(["RLY-1.0.e1", "RLY-1.99999999999.e1", "RLY-1.x.e1", "RLY-1.e1", "RLY-1.0.0.e1"]),
        "refs": ANY | st.lists(st.sampled_from(["#1", "file:a", "commit:HEAD", "memory:x", "\ud800"]), max_size=3),
        "note": ANY | st.text(),
        "by": ANY | st.sampled_from(["agent", "person", "driver"]),
        "at": ANY | st.sampled_from(["2026-11-30T10:00:00+00:00", "2026-11-30T10:00:00", "0001-01-01T00:00:00+23:00"]),
    },
)


@given(row=ROW | ANY)
@example(
    row={"id": "RLY-1.0.e1", "refs": ["#1"], "note": "a\0b\ud800", "by": "agent", "at": "9999-12-31T23:59:59+00:00"}
)
def test_no_row_that_travels_breaks_a_table(row: Any) -> None:
    now = timezone.now()
    made = taking_up._ledger_row(Relay(id="RLY-1"), row, {0: 7}, now)
    if made is None:
        return
    assert made.pk.rsplit(".", 2)[0] == "RLY-1" and len(made.pk) <= 80
    assert made.by in ("agent", "person", "driver") and made.leg_id in (7, None)
    assert all(read_entry(ref)[0] for ref in made.refs)
    assert "\0" not in made.note and len(made.note.encode()) <= 500
    assert made.at.tzinfo is not None and made.at <= now
    assert made.at.astimezone(UTC).year >= 1

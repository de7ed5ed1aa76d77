"""Start: everything is checked first, and a refused start makes nothing."""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from relays.actions.base import Held, NotPermitted, Refused, Usage
from relays.actions.park import park
from relays.actions.resume import resume
from relays.actions.start import StartRequest, dry_run, in_words, start
from relays.core import readout, reset
from relays.driver import advance, places
from relays.models import Decision, Leg, LegState, RegionLease, Relay, RelayStatus
from tests import builders
from tests.actions.acts import People, check_chain, everything
from tests.web_builders import make_relay

pytestmark = pytest.mark.django_db
Git = Callable[..., str]


def request(repo: object, **values: Any) -> StartRequest:
    made = {"repo": str(repo), "objective": "Close them.", "done_when": "issues:none open", "agent": "scripted"}
    return StartRequest(**(made | values))


def traces(repo: Path) -> tuple[str, str, list[str]]:
    """All that a start could leave outside the database."""
    places = sorted(str(path) for path in Path(settings.RELAY_VAR).glob("worktrees/*"))
    return builders.git(repo, "for-each-ref"), builders.git(repo, "worktree", "list"), places


def test_a_start_makes_relay_lease_leg_and_decision_and_nothing_in_the_repository(people: People, repo: Path) -> None:
    before = traces(repo)
    relay = start(people.operator, request(repo, region=["src/**"], agent_args={"items": "2"}, sets=["leg.turns=7"]))
    relay = Relay.objects.get(pk=relay.pk)
    assert relay.pk.startswith(f"RLY-{timezone.localtime():%Y%m%d}-") and len(relay.pk) == 17
    assert (relay.status, relay.owner, relay.os_user) == (RelayStatus.READY, people.operator.user, "unix-pat")
    assert (relay.branch, relay.start_sha) == (f"relay/{relay.pk}", builders.head(repo))
    assert (relay.region, relay.agent_args, relay.policy["leg"]["turns"]) == (["src/**"], {"items": "2"}, 7)
    leg = Leg.objects.get()
    assert (leg.number, leg.state, leg.parent_trace) == (0, LegState.PENDING, "")
    lease = RegionLease.objects.get()
    assert (lease.relay, lease.region, lease.held) == (relay, ["src/**"], True)
    row = Decision.objects.get()
    assert (row.act, row.detail["objective_digest"]) == ("start", relay.objective_digest)
    assert traces(repo) == before
    assert check_chain() == 1


def test_no_region_is_everything(people: People, repo: Path) -> None:
    assert start(people.operator, request(repo)).region == ["**"]


@pytest.mark.parametrize("who", ["reviewer", "manager", "outsider"])
def test_only_an_operator_may(who: str, people: People, repo: Path) -> None:
    with pytest.raises(NotPermitted, match="role operator"):
        start(getattr(people, who), request(repo))
    assert not Relay.objects.exists()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "objective empty": ({"objective": " "}, "objective is empty"),
    "objective NUL": ({"objective": "a\0b"}, "NUL"),
    "objective surrogate": ({"objective": "a\ud800"}, "surrogate"),
    "objective 1 MB": ({"objective": "x" * 1024 * 1024}, "longer than 4096 bytes"),
    "objective that escapes": ({"objective": "<" * 4096}, "shorten the objective"),
    "region too long": ({"region": [f"{n:03d}{'x' * 470}/**" for n in range(64)]}, "fewer or shorter globs"),
    "prose": ({"done_when": "everything is nice"}, "is prose ('everything is nice': it is none of the clauses"),
    "half prose": ({"done_when": "issues:none open and good"}, "is prose ('good': it is none"),
    "done_when empty": ({"done_when": ""}, "done_when"),
    "done_when lines": ({"done_when": "issues:none open\nfile:x"}, "done_when"),
    "done_when 1 MB": ({"done_when": "x" * 1024 * 1024}, "more than 500"),
    "watch": ({"watch": True}, "envelope: a watch needs at least one limit"),
    "watch in prose": ({"watch": True, "done_when": "all is nice", "sets": ["envelope.legs=2"]}, "no store can say"),
    "watch with cmd": (
        {"watch": True, "done_when": 'cmd:"true"', "sets": ["envelope.legs=2"]},
        "every: a watch with a cmd clause needs it",
    ),
    "absolute region": ({"region": ["/etc/**"]}, "'/etc/**'"),
    "region up": ({"region": ["../x"]}, "'../x'"),
    "region control": ({"region": ["a\x1b[31m"]}, "control"),
    "many globs": ({"region": [f"d{n}/**" for n in range(65)]}, "more than 64 globs"),
    "agent": ({"agent": "nobody"}, "nobody"),
    "agent flag": ({"agent_args": {"itmes": "3"}}, "'itmes' is not known"),
    "agent value": ({"agent_args": {"items": "lots"}}, "items='lots'"),
    "policy key": ({"policy": {"leg": {"trns": 4}}}, "leg.trns"),
    "policy value": ({"policy": {"ceiling": 7}}, "ceiling"),
    "policy control": ({"policy": {"x\x1b": 7}}, "unknown key"),
    "set key": ({"sets": ["leg.trns=4"]}, "leg.trns"),
    "set form": ({"sets": ["leg.turns"]}, "key=value"),
    "mode": ({"mode": "loud"}, "mode"),
}


def test_what_is_refused_makes_nothing(people: People, repo: Path) -> None:
    before = everything(), traces(repo)
    for what, (values, words) in REFUSED.items():
        with pytest.raises(Refused) as refusal:
            start(people.operator, request(repo, **values))
        assert words in str(refusal.value), what
        assert str(refusal.value).startswith("start: ")
        assert len(str(refusal.value)) < 1500
        assert everything() == before[0], what
    assert traces(repo) == before[1]


def _empty(place: Path) -> Path:
    place.mkdir()
    builders.git(place, "init", "-q", "-b", "main")
    return place


def _bare(place: Path) -> Path:
    place.mkdir()
    builders.git(place, "init", "-q", "--bare")
    return place


def _plain(place: Path) -> Path:
    place.mkdir()
    return place


def _file(place: Path) -> Path:
    place.write_text("x")
    return place


PLACES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda place: place, "no such folder; name"),
    "no git": (_plain, "; name a folder inside a git repository"),
    "a file": (_file, "no such folder; name"),
    "bare": (_bare, "bare repository; name a work tree"),
    "no commit": (_empty, "no commit yet; make a first commit"),
    "git folder": (lambda place: builders.make_repo(place) / ".git", "name the work tree"),
    "nothing": (lambda place: "", "names no folder"),
    "NUL": (lambda place: f"{place}\0", "names no folder"),
}


@pytest.mark.parametrize("what", PLACES)
def test_a_repository_that_cannot_be_worked_in(what: str, people: People, tmp_path: Path) -> None:
    make, words = PLACES[what]
    before = everything()
    with pytest.raises(Usage) as refusal:
        start(people.operator, request(make(tmp_path / "place")))
    assert words in str(refusal.value)
    assert everything() == before


def test_the_repositorys_own_policy_only_tightens(people: People, repo: Path) -> None:
    builders.commit(repo, {"dos.toml": "[relay]\nno_progress_legs = 2\n"}, "Policy")
    assert start(people.operator, request(repo, region=["a/**"])).policy["no_progress_legs"] == 2
    before = everything()
    for line, key in [("approvals = 1", "approvals"), ('green = "rm"', "green"), ("nope = 1", "nope"), ("][", "TOML")]:
        builders.commit(repo, {"dos.toml": f"[relay]\n{line}\n"}, "Policy")
        with pytest.raises(Usage, match=key):
            start(people.operator, request(repo, region=["b/**"]))
    assert everything() == before


def test_each_layer_of_the_policy_wins_over_the_one_before_it(people: People, repo: Path, settings: Any) -> None:
    """rules.md, Policy is data: "defaults < site < the repository's `[relay]` in `dos.toml` < start. A repository may
    only tighten; it may never set commands, approvals, four-eyes or the envelope"."""
    settings.SITE_POLICY = {"no_progress_legs": 5, "ceiling": 0.8, "approvals": 2, "envelope": {"legs": 40}}

    def made(region: str, **values: Any) -> dict[str, Any]:
        found = start(people.operator, request(repo, region=[region], **values)).policy
        return {key: found[key] for key in ("no_progress_legs", "ceiling", "approvals", "drain_turns")} | {
            "legs": found["envelope"]["legs"]
        }

    site = {"no_progress_legs": 5, "ceiling": 0.8, "approvals": 2, "drain_turns": 3, "legs": 40}
    assert made("a/**") == site, "the site's word over the default's, and the default's where it says nothing"
    builders.commit(repo, {"dos.toml": "[relay]\nceiling = 0.7\nno_progress_legs = 4\n"}, "Tighten")
    assert made("b/**") == {**site, "ceiling": 0.7, "no_progress_legs": 4}
    assert made("c/**", policy={"ceiling": 0.85}, sets=["envelope.legs=50", "approvals=1"]) == {
        "no_progress_legs": 4, "ceiling": 0.85, "approvals": 1, "drain_turns": 3, "legs": 50,
    }, "a start may loosen what site and repository said"  # fmt: skip
    # tightening is measured against the site's word: what were tighter than the default is looser here
    for line, key in [("ceiling = 0.85", "ceiling"), ("no_progress_legs = 6", "no_progress_legs")]:
        builders.commit(repo, {"dos.toml": f"[relay]\n{line}\n"}, "Loosen")
        with pytest.raises(Usage, match=f"{key}: a repository may only tighten it"):
            start(people.operator, request(repo, region=["d/**"]))
    forbidden = [("envelope.legs = 2", "envelope.legs"), ("four_eyes = true", "four_eyes"), ('green = ""', "green")]
    for line, key in forbidden:
        builders.commit(repo, {"dos.toml": f"[relay]\n{line}\n"}, "Not its own to say")
        with pytest.raises(Usage, match=f"{key}: a repository may not set it"):
            start(people.operator, request(repo, region=["d/**"]))


def test_a_watch_and_a_goal_in_prose_start_with_a_limit_and_say_what_they_are(people: People, repo: Path) -> None:
    watch = start(people.operator, request(repo, region=["a/**"], watch=True, sets=["envelope.legs=9"]))
    prose = start(people.operator, request(repo, region=["b/**"], done_when="it reads well", sets=["envelope.wall=2h"]))
    plain = start(people.operator, request(repo, region=["c/**"]))
    assert (Relay.objects.get(pk=watch.pk).watch, Relay.objects.get(pk=prose.pk).watch) == (True, False)
    assert "idles while it holds" in in_words(watch)
    assert "never true by itself" in in_words(prose) and "DONE_UNCONFIRMED" in in_words(prose)
    assert "'it reads well'" in in_words(prose), "it names the clause"
    assert in_words(plain) == ""
    assert Decision.objects.get(relay=watch).detail["watch"] is True


def test_an_overlapping_region_names_its_holder_and_a_disjoint_one_starts(people: People, repo: Path) -> None:
    holder = start(people.operator, request(repo, region=["src/**"]))
    before = everything()
    for region in ([], ["src/api/**"], ["*.py"], ["docs/**", "src/x"]):
        with pytest.raises(Held, match=f"COLLISION_RISK: .* {holder.pk} holds") as refusal:
            start(people.operator, request(repo, region=region))
        assert refusal.value.exit_code == 6
    assert everything() == before
    start(people.operator, request(repo, region=["docs/**"]))


def test_a_second_name_of_the_repository_is_the_same_repository(people: People, repo: Path, tmp_path: Path) -> None:
    (repo / "deep").mkdir()
    link = tmp_path / "link"
    link.symlink_to(repo)
    start(people.operator, request(repo / "deep"))
    for name in (link, repo, f"{repo}/../{repo.name}/"):
        with pytest.raises(Held):
            start(people.operator, request(name))
    builders.git(repo, "worktree", "add", "-q", str(tmp_path / "second"), "-b", "other")
    with pytest.raises(Held):
        start(people.operator, request(tmp_path / "second"))


def test_one_in_place_relay_per_working_tree(people: People, repo: Path) -> None:
    here = {"sets": ["workspace=in_place"]}
    first = start(people.operator, request(repo, region=["src/**"], **here))
    assert (first.branch, first.worktree) == ("main", str(repo.resolve()))
    with pytest.raises(Held, match=first.pk):
        start(people.operator, request(repo, region=["docs/**"], **here))
    start(people.operator, request(repo, region=["docs/**"]))
    builders.git(repo, "checkout", "-q", "--detach")
    with pytest.raises(Usage, match="no branch checked out"):
        start(people.operator, request(repo, region=["etc/**"], **here))


def test_numbers_go_on_behind_ten_thousand_and_leave_out_what_others_left(people: People, repo: Path) -> None:
    day = f"RLY-{timezone.localtime():%Y%m%d}-"
    make_relay(id=f"{day}9999", owner=people.operator.user)
    make_relay(id=f"{day}10000", owner=people.operator.user)
    builders.git(repo, "branch", f"relay/{day}10001")
    left = places.worktree(f"{day}10002")
    left.mkdir(parents=True)
    try:
        assert start(people.operator, request(repo)).pk == f"{day}10003"
    finally:
        left.rmdir()


def test_a_start_that_is_planned_waits_with_its_region_held(people: People, repo: Path) -> None:
    """states.md, Relay: new -> "`waiting`: schedule ahead"; waiting -> "`ready`: next_at reached"."""
    at = timezone.now() + timedelta(hours=2)
    relay = start(people.operator, request(repo, at=at))
    assert (relay.status, relay.next_at, Leg.objects.get().state) == ("waiting", at, LegState.PENDING)
    assert Decision.objects.get().detail["at"] == at.isoformat()
    assert advance.advance(relay.pk, start=_never) == "waits"
    with pytest.raises(Held, match=relay.pk):
        start(people.operator, request(repo))
    Relay.objects.filter(pk=relay.pk).update(next_at=timezone.now())
    assert advance.advance(relay.pk, start=lambda *_: True) == "started"
    relay.refresh_from_db()
    assert (relay.status, relay.next_at) == (RelayStatus.READY, None)


def _never(relay_id: str, leg: int) -> bool:
    raise AssertionError("started before its time")


@pytest.mark.parametrize(("ahead", "words"), [(timedelta(0), "is over"), (timedelta(days=400), "more than 366 days")])
def test_a_time_that_is_over_or_too_far_is_refused(ahead: timedelta, words: str, people: People, repo: Path) -> None:
    before = everything()
    with pytest.raises(Usage, match=words) as refusal:
        start(people.operator, request(repo, at=timezone.now() + ahead))
    assert refusal.value.field == "at" and everything() == before


def test_one_leg_that_is_tried_is_a_park_that_waits_for_its_end(people: People, repo: Path) -> None:
    relay = start(people.operator, request(repo, try_one=True))
    relay.refresh_from_db()
    assert (relay.park, relay.parks_now, relay.status) == ("leg", False, "ready")
    assert Decision.objects.get().detail["try_one"] is True
    park(people.operator, relay.pk)
    resume(people.operator, relay.pk)
    relay.refresh_from_db()
    assert (relay.park, relay.status) == ("leg", "ready"), (
        "parked before any leg ran, it is still one leg that is tried"
    )
    assert resume(people.operator, relay.pk).will == "none"
    relay.refresh_from_db()
    assert relay.park == "", "a person who takes it back has an ordinary relay"
    assert Decision.objects.order_by("-seq")[0].detail == {"withdrew": "park"}


def test_a_dry_run_makes_nothing_and_shows_what_a_leg_begins_with(people: People, repo: Path) -> None:
    holder = start(people.operator, request(repo, region=["src/**"]))
    before = everything(), traces(repo)
    wanted = request(repo, region=["docs/**"], sets=["envelope.turns=40", "envelope.wall=2h", "ceiling=0.8"])
    found = dry_run(people.operator, wanted)
    text = found.prompt.bytes.decode()
    assert text.startswith(reset.PREAMBLE) and text.endswith("\nClose them.\n")
    assert found.prompt.digest == hashlib.sha256(found.prompt.bytes).hexdigest()
    assert readout.lines(found.readout)[:3] == (
        "objective: established",
        "budget: turns=40 tokens=none context=160000 queries=none time=2h",
        "resident_view: not yet",
    )
    assert (found.holder, found.plan.region) == ("", ("docs/**",))
    assert dry_run(people.operator, request(repo)).holder == holder.pk, "it says who holds the region"
    for values, words in REFUSED.values():
        with pytest.raises(Refused) as refusal:
            dry_run(people.operator, request(repo, **values))
        assert words in str(refusal.value)
    with pytest.raises(NotPermitted):
        dry_run(people.reviewer, wanted)
    assert (everything(), traces(repo)) == before
    relay = start(people.operator, wanted)
    assert relay.pk == found.relay_id, "nothing came between"
    assert reset.seed(reset.PREAMBLE, relay.pin, b"").digest == found.prompt.digest


FIELDS = {
    "objective empty": "objective", "done_when empty": "done_when", "absolute region": "region", "agent": "agent",
    "agent flag": "agent", "policy key": "policy", "set form": "policy", "mode": "policy",
    "watch in prose": "done_when",
}  # fmt: skip


@pytest.mark.parametrize("what", FIELDS)
def test_a_refusal_names_the_field_that_it_is_about(what: str, people: People, repo: Path) -> None:
    with pytest.raises(Usage) as refusal:
        start(people.operator, request(repo, **REFUSED[what][0]))
    assert refusal.value.field == FIELDS[what]

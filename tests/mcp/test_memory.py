"""Memories: earned, superseded, expired; and what needs a person: deleting, wiping, resetting, rewriting a profile.

Mission: "Durable promotion requires its own evidence; an unclassified observation defaults to expiring, not
persisting"; "a delete, reset, namespace wipe, or standing-profile rewrite requires a capability beyond ordinary
recall".
"""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from relays.actions import userfacts
from relays.models import GateEpisode, MemoryOperation, Promotion
from tests.actions.acts import refuse
from tests.builders import git, make_repo
from tests.driver.course import operator, reviewer

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

Asked = Callable[..., Any]
DONE = [["next_action", {"text": "Go on."}], ["externalized", {}]]
DESTRUCTIVE = "DESTRUCTIVE_MEMORY_OPERATION"


def remember(
    slug: str, text: str = "t", durability: str = "durable", evidence: str | None = "commit:$SHA"
) -> list[Any]:
    said: dict[str, Any] = {"slug": slug, "text": text, "class": durability}
    return ["remember", said | ({"evidence": evidence} if evidence else {})]


def work(text: str = "a\n") -> dict[str, str]:
    return {"do": "commit", "path": "a.txt", "text": text}


def with_memories(tmp_path: Path, **slugs: str) -> Path:
    files = {f".relay/memory/{slug}.md": text for slug, text in slugs.items()}
    return make_repo(tmp_path / "repo", {"README.md": "x\n", **files}, issues=2)


def at_tip(relay: Any, slug: str) -> bool:
    return git(Path(relay.relay.repo), "ls-tree", "--name-only", relay.relay.branch, f".relay/memory/{slug}.md") != ""


def test_each_outcome_of_a_promotion_is_kept_with_what_it_rested_on(asked: Asked) -> None:
    relay, (said,) = asked(
        [
            work(),
            remember("kept", "The port is 8001."),
            remember("kept", "The port is 8002."),
            remember("for-a-while", durability="bounded"),
            remember("of-the-turn", durability="turn"),
            remember("unclassified", durability=""),
            remember("dangling", evidence="file:gone.txt"),
            remember("no-evidence", "I think so.", evidence=None),
            {"do": "add"},
            *DONE,
        ]
    )
    assert [one["outcome"] for one in said[:7]] == [
        "promoted",
        "promoted",
        "promoted",
        "refused",
        "expired",
        "refused",
        "ambiguous",
    ]
    folder = relay.worktree / ".relay/memory"
    assert sorted(place.name for place in folder.iterdir()) == ["for-a-while.md", "kept.md"]
    first, second = Promotion.objects.filter(slug="kept").order_by("pk")
    assert first.superseded_at is not None and second.superseded_at is None
    assert second.digest == hashlib.sha256((folder / "kept.md").read_bytes()).hexdigest()
    assert second.evidence.startswith("commit:") and second.reason == "its evidence resolves"
    assert (second.expires_at, second.text, second.decided_by) == (None, "", "")
    assert Promotion.objects.get(slug="for-a-while").expires_at is not None
    assert not Promotion.objects.filter(slug__in=["unclassified", "of-the-turn"]).exclude(text="").exists()
    assert relay.waiting == ["AMBIGUOUS_MEMORY_PROMOTION"] and relay.gates[0].items == ["memory:no-evidence"]
    assert relay.relay.status == "ready", "only the promotion waits, no leg does"
    assert {f"{one.kind}:{one.ref}" for one in relay.baton.artifacts} >= {"memory:kept", "memory:for-a-while"}


def test_a_promotion_that_a_person_approves_is_written_and_one_that_is_refused_is_not(asked: Asked) -> None:
    relay, _ = asked([work(), remember("maybe", "It may be so.", evidence=None), *DONE])
    assert not at_tip(relay, "maybe")
    relay.approve("AMBIGUOUS_MEMORY_PROMOTION")
    row = Promotion.objects.get()
    assert (row.outcome, row.decided_by, row.text) == ("promoted", "rae", "")
    assert at_tip(relay, "maybe") and "It may be so." in (relay.worktree / ".relay/memory/maybe.md").read_text()
    assert row.digest == hashlib.sha256((relay.worktree / ".relay/memory/maybe.md").read_bytes()).hexdigest()
    assert git(relay.worktree, "status", "--porcelain") == ""
    again, _ = asked([work(), remember("never", evidence=None), *DONE])
    refuse(reviewer(), again.gates[0])
    assert Promotion.objects.get(slug="never").outcome == "refused" and not at_tip(again, "never")
    reopened = refuse(reviewer(), again.gates[0], seen="", reopen=True)
    assert reopened.state == "waiting"
    again.approve("AMBIGUOUS_MEMORY_PROMOTION")
    assert Promotion.objects.get(slug="never").outcome == "promoted" and at_tip(again, "never")


def test_a_memory_that_has_expired_is_not_served_as_if_it_stood(asked: Asked) -> None:
    def expires(_: Any) -> None:
        Promotion.objects.update(expires_at=timezone.now() - timedelta(days=1))

    relay, (_, said) = asked(
        [work(), remember("port", durability="bounded"), {"do": "add"}, *DONE],
        [
            ["orient", {}],
            ["recall", {"kind": "memory", "ref": "port"}],
            ["recall", {"kind": "memory", "ref": "port", "required": True}],
        ],
        between=expires,
    )
    assert said[0]["memory"] == {"slugs": [], "expired": ["port"], "more": False}
    assert said[1]["outcome"] == "continue_with_pointer" and "expired" in said[1]["evidence"]
    assert said[2]["outcome"] == "deny" and said[2]["asked"] == "UNSERVED_PAGE_FAULT"
    assert at_tip(relay, "port"), "nothing was deleted: that is a person's to allow"


ATTEMPTS = {
    "delete": (["remember", {"act": "delete", "slug": "one"}], "delete memory:one", {"one"}),
    "wipe": (["remember", {"act": "wipe", "slug": "team."}], "wipe every memory that begins with 'team.'", {"team.a"}),
    "reset": (["remember", {"act": "reset"}], "reset: remove every memory", {"one", "team.a", "profile"}),
}


@pytest.mark.parametrize("act", ATTEMPTS)
def test_a_destructive_operation_is_asked_and_not_done_and_done_only_when_a_person_allows_it(
    asked: Asked, tmp_path: Path, act: str
) -> None:
    slugs = {"one": "1\n", "team.a": "2\n", "profile": "3\n"}
    call, item, gone = ATTEMPTS[act]
    relay, (said,) = asked([work(), call, *DONE], repo=with_memories(tmp_path, **slugs))
    assert said[0]["asked"] == DESTRUCTIVE and said[0]["recorded"] == "nothing was done"
    assert relay.waiting == [DESTRUCTIVE] and relay.gates[0].items == [item] and relay.relay.status == "ready"
    assert all(at_tip(relay, slug) for slug in slugs)
    assert relay.approve(DESTRUCTIVE).state == "confirmed"
    assert {slug for slug in slugs if not at_tip(relay, slug)} == gone
    row = MemoryOperation.objects.get()
    assert (row.state, set(row.slugs)) == ("done", gone) and row.commit == git(relay.worktree, "rev-parse", "HEAD")
    assert git(relay.worktree, "status", "--porcelain") == ""
    relay.step()
    assert relay.reload.outcome == "fresh", "our own commit is no drift"
    assert [gate.token for gate in relay.gates].count(DESTRUCTIVE) == 1, "what was allowed is not asked about again"


@pytest.mark.parametrize("act", ATTEMPTS)
def test_a_destructive_operation_that_is_refused_leaves_everything(asked: Asked, tmp_path: Path, act: str) -> None:
    slugs = {"one": "1\n", "team.a": "2\n", "profile": "3\n"}
    relay, _ = asked([work(), ATTEMPTS[act][0], *DONE], repo=with_memories(tmp_path, **slugs))
    refuse(reviewer(), relay.gates[0])
    relay.step()
    assert all(at_tip(relay, slug) for slug in slugs)
    row = MemoryOperation.objects.get()
    assert (row.state, row.slugs, row.commit) == ("refused", [], "")
    refuse(reviewer(), relay.gates[0], seen="", reopen=True)
    relay.approve(DESTRUCTIVE)
    assert not all(at_tip(relay, slug) for slug in slugs), "a refusal that was reopened can be allowed"


@pytest.mark.parametrize("how", ["named", "pinned", "a person's own"])
def test_rewriting_a_standing_profile_is_asked_for(asked: Asked, tmp_path: Path, how: str) -> None:
    slug = "profile-team" if how == "named" else "house"
    repo = with_memories(tmp_path, **({slug: "We write tests.\n"} if how != "pinned" else {"other": "x\n"}))

    def pin(relay: Any) -> None:
        if how == "pinned":
            userfacts.add_pin(operator(), relay.pk, "memory:house")

    first = [work(), remember(slug, "earned"), {"do": "add"}, *DONE] if how == "pinned" else [work(), *DONE]
    relay, (_, said) = asked(first, [work("b\n"), remember(slug, "We write none."), *DONE], repo=repo, between=pin)
    assert said[0]["outcome"] == "ambiguous" and said[0]["asked"] == DESTRUCTIVE
    assert "We write none." not in (relay.worktree / f".relay/memory/{slug}.md").read_text()
    relay.approve(DESTRUCTIVE)
    assert "We write none." in (relay.worktree / f".relay/memory/{slug}.md").read_text() and at_tip(relay, slug)
    assert Promotion.objects.filter(slug=slug).latest("pk").outcome == "promoted"


@pytest.mark.parametrize("word", ["allowed", "refused"])
def test_a_leg_that_removes_memories_in_its_commits_is_found_and_a_person_says(
    asked: Asked, tmp_path: Path, word: str
) -> None:
    relay, _ = asked(
        [work(), {"do": "remove", "path": ".relay/memory/one.md"}, *DONE], repo=with_memories(tmp_path, one="1\n")
    )
    assert relay.waiting == [DESTRUCTIVE] and relay.relay.status == "parked", "the next leg would work without it"
    assert relay.gates[0].items == ["memory:one was removed or rewritten in commits of leg 0"]
    if word == "allowed":
        relay.approve(DESTRUCTIVE)
        assert not at_tip(relay, "one") and MemoryOperation.objects.get().state == "done"
    else:
        refuse(reviewer(), relay.gates[0])
        assert at_tip(relay, "one") and (relay.worktree / ".relay/memory/one.md").read_text() == "1\n"
        assert MemoryOperation.objects.get().commit == git(relay.worktree, "rev-parse", "HEAD")


def test_a_leg_that_rewrites_a_persons_memory_file_by_hand_is_found_and_its_own_is_not(
    asked: Asked, tmp_path: Path
) -> None:
    relay, _ = asked(
        [work(), remember("mine"), {"do": "add"}, *DONE],
        [
            {"do": "commit", "path": ".relay/memory/mine.md", "text": "changed\n"},
            {"do": "commit", "path": ".relay/memory/house.md", "text": "changed\n"},
            *DONE,
        ],
        repo=with_memories(tmp_path, house="We write tests.\n"),
    )
    assert GateEpisode.objects.get(relay=relay.pk).items == [
        "memory:house was removed or rewritten in commits of leg 1"
    ]


def test_what_is_allowed_while_a_leg_runs_is_carried_out_when_it_has_ended(
    asked: Asked, tmp_path: Path, meanwhile: Callable[..., None]
) -> None:
    seen: list[bool] = []

    def allow() -> None:
        from relays.models import Relay
        from tests.driver.course import Course

        relay = Course(Relay.objects.get().pk)
        relay.approve(DESTRUCTIVE)
        seen.append((relay.worktree / ".relay/memory/one.md").exists())

    meanwhile(1, allow)
    relay, _ = asked(
        [work(), ["remember", {"act": "delete", "slug": "one"}], {"do": "boundary"}, *DONE],
        repo=with_memories(tmp_path, one="1\n"),
    )
    assert seen == [True], "nothing is pulled away under an agent"
    assert not at_tip(relay, "one") and MemoryOperation.objects.get().state == "done"


def test_a_memory_folder_that_leads_out_of_the_work_tree_is_neither_written_nor_read(
    asked: Asked, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("secret\n")
    link = {"do": "shell", "args": ["done_check"]}
    repo = make_repo(tmp_path / "repo", {"README.md": "x\n"}, issues=1)
    (repo / ".relay" / "memory").symlink_to(outside)
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "A link")
    _, (said,) = asked([work(), link, remember("planted"), ["recall", {"kind": "memory", "ref": "secret"}]], repo=repo)
    assert "leads out of the work tree" in said[1]["refused"]
    assert said[2]["verdict"] == "unknown" and "record" not in said[2]
    assert [place.name for place in outside.iterdir()] == ["secret.md"]


def test_a_memory_outside_the_region_is_committed_apart_from_the_work(asked: Asked) -> None:
    first = {"do": "commit", "path": "src/a.txt", "text": "a\n"}
    _, (said,) = asked([first, remember("kept")], region=["src/**"])
    assert "by itself" in said[0]["do"]


def house(tmp_path: Path) -> Path:
    return with_memories(tmp_path, house="We write tests.\n")


@pytest.mark.parametrize("how", ["unlinked", "committed", "another case"])
def test_a_profile_that_was_taken_away_first_is_not_written_anew_without_a_person(
    asked: Asked, tmp_path: Path, how: str
) -> None:
    slug = "House" if how == "another case" else "house"
    away = {
        "unlinked": [{"do": "unlink", "path": ".relay/memory/house.md"}],
        "committed": [{"do": "remove", "path": ".relay/memory/house.md"}],
        "another case": [],
    }[how]
    _, (said,) = asked([work(), *away, remember(slug, "We write none."), *DONE], repo=house(tmp_path))
    assert said[0]["outcome"] == "ambiguous" and said[0]["asked"] == DESTRUCTIVE
    assert not Promotion.objects.filter(outcome="promoted").exists()


def test_a_profile_rolled_back_to_what_a_person_has_replaced_is_found(asked: Asked, tmp_path: Path) -> None:
    old: list[bytes] = []

    def replaced(relay: Any) -> None:
        """A person pins the memory and allows another text; then a leg writes the first one's bytes back."""
        place = relay.worktree / ".relay/memory/port.md"
        if not old:
            old.append(place.read_bytes())
            userfacts.add_pin(operator(), relay.pk, "memory:port")
        else:
            relay.approve(DESTRUCTIVE)
            assert b"8002" in place.read_bytes()
        return {"$OLD": old[0].decode()}  # type: ignore[return-value]

    relay, _ = asked(
        [work(), remember("port", "8001"), {"do": "add"}, *DONE],
        [work("b\n"), remember("port", "8002"), *DONE],
        [{"do": "commit", "path": ".relay/memory/port.md", "text": "$OLD"}, *DONE],
        between=replaced,
    )
    assert "memory:port was removed or rewritten in commits of leg 2" in relay.gates[-1].items


def test_an_allowance_to_remove_is_used_up_by_that_removal(asked: Asked, tmp_path: Path) -> None:
    def allowed_and_made_again(relay: Any) -> None:
        if relay.waiting:
            relay.approve(DESTRUCTIVE)
            place = relay.worktree / ".relay/memory/house.md"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("We write tests again.\n")
            git(relay.worktree, "add", "-A")
            git(relay.worktree, "commit", "-q", "-m", "A person writes it again")

    remove = {"do": "remove", "path": ".relay/memory/house.md"}
    relay, _ = asked(
        [work(), remove, *DONE],
        [work("b\n"), *DONE],
        [work("c\n"), remove, *DONE],
        repo=house(tmp_path),
        between=allowed_and_made_again,
    )
    assert relay.waiting and relay.gates[-1].items == ["memory:house was removed or rewritten in commits of leg 2"]


@pytest.mark.parametrize("who", ["leg", "person"])
def test_what_a_person_did_to_memories_before_a_leg_is_not_the_legs_and_what_it_did_after_is(
    asked: Asked, tmp_path: Path, who: str
) -> None:
    def a_person_commits(relay: Any) -> None:
        place = relay.worktree / ".relay/memory/house.md"
        if who == "leg":
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text("We write tests.\n")
        else:
            place.unlink()
        git(relay.worktree, "add", "-A")
        git(relay.worktree, "commit", "-q", "-m", "A person's own")

    remove = [{"do": "remove", "path": ".relay/memory/house.md"}] if who == "leg" else []
    repo = with_memories(tmp_path, other="x\n") if who == "leg" else house(tmp_path)
    relay, _ = asked([work(), *DONE], [work("b\n"), *remove, *DONE], repo=repo, between=a_person_commits)
    found = [item for gate in relay.gates if gate.token == DESTRUCTIVE for item in gate.items]
    assert found == (["memory:house was removed or rewritten in commits of leg 1"] if who == "leg" else [])


def test_a_memory_that_a_person_had_restored_is_a_persons_the_second_time_too(asked: Asked, tmp_path: Path) -> None:
    def refused(relay: Any) -> None:
        refuse(reviewer(), relay.gates[0])
        assert at_tip(relay, "house")
        refuse(reviewer(), relay.gates[0], seen="", reopen=True)
        relay.approve(DESTRUCTIVE)
        assert at_tip(relay, "house"), "to go on is not to allow what was refused"

    remove = {"do": "remove", "path": ".relay/memory/house.md"}
    relay, _ = asked([work(), remove, *DONE], [work("b\n"), remove, *DONE], repo=house(tmp_path), between=refused)
    assert relay.gates[-1].items == ["memory:house was removed or rewritten in commits of leg 1"]
    refuse(reviewer(), relay.gates[-1])
    assert at_tip(relay, "house"), "it comes back again"


def test_what_is_no_memory_neither_stops_a_reset_nor_what_was_allowed_after_it(asked: Asked, tmp_path: Path) -> None:
    repo = make_repo(
        tmp_path / "repo",
        {"README.md": "x\n", ".relay/memory/one.md": "1\n", ".relay/memory/two words.md": "2\n",
         ".relay/memory/folder.md/x": "3\n"},
        issues=2,
    )  # fmt: skip
    relay, _ = asked(
        [work(), ["remember", {"act": "reset"}], remember("maybe", "It may be so.", evidence=None), *DONE], repo=repo
    )
    relay.approve(DESTRUCTIVE)
    assert not at_tip(relay, "one") and at_tip(relay, "two words")
    relay.approve("AMBIGUOUS_MEMORY_PROMOTION")
    assert at_tip(relay, "maybe")
    assert not MemoryOperation.objects.filter(done_at=None).exists()


def test_what_is_allowed_of_memories_touches_no_other_folder_behind_a_link(asked: Asked, tmp_path: Path) -> None:
    repo = make_repo(
        tmp_path / "repo", {"README.md": "x\n", "docs/guide.md": "g\n", ".relay/memory/one.md": "1\n"}, issues=2
    )
    relay, _ = asked(
        [
            work(),
            ["remember", {"act": "reset"}],
            {"do": "swap", "path": ".relay/memory", "to": "../docs"},
            *DONE,
        ],
        repo=repo,
    )
    relay.approve(DESTRUCTIVE)
    assert (relay.worktree / "docs/guide.md").exists(), "a person allowed memories to go, not this folder"


def test_a_digest_serves_those_bytes_or_none(asked: Asked) -> None:
    def digests(relay: Any) -> dict[str, str]:
        first, second = Promotion.objects.order_by("pk").values_list("digest", flat=True)
        return {"$FIRST": first, "$SECOND": second}

    _, (_, said) = asked(
        [work(), remember("port", "8001"), remember("port", "8002"), {"do": "add"}, *DONE],
        [["recall", {"kind": "digest", "ref": "$FIRST"}], ["recall", {"kind": "digest", "ref": "$SECOND"}]],
        between=digests,
    )
    assert "record" not in said[0] and "written over" in said[0]["evidence"]
    assert "8002" in said[1]["record"]["text"]

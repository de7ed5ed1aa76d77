"""`handoff`: a baton from facts, through the gate; what is not durable is named and nothing is written."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relays.core import baton as batons
from relays.core.objective import pin_digest
from tests.management.batonfiles import SHA, baton, write
from tests.management.conftest import Cli
from tests.management.test_check_baton import relay_for

pytestmark = pytest.mark.django_db
Git = Callable[..., str]


def facts(**values: Any) -> dict[str, Any]:
    return {
        "relay_id": "RLY-20261130-0001",
        "leg": 3,
        "parent_trace": "trace-3",
        "objective": {"pin_id": "pin-orders", "text": "  Close the open issues "},
        "done_when": "issues:none open",
        "next_actions": ["Take the lowest open issue."],
        **values,
    }


def test_a_baton_from_facts_is_fresh_in_its_repository(cli: Cli, tmp_path: Path, repo: Path, git: Git) -> None:
    sha = git(repo, "rev-parse", "HEAD")
    file = write(
        tmp_path,
        facts(
            artifacts=[{"kind": "commit", "ref": sha}, {"kind": "file", "ref": "*.md"}],
            do_not_rederive=["file:README.md the title is right", "file:README.md the title is right"],
            facts=[
                {"label": "the title", "class": "durable", "backing": "file:README.md"},
                {"label": "a guess", "class": "turn", "backing": None},
            ],
        ),
    )
    done = cli("handoff", "--from", file, "--repo", repo)
    assert (done.code, done.err) == (0, "")
    made = batons.read(done.out).baton
    assert made is not None
    assert batons.canonical(made) == done.out
    assert (made.leg, made.parent_trace, made.next_action) == (3, "trace-3", "Take the lowest open issue.")
    assert made.objective.digest == pin_digest("pin-orders", "Close the open issues")
    assert made.cursor.start_sha == made.tombstone.at_sha == sha
    assert made.cursor.held_region == ("**",)
    assert made.tombstone.reason == "RELAY_ROTATED"
    assert len(made.do_not_rederive) == 1
    assert cli("check-baton", "-", "--repo", repo, stdin=done.out).code == 0


def test_shas_that_are_stated_need_no_repository(cli: Cli, tmp_path: Path) -> None:
    file = write(tmp_path, facts(progress_cursor={"start_sha": SHA}, tombstone={"at_sha": "c" * 40}))
    made = batons.read(cli("handoff", "--from", file).out).baton
    assert made is not None
    assert (made.cursor.start_sha, made.tombstone.at_sha) == (SHA, "c" * 40)
    missing = cli("handoff", "--from", write(tmp_path, facts()))
    assert missing.code == 2
    assert "--repo" in missing.line


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"next_actions": []}, ["NO_NEXT_ACTION"]),
        ({"next_actions": ["a", "b"]}, ["AMBIGUOUS_NEXT_ACTION", "a | b"]),
        ({"next_actions": ["two\nlines", "x" * 201]}, ["NO_NEXT_ACTION"]),
        ({"facts": [{"label": "only said", "class": "durable", "backing": None}]}, ["NOT_EXTERNALIZED", "only said"]),
        ({"facts": [{"label": "odd class", "class": "soul"}]}, ["odd class"]),
        ({"facts": [{"label": "gone", "class": "durable", "backing": "file:nope"}]}, ["gone", "file:nope", "dangling"]),
        ({"facts": [{"label": "who", "class": "durable", "backing": "ledger:RLY-9.0.e1"}]}, ["who", "unknown"]),
        ({"facts": [{"label": "bad", "class": "durable", "backing": "file:../x"}]}, ["bad"]),
        ({"open_questions": ["which parser?"]}, ["which parser?", "no pointer"]),
        ({"do_not_rederive": ["file:nope it fails"]}, ["file:nope", "dangling"]),
        ({"artifacts": [{"kind": "commit", "ref": "d" * 40}]}, ["commit:ddd", "dangling"]),
    ],
)
def test_what_is_not_safe_is_named_and_nothing_is_written(
    cli: Cli, tmp_path: Path, repo: Path, values: dict[str, Any], words: list[str]
) -> None:
    out = tmp_path / "out.json"
    done = cli("handoff", "--from", write(tmp_path, facts(**values)), "--repo", repo, "--out", out)
    assert done.code == 10
    for word in words:
        assert word in done.line
    assert not out.exists()


def test_without_a_store_a_fact_is_unknown_and_does_not_pass(cli: Cli, tmp_path: Path) -> None:
    fact = {"label": "the title", "class": "durable", "backing": "file:README.md"}
    stated = {"progress_cursor": {"start_sha": SHA}, "tombstone": {"at_sha": SHA}}
    done = cli("handoff", "--from", write(tmp_path, facts(facts=[fact], **stated)))
    assert done.code == 10
    assert "unknown" in done.line


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not JSON"),
        (b"\xff\x00", "UTF-8"),
        (b"[]", "an object is wanted"),
        (b'{"leg": 1, "leg": 2}', "leg: the key stands twice"),
        (json.dumps(facts(claimed=True)).encode(), "claimed: an unknown key"),
        (json.dumps(facts(leg=-1)).encode(), "leg"),
        (json.dumps(facts(leg=True)).encode(), "leg"),
        (json.dumps(facts(leg=1.5)).encode(), "leg"),
        (json.dumps(facts(objective="x")).encode(), "objective: an object is wanted"),
        (json.dumps(facts(objective={"text": ""})).encode(), "objective"),
        (json.dumps(facts(objective={"text": "x", "digest": "0" * 64})).encode(), "objective.digest"),
        (json.dumps(facts(next_actions="x")).encode(), "next_actions: a list is wanted"),
        (json.dumps(facts(facts=[{"label": 1}])).encode(), "facts[0].label"),
        (json.dumps(facts(artifacts=[{"kind": "url", "ref": "x"}])).encode(), "artifacts[0].kind"),
        (json.dumps(facts(tombstone={"reason": "DONE"})).encode(), "tombstone.reason"),
        (json.dumps({"relay_id": "RLY-1"}).encode(), "leg"),
        (b"[" * 1000, "nested deeper"),
    ],
)
def test_facts_that_cannot_be_read(cli: Cli, tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "facts.json"
    file.write_bytes(content)
    done = cli("handoff", "--from", file)
    assert done.code == 2
    assert words in done.line
    assert str(file) in done.line


def test_a_baton_that_may_not_be_written_is_invalid(cli: Cli, tmp_path: Path, repo: Path) -> None:
    done = cli("handoff", "--from", write(tmp_path, facts(done_when="x" * 501)), "--repo", repo)
    assert done.code == 4
    assert "done_when" in done.line
    done = cli("handoff", "--from", write(tmp_path, facts(progress_cursor={"start_sha": "HEAD"})), "--repo", repo)
    assert done.code == 4
    assert "progress_cursor.start_sha" in done.line


def test_a_note_is_never_taken_over(cli: Cli, tmp_path: Path, repo: Path) -> None:
    done = cli("handoff", "--from", write(tmp_path, facts(tombstone={"note": "In short: we did"})), "--repo", repo)
    assert done.code == 0
    assert "note is left out" in done.err
    assert b"In short" not in done.out


def test_out_never_overwrites(cli: Cli, tmp_path: Path, repo: Path) -> None:
    file, out = write(tmp_path, facts()), tmp_path / "made.json"
    done = cli("handoff", "--from", file, "--repo", repo, "--out", out, "--json")
    assert done.json == {"out": str(out), "digest": batons.digest(read(out)), "size": out.stat().st_size}
    out.write_text("mine", encoding="utf-8")
    again = cli("handoff", "--from", file, "--repo", repo, "--out", out)
    assert again.code == 2
    assert "--force" in again.line
    assert out.read_text(encoding="utf-8") == "mine"
    assert cli("handoff", "--from", file, "--repo", repo, "--out", out, "--force").code == 0
    assert read(out).leg == 3
    assert cli("handoff", "--from", file, "--repo", repo, "--out", tmp_path / "no" / "folder").code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["baton.json", "made.json", "repo"]


def read(path: Path) -> batons.Baton:
    made = batons.read(path.read_bytes()).baton
    assert made is not None
    return made


def test_a_relay_that_is_known_here_lends_its_own_values(cli: Cli, tmp_path: Path, repo: Path, git: Git) -> None:
    relay_for(repo, git(repo, "rev-parse", "HEAD"), region=["docs/**"])
    few = {key: value for key, value in facts().items() if key not in {"objective", "done_when"}}
    made = batons.read(cli("handoff", "--from", write(tmp_path, few), "--repo", repo).out).baton
    assert made is not None
    assert made.objective.digest == baton()["objective"]["digest"]
    assert (made.done_when, made.cursor.held_region) == ("issues:none open", ("docs/**",))


def test_a_repository_that_does_not_answer(cli: Cli, tmp_path: Path) -> None:
    done = cli("handoff", "--from", write(tmp_path, facts()), "--repo", tmp_path / "none")
    assert done.code == 7
    assert "none" in done.line

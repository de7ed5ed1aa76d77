"""Mission, phase 0: would-be batons from what a session durably did, scored against a real repository."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from relays.core.shadow import MOST_POINTERS, MainCall
from relays.models import Session, SessionAct, SessionLeg, SourceFile
from relays.sessions import judging, shadow
from relays.stores.gitrun import counting
from tests.builders import git, make_repo

pytestmark = pytest.mark.django_db
T = datetime(2026, 5, 1, 12, tzinfo=UTC)


def at(minute: int) -> datetime:
    return T + timedelta(minutes=minute)


def commit_at(repo: Path, minute: int, files: dict[str, str], message: str = "Work") -> str:
    """A commit with that committer's date."""
    for name, content in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(content, encoding="utf-8")
    git(repo, "add", "-A")
    tree = git(repo, "write-tree")
    parent = git(repo, "rev-parse", "HEAD")
    when = int(at(minute).timestamp())
    person = f"Tester <tester@example.org> {when} +0000"
    body = f"tree {tree}\nparent {parent}\nauthor {person}\ncommitter {person}\n\n{message}\n"
    sha = git(repo, "hash-object", "-t", "commit", "-w", "--stdin", stdin=body.encode())
    git(repo, "update-ref", "HEAD", sha)
    return sha


def make_session(cwd: Path | str, **fields: Any) -> Session:
    known: dict[str, Any] = {
        "agent": "claude-code", "sid": "s1", "branch": "main", "first_at": at(0), "last_at": at(60),
        "window_tokens": 200_000, "model_names": ["claude-opus-5"], "max_resident": 150_000,
    }  # fmt: skip
    return Session.objects.create(cwd=str(cwd), **(known | fields))


def act(session: Session, kind: str, ref: str, *, call: str = "", minute: int | None = None, line: int = 1) -> None:
    source, _ = SourceFile.objects.get_or_create(
        path="/s.jsonl", defaults={"agent": "claude-code", "form": "x", "read_at": T}
    )
    SessionAct.objects.create(
        source=source,
        session=session,
        kind=kind,
        ref=ref,
        line=line,
        call=call,
        at=at(minute) if minute is not None else None,
    )


def project(session: Session, residents: Sequence[int] = (20_000, 130_000, 150_000), **more: Any) -> dict[str, object]:
    """Call n has the key kn and is made at minute 10·(n-1)."""
    calls = [MainCall(one) for one in residents]
    keys = [f"k{number}" for number in range(1, len(calls) + 1)]
    return shadow.project(session, calls, keys, [at(10 * place) for place in range(len(calls))], **more)


def legs(session: Session) -> list[SessionLeg]:
    return list(SessionLeg.objects.filter(session=session))


def verdicts(leg: SessionLeg) -> dict[str, str]:
    return {one["pointer"]: one["verdict"] for one in leg.checks}


# --- project ----------------------------------------------------------------------------------------------------------


def test_legs_are_written_with_the_acts_up_to_their_end() -> None:
    session = make_session("/srv/repo")
    act(session, "file", "/srv/repo/src/a.py", call="k2")
    act(session, "file", "/elsewhere/b.txt", call="k4", line=2)
    act(session, "issue", "#4", call="k1", line=3)
    act(session, "commit", "abc1234", minute=25, line=4, call="of a sub-agent")
    act(session, "commit", "def5678", line=5)  # neither call nor time: known at the end only
    summary = project(session, [20_000, 30_000, 130_000, 150_000])
    first, second = legs(session)
    assert (first.first_call, first.last_call, first.ended, first.peak) == (1, 3, "would_rotate", 130_000)
    assert (second.first_call, second.last_call, second.ended, second.peak) == (4, 4, "end", 150_000)
    assert first.baton["pointers"] == ["issue:#4", "file:src/a.py", "commit:abc1234"]
    assert second.baton["pointers"] == [*first.baton["pointers"], "file:/elsewhere/b.txt", "commit:def5678"]
    assert "next_action" in first.baton["missing"] and first.verified is None
    assert (summary["rotations"], summary["legs"], summary["why"]) == (1, 2, "")
    assert summary["orientation"] == [
        10_000,
        "OBSERVED",
        "what the window grew before the first durable act, at call 2",
    ]


def test_the_window_says_whether_the_agent_declared_it() -> None:
    session = make_session("/r")
    declared: Any = project(session, declared=True)["parameters"]
    assert declared["window"] == [200_000, "OBSERVED", "declared by the agent"]
    known: Any = project(session)["parameters"]
    assert known["window"][1] == "ASSUMED" and "Claude Code" in known["window"][2]


def test_an_unknown_window_reads_not_yet() -> None:
    session = make_session("/r", window_tokens=None, model_names=["glm-4.6"])
    summary = project(session)
    assert summary["why"] == "not yet: the window of glm-4.6 is not known"
    assert [(leg.first_call, leg.last_call, leg.ended) for leg in legs(session)] == [(1, 3, "end")]


def test_times_that_step_back_or_are_missing_place_a_sub_agents_act_anyway() -> None:
    session = make_session("/r")
    act(session, "issue", "#1", minute=12)
    act(session, "issue", "#2", minute=-5, line=2)
    calls = [MainCall(20_000), MainCall(130_000), MainCall(150_000)]
    shadow.project(session, calls, ["k1", "k2", "k3"], [at(10), None, at(5)])
    first, second = legs(session)
    assert first.baton["pointers"] == ["issue:#2"], "before the first call: the first leg's"
    assert second.baton["pointers"] == ["issue:#2", "issue:#1"]
    assert first.baton["until"] == at(5).isoformat() and second.baton["until"] == at(60).isoformat()


def test_projecting_again_takes_a_fixed_number_of_queries_and_replaces_the_legs() -> None:
    session = make_session("/r")
    project(session)
    with CaptureQueriesContext(connection) as few:
        project(session, [20_000, 130_000] * 5)
    with CaptureQueriesContext(connection) as many:
        project(session, [20_000, 130_000] * 400)
    assert len(legs(session)) > 10
    assert len(many) - len(few) <= len(legs(session)) // 50, "rows are written in batches"
    session.refresh_from_db()
    project(session, [])
    assert legs(session) == []


# --- judge ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "repo", issues=2)


def test_pointers_are_judged_and_commits_of_the_branch_in_its_times_are_seen(repo: Path) -> None:
    before = commit_at(repo, -30, {"old.txt": "1"})
    own = commit_at(repo, 5, {"src/a.py": "1"})
    watched = commit_at(repo, 12, {"b.txt": "1"})
    late = commit_at(repo, 40, {"c.txt": "1"})
    after = commit_at(repo, 90, {"d.txt": "1"})
    session = make_session(repo)
    act(session, "commit", own[:9], call="k1")
    act(session, "file", str(repo / "src/a.py"), call="k1", line=2)
    act(session, "file", str(repo / "never.py"), call="k1", line=3)
    act(session, "file", "/etc/hosts", call="k1", line=4)
    act(session, "issue", "#2", call="k1", line=5)
    act(session, "issue", "#9", call="k1", line=6)
    act(session, "issue", "other/repo#9", call="k1", line=7)
    act(session, "commit", "0000000", call="k1", line=8)
    project(session)
    sums = judging.judge(session)
    first, second = legs(session)
    assert verdicts(first) == {
        f"commit:{own}": "verified",
        "file:src/a.py": "verified",
        "file:never.py": "dangling",
        "file:/etc/hosts": "unknown",
        "issue:#2": "verified",
        "issue:#9": "dangling",
        "issue:other/repo#9": "unknown",
        "commit:0000000": "dangling",
        f"commit:{watched}": "verified",
    }
    assert first.baton["seen"] == [f"commit:{watched}"]
    assert (first.verified, first.dangling, first.unknown) == (4, 3, 2)
    assert first.baton["start_sha"] == watched and "tombstone.at_sha" not in first.baton["missing"]
    assert second.baton["seen"] == [f"commit:{watched}", f"commit:{late}"]
    assert not {before, after} & set(str(second.checks))
    assert sums == {"verified": 9, "dangling": 6, "unknown": 4}
    assert first.judged_at is not None and first.baton["why"] == ""


def test_judging_again_changes_nothing_and_a_new_projection_keeps_verdicts_of_legs_that_are_as_they_were(
    repo: Path,
) -> None:
    own = commit_at(repo, 5, {"a.py": "1"})
    commit_at(repo, 25, {"b.py": "1"})
    session = make_session(repo)
    act(session, "commit", own, call="k1")
    project(session)
    judging.judge(session)
    kept = [(leg.baton, leg.checks, leg.verified) for leg in legs(session)]
    judging.judge(session)
    assert [(leg.baton, leg.checks, leg.verified) for leg in legs(session)] == kept
    project(session)
    assert [(leg.baton, leg.checks, leg.verified) for leg in legs(session)] == kept
    project(session, [20_000, 130_000, 150_000, 160_000])
    assert [leg.verified for leg in legs(session)] == [1, None], "the last leg grew: it is not judged yet"


def test_a_session_in_a_folder_of_the_repository_names_its_files_from_there(repo: Path) -> None:
    commit_at(repo, 5, {"web/app/[id].tsx": "1", "top.txt": "1"})
    session = make_session(repo / "web", first_at=None)
    act(session, "file", str(repo / "web/app/[id].tsx"), call="k1")
    act(session, "file", "app/[id].tsx", call="k1", line=2)
    act(session, "file", str(repo / "top.txt"), call="k1", line=3)
    act(session, "file", "../../outside.txt", call="k1", line=4)
    project(session)
    judging.judge(session)
    found = verdicts(legs(session)[0])
    assert found == {
        "file:app/[id].tsx": "verified",
        f"file:{repo}/top.txt": "verified",
        "file:../../outside.txt": "unknown",
    }


def test_without_its_branch_the_head_answers_and_the_evidence_says_so(repo: Path) -> None:
    own = commit_at(repo, 5, {"a.py": "1"})
    git(repo, "checkout", "-q", "-b", "feature")
    lost = commit_at(repo, 6, {"b.py": "1"})
    git(repo, "checkout", "-q", "main")
    git(repo, "branch", "-D", "feature")
    session = make_session(repo, branch="feature")
    act(session, "commit", own, call="k1")
    act(session, "commit", lost, call="k1", line=2)
    project(session)
    judging.judge(session)
    leg = legs(session)[0]
    assert verdicts(leg) == {f"commit:{own}": "verified", f"commit:{lost}": "dangling"}
    assert "main (feature is gone)" in leg.checks[0]["evidence"]
    assert leg.baton["seen"] == [], "which branch got a commit cannot be told any more"


@pytest.mark.parametrize("branch", ["", "HEAD", "-x", "a..b"])
def test_a_branch_that_is_no_name_is_no_option_for_git(repo: Path, branch: str) -> None:
    own = commit_at(repo, 5, {"a.py": "1"})
    session = make_session(repo, branch=branch)
    act(session, "commit", own, call="k1")
    project(session)
    assert judging.judge(session)["verified"] == 2


def test_where_the_repository_is_gone_everything_is_unknown_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    git(tmp_path / "plain", "init", "-q", "unborn")
    for number, (cwd, why) in enumerate(
        [
            (str(tmp_path / "gone"), "no such folder"),
            (str(tmp_path / "plain"), "no such repository"),
            (str(tmp_path / "plain" / "unborn"), "no commit yet"),
            ("", "names no folder"),
            ("relative", "names no folder"),
        ]
    ):
        session = make_session(cwd, sid=f"s{number}")
        act(session, "issue", "#1", call="k1")
        act(session, "commit", "a" * 40, call="k1", line=2)
        project(session)
        assert judging.judge(session) == {"verified": 0, "dangling": 0, "unknown": 4}
        leg = legs(session)[0]
        assert why in leg.baton["why"] and all(why in one["evidence"] for one in leg.checks)
        assert leg.baton["start_sha"] is None and "progress_cursor.start_sha" in leg.baton["missing"]


def test_what_was_seen_stays_unknown_when_the_repository_goes(repo: Path) -> None:
    commit_at(repo, 5, {"a.py": "1"})
    session = make_session(repo)
    project(session)
    assert judging.judge(session)["verified"] == 2
    repo.rename(repo.with_name("moved"))
    assert judging.judge(session) == {"verified": 0, "dangling": 0, "unknown": 2}
    repo.with_name("moved").rename(repo)
    assert judging.judge(session)["verified"] == 2


def test_a_hostile_repository_runs_nothing(repo: Path, tmp_path: Path) -> None:
    """The stores read it: its config, hooks and filters are never executed."""
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n", encoding="utf-8")
    trap.chmod(0o755)
    own = commit_at(repo, 5, {"a.py": "1"})
    for name in ("core.fsmonitor", "core.pager", "core.sshCommand", "diff.external", "gpg.program", "core.editor"):
        git(repo, "config", name, str(trap))
    git(repo, "config", "core.hooksPath", str(tmp_path))
    session = make_session(repo)
    act(session, "commit", own[:8], call="k1")
    act(session, "commit", "--output=x", call="k1", line=2)
    act(session, "commit", "HEAD", call="k1", line=3)
    act(session, "file", str(repo / "a.py"), call="k1", line=4)
    act(session, "file", str(repo / ":(glob)**"), call="k1", line=5)
    project(session)
    judging.judge(session)
    found = verdicts(legs(session)[0])
    assert found[f"commit:{own}"] == "verified" and found["file:a.py"] == "verified"
    assert (found["commit:--output=x"], found["commit:HEAD"], found["file::(glob)**"]) == ("dangling",) * 3
    assert not os.path.exists(tmp_path / "sprung")


def test_any_number_of_legs_and_pointers_takes_a_fixed_number_of_processes(repo: Path) -> None:
    commits = [commit_at(repo, number % 50, {f"f{number}": "1"}) for number in range(12)]
    session = make_session(repo)
    for number, sha in enumerate(commits):
        act(session, "commit", sha[:10], call=f"k{number}", line=number)
    project(session, [20_000, 130_000] * 2)
    with counting() as few:
        judging.judge(session)
    for number in range(MOST_POINTERS):
        act(session, "file", str(repo / f"f{number}"), call="k1", line=100 + number)
    project(session, [20_000, 130_000] * 100)
    with counting() as many:
        judging.judge(session)
    # files ask for the tree, too; what a store knows already (its config, an object just made) costs no process
    assert len(many) <= len(few) + 3, "a hundred legs and hundreds of pointers, and no process for each"
    last = legs(session)[-1]
    assert len(last.checks) == MOST_POINTERS == len(last.baton["pointers"])
    assert last.baton["dropped"] + last.baton["seen_more"] > 0

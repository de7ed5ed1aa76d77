"""Very many sessions in one file: the number of queries grows with batches of them, never with each session."""

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from relays.models import Session, SessionLeg
from relays.sessions import judging, project, shadow
from relays.sessions.run import import_paths
from relays.sessions.totals import totals
from tests.builders import git, make_repo
from tests.sessions.stored import emptied
from tests.sessions.test_opencode import TABLES

pytestmark = pytest.mark.django_db


def claude(path: Path, count: int) -> Path:
    """Sessions of one call and one written file, one after the other in one file."""
    with path.with_suffix(".jsonl").open("w") as out:
        for n in range(count):
            tool = {"type": "tool_use", "id": f"t{n}", "name": "Write", "input": {"file_path": f"/srv/{n}.py"}}
            usage = {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 100}
            message = {"id": f"m{n}", "model": "claude-sonnet-4-5", "role": "assistant", "stop_reason": "tool_use"}
            base = {"sessionId": f"s{n:06d}", "timestamp": f"2026-03-01T10:{n // 60 % 60:02d}:{n % 60:02d}.000Z"}
            result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": "ok"}
            for record in (
                {"type": "assistant", "uuid": f"a{n}", "message": {**message, "usage": usage, "content": [tool]}},
                {"type": "user", "uuid": f"u{n}", "message": {"role": "user", "content": [result]}},
            ):
                out.write(json.dumps({**base, "version": "2.1.226", **record}) + "\n")
    return path.with_suffix(".jsonl")


def opencode(path: Path, count: int) -> Path:
    path = path.with_name("opencode-many.db")
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as db, db:
        db.executescript(TABLES)
        for n in range(count):
            at = 1_777_629_600_000 + 1000 * n
            used = {"input": 5, "output": 7, "reasoning": 0, "cache": {"read": 100, "write": 0}}
            data = {"role": "assistant", "time": {"created": at, "completed": at + 9}, "modelID": "m", "tokens": used}
            db.execute("INSERT INTO session VALUES (?, NULL, '/nowhere', '1.2.0', ?)", (f"ses_{n}", at))
            db.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (f"msg_{n}", f"ses_{n}", at, json.dumps(data)))
    return path


@pytest.mark.parametrize("make", [claude, opencode])
def test_queries_grow_with_batches_of_sessions_only(make: Callable[[Path, int], Path], tmp_path: Path) -> None:
    """Three batches of sessions more take as many queries more as a batch takes, whatever is in it."""

    def asked(count: int) -> int:
        emptied()
        path = make(tmp_path / "many", count)
        with CaptureQueriesContext(connection) as found:
            outcome = import_paths([path])
            totals(outcome.sources)
            judging.judge_waiting(outcome.changed, lambda: False)
        assert Session.objects.count() == count
        assert SessionLeg.objects.filter(judged_at__isnull=False).count() == count
        return len(found)

    few, many = (asked(batches * project.TOGETHER) for batches in (1, 4))
    assert (many - few) / (3 * project.TOGETHER) < 1.5, f"{few} queries, then {many}"


def test_a_session_that_did_very_much_beside_others_gets_the_same_legs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound on acts is of each session, not of those that are read with it."""
    path = claude(tmp_path / "many", 5)

    def legs() -> list[tuple[str, object]]:
        emptied()
        import_paths([path])
        return sorted(SessionLeg.objects.values_list("session__sid", "baton__pointers"))

    together = legs()
    assert together[3] == ("s000003", ["file:/srv/3.py"])
    monkeypatch.setattr(shadow, "MOST_ACTS", 1)
    assert legs() == together


def test_a_repository_is_asked_once_for_many_sessions_that_worked_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each session gets the commits of its own times, as it does when it is judged alone."""
    repo = make_repo(tmp_path / "repo")
    day = datetime(2026, 3, 1, 10, tzinfo=UTC)
    for n in range(4):
        (repo / f"{n}.py").write_text(f"{n}\n")
        git(repo, "add", f"{n}.py")
        date = (day + timedelta(hours=n, seconds=30)).isoformat()
        who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        env = {"PATH": os.environ["PATH"], "GIT_COMMITTER_DATE": date, "GIT_CONFIG_GLOBAL": os.devnull}
        subprocess.run(["git", *who, "-C", str(repo), "commit", "-qm", f"{n}"], env=env, check=True)
    branch = git(repo, "branch", "--show-current")
    path = tmp_path / "many.jsonl"
    with path.open("w") as out:
        for n in range(4):
            for minute in (0, 1):
                usage = {"input_tokens": 5, "output_tokens": 7}
                message = {"id": f"m{n}-{minute}", "model": "claude-sonnet-4-5", "role": "assistant", "usage": usage}
                base = {"sessionId": f"s{n}", "cwd": str(repo), "gitBranch": branch, "version": "2.1.226"}
                at = (day + timedelta(hours=n, minutes=minute)).isoformat().replace("+00:00", "Z")
                out.write(json.dumps({**base, "type": "assistant", "timestamp": at, "message": message}) + "\n")
    outcome = import_paths([path])
    asked: list[str] = []
    real = judging.discover
    monkeypatch.setattr(judging, "discover", lambda place: asked.append(str(place)) or real(place))
    assert judging.judge_waiting(outcome.changed, lambda: False)
    assert asked == [str(repo)]

    def judged() -> list[tuple[str, object, object, object]]:
        rows = SessionLeg.objects.order_by("session__sid", "number")
        return list(rows.values_list("session__sid", "verified", "baton__pointers", "baton__seen"))

    together = judged()
    made = [git(repo, "log", "--format=%H", f"--grep=^{n}$") for n in range(4)]
    assert [row[2] for row in together] == [[f"commit:{sha}"] for sha in made]
    assert [row[1] for row in together] == [1, 1, 1, 1]
    SessionLeg.objects.update(judged_at=None)
    monkeypatch.setattr(judging, "MOST_SEEN", 2)  # more commits than one answer may hold: asked session by session
    for session in Session.objects.all():
        judging.judge(session)
    assert judged() == together
    SessionLeg.objects.update(judged_at=None)
    judging.judge_waiting(outcome.changed, lambda: False)
    assert judged() == together

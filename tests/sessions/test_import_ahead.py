"""What the command line's import does while others still read changes nothing of what is stored."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from django.db import connection

from relays.sessions import project, run
from tests.sessions.stored import copied, emptied, snapshot

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.slow
@pytest.mark.postgres
def test_figures_made_while_files_are_still_read_are_those_made_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied(tmp_path / "watched")
    run.import_paths([folder])
    expected = snapshot()
    emptied()
    asked: list[set[int]] = []
    projected = project.project

    def counted(ids: Iterable[int], *more: object) -> set[int]:
        asked.append(set(ids))
        return projected(asked[-1])

    monkeypatch.setattr(project, "project", counted)
    for name in ("BATCH_WHEN_IDLE", "BATCH_PARTS", "WORTH_PROJECTING", "WORTH_FORKING"):
        monkeypatch.setattr(run, name, 1)
    outcome = run.import_paths([folder], processes=2)
    assert outcome.finished and not outcome.problems
    assert sum(map(bool, asked[:-1])) > 1, "some of them had their figures before the last file was read"
    assert snapshot() == expected
    assert run.import_paths([folder], processes=2).changed == set()


def test_a_transaction_waits_for_the_disk_again_after_an_import(tmp_path: Path) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("SQLite's own settings")

    def settings() -> list[object]:
        with connection.cursor() as cursor:
            names = ("synchronous", "wal_autocheckpoint")
            return [cursor.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    before = settings()
    seen: list[list[object]] = []
    run.import_paths([copied(tmp_path, "claude/two")], progress=lambda _: seen.append(settings()))
    assert seen and seen[0] != before
    assert settings() == before

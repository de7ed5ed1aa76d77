"""The samples through the tables: each alone, all together, twice, in any order, cut in pieces, by two at once."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from relays.models import Session, SessionAnomaly, SessionBoundary, SessionCall, SourceFile
from relays.sessions import reading
from relays.sessions.run import import_paths
from relays.sessions.totals import totals
from tests.sessions.stored import SAMPLES, copied, emptied, snapshot, sums

pytestmark = pytest.mark.django_db

EXPECTED = {one["file"]: one for one in json.loads((SAMPLES / "expected.json").read_text())["files"]}
PARENT, CHILD = "codex/fork-parent.jsonl", "codex/fork-child.jsonl"
FOUR, COPY = "claude/four-compactions-no-request-id.jsonl", "claude/copied-history-of-four-compactions.jsonl"
#: small ones of each form
SOME = ("claude/with-children", "claude/two-broken", "claude/inline", "codex/fork", "codex/replay", "gemini")


def right(name):
    one = EXPECTED[name]
    tokens = dict(one["tokens"])
    written = tokens.pop("cache_creation_input_tokens")
    short = one.get("ephemeral", {"5m": written, "1h": 0})
    return {"calls": one["calls"], **tokens, "5m": short["5m"], "1h": short["1h"]}


def before(mark, agent):
    """Codex declares no size before a compaction: there the figure is of the call before it, with its output."""
    if agent != "codex":
        return mark.declared_pre
    last = SessionCall.objects.filter(session=mark.session, chain="main", line__lt=mark.line).latest("line")
    assert mark.measured_before == last.resident
    return last.resident + last.output_tokens


@pytest.mark.parametrize("name", [name for name in EXPECTED if name != CHILD])
def test_each_file_alone_gives_exactly_its_figures(name):
    outcome = import_paths([SAMPLES / name])
    assert outcome.finished
    assert outcome.problems == []
    assert sums() == right(name)
    found = totals(outcome.sources)
    one = EXPECTED[name]
    assert found["calls"] == one["calls"]
    assert found["max_resident_tokens"] == one["max_resident_tokens"]
    assert found["compactions"] == len(one["compactions"])
    assert found["sessions"] == one.get("session_ids", 1)
    assert found["anomalies"].get("broken_line", 0) == (one["broken_lines"] if one["agent"] != "gemini-cli" else 0)
    marks = SessionBoundary.objects.order_by("line")
    told = [(mark.line, before(mark, one["agent"]), mark.declared_post) for mark in marks]
    assert told == [(mark["line"], mark["pre"], mark["post"]) for mark in one["compactions"]]


def test_the_whole_folder_counts_each_call_once(tmp_path):
    outcome = import_paths([SAMPLES])
    # copies repeat what their original says, and two messages of the sub-agent's file stand in the main file, too
    each = [right(name) for name in EXPECTED if name != COPY]
    shared = 2
    found = sums()
    assert found["calls"] == sum(one["calls"] for one in each) - shared
    alone = {name: sum(one[name] for one in each) for name in found}
    assert all(found[name] <= alone[name] for name in found)
    said = totals(outcome.sources)
    assert said["calls"] == found["calls"]
    assert said["tokens"] == {
        "input": found["input_tokens"],
        "cache_read": found["cache_read_input_tokens"],
        "cache_write_5m": found["5m"],
        "cache_write_1h": found["1h"],
        "output": found["output_tokens"],
    }
    # every roll-up adds up to the rows
    assert sum(session.calls for session in Session.objects.all()) == found["calls"]
    assert sum(session.output_tokens for session in Session.objects.all()) == found["output_tokens"]
    assert sum(one["calls"] for one in said["per_session"]) == found["calls"]


def test_a_second_look_reads_nothing_and_changes_nothing(tmp_path, django_assert_num_queries):
    folder = copied(tmp_path, *SOME)
    import_paths([folder])
    before = snapshot()
    with django_assert_num_queries(2):  # the files, and whether a session still waits for its figures
        outcome = import_paths([folder])
    assert (outcome.changed, outcome.files_done) == (set(), outcome.files_total)
    assert outcome.bytes_done == outcome.bytes_total > 0
    assert snapshot() == before


def test_any_order_gives_the_same(tmp_path):
    folder = copied(tmp_path, *SOME)  # the folder's own order comes first
    import_paths([folder])
    whole = snapshot()
    files = sorted(path for path in folder.rglob("*.jsonl"))
    for order in (files[::-1],):
        emptied()
        for path in order:
            import_paths([path])
        assert snapshot() == whole


def test_cut_into_random_pieces_while_it_is_followed_gives_the_same(tmp_path):
    folder = copied(tmp_path, "claude/with-children", "claude/two-session", "codex/fork", "codex/replay", "gemini")
    import_paths([folder])
    whole = snapshot()
    assert not SessionAnomaly.objects.filter(kind="partial_tail").exists()
    emptied()
    chance = random.Random(11)
    content = {path: path.read_bytes() for path in folder.rglob("*.jsonl")}
    held = False
    for step in range(5):
        for path, whole_file in content.items():
            last = len(whole_file) if step == 4 else chance.randint(0, len(whole_file) * (step + 1) // 5)
            if step == 0 or last > path.stat().st_size:
                path.write_bytes(whole_file[:last])
        import_paths([folder])
        held = held or SessionAnomaly.objects.filter(kind="partial_tail").exists()
    assert held
    assert snapshot() == whole


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_all_samples_cut_into_random_pieces_in_random_order(tmp_path, seed):
    folder = copied(tmp_path)
    import_paths([folder])
    whole = snapshot()
    emptied()
    chance = random.Random(seed)
    content = {path: path.read_bytes() for path in folder.rglob("*.jsonl")}
    for path in content:
        path.write_bytes(b"")
    while content:
        path = chance.choice(sorted(content))
        have, all_of_it = path.stat().st_size, content[path]
        # bytes are added where they are: a file that is followed keeps its inode
        with path.open("ab") as out:
            out.write(all_of_it[have : have + chance.randint(1, 200_000)])
        if path.stat().st_size == len(all_of_it):
            del content[path]
        if chance.random() < 0.5 or not content:
            import_paths([chance.choice([folder, path])])
    import_paths([folder])
    assert snapshot() == whole


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_two_processes_at_once_give_the_same(tmp_path, process_env):
    folder = copied(tmp_path, *SOME)
    command = [sys.executable, "manage.py", "relay", "import", str(folder), "--json"]
    root = Path(__file__).parents[2]
    # by the same command: it judges the would-be batons as well
    subprocess.run(command, cwd=root, env=process_env, stdout=subprocess.DEVNULL, check=True, timeout=100)
    whole = snapshot()
    emptied()
    both = [subprocess.Popen(command, cwd=root, env=process_env, stdout=subprocess.PIPE) for _ in range(2)]
    said = [json.loads(one.communicate(timeout=100)[0]) for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert snapshot() == whole
    assert said[0] == said[1]


def test_two_parsing_processes_give_the_same(tmp_path, monkeypatch):
    folder = copied(tmp_path, *SOME)
    import_paths([folder])
    whole = snapshot()
    emptied()
    monkeypatch.setattr("relays.sessions.run.WORTH_FORKING", 0)
    import_paths([folder], processes=2)
    assert snapshot() == whole


def test_a_parsing_process_that_is_killed_costs_nothing_but_time(tmp_path, monkeypatch):
    folder = copied(tmp_path, "claude/with-children", "codex/fork", "gemini")
    import_paths([folder])
    whole = snapshot()
    emptied()
    monkeypatch.setattr("relays.sessions.run.WORTH_FORKING", 0)
    real, here = reading.read_part, os.getpid()

    def deadly(task):
        if os.getpid() != here and "fork" in task.path:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(task)

    monkeypatch.setattr("relays.sessions.forks.read_part", deadly)
    outcome = import_paths([folder], processes=2)
    assert (outcome.finished, outcome.files_done) == (True, outcome.files_total)
    assert snapshot() == whole


def test_parts_of_a_file_give_the_same_as_the_whole(tmp_path, monkeypatch):
    folder = copied(tmp_path, "claude/with-children", "codex/fork-parent")
    import_paths([folder])
    whole = snapshot()
    emptied()
    monkeypatch.setattr("relays.sessions.reading.PART_BYTES", 40_000)
    monkeypatch.setattr("relays.sessions.files.BLOCK_BYTES", 30_000)
    monkeypatch.setattr("relays.sessions.run.BATCH_PARTS", 3)
    import_paths([folder])
    assert snapshot() == whole


def test_ended_early_it_goes_on_where_it_stood(tmp_path, monkeypatch):
    folder = copied(tmp_path, *SOME)
    import_paths([folder])
    whole = snapshot()
    emptied()
    monkeypatch.setattr("relays.sessions.run.BATCH_PARTS", 1)
    looks = 0
    while True:
        outcome = import_paths([folder], cancelled=lambda: True)
        looks += 1
        assert sum(session.calls for session in Session.objects.all()) == sums()["calls"]
        if outcome.finished:
            break
    assert looks > 3
    assert snapshot() == whole


# --- forks


def test_a_fork_with_its_parent_has_its_own_calls_only():
    for order in ((PARENT, CHILD), (CHILD, PARENT)):
        emptied()
        for name in order:
            import_paths([SAMPLES / name])
        child = Session.objects.get(sid="019d7e30-2f7a-7f60-a942-c59ab0be98d9")
        tokens = EXPECTED[CHILD]["tokens"]
        assert child.calls == EXPECTED[CHILD]["calls"]
        assert child.input_tokens == tokens["input_tokens"]
        assert child.cache_read == tokens["cache_read_input_tokens"]
        assert child.output_tokens == tokens["output_tokens"]
        assert child.max_resident == EXPECTED[CHILD]["max_resident_tokens"]
        assert "replay_estimated" not in child.anomalies
        assert set(SessionCall.objects.filter(session=child, counts=False).values_list("copied", flat=True)) == {
            "replay"
        }
        assert sums()["calls"] == EXPECTED[CHILD]["calls"] + EXPECTED[PARENT]["calls"]


def test_t15_a_fork_without_its_parent_is_estimated_and_says_so():
    outcome = import_paths([SAMPLES / CHILD])
    child = Session.objects.get()
    assert child.anomalies["replay_estimated"] == child.copied_calls > 0
    assert child.calls + child.copied_calls == SessionCall.objects.filter(shown=True).count()
    assert totals(outcome.sources)["anomalies"]["replay_estimated"] == child.copied_calls
    # when the parent comes, it is known
    import_paths([SAMPLES / PARENT])
    child.refresh_from_db()
    assert "replay_estimated" not in child.anomalies
    assert child.calls == EXPECTED[CHILD]["calls"]


def test_t15_a_copy_after_its_original_adds_nothing():
    import_paths([SAMPLES / FOUR])
    before = sums()
    compactions = SessionBoundary.objects.filter(counts=True).count()
    outcome = import_paths([SAMPLES / COPY])
    assert sums() == before
    assert SessionBoundary.objects.filter(counts=True).count() == compactions == 4
    # and yet the answer about that file alone is that file's
    assert totals(outcome.sources)["calls"] == EXPECTED[COPY]["calls"]


def test_files_that_hold_no_session_are_left_out_and_not_opened_again(tmp_path):
    (tmp_path / "settings.json").write_text('{"theme": "dark"}\n')
    (tmp_path / "notes.txt").write_text("nothing\n")
    outcome = import_paths([tmp_path])
    assert (outcome.skipped, outcome.sources, outcome.files_done) == (2, [], 2)
    assert set(SourceFile.objects.values_list("status", flat=True)) == {"skipped"}
    again = import_paths([tmp_path])
    assert (again.skipped, again.sources, again.problems) == (2, [], [])

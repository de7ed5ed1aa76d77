"""Files that grow, are cut, replaced, huge, gone or closed to us; and nothing is ever written to where they lie."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from relays.models import Session, SessionAnomaly, SessionCall, SourceFile
from relays.sessions import files
from relays.sessions.run import import_paths
from relays.sessions.totals import totals

NOBODY = 65534


def call(number, session="s-1", **message):
    record = {
        "type": "assistant",
        "uuid": f"u-{number}",
        "sessionId": session,
        "timestamp": f"2026-03-01T10:{number % 60:02d}:00.000Z",
        "version": "2.1.226",
        "message": {
            "id": f"m-{number}",
            "role": "assistant",
            "model": "claude-sonnet-4-5-20250929",
            "stop_reason": "end_turn",
            "content": [],
            "usage": {"input_tokens": 1, "cache_read_input_tokens": 1000 * number, "output_tokens": 5},
            **message,
        },
    }
    return json.dumps(record).encode() + b"\n"


def lines_of(path, start=0, **limits):
    with files.open_for_reading(str(path)) as stream:
        return list(files.blocks(stream, start, os.fstat(stream.fileno()).st_size, **limits))


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1 << 20])
def test_lines_are_whole_whatever_the_size_of_a_block(tmp_path, monkeypatch, block):
    monkeypatch.setattr(files, "BLOCK_BYTES", block)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"one\n\ntwo three\nfour\r\n" + b"x" * 50 + b"\nheld back")
    found = lines_of(path)
    assert [line for _, lines in found for line in lines] == [b"one", b"", b"two three", b"four\r", b"x" * 50]
    assert found[-1][0] == path.stat().st_size - len(b"held back")
    # from any end of a line on it is the same
    for behind, _ in found:
        rest = lines_of(path, behind)
        assert (rest[-1][0] if rest else behind) == found[-1][0]


def test_a_line_over_the_limit_is_passed_over_and_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK_BYTES", 10)
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"a\n" + b"y" * 200 + b"\nb\n")
    assert [lines for _, lines in lines_of(path, longest=100)] == [[b"a"], [], [b"b"]]
    assert [lines for _, lines in lines_of(path, longest=200)] == [[b"a"], [b"y" * 200], [b"b"]]


def test_find_names_what_may_hold_sessions_once(tmp_path):
    (tmp_path / "a" / "subagents").mkdir(parents=True)
    (tmp_path / ".git").mkdir()
    for name in ("b.jsonl", "a/c.JSON", "a/subagents/d.jsonl", "e.png", ".git/f.jsonl", "a/g.py"):
        (tmp_path / name).write_text("{}\n")
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = [one.path for one in files.find([tmp_path, tmp_path / "a", tmp_path / "e.png"])]
    names = [os.path.relpath(path, tmp_path) for path in found]
    # whoever names a file means it, whatever it is called
    assert names == ["b.jsonl", "a/c.JSON", "a/subagents/d.jsonl", "e.png"]


def test_find_says_what_cannot_be_looked_at(tmp_path):
    told = []
    bad = os.fsencode(tmp_path) + b"/\xff.jsonl"
    Path(os.fsdecode(bad)).write_text("{}\n")
    missing = tmp_path / "missing.jsonl"
    assert list(files.find([tmp_path, missing], lambda path, why: told.append((path, why)))) == []
    assert told == [
        (f"{tmp_path}/\\xff.jsonl".replace("\\xff", "\\udcff"), "its name is no text in UTF-8"),
        (str(missing), "it is not there"),
    ]


def test_a_pipe_and_a_folder_without_a_name_in_utf_8_are_named_in_words_that_can_be_stored(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.jsonl")
    folder = os.fsdecode(os.fsencode(tmp_path) + b"/z\xff")
    os.mkdir(folder)
    scan = os.scandir

    def refusing(path):
        if path == folder:
            raise PermissionError
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)  # who tests as root may read everything
    told = []
    assert list(files.find([tmp_path], lambda path, why: told.append((path, why)))) == []
    assert told == [
        (f"{tmp_path}/pipe.jsonl", "it is no regular file"),
        (f"{tmp_path}/z\\udcff", "no permission to read it"),
    ]


def test_numbers_of_64_bits_are_kept():
    assert [files.signed(n) for n in (0, 2**63 - 1, 2**63, 2**64 - 1)] == [0, 2**63 - 1, -(2**63), -1]


# --- through the tables


def figures():
    counted = SessionCall.objects.filter(counts=True)
    return sorted(counted.values_list("key", flat=True)), {
        row.kind: row.count for row in SessionAnomaly.objects.filter(session=None)
    }


@pytest.mark.django_db
def test_t11_a_torn_last_line_is_held_until_its_end_comes(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(call(1) + call(2)[:50])
    import_paths([path])
    assert figures() == (["m-1"], {"partial_tail": 1})
    import_paths([path])
    assert figures() == (["m-1"], {"partial_tail": 1}), "it is said once"
    with path.open("ab") as out:
        out.write(call(2)[50:])
    import_paths([path])
    assert figures() == (["m-1", "m-2"], {})


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["cut", "cut and written on", "another file", "another file of the same size"])
def test_a_file_that_is_no_longer_the_same_is_read_from_its_start(tmp_path, how):
    path = tmp_path / "s.jsonl"
    path.write_bytes(call(1) + call(2))
    import_paths([path])
    if how == "cut":
        path.write_bytes(call(1))
        want = ["m-1", "m-2"]  # what was read stays: the call was made
    elif how == "cut and written on":
        path.write_bytes(call(1) + call(3) + call(4))
        want = ["m-1", "m-2", "m-3", "m-4"]
    elif how == "another file":
        other = tmp_path / "other"
        other.write_bytes(call(5) + call(6) + call(7))
        other.rename(path)
        want = ["m-1", "m-2", "m-5", "m-6", "m-7"]
    else:
        path.write_bytes(call(8) + call(9))
        want = ["m-1", "m-2", "m-8", "m-9"]
    import_paths([path])
    assert figures() == (want, {"replaced": 1})
    source = SourceFile.objects.get()
    assert source.offset == path.stat().st_size
    assert source.lines == path.read_bytes().count(b"\n")
    assert sum(count for count, _ in source.records.values()) == source.lines
    before = figures()
    import_paths([path])
    assert figures() == before


@pytest.mark.django_db
def test_a_file_that_is_gone_keeps_what_was_read(tmp_path):
    path, other = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    path.write_bytes(call(1))
    other.write_bytes(call(2, "s-2"))
    import_paths([tmp_path])
    path.unlink()
    outcome = import_paths([tmp_path])
    assert SourceFile.objects.get(path=str(path)).status == "gone"
    assert totals(outcome.sources)["calls"] == 2
    assert totals(outcome.sources)["anomalies"]["gone"] == 1
    # it comes back
    path.write_bytes(call(1) + call(3))
    outcome = import_paths([tmp_path])
    assert SourceFile.objects.get(path=str(path)).status == "read"
    assert totals(outcome.sources)["calls"] == 3


@pytest.mark.django_db
def test_a_file_that_vanishes_between_finding_and_opening_is_no_failure(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    path.write_bytes(call(1))
    found = list(files.find([tmp_path]))
    path.unlink()
    monkeypatch.setattr("relays.sessions.run.find", lambda paths, problem: iter(found))
    outcome = import_paths([tmp_path])
    assert (outcome.finished, outcome.problems, SourceFile.objects.count()) == (True, [], 0)


@pytest.mark.django_db
def test_what_may_not_be_read_is_named_and_the_rest_is_read(tmp_path):
    os.chmod(tmp_path, 0o755)
    closed, locked = tmp_path / "closed", tmp_path / "locked.jsonl"
    closed.mkdir()
    (closed / "x.jsonl").write_bytes(call(1))
    locked.write_bytes(call(2))
    (tmp_path / "open.jsonl").write_bytes(call(3))
    closed.chmod(0)
    locked.chmod(0)
    script = (
        "import os, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import relays.sessions.claude\n"
        "from relays.sessions.files import find\n"
        "from relays.sessions.reading import Task, read_part\n"
        f"os.setuid({NOBODY}) if os.geteuid() == 0 else None\n"
        "told = []\n"
        "for one in find([sys.argv[2]], lambda path, why: told.append((os.path.basename(path), why))):\n"
        "    part = read_part(Task(one.path))\n"
        "    told.append((os.path.basename(one.path), part.status, part.error, len(part.calls)))\n"
        "print(told)\n"
    )
    # another user than root, in a process of its own; every folder above must let it pass
    for folder in tmp_path.parents:
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o111)
    command = [sys.executable, "-c", script, str(Path(__file__).parents[2]), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    closed.chmod(0o755)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(
        [
            ("locked.jsonl", "refused", "no permission to read it", 0),
            ("open.jsonl", "read", "", 1),
            ("closed", "no permission to read it"),
        ]
    )


@pytest.mark.django_db
def test_nothing_is_written_where_the_files_lie(tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.jsonl").write_bytes(call(number, f"s-{number}"))

    def look():
        return {
            path: (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino)
            for path in sorted(tmp_path.rglob("*"))
        } | {"folder": tmp_path.stat().st_mtime_ns}

    before = look()
    import_paths([tmp_path])
    import_paths([tmp_path])
    assert look() == before
    assert Session.objects.count() == 3


def test_a_huge_line_is_held_once_and_read_as_any_other(tmp_path):
    """A line of 64 MB: the process takes little more than the line and what parsing it makes of it."""
    path = tmp_path / "huge.jsonl"
    size = 64 << 20
    with path.open("wb") as out:
        out.write(call(1))
        out.write(call(2, content=[{"type": "text", "text": "@"}]).replace(b"@", b"x" * size))
        out.write(call(3))
    script = (
        "import resource, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from relays.sessions.reading import Task, read_part\n"
        "read_part(Task(sys.argv[2] + '.none'))\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "task, calls = Task(sys.argv[2]), []\n"
        "while True:\n"
        "    part = read_part(task)\n"
        "    calls += [call.key for call in part.calls]\n"
        "    if not part.more: break\n"
        "    task = Task(sys.argv[2], part.cursor, part.form, part.state, task.part + 1)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, *calls)\n"
    )
    command = [sys.executable, "-c", script, str(Path(__file__).parents[2]), str(path)]
    more, *calls = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert calls == ["m-1", "m-2", "m-3"]
    assert int(more) * 1024 < 2.6 * size


def test_a_link_in_a_folder_leads_to_no_file_outside_of_it(tmp_path):
    root, outside = tmp_path / "root", tmp_path / "outside.jsonl"
    (root / "deep").mkdir(parents=True)
    outside.write_text("{}\n")
    (root / "deep" / "own.jsonl").write_text("{}\n")
    (root / "out.jsonl").symlink_to(outside)
    (root / "in.jsonl").symlink_to(root / "deep" / "own.jsonl")
    told = []
    found = [os.path.basename(one.path) for one in files.find([root], lambda path, why: told.append((path, why)))]
    assert sorted(found) == ["in.jsonl", "own.jsonl"]
    assert told == [(str(root / "out.jsonl"), "it is a link that leads out of the folder")]
    assert [one.path for one in files.find([root / "out.jsonl"])] == [str(root / "out.jsonl")], (
        "named itself, it is read"
    )

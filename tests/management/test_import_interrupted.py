"""`relay import` interrupted in the middle, as a real process: it says how far it came, and a second one goes on."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from relays.models import Session, SourceFile
from tests.sessions.watched import CODEX, FOUR, ROOT, counted, expected, rolled_up

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.postgres]

#: the command itself; once a batch of `argv[1]` parts is stored it says so and waits, as long as nobody interrupts it.
#: `argv[2]` = how many bytes are worth two more processes, which parse
COMMAND = """
import sys
parts, worth, *arguments = sys.argv[1:]
sys.argv = ["manage.py", "relay", "import", *arguments]
import django
django.setup()
from relays.sessions import run
run.BATCH_PARTS, run.WORTH_FORKING = int(parts), int(worth)
tell = run._Run._tell
def stored(self, path):
    tell(self, path)
    print("stored", file=sys.stderr, flush=True)
    sys.stdin.read(1)
run._Run._tell = stored
from django.core.management import execute_from_command_line
execute_from_command_line(sys.argv)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two samples, and files that hold a session of one call each."""
    made = tmp_path / "projects"
    made.mkdir()
    for name in (FOUR, CODEX):
        (made / Path(name).name).write_bytes((ROOT / "tests" / "samples" / name).read_bytes())
    for n in range(20):
        usage = {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 0}
        message = {"id": f"m-{n}", "model": "claude-sonnet-4-5", "role": "assistant", "usage": usage}
        record = {"type": "assistant", "uuid": f"u-{n}", "sessionId": f"s-{n}", "message": message}
        line = json.dumps({**record, "timestamp": "2026-03-01T10:00:00.000Z", "version": "2.1.226"})
        (made / f"s-{n}.jsonl").write_text(line + "\n", encoding="utf-8")
    return made


def interrupted(env: dict[str, str], folder: Path, worth: int, *options: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of an import that Ctrl-C reaches, as a terminal sends it, after its first batch."""
    command = [sys.executable, "-c", COMMAND, "2", str(worth), *options, str(folder)]
    pipe = subprocess.PIPE
    env = {**env, "DJANGO_SETTINGS_MODULE": "relaysite.settings"}
    process = subprocess.Popen(
        command, env=env, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "stored\n"
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    with pytest.raises(ProcessLookupError):  # whoever parsed for it is gone with it
        os.killpg(process.pid, 0)
    return process.returncode, out, err


def whole(env: dict[str, str], folder: Path) -> dict[str, Any]:
    command = [sys.executable, str(ROOT / "manage.py"), "relay", "import", "--json", str(folder)]
    done = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("worth", [1, 1 << 40], ids=["two processes parse", "one process"])
def test_what_was_stored_stays_and_the_same_command_goes_on(
    process_env: dict[str, str], folder: Path, worth: int
) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    code, out, err = interrupted(process_env, folder, worth)
    assert (code, out) == (130, "")
    assert err == (
        "import: interrupted: 2 of 22 files read; what was stored stays, and the same command goes on from there"
        " (sessions without figures get them then)\n"
    )
    read = set(SourceFile.objects.filter(status="read").values_list("pk", "read_at"))
    assert len(read) == 2, "one batch was stored, and no half of another"
    calls = counted()["calls"]
    assert calls > 0
    found = whole(process_env, folder)
    assert read < set(SourceFile.objects.values_list("pk", "read_at")), "what was read is not read again"
    right = expected(FOUR, CODEX)
    right["calls"], right["input"], right["output"] = right["calls"] + 20, right["input"] + 200, right["output"] + 20
    assert counted() == rolled_up() == right
    assert (found["files"], found["calls"], found["tokens"]["output"]) == (22, right["calls"], right["output"])
    assert not Session.objects.filter(projected_at=None).exists()
    assert whole(process_env, folder) == found
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_program_is_told_how_far_it_came(process_env: dict[str, str], folder: Path) -> None:
    code, out, err = interrupted(process_env, folder, 1 << 40, "--json")
    told = json.loads(out)
    assert (code, told["interrupted"], told["files_done"], told["files_total"]) == (130, True, 2, 22)
    assert 0 < told["bytes_done"] < told["bytes_total"] == sum(path.stat().st_size for path in folder.iterdir())
    assert "the same command goes on from there" in err

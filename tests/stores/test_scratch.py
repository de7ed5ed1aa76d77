"""A folder of ours ends with whoever made it, also when that was killed; nobody else's is touched."""

import gc
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from relays.stores import scratch

KEEPER = """
import sys, tempfile
tempfile.tempdir = sys.argv[1]
from relays.stores import scratch
class Holder: pass
holder = Holder()
print(scratch.make(holder)[0], flush=True)
sys.stdin.read()
"""


class Holder:
    pass


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(scratch, "_swept", 0.0)
    monkeypatch.setattr(scratch, "SWEEP_EVERY", 1e9)
    return tmp_path


def left(base: Path) -> list[str]:
    return sorted(place.name for place in base.iterdir())


def test_it_is_gone_with_its_holder(base: Path) -> None:
    holder = Holder()
    place, remove = scratch.make(holder)
    assert Path(place).stat().st_mode & 0o777 == 0o700
    del holder
    gc.collect()
    assert left(base) == []
    remove()


@pytest.mark.parametrize("killed", [True, False])
def test_what_a_killed_process_left_is_taken_away_and_what_is_held_stays(
    base: Path, monkeypatch: pytest.MonkeyPatch, killed: bool
) -> None:
    monkeypatch.setattr(scratch, "MADE_BEFORE", -1.0)
    with subprocess.Popen(
        [sys.executable, "-c", KEEPER, str(base)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": "."},
    ) as keeper:
        assert keeper.stdout is not None
        place = Path(keeper.stdout.readline().strip())
        (place / "objects").symlink_to(base.parent)
        if killed:
            keeper.send_signal(signal.SIGKILL)
            keeper.wait()
        assert scratch.sweep() == ([str(place)] if killed else [])
        assert place.exists() is not killed
        assert base.parent.is_dir(), "a link in it is not followed"
        keeper.kill()


def test_only_folders_of_ours_that_are_old_enough_go(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    young = base / "relay-config-young"
    young.mkdir(mode=0o700)
    assert scratch.sweep() == [], "it may be made at this moment"
    monkeypatch.setattr(scratch, "MADE_BEFORE", -1.0)
    (base / "relay-config-open").mkdir()
    (base / "relay-config-open").chmod(0o755)
    (base / "relay-config-link").symlink_to(young)
    (base / "relay-config-file").write_text("x")
    (base / "another").mkdir(mode=0o700)
    assert scratch.sweep() == [str(young)]
    assert left(base) == ["another", "relay-config-file", "relay-config-link", "relay-config-open"]


def test_the_next_process_that_makes_one_sweeps(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "MADE_BEFORE", -1.0)
    monkeypatch.setattr(scratch, "SWEEP_EVERY", -1.0)
    (base / "relay-config-left").mkdir(mode=0o700)
    holder = Holder()
    place, _ = scratch.make(holder)
    assert left(base) == [Path(place).name]

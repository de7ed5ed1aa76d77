"""The frame of the command line: one line for every refusal, exit codes, no traceback, fast verbs."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.db import OperationalError
from hypothesis import given
from hypothesis import strategies as st

from relays.actions.base import ChangedSinceSeen, Held, NotFound, NotLegalNow, NotPermitted, Usage
from relays.management import cli as conventions
from relays.management.commands import relay as frame
from tests.management.batonfiles import baton, write
from tests.management.conftest import Cli

ROOT = Path(__file__).resolve().parents[2]


def verb_that(monkeypatch: pytest.MonkeyPatch, act) -> None:
    """Puts a verb `probe` into the frame that does `act(options)`."""

    class Module:
        @staticmethod
        def configure(parser: argparse.ArgumentParser) -> None:
            parser.add_argument("--limit", type=int)

        run = staticmethod(act)

    real = frame.verb_module
    monkeypatch.setitem(frame.VERBS, "probe", "a verb of this test")
    monkeypatch.setattr(frame, "verb_module", lambda verb: Module if verb == "probe" else real(verb))


def test_every_verb_has_its_module_and_json() -> None:
    for verb in frame.VERBS:
        parser = frame.parser_for(verb)
        assert parser.prog == f"relay {verb}"
        module = frame.verb_module(verb)
        assert callable(module.run)
        assert "--json" in parser.format_help() or verb == "ledger"


def test_overview_lists_every_verb(cli: Cli) -> None:
    helped = cli("--help")
    assert helped.code == 0
    for verb in frame.VERBS:
        assert f"  {verb} " in helped.out.decode()
    assert cli().code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["nope"],
        ["canonical"],
        ["canonical", "a", "b"],
        ["check-baton", "x", "--bran", "y"],
        ["user", "add", "ann"],
        ["user", "remove", "ann", "--role", "operator"],
        ["ledger"],
        ["ledger", "burn", "RLY-1"],
        ["serve", "--port", "0"],
        ["serve", "--port", "http"],
        ["--json"],
    ],
)
def test_usage_is_one_line_and_exit_2(cli: Cli, arguments: list[str]) -> None:
    done = cli(*arguments)
    assert done.code == 2
    assert done.line.startswith("relay")
    assert "usage:" not in done.line


@pytest.mark.parametrize(
    ("error", "code"),
    [(Usage, 2), (Held, 6), (NotPermitted, 12), (NotLegalNow, 13), (ChangedSinceSeen, 13), (NotFound, 14)],
)
@pytest.mark.django_db
def test_refusals_of_acts_keep_their_exit_code(cli: Cli, monkeypatch: pytest.MonkeyPatch, error, code: int) -> None:
    def act(options: argparse.Namespace) -> int:
        raise error("park RLY-1: it is done;\nnothing is to be done \x1b[31m")

    verb_that(monkeypatch, act)
    done = cli("probe")
    assert done.code == code
    assert "\x1b" not in done.line


@pytest.mark.django_db
def test_an_unexpected_error_is_one_line_and_kept(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def act(options: argparse.Namespace) -> int:
        raise RuntimeError("kaputt\nin two lines")

    verb_that(monkeypatch, act)
    done = cli("probe")
    assert done.code == 1
    assert done.line.startswith("relay probe failed: RuntimeError: kaputt in two lines; the details are in ")
    kept = (Path(settings.RELAY_VAR) / "errors.log").read_text(encoding="utf-8")
    assert "Traceback" in kept
    assert "in two lines" in kept


@pytest.mark.django_db
@pytest.mark.django_db
@pytest.mark.parametrize("said", ["database or disk is full", "disk I/O error", "No space left on device"])
def test_a_full_disk_is_said_as_what_it_is(cli: Cli, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    def act(options: argparse.Namespace) -> int:
        raise OperationalError(said)

    verb_that(monkeypatch, act)
    done = cli("probe")
    assert done.code == 1
    assert said in done.line and "free space on its disk" in done.line and "DATABASE_URL" not in done.line


def test_an_option_of_the_wrong_type(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    verb_that(monkeypatch, lambda options: 0)
    assert cli("probe", "--limit", "many").line.endswith("see `relay probe --help`")


@given(st.text(max_size=60))
def test_one_line_is_one_printable_line(text: str) -> None:
    line = conventions.one_line(text)
    assert "\n" not in line
    assert all(sign.isprintable() for sign in line)


def test_a_table_is_as_wide_as_its_widest_cell() -> None:
    words = conventions.table([["1", "long cell"], ["22", "x\ny"]], ["n", "what"])
    assert words == "n   what\n1   long cell\n22  x y"


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    file = write(tmp_path, baton())
    running = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "relay", "canonical", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert running.stdout is not None
    running.stdout.close()
    assert running.stderr is not None
    assert running.stderr.read() == b""
    running.stderr.close()
    assert running.wait() == 0


@pytest.mark.slow
def test_the_first_command_makes_the_embedded_database(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "relay", "list", "--json"],
        env={**env, "RELAY_VAR": str(tmp_path / "fresh")},
        capture_output=True,
        cwd="/",
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert json.loads(done.stdout)["relays"] == []


def test_a_database_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "relay", "list"],
        env={**os.environ, "DATABASE_URL": "postgres://nobody:hidden@127.0.0.1:1/none"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "DATABASE_URL" in done.stderr
    assert "hidden" not in done.stderr

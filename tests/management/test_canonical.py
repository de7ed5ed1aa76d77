"""`canonical`: exactly the canonical bytes, or one line and exit 4."""

import json
from pathlib import Path

import pytest

from tests.management.batonfiles import baton, write
from tests.management.conftest import Cli


def test_the_bytes_and_nothing_else(cli: Cli, tmp_path: Path) -> None:
    file = write(tmp_path, dict(reversed(baton(next_action="Grüße & <b>").items())))
    done = cli("canonical", file)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(b'{"schema":"fak.relay.baton.v1","relay_id":')
    assert not done.out.endswith(b"\n")
    assert "Grüße \\u0026 \\u003cb\\u003e".encode() in done.out
    assert cli("canonical", "-", stdin=done.out).out == done.out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "step 1"),
        (b"\x00\xff\x13binary", "step 1"),
        (b"[" * 100_000, "step 1"),
        (b" " * 200_000, "step 1"),
        (json.dumps(baton(leg="0")).encode(), "step 1, leg"),
        (json.dumps(baton(claimed=True)).encode(), "step 2, claimed"),
        (json.dumps(baton(schema="fak.relay.baton.v2")).encode(), "step 3, schema"),
        (json.dumps(baton(tombstone={"reason": "DONE", "at_sha": "a" * 40})).encode(), "step 5, tombstone.reason"),
    ],
)
def test_what_is_no_baton(cli: Cli, tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    done = cli("canonical", file)
    assert done.code == 4
    assert words in done.line
    assert str(file) in done.line


def test_a_file_that_cannot_be_read(cli: Cli, tmp_path: Path) -> None:
    for name in (tmp_path / "none", tmp_path, tmp_path / ("x" * 300)):
        done = cli("canonical", name)
        assert done.code == 2
        assert "name a" in done.line

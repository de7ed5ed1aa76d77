"""The log of a leg's agent: whole lines, redacted before they are cut, whatever the place it is read from."""

import json
import os
from pathlib import Path

import pytest

from relays.reports import leglog
from relays.reports.leglog import Chunk

SECRET = "ghp_" + "a1B2" * 9
KEY = [
    "-----BEGIN OPENSSH PRIVATE KEY-----",
    *(f"b3BlbnNzaC1rZXktdjE{n:04}" for n in range(60)),
    "-----END OPENSSH PRIVATE KEY-----",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "stream.ndjson"


def texts(chunk: Chunk) -> list[str]:
    return [line.text for line in chunk.lines]


def test_a_line_is_its_clock_its_kind_and_what_it_says(file: Path) -> None:
    rows = [
        {"kind": "tool_started", "seq": 3, "at": "2026-12-01T05:03:45.428Z", "id": "call-1", "name": "read"},
        {"type": "assistant", "message": {"content": [
            {"type": "text", "text": "I look."}, {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}},
        ]}},
    ]  # fmt: skip
    file.write_text("".join(json.dumps(row) + "\n" for row in rows) + "no record\n{torn")
    found = leglog.tail(file)
    assert [(line.clock, line.kind, line.text) for line in found.lines] == [
        ("05:03:45", "tool_started", "id=call-1 name=read"),
        ("", "assistant", 'I look. Bash {"command":"ls"}'),
        ("", "", "no record"),
    ]
    assert found.size - found.end == len("{torn"), "a line that is not whole yet is read when it is"


def test_what_came_since_is_read_from_where_the_reader_is(file: Path) -> None:
    file.write_text("one\ntwo\n")
    first = leglog.after(file, 0)
    assert (texts(first), first.end) == (["one", "two"], 8)
    with file.open("a") as more:
        more.write("three\n")
    assert texts(leglog.after(file, first.end)) == ["three"]
    assert texts(leglog.after(file, 5)) == ["three"], "from the middle of a line on: the next whole one"
    assert texts(leglog.before(file, 8, lines=1)) == ["two"]
    assert leglog.after(file, 10**12).lines == ()


@pytest.mark.parametrize("line", [f"token {SECRET} end", json.dumps({"kind": "x", "text": f"use {SECRET}"}),
                                  json.dumps({"kind": "x", "api_token": "short-one"})])  # fmt: skip
def test_secrets_are_gone_before_a_line_is_shortened(file: Path, line: str) -> None:
    file.write_text(f"{'.' * (leglog.WIDTH - 20)}{line}\n{line}\n")
    shown = "".join(texts(leglog.tail(file))) + "".join(leglog.whole(file))
    assert SECRET[:8] not in shown and "short-one" not in texts(leglog.tail(file))[1]
    assert "[redacted" in shown


@pytest.mark.parametrize("cut", [4, 20, 36])
def test_a_secret_in_a_line_longer_than_what_is_read_at_once_is_not_torn(file: Path, cut: int) -> None:
    begin = '{"kind":"x","text":"'
    filler = "." * (leglog.BYTES - len(begin) - 1 - cut)
    file.write_text(f'{begin}{filler} {SECRET} end"}}\nnext\n')
    shown = "".join(leglog.whole(file))
    assert SECRET[: max(cut, 6)] not in shown and SECRET[min(cut, 30) :] not in shown
    assert shown.endswith(' [redacted: token] end"}\nnext\n') and shown.count("\n") == 2


def test_a_line_that_never_ends_is_left_out_and_what_follows_is_not(file: Path) -> None:
    file.write_text("one\n" + "x" * (leglog.LONGEST + 10) + f" {SECRET}\ntwo\nthree")
    pieces = list(leglog.whole(file))
    assert "".join(pieces) == f"one\n[left out: a line of more than {leglog.LONGEST} bytes]\ntwo\nthree\n"
    file.write_text("x" * (leglog.LONGEST + 10))
    assert "".join(leglog.whole(file)).startswith("[left out")


def test_a_key_of_many_lines_is_gone_wherever_the_reading_begins(file: Path) -> None:
    file.write_text("\n".join(["before", *KEY, "after"]) + "\n")
    lengths = [0]
    for text in file.read_text().splitlines(keepends=True):
        lengths.append(lengths[-1] + len(text))
    for offset in lengths:
        assert not any("b3Blb" in text for text in texts(leglog.after(file, offset)))
    assert texts(leglog.tail(file))[-1] == "after"
    assert "b3Blb" not in "".join(leglog.whole(file))


def test_a_secret_of_this_process_is_gone_whatever_its_shape(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_API_KEY", "plain words of a secret")
    leglog._secrets.cache_clear()
    file.write_text("it says plain words of a secret aloud\n")
    assert texts(leglog.tail(file)) == ["it says [redacted: value] aloud"]
    leglog._secrets.cache_clear()


def test_a_long_log_is_read_in_bounded_pieces_and_none_is_lost(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leglog, "BYTES", 1_000)
    file.write_text("".join(f"line {n} {'x' * (n % 90)}\n" for n in range(2_000)))
    seen: list[str] = []
    offset = 0
    while (chunk := leglog.after(file, offset)).lines:
        assert len(chunk.lines) <= 1_000 // 7 + 1
        seen += texts(chunk)
        offset = chunk.end
    assert [text.split()[1] for text in seen] == [str(n) for n in range(2_000)]
    assert "".join(leglog.whole(file)).splitlines() == file.read_text().splitlines()


def test_no_file_and_no_plain_file_are_no_log(file: Path, tmp_path: Path) -> None:
    assert leglog.tail(file) == leglog.after(file, 0) == leglog.NONE
    (tmp_path / "secret").write_text("not yours\n")
    file.symlink_to(tmp_path / "secret")
    assert not leglog.tail(file).there
    file.unlink()
    os.mkfifo(file)
    assert not leglog.tail(file).there

"""Which files the window of a Claude Code session held: what its main calls read and wrote, and nothing else."""

from typing import Any

import pytest

from tests.sessions.claude_lines import SESSION, answer, asks, result, said, usage
from tests.sessions.cuts import lines, read

RECORDS = (
    said(1),
    answer(2, "m1", usage(), asks("t1", "Read", file_path="/srv/project/a.py"), asks("t2", "Grep", pattern="x")),
    result(3, "t1"),
    result(4, "t2"),
    answer(5, "m2", usage(), asks("t3", "Edit", file_path="/srv/project/a.py"), asks("t4", "Read", file_path="/gone")),
    result(6, "t3"),
    result(7, "t4", "no such file", failed=True),
    answer(8, "m3", usage(), asks("t5", "Read", file_path="/srv/project/a.py")),
    result(9, "t5"),
    answer(10, "m4", usage(), asks("t6", "Read", file_path="/srv/project/b.py"), isSidechain=True),
    result(11, "t6", isSidechain=True),
)


def touched(cuts: Any = ()) -> dict[tuple[str, str], int]:
    found = read("claude-session", lines(*RECORDS), cuts, f"projects/x/{SESSION}.jsonl")
    return {(call, ref): line for (_, call, ref), line in found.touches.items()}


def test_files_that_main_calls_read_and_wrote_each_time_anew() -> None:
    assert touched() == {
        ("m1", "/srv/project/a.py"): 3,
        ("m2", "/srv/project/a.py"): 6,
        ("m3", "/srv/project/a.py"): 9,
    }


@pytest.mark.parametrize("cut", range(1, len(RECORDS)))
def test_reading_in_two_parts_finds_the_same(cut: int) -> None:
    assert touched((cut,)) == touched()

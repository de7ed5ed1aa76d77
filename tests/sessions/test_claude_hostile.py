"""No value at any place of a Claude Code record makes its readers fail, and what they pass on fits its columns."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relays.sessions.detect import detect
from tests.sessions import test_claude, test_claude_stream
from tests.sessions.cuts import lines, read
from tests.sessions.test_hostile_records import JUNK, fits, places, replaced

RECORDS = {
    form: [one for one in pieces if isinstance(one, dict)]
    for form, pieces in (("claude-session", test_claude.PIECES), ("claude-stream", test_claude_stream.PIECES))
}


@pytest.mark.parametrize("form", sorted(RECORDS))
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_junk_in_any_place_is_read_over(form: str, data: st.DataObject) -> None:
    records: list[Any] = list(RECORDS[form])
    for at in data.draw(st.sets(st.integers(0, len(records) - 1), min_size=1, max_size=5)):
        records[at] = replaced(records[at], data.draw(st.sampled_from(places(records[at]))), data.draw(JUNK))
    content = lines(*records)
    found = read(form, content)
    fits(found)
    for about in found.about.values():
        assert about.session.isprintable() and len(about.session) <= 150 and len(about.parent) <= 150
    assert all(kind.isprintable() and len(kind) <= 120 for kind in found.records)
    assert read(form, content, {1, 4, 9}) == found


def test_a_record_nested_deeper_than_any_reader_goes_is_a_broken_line_or_read() -> None:
    deep = '{"type":"user","uuid":"a","sessionId":"s","message":{"content":' + "[" * 200_000 + "]" * 200_000 + "}}"
    middle = '{"type":"user","uuid":"b","sessionId":"s","message":{"content":' + "[" * 600 + "]" * 600 + "}}"
    found = read("claude-session", deep.encode() + b"\n" + middle.encode() + b"\n")
    assert sum(count for count, _ in found.records.values()) == 2


@given(st.binary(max_size=300))
def test_detection_takes_any_bytes(head: bytes) -> None:
    for content in (head, b"{" + head, json.dumps({"type": head.decode("latin-1")}).encode()):
        detect(Path("a.jsonl"), content)

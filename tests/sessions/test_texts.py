"""Texts of sessions are not stored, unless the site says so; then without their secrets."""

import json
from pathlib import Path
from typing import Any

import pytest

from relays.models import Session, SessionText
from relays.reports import session_texts
from relays.sessions.run import import_paths
from relays.sessions.texts import LONGEST, kept

pytestmark = pytest.mark.django_db(transaction=True)
MARKER = "a-sentence-that-somebody-said"
SECRET = "ghp" + "_" + "A1b2C3d4E5f6G7h8I9j0K1l2"


def line(number: int, text: str) -> str:
    return json.dumps(
        {
            "type": "assistant",
            "uuid": f"u{number}",
            "sessionId": "s-texts",
            "timestamp": f"2026-05-01T00:00:{number:02d}.000Z",
            "version": "2.1.200",
            "message": {
                "id": f"msg_{number}",
                "model": "claude-opus-5",
                "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn",
                "usage": {"input_tokens": 10, "output_tokens": 1},
            },
        }
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "s-texts.jsonl"
    path.write_text("".join(line(n, f"{MARKER} {n} {SECRET}") + "\n" for n in range(1, 61)))
    return path


def test_no_text_is_stored_where_nobody_asked_for_it(file: Path) -> None:
    import_paths([file])
    assert Session.objects.get().calls == 60
    assert not SessionText.objects.exists()


def test_kept_texts_have_no_secrets_and_are_kept_once(file: Path, settings: Any) -> None:
    settings.KEEP_TRANSCRIPTS = True
    import_paths([file])
    with file.open("a") as stream:
        stream.write(line(61, MARKER) + "\n")
    import_paths([file])
    import_paths([file])
    rows = SessionText.objects.order_by("line")
    assert [row.line for row in rows] == list(range(1, 62))
    assert all(MARKER in row.text and SECRET not in row.text for row in rows)
    assert "[redacted: token]" in rows[0].text


def test_a_file_that_is_another_one_now_keeps_no_line_of_the_old_one(file: Path, settings: Any) -> None:
    settings.KEEP_TRANSCRIPTS = True
    import_paths([file])
    file.unlink()
    file.write_text(line(1, "another") + "\n")
    import_paths([file])
    assert ["another" in row.text for row in SessionText.objects.all()] == [True]
    assert Session.objects.get().calls == 60  # what was read stays counted


def test_the_page_gives_lines_in_pages_and_only_of_the_sessions_own_files(file: Path, settings: Any) -> None:
    settings.KEEP_TRANSCRIPTS = True
    import_paths([file])
    session = Session.objects.get()
    source = SessionText.objects.all()[0].source_id
    first = session_texts.texts(session, source, 1)
    assert first is not None and first.earlier is None and first.later == 51
    second = session_texts.texts(session, source, 51)
    assert second is not None and second.earlier == 1 and second.later is None
    assert [number for number, _ in (*first.lines, *second.lines)] == list(range(1, 61))
    other = Session.objects.create(agent="codex", sid="other")
    assert session_texts.texts(other, source, 1) is None


def test_a_long_line_is_cut_and_a_broken_one_is_kept_as_it_is() -> None:
    assert len(kept(line(1, "word " * LONGEST).encode())) == LONGEST
    assert kept(b'{"broken": "' + SECRET.encode()) == '{"broken": "[redacted: token]'
    assert "\0" not in kept(b'{"a": "\\u0000b"}') and "\0" not in kept(b"\0{")

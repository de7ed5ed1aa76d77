"""Text of agents on pages and terminals: interface.md, "agent text stays text". A real leg says it everywhere; no page
and no command shows it as markup, lets it steer a terminal, or turns its direction round."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from django.http import HttpResponse, StreamingHttpResponse
from django.test import Client

from relays.management import cli
from relays.management.commands.relay import run
from relays.models import GateEpisode
from relays.views.visible import only_visible
from tests.builders import make_repo
from tests.driver.conftest import course
from tests.driver.course import Course, boundary, commit, player, turn, user
from tests.reading import marked

__all__ = ["course"]

HOSTILE = "\x1b[31m<script>alert(1)</script>'\"><img src=x onerror=alert(2)>\u202e\u2066\u200b\x9b2J\x07{{7*7}}"
UNSEEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def says(name: str) -> str:
    return f"{name} {HOSTILE}"


@pytest.fixture
def hostile(course: Callable[..., Course], tmp_path: Path) -> Course:
    """A relay that waits at two gates after its agent has put such text into every field that takes any."""
    repo = make_repo(tmp_path / "repo-\u202e<b>", issues=1)
    said = [
        *turn(model=says("scripted-")[:120]),
        {"kind": "tool_started", "id": "t", "name": says("tool")},
        {"kind": "tool_ended", "id": "t", "ok": True, "result_tokens": 5},
        {"kind": "fact", "label": says("fact"), "class": says("class"), "backing": says("file:")},
        {"kind": "decision", "label": says("decision"), "pointer": "file:<script>.md"},
        {"kind": "open_question", "label": says("question"), "pointer": "#1"},
        {"kind": "dead_end", "label": says("dead end"), "pointer": "file:README.md"},
        {"kind": "todo", "id": says("todo"), "open": True, "label": says("todo")},
        {"kind": "file_written", "path": "/tmp/" + says("file")},
        {"kind": "assumption", "key": says("key"), "statement": says("it is"), "source": "stale"},
        {"kind": "promotion", "slug": says("slug"), "class": "durable"},
        {"kind": "page_fault", "ref": "file:" + says("x"), "required": True, "durability": says("d")},
        {"kind": "ledger", "refs": ["file:README.md"], "note": says("note")},
        {"kind": says("unknown")[:40], "label": HOSTILE},
        {"do": "raw", "text": '{"kind":"fact","label":"\u202e<script>'},
        *commit("work<script>.txt", message=says("subject").replace("\x07", "")),
        {"do": "write", "path": "dirty-\u202e<script>.txt", "text": "x"},
        *boundary(says("Next"), "\u202e<script>other</script>", final=True),
        *boundary(says("Next"), "\u202e<script>other</script>", final=True),
        {"do": "exit", "code": 0},
    ]
    relay = course(
        repo=repo, done="file:never.txt", objective="Do <script>alert(3)</script> \u202ethis", **player(said, "socket")
    )
    relay.step()
    assert relay.waiting == ["UNSERVED_PAGE_FAULT", "AMBIGUOUS_MEMORY_PROMOTION", "RELAY_PARKED_UNSAFE"]
    return relay


def test_on_no_page_and_in_no_answer(hostile: Course, client: Client, capfd: pytest.CaptureFixture[str]) -> None:
    client.force_login(user("rae", "reviewer"))
    gates = [f"/gates/{gate.pk}/" for gate in GateEpisode.objects.filter(relay=hostile.pk)]
    relay = f"/relays/{hostile.pk}/"
    tabs = [f"{relay}?part=records&tab={tab}" for tab in ("batons", "boundaries", "ledger", "decisions")]
    pages = ["/", "/relays/", relay, f"{relay}legs/0/", f"{relay}batons/0/", *gates, *tabs]
    pages += [f"{relay}?part={part}" for part in ("head", "legs", "side", "chart")]
    seen = 0
    for page in pages:
        answer = client.get(page)
        text = answer.content.decode()
        seen += "script&gt;" in text or "\\u003Cscript" in text
        assert answer.status_code == 200, page
        assert "<script>alert" not in text and "<img src=x" not in text and "<script>other" not in text, page
        assert not UNSEEN.search(text), page
        assert ">49<" not in marked(answer)
    assert seen >= 6  # it is there, as text
    for arguments in (["status"], ["readout"], ["verify"], ["ledger", "list"], ["safe-point"], ["list"]):
        for form in ([], ["--json"]):
            target = [] if arguments == ["list"] else [hostile.pk]
            run([*arguments, *target, *form])
            written = "".join(capfd.readouterr())
            assert written.strip(), arguments
            assert not UNSEEN.search(written.replace("\n", " ")), arguments


def test_what_a_terminal_obeys_is_spelled_out_there_and_exact_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A canonical baton may hold such characters raw; its bytes are exact wherever no terminal reads them."""
    content = '{"text":"\x9b2J\u202eabc"}'.encode()
    for terminal, written in ((False, content), (True, b'{"text":"\\u009b2J\\u202eabc"}')):
        out = io.TextIOWrapper(io.BytesIO())
        monkeypatch.setattr(out, "isatty", lambda terminal=terminal: terminal, raising=False)
        monkeypatch.setattr("sys.stdout", out)
        cli.write_bytes(content)
        assert out.buffer.getvalue() == written


def test_data_and_streams_are_left_as_they_are() -> None:
    data = HttpResponse('{"a":"\u202e"}', content_type="application/json")
    assert only_visible(data).content == data.content
    stream = StreamingHttpResponse(iter([b"\x1b"]), content_type="text/html")
    assert b"".join(only_visible(stream).streaming_content) == b"\x1b"
    page = HttpResponse("a\u202eb\tc\r\n\U0001f468\u200d\U0001f469")
    assert only_visible(page).content.decode() == "a\ufffdb\tc\r\n\U0001f468\u200d\U0001f469"

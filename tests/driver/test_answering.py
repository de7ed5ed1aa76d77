"""The supervisor's side of the query tool bears whatever an agent asks: an answer or words, never a failure.

A supervisor that an agent could bring down with a request would lose its leg.
"""

import hashlib
import json
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relays.agents.channel import Channel
from relays.core.querytool import VERBS, request_line
from relays.driver import supervised
from relays.driver.claim import kernel_lock, take
from relays.driver.supervised import Supervised
from relays.models import (
    Event,
    GateEpisode,
    LedgerRow,
    Leg,
    LegState,
    MemoryOperation,
    Promotion,
    Relay,
    RelayStatus,
    ToolUse,
)
from relays.reports import gate as gate_report
from relays.stores import records
from relays.stores.base import StoreUnavailable
from tests.builders import commit, git, head

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

TOKEN = "the-token-of-this-leg"


@pytest.fixture
def leg(course: Callable[..., Any]) -> Iterator[Supervised]:
    """A supervised leg without an agent: what asks is the test."""
    relay = course(issues=2)
    row = Leg.objects.get(relay=relay.pk)
    Leg.objects.filter(pk=row.pk).update(
        state=LegState.RUNNING, token_hash=hashlib.sha256(TOKEN.encode()).hexdigest(), started_at=timezone.now()
    )
    Relay.objects.filter(pk=relay.pk).update(status=RelayStatus.RUNNING, worktree=relay.relay.repo, branch="main")
    row.refresh_from_db()
    with kernel_lock(relay.pk):
        yield Supervised(row, take(relay.pk, timedelta(minutes=5)))


def ask(leg: Supervised, verb: str, token: str = TOKEN, **given: Any) -> dict[str, Any]:
    found = json.loads(leg.answering.answer(request_line(token, verb, given), timezone.now()))
    assert isinstance(found, dict)
    return found


words = st.text(max_size=40) | st.sampled_from(
    [
        "file:README.md",
        "#1",
        "commit:" + "a" * 40,
        "memory:x",
        "bounded",
        "durable",
        "turn",
        "../x",
        "-x",
        "*",
        "[",
        "#L1",
    ]
)
values = words | st.integers(-5, 10**20) | st.booleans() | st.none() | st.lists(words, max_size=3) | st.floats()
names = sorted({name for verb in VERBS.values() for name in verb.schema.get("properties", {})})


@given(st.sampled_from(sorted(VERBS)), st.data())
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_asked_there_is_an_answer_or_there_are_words(leg: Supervised, verb: str, data: Any) -> None:
    known = sorted(VERBS[verb].schema.get("properties", {}))
    given_ones = {name: data.draw(values) for name in known if data.draw(st.booleans())}
    if data.draw(st.booleans()):
        given_ones |= {name: data.draw(words) for name in VERBS[verb].schema.get("required", ())}
    before = ToolUse.objects.count()
    try:
        line = request_line(TOKEN, verb, given_ones)
    except UnicodeEncodeError:
        return
    found = json.loads(leg.answering.answer(line, timezone.now()))
    assert found["ok"] or (found["refused"] and "\n" not in found["refused"])
    assert ToolUse.objects.count() <= before + 1


def test_refs_of_every_kind_are_judged_whatever_they_hold(leg: Supervised) -> None:
    for kind in ("commit", "issue", "memory", "ledger", "file", "digest"):
        for ref in ("#999999999999", "x#L999999999", "[", "**", "a" * 64, "0" * 40, "é" * 200, "x.y.z", "R.0.t0"):
            found = ask(leg, "recall", kind=kind, ref=ref)
            assert found["ok"] is False or found["answer"]["outcome"] in ("page_in", "continue_with_pointer", "deny")


def test_a_store_that_does_not_answer_is_said_and_the_leg_goes_on(
    leg: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: Any) -> Any:
        raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr(records, "read", silent)
    found = ask(leg, "recall", kind="file", ref="README.md")
    assert found["answer"]["outcome"] == "query_user" and found["answer"]["asked"] == "UNSERVED_PAGE_FAULT"
    monkeypatch.setattr("relays.driver.reload.stores_for", silent)
    assert ask(leg, "recall", kind="issue", ref="#1")["answer"]["verdict"] == "unknown"
    assert ask(leg, "done_check")["ok"] and ask(leg, "safe_point")["ok"] and ask(leg, "orient")["ok"]
    assert ask(leg, "fact", label="x", backing="#1")["answer"]["verdict"] == "unknown"
    refused = ask(leg, "remember", slug="a", text="t", **{"class": "durable", "evidence": "#1"})
    assert refused["ok"] is False and "nothing was recorded" in refused["refused"]


def test_a_flood_of_wrong_tokens_is_no_use_and_told_in_one_line(leg: Supervised) -> None:
    for number in range(20):
        assert "wrong" in ask(leg, "fact", token=f"guess-{number}", label="x")["refused"]
    assert not ToolUse.objects.exists() and not Event.objects.exists()
    (line,) = [one for one in Relay.objects.get(pk=leg.relay.pk).findings if "query tool" in one]
    assert line.startswith("leg 0 query tool: 16 uses refused")


def test_each_store_serves_its_record_as_it_stands_at_the_tip(leg: Supervised) -> None:
    repo = Path(leg.relay.repo)
    one = commit(
        repo,
        {"rows.jsonl": '{"n":1}\n{"n":2}\n', "b.bin": "a\0b", "sub/dir/x.txt": "x\n"},
        "Say <b>ünïcode</b>\n\nBody.",
    )
    git(repo, "checkout", "-q", "-b", "side", "HEAD~1")
    side = commit(repo, {"side.txt": "side\n"}, "On the side")
    git(repo, "checkout", "-q", "main")
    git(repo, "merge", "-q", "--no-ff", "-m", "Merge the side", "side")
    merge = head(repo)
    row = LedgerRow.objects.create(
        id=f"{leg.relay.pk}.0.c1", relay=leg.relay, refs=[f"commit:{one}"], note="n", by="person", at=timezone.now()
    )

    def text(kind: str, ref: str) -> str:
        found = ask(leg, "recall", kind=kind, ref=ref)["answer"]
        assert found["outcome"] == "page_in", found
        assert hashlib.sha256(found["record"]["text"].encode()).hexdigest() == found["record"]["sha256"]
        return str(found["record"]["text"])

    said = text("commit", one)
    assert "Say <b>ünïcode</b>" in said and "Body." in said and '+{"n":2}' in said
    assert "side.txt" in text("commit", merge) and "On the side" in text("commit", side)
    assert "Begin" in text("commit", git(repo, "rev-list", "--max-parents=0", "HEAD"))
    assert text("ledger", "rows.jsonl#L2") == '{"n":2}'
    assert json.loads(text("ledger", row.pk))["refs"] == [f"commit:{one}"]
    assert text("file", "sub/dir/x.txt") == "x\n" and text("file", "sub") == "sub/dir/x.txt"
    assert text("file", "*.jsonl").splitlines() == [".relay/issues.jsonl", "rows.jsonl"]
    assert text("file", "b.bin").startswith("[binary, 3 bytes")
    assert json.loads(text("issue", "#1"))["state"] == "open"
    assert text("digest", leg.relay.objective_digest) == leg.relay.objective


def test_a_record_that_is_too_large_to_come_back_cheaply_is_a_persons_to_bring(leg: Supervised) -> None:
    commit(Path(leg.relay.repo), {"huge.txt": "x" * (records.RECORD_BYTES + 1)}, "Huge")
    found = ask(leg, "recall", kind="file", ref="huge.txt")["answer"]
    assert found["outcome"] == "query_user" and found["asked"] == "UNSERVED_PAGE_FAULT" and "record" not in found


def test_a_change_that_is_too_large_is_cut_and_says_so(leg: Supervised) -> None:
    sha = commit(Path(leg.relay.repo), {"huge.txt": "line\n" * 400_000}, "Huge")
    found = ask(leg, "recall", kind="commit", ref=sha, offset=records.RECORD_BYTES - 100)["answer"]["record"]
    assert found["text"].endswith("[the change is larger: read the files themselves]\n")


def test_what_a_person_looked_at_cannot_be_changed_behind_the_line_that_asks(leg: Supervised) -> None:
    """An approval is bound to what was shown: another text under the same slug is another thing to look at."""
    Relay.objects.filter(pk=leg.relay.pk).update(worktree=leg.relay.repo)
    root = Path(leg.relay.repo) / ".relay" / "memory"
    root.mkdir(parents=True)
    (root / "profile.md").write_text("We write tests.\n")
    known = {"class": "durable", "evidence": "file:README.md"}
    for slug, token, more in (
        ("maybe", "AMBIGUOUS_MEMORY_PROMOTION", {"class": "durable"}),
        ("profile", "DESTRUCTIVE_MEMORY_OPERATION", known),
    ):
        assert ask(leg, "remember", slug=slug, text="harmless", **more)["answer"]["asked"] == token
        gate = GateEpisode.objects.get(token=token)
        shown = gate_report.seen_digest(gate, "")
        assert ask(leg, "remember", slug=slug, text="something else", **more)["ok"]
        gate.refresh_from_db()
        assert gate_report.seen_digest(gate, "") != shown and len(gate.items) == 1
        row = Promotion.objects.get(slug=slug, outcome="ambiguous")
        assert row.text == "something else"
    assert MemoryOperation.objects.get().text == "something else"


def test_a_statement_that_a_person_looked_at_cannot_be_changed_behind_its_key(leg: Supervised) -> None:
    weak = {"key": "port", "source": "inferred", "confidence": 0.4}
    assert ask(leg, "assume", statement="It is 8001.", **weak)["ok"]
    assert ask(leg, "fact", label="x", backing="file:README.md", assumes=["port"])["answer"]["asked"]
    gate = GateEpisode.objects.get(token="LOW_CONFIDENCE_ASSUMPTION")
    shown = gate_report.seen_digest(gate, "")
    assert ask(leg, "assume", statement="It is 8001.", **weak)["ok"]
    gate.refresh_from_db()
    assert gate_report.seen_digest(gate, "") == shown, "said again, it is the same to look at"
    assert ask(leg, "assume", statement="Nobody needs one.", **weak)["ok"]
    gate.refresh_from_db()
    assert gate_report.seen_digest(gate, "") != shown


def test_a_flood_of_uses_keeps_the_clock_and_people_waiting_no_longer_than_its_bound(
    leg: Supervised, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "ANSWERING", 0.0)
    with Channel(tmp_path / "line") as channel, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as way:
        channel.attach(None)
        leg.line.channel = channel
        way.connect(channel.socket_path)
        way.sendall((request_line(TOKEN, "done_check", {}) + b"\n") * 3)
        while len(channel.queries) < 3:
            channel.wait(0.05)
        for left in (2, 1, 0):
            leg._queries()
            assert len(leg.line.waiting_queries()) == left
        way.settimeout(10)
        with way.makefile("rb") as answers:
            assert [json.loads(answers.readline())["ok"] for _ in range(3)] == [True] * 3


def test_an_answer_that_is_too_large_for_its_line_is_refused_in_words(leg: Supervised) -> None:
    deep = Path(leg.relay.repo, *["ü" * 120] * 14)
    deep.mkdir(parents=True)
    for number in range(100):
        (deep / f"{number}").write_text("x")
    git(Path(leg.relay.repo), "config", "status.showUntrackedFiles", "all")
    refused = ask(leg, "safe_point")
    assert refused["ok"] is False and "too large" in refused["refused"]
    assert ToolUse.objects.get().refused


def test_an_expired_memory_is_not_served_as_its_file_either(leg: Supervised) -> None:
    place = ".relay/memory/port.md"
    commit(Path(leg.relay.repo), {place: "8001\n"}, "Remember")
    assert ask(leg, "recall", kind="file", ref=place)["answer"]["outcome"] == "page_in"
    Promotion.objects.create(
        leg=leg.leg, seq=1, slug="port", durability="bounded", outcome="promoted", digest="d" * 64, at=timezone.now(),
        expires_at=timezone.now() - timedelta(days=1),
    )  # fmt: skip
    found = ask(leg, "recall", kind="file", ref=place)["answer"]
    assert found["outcome"] == "continue_with_pointer" and "expired" in found["evidence"] and "record" not in found
    assert ask(leg, "recall", kind="file", ref="README.md")["answer"]["outcome"] == "page_in"


def test_a_kind_that_is_no_word_is_refused_and_asks_nobody(leg: Supervised) -> None:
    for kind in ("fi\nle", "file\u202e", "\x1b[2Jfile", "FILE", "file ", "transcript\r"):
        found = ask(leg, "recall", kind=kind, ref="README.md", required=True)
        assert not found["ok"] or "record" not in found["answer"] or kind == "file "
    assert not any("\n" in item or "\x1b" in item for gate in GateEpisode.objects.all() for item in gate.items)


def test_a_note_that_no_row_can_hold_whole_is_refused_and_not_cut(leg: Supervised) -> None:
    assert "note" in ask(leg, "ledger_append", refs=["file:README.md"], note="n" * 501)["refused"]
    row = ask(leg, "ledger_append", refs=["file:README.md"], note="n" * 500)["answer"]["row"]
    assert LedgerRow.objects.get(pk=row).note == "n" * 500

"""`POST /api/v1/hooks/claude-code`: whatever comes, the answer is one that the program can bear."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from relays.actions import hooks as acting
from relays.driver import housekeeping
from relays.models import Decision, HookEvent, HookFollow, HookTally, Import, Session
from relays.sessions import jobs
from tests.reading import marked
from tests.session_builders import make_session
from tests.web_builders import make_user

if TYPE_CHECKING:
    from relays.actions.tokens import Made

pytestmark = pytest.mark.django_db
TokenOf = Callable[..., "Made"]
ADDRESS = "/api/v1/hooks/claude-code"
RECORDED: list[dict[str, Any]] = json.loads((Path(__file__).parent / "hook_events.json").read_text())
SAMPLE = Path(__file__).parents[1] / "samples" / "claude" / "four-compactions-no-request-id.jsonl"
WRITTEN = ("WRITTEN BY A PERSON", "WRITTEN BY A MODEL", "PRINTED BY A TOOL")


def post(secret: str | None, body: object, **headers: str) -> Any:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Authorization": f"Bearer {secret}"} if secret is not None else {}
    return Client().post(ADDRESS, raw, content_type="application/json", headers={**sent, **headers})


def bearable(response: Any, became: str) -> None:
    """200 with nothing in it: the program goes on as if nobody had listened."""
    assert (response.status_code, response.content) == (200, b"")
    assert response["Relaysite-Hook"] == became


def tally() -> dict[str, int]:
    found = dict.fromkeys(("kept", "dropped", "torn", "refused"), 0)
    for row in HookTally.objects.values(*found):
        found = {name: found[name] + row[name] for name in found}
    return found


@pytest.mark.parametrize("event", RECORDED, ids=lambda one: one["hook_event_name"])
def test_every_event_is_kept_and_nothing_that_anybody_wrote(token_of: TokenOf, event: dict[str, Any]) -> None:
    bearable(post(token_of("sender").secret, event), "kept")
    row = HookEvent.objects.get()
    assert (row.event, row.sid, row.agent) == (event["hook_event_name"], event["session_id"], "claude-code")
    assert row.known == (event["hook_event_name"] != "SomethingNew")
    assert not any(text in json.dumps(row.said) for text in WRITTEN)
    for name in ("tool_name", "trigger", "reason", "source"):
        if name in event:
            assert row.said[name] == event[name]


def test_a_compaction_ahead_is_a_signal_and_is_never_refused_unless_the_site_says_so(
    token_of: TokenOf, settings: Any
) -> None:
    secret = token_of("sender").secret
    ahead = next(one for one in RECORDED if one["hook_event_name"] == "PreCompact")
    bearable(post(secret, ahead), "kept")
    assert HookEvent.objects.get().signal == "would_rotate"
    settings.HOOKS_BLOCK_COMPACTION = True
    answer = post(secret, ahead)
    assert answer.status_code == 200
    assert answer.json()["decision"] == "block"
    assert list(HookEvent.objects.order_by("pk").values_list("blocked", flat=True)) == [False, True]
    for other in RECORDED:
        if other["hook_event_name"] != "PreCompact":
            bearable(post(secret, other), "kept")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        json.dumps(RECORDED[3]).encode()[:120],
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b'"PreCompact"',
        b"{}",
        b"[" * 100_000,
        b'{"hook_event_name": "Stop"}',
        b'{"hook_event_name": 7, "session_id": "x"}',
        b'{"hook_event_name": "Stop", "session_id": "\\u0000"}',
        b'{"hook_event_name": "Stop", "session_id": "\\ud800"}',
        json.dumps({"hook_event_name": "Stop", "session_id": "s" * 201}).encode(),
        json.dumps({**RECORDED[3], "tool_response": "x" * 1_100_000}).encode(),
        json.dumps({**RECORDED[3], "tool_response": "x" * 3_000_000}).encode(),
    ],
)
def test_a_torn_or_odd_body_is_counted_and_answered_as_every_other(token_of: TokenOf, body: bytes) -> None:
    bearable(post(token_of("sender").secret, body), "torn")
    assert tally() == {"kept": 0, "dropped": 0, "torn": 1, "refused": 0}
    assert not HookEvent.objects.exists()


def test_a_wrong_token_is_answered_the_same_and_nothing_is_kept(
    token_of: TokenOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting, "_refused", acting._Refused())
    monkeypatch.setattr(acting, "_FLUSH_EVERY", 600.0)
    for secret in (None, "", "rly_wrong", token_of("manager").secret, token_of("reviewer").secret):
        bearable(post(secret, RECORDED[0]), "refused")
    assert not HookEvent.objects.exists()
    # the first is written at once, the rest with the next one a while later: no stranger makes us write
    assert tally()["refused"] == 1
    acting._refused.written -= 601
    bearable(post("rly_wrong", RECORDED[0]), "refused")
    assert tally()["refused"] == 6


@pytest.mark.parametrize("role", ["sender", "operator", "admin"])
def test_who_may_import_may_send(token_of: TokenOf, role: str) -> None:
    bearable(post(token_of(role).secret, RECORDED[0]), "kept")


def test_of_a_flood_a_bounded_number_is_kept_and_the_rest_is_counted(
    token_of: TokenOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting, "PER_MINUTE", 5)
    now = timezone.now()
    monkeypatch.setattr(acting.timezone, "now", lambda: now)
    flooding, calm = token_of("sender").token, token_of("sender").token
    became = [acting.receive(flooding, json.dumps(RECORDED[3]).encode())[0] for _ in range(12)]
    assert became == ["kept"] * 5 + ["dropped"] * 7
    assert HookEvent.objects.count() == 5
    assert tally() == {"kept": 5, "dropped": 7, "torn": 0, "refused": 0}
    assert acting.receive(calm, json.dumps(RECORDED[3]).encode())[0] == "kept"


# ---- the transcript that a hook names -------------------------------------------------------------------------------


@pytest.fixture
def transcript(tmp_path: Path, settings: Any) -> Path:
    root = tmp_path / "projects" / "-srv-acme-orders"
    root.mkdir(parents=True)
    settings.SESSION_ROOTS = [tmp_path / "projects"]
    path = root / f"{SAMPLE_SID}.jsonl"
    path.write_bytes(SAMPLE.read_bytes())
    return path


SAMPLE_SID = "aba9151e-9900-4227-9be2-735c5d04d586"


def event(name: str, path: object, **more: object) -> dict[str, object]:
    return {"hook_event_name": name, "session_id": SAMPLE_SID, "transcript_path": str(path), **more}


def last_look(job: Import) -> str:
    """What the last look leads to. It comes a little after the session's end: its file is written behind the hook."""
    assert jobs.step(job.pk) == "not due"
    Import.objects.filter(pk=job.pk).update(next_at=timezone.now())
    return jobs.step(job.pk)


def test_its_session_is_read_live_and_left_when_it_ends(token_of: TokenOf, transcript: Path) -> None:
    made = token_of("sender")
    post(made.secret, event("PostToolUse", transcript))
    job = Import.objects.get()
    assert (job.paths, job.follow, job.asked_by) == ([str(transcript)], True, made.token.user)
    assert Decision.objects.get(act="import").detail["hook"] == made.token.pk
    jobs.step(job.pk)
    session = Session.objects.get(sid=SAMPLE_SID)
    assert session.calls > 0
    before = session.calls

    # the next call brings the next look forward, and the page is told
    job.refresh_from_db()
    Import.objects.filter(pk=job.pk).update(next_at=timezone.now() + timedelta(seconds=15))
    post(made.secret, event("PreCompact", transcript, trigger="auto"))
    job.refresh_from_db()
    assert job.next_at <= timezone.now()
    assert Import.objects.count() == 1

    client = Client()
    client.force_login(make_user("", "manager"))
    page = marked(client.get(f"/sessions/{session.pk}/"))
    assert "would rotate here" in page
    assert "PreCompact" in page
    assert marked(client.get(f"/sessions/{session.pk}/?part=side")).count("would rotate here") == 1

    post(made.secret, event("SessionEnd", transcript, reason="other"))
    assert last_look(job) == "done"
    session.refresh_from_db()
    assert session.calls == before  # hooks are signals: no call is counted from one


def test_a_session_that_goes_on_after_its_end_is_read_on(token_of: TokenOf, transcript: Path) -> None:
    secret = token_of("sender").secret
    post(secret, event("Stop", transcript))
    job = Import.objects.get()
    post(secret, event("SessionEnd", transcript, reason="other"))
    assert last_look(job) == "done"
    post(secret, event("UserPromptSubmit", transcript))
    job.refresh_from_db()
    assert (job.status, job.follow) == ("waiting", True)
    assert Import.objects.count() == 1


def test_a_person_who_cancels_such_a_follow_is_obeyed(token_of: TokenOf, transcript: Path) -> None:
    secret = token_of("sender").secret
    post(secret, event("Stop", transcript))
    jobs.cancel(Import.objects.get().pk, now=timezone.now())
    post(secret, event("Stop", transcript))
    assert Import.objects.get().status == "cancelled"


def test_a_folder_that_is_followed_already_has_it_read_and_no_second_follow_begins(
    token_of: TokenOf, transcript: Path
) -> None:
    job = jobs.begin(make_user("", "operator"), [str(transcript.parent)], follow=True, now=timezone.now())
    Import.objects.filter(pk=job.pk).update(next_at=timezone.now() + timedelta(seconds=15))
    post(token_of("sender").secret, event("Stop", transcript))
    job.refresh_from_db()
    assert job.next_at <= timezone.now()
    assert Import.objects.count() == 1


def test_no_path_outside_the_sites_roots_is_ever_looked_at(token_of: TokenOf, transcript: Path, tmp_path: Path) -> None:
    secret = token_of("sender").secret
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(SAMPLE.read_bytes())
    link = transcript.parent / "link.jsonl"
    link.symlink_to(outside)
    loop = transcript.parent / "loop.jsonl"
    loop.symlink_to(loop)
    named = [
        outside, link, loop, transcript.parent, transcript.parent / "missing.jsonl", "relative.jsonl", "/etc/passwd",
        f"{transcript.parent}/../../outside.jsonl", "/proc/self/environ", "~/x.jsonl", "x" * 5000, "/a\u0000b.jsonl",
    ]  # fmt: skip
    for path in named:
        bearable(post(secret, event("Stop", path)), "kept")
    assert not Import.objects.exists()
    assert not HookFollow.objects.exists()


def test_of_many_transcripts_the_silent_ones_are_left(
    token_of: TokenOf, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acting, "MOST_FOLLOWED", 3)
    secret = token_of("sender").secret
    for number in range(5):
        path = transcript.parent / f"{number}.jsonl"
        path.write_text("", encoding="utf-8")
        post(secret, {**event("Stop", path), "session_id": f"s{number}"})
    followed = [paths[0][-7:] for paths in Import.objects.filter(follow=True).values_list("paths", flat=True)]
    assert sorted(followed) == ["2.jsonl", "3.jsonl", "4.jsonl"]


def test_a_session_without_hooks_has_no_signals_on_its_page() -> None:
    session = make_session()
    client = Client()
    client.force_login(make_user("", "manager"))
    assert 'aria-label="Signals"' not in marked(client.get(f"/sessions/{session.pk}/"))


def test_what_called_and_was_never_read_is_named_and_what_is_old_goes(token_of: TokenOf) -> None:
    post(token_of("sender").secret, {**RECORDED[0], "session_id": "never-read"})
    make_session(sid="was-read")
    post(token_of("sender").secret, {**RECORDED[0], "session_id": "was-read"})
    client = Client()
    client.force_login(make_user("", "admin"))
    page = marked(client.get("/tokens/"))
    assert "never-read" in page
    assert "was-read" not in page
    now = timezone.now()
    assert housekeeping.prune_hooks(now + timedelta(days=29)) == 0
    assert housekeeping.prune_hooks(now + timedelta(days=31)) == 4, "two calls, and the tally of either token"
    assert not HookEvent.objects.exists()


def test_a_path_that_no_disk_can_hold_and_a_database_that_does_not_answer_are_bearable(
    token_of: TokenOf, transcript: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = token_of("sender").secret
    bearable(post(secret, event("Stop", transcript.parent / f"{'n' * 300}.jsonl")), "kept")

    def locked(*_: object, **__: object) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(acting.hooks, "read_call", locked)
    bearable(post(secret, event("Stop", transcript)), "failed")


def test_one_session_that_names_many_files_keeps_one_follow(token_of: TokenOf, transcript: Path) -> None:
    secret = token_of("sender").secret
    for number in range(4):
        path = transcript.parent / f"{number}.jsonl"
        path.write_text("", encoding="utf-8")
        bearable(post(secret, event("Stop", path)), "kept")
    followed = [paths[0][-7:] for paths in Import.objects.filter(follow=True).values_list("paths", flat=True)]
    assert followed == ["3.jsonl"], "the file that a session names last is the one that it writes"

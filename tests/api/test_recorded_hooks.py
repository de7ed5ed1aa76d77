"""Hook JSON as the real program wrote it (tests/samples/hooks, its README says how) through the promised address."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from django.test import Client

from relays.core import hooks
from relays.models import HookEvent, HookTally

if TYPE_CHECKING:
    from relays.actions.tokens import Made

pytestmark = pytest.mark.django_db
TokenOf = Callable[..., "Made"]
FOLDER = Path(__file__).parents[1] / "samples" / "hooks" / "claude-code-2.1.332"
FILES = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.json"))}
# fields whose text a person, a model or a tool wrote, or that name a file of a task
TEXTS = ("prompt", "message", "delta", "last_assistant_message", "compact_summary", "custom_instructions",
         "task_subject", "task_description", "command_args")  # fmt: skip


def send(secret: str, body: object, address: str = "/api/v1/hooks/claude-code") -> Any:
    return Client().post(
        address, json.dumps(body), content_type="application/json", headers={"Authorization": f"Bearer {secret}"}
    )


def test_every_event_of_the_program_was_recorded_and_is_named_in_the_readme() -> None:
    assert set(FILES) == hooks.CLAUDE_EVENTS
    assert all(one["hook_event_name"] == name for name, found in FILES.items() for one in found)
    assert all(name in (FOLDER / "README.md").read_text(encoding="utf-8") for name in hooks.CLAUDE_EVENTS)


@pytest.mark.slow
@pytest.mark.postgres
def test_every_recorded_call_is_kept_with_its_event_and_answered_with_nothing(token_of: TokenOf) -> None:
    secret = token_of("sender").secret
    sent = [body for found in FILES.values() for body in found]
    for body in sent:
        answer = send(secret, body)
        assert (answer.status_code, answer.content, answer["Relaysite-Hook"]) == (200, b"", "kept"), body
    rows = list(HookEvent.objects.order_by("pk"))
    assert [(row.event, row.sid) for row in rows] == [(body["hook_event_name"], body["session_id"]) for body in sent]
    for row, body in zip(rows, sent, strict=True):
        assert (row.known, row.blocked, row.said["cwd"]) == (True, False, body["cwd"])
        assert hooks.UNKNOWN not in row.said, "every field of the recorded shapes is kept or left out on purpose"
        kept = json.dumps(row.said)
        assert not [field for field in TEXTS if body.get(field) and json.dumps(body[field]) in kept], body
        assert not {"tool_input", "tool_response", "tool_calls"} & row.said.keys()


@pytest.mark.parametrize(
    ("name", "signal"),
    [
        ("PreCompact", {"manual": "would_rotate", "auto": "would_rotate"}),
        ("PostCompact", {"manual": "compacted", "auto": "compacted"}),
        ("SessionStart", {"startup": "", "resume": "", "clear": "", "fork": "", "compact": "compacted"}),
        ("SessionEnd", {"other": "ended", "clear": "ended", "prompt_input_exit": "ended"}),
        ("StopFailure", {"unknown": "failed"}),
    ],
)
def test_a_recorded_call_is_the_shadow_signal_that_it_stands_for(
    token_of: TokenOf, name: str, signal: dict[str, str]
) -> None:
    secret = token_of("sender").secret
    for body in FILES[name]:
        send(secret, body)
    why = {"SessionStart": "source", "SessionEnd": "reason", "StopFailure": "error"}.get(name, "trigger")
    assert {row.said[why]: row.signal for row in HookEvent.objects.all()} == signal


def test_only_a_recorded_compaction_ahead_is_blocked_where_the_site_says_so(token_of: TokenOf, settings: Any) -> None:
    settings.HOOKS_BLOCK_COMPACTION = True
    secret = token_of("sender").secret
    for body in FILES["PreCompact"]:
        assert send(secret, body).json()["decision"] == "block"
    assert send(secret, FILES["PostCompact"][0]).content == b""
    for name, found in FILES.items():
        for body in found:
            call = hooks.read_call(body)
            assert call is not None
            assert bool(hooks.answer(call, blocks_compaction=True)) == (name == "PreCompact")


def test_a_failed_tool_leaves_its_name_and_not_what_it_printed(token_of: TokenOf) -> None:
    secret = token_of("sender").secret
    for body in FILES["PostToolUseFailure"]:
        send(secret, body)
    rows = list(HookEvent.objects.order_by("pk"))
    assert {row.said["tool_name"] for row in rows} == {"Read", "Bash"}
    assert all(row.signal == "failed" and "error" not in row.said for row in rows)


def test_a_later_version_that_says_more_is_kept_and_what_is_new_is_counted(token_of: TokenOf) -> None:
    secret = token_of("sender").secret
    for name in ("PreToolUse", "Stop", "PreCompact"):
        body = {**FILES[name][0], "said_by_a_later_version": {"deep": ["text"]}, "another": "word"}
        assert send(secret, body)["Relaysite-Hook"] == "kept"
    rows = list(HookEvent.objects.all())
    assert len(rows) == 3
    assert all(row.said[hooks.UNKNOWN] == 2 and "another" not in row.said for row in rows)
    assert sum(HookTally.objects.values_list("torn", flat=True)) == 0

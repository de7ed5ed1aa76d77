"""Hook calls of programs that nobody drives: which fields are kept, and which of them are signals of a shadow relay.

Rules, Advisory before enforcement: "Sessions that nobody drives are always shadow". Spec of the program's hooks: the
JSON has `session_id`, `hook_event_name`, `transcript_path`, `cwd` and fields of the event; prompts, a tool's input and
its answer are never kept here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

#: events that Claude Code is known to send (documentation of August 2026)
CLAUDE_EVENTS: Final = frozenset({
    "SessionStart", "UserPromptSubmit", "UserPromptExpansion", "PreToolUse", "PostToolUse", "PostToolUseFailure",
    "PostToolBatch", "Stop", "StopFailure", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd",
    "Notification", "Setup", "PermissionRequest", "PermissionDenied", "TaskCreated", "TaskCompleted", "TeammateIdle",
    "InstructionsLoaded", "ConfigChange", "CwdChanged", "DirectoryAdded", "FileChanged", "WorktreeCreate",
    "WorktreeRemove", "MessageDisplay", "Elicitation", "ElicitationResult",
})  # fmt: skip

#: kept where they are short words, numbers or yes and no; nothing that a person or a model wrote
KEPT_FIELDS: Final = (
    "prompt_id", "permission_mode", "source", "model", "tool_name", "tool_use_id", "duration_ms", "trigger", "reason",
    "stop_hook_active", "agent_id", "agent_type", "notification_type", "error", "cwd", "transcript_path",
)  # fmt: skip
FIELD_LENGTH: Final = 300
PATH_FIELDS: Final = frozenset({"cwd", "transcript_path"})
PATH_LENGTH: Final = 4096
SID_LENGTH: Final = 200
EVENT_LENGTH: Final = 40


@dataclass(frozen=True, slots=True)
class HookCall:
    """One call as it is kept. `signal`: would_rotate, compacted, failed, ended or ""."""

    sid: str
    event: str
    known: bool
    signal: str
    said: Mapping[str, Any]
    transcript: str


def read_call(body: object) -> HookCall | None:
    """The call in a parsed body; None where it is no object that names a session and an event."""
    if not isinstance(body, dict):
        return None
    sid, event = _word(body.get("session_id"), SID_LENGTH), _word(body.get("hook_event_name"), EVENT_LENGTH)
    if not sid or not event:
        return None
    said: dict[str, Any] = {}
    for name in KEPT_FIELDS:
        value = body.get(name)
        if isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**53):
            said[name] = value
        elif word := _word(value, PATH_LENGTH if name in PATH_FIELDS else FIELD_LENGTH):
            said[name] = word
    return HookCall(sid, event, event in CLAUDE_EVENTS, signal_of(event, said), said, said.get("transcript_path", ""))


def signal_of(event: str, said: Mapping[str, Any]) -> str:
    """What an event means for the shadow relay. PreCompact is a hint: the transcript's boundary is the truth."""
    if event == "PreCompact":
        return "would_rotate"
    if event == "PostCompact" or (event == "SessionStart" and said.get("source") == "compact"):
        return "compacted"
    if event in ("StopFailure", "PostToolUseFailure"):
        return "failed"
    return "ended" if event == "SessionEnd" else ""


def answer(call: HookCall, *, blocks_compaction: bool) -> dict[str, str]:
    """What the program is told: nothing, unless the site's setting has a compaction refused.

    Mission, phase 0: the signal "appears at the PreCompact hook without causing compaction".
    """
    if call.event == "PreCompact" and blocks_compaction:
        return {"decision": "block", "reason": "this site lets no session compact: hand over and start a fresh one"}
    return {}


def _word(value: object, most: int) -> str:
    """A short printable text, "" for whatever else."""
    return value if isinstance(value, str) and 0 < len(value) <= most and value.isprintable() else ""

"""Hook calls of programs that nobody drives: which fields are kept, and which of them are signals of a shadow relay.

Rules, Advisory before enforcement: "Sessions that nobody drives are always shadow". Spec of the program's hooks: the
JSON has `session_id`, `hook_event_name`, `transcript_path`, `cwd` and fields of the event; prompts, a tool's input and
its answer are never kept here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

#: events that Claude Code is known to send (documentation of August 2026, and the program's own list, 2.1.332)
CLAUDE_EVENTS: Final = frozenset({
    "SessionStart", "UserPromptSubmit", "UserPromptExpansion", "PreToolUse", "PostToolUse", "PostToolUseFailure",
    "PostToolBatch", "Stop", "StopFailure", "SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd",
    "Notification", "Setup", "PermissionRequest", "PermissionDenied", "TaskCreated", "TaskCompleted", "TeammateIdle",
    "InstructionsLoaded", "ConfigChange", "CwdChanged", "DirectoryAdded", "FileChanged", "WorktreeCreate",
    "WorktreeRemove", "MessageDisplay", "Elicitation", "ElicitationResult", "PreModelSwitch", "PostModelSwitch",
    "PreSkillShellCommand",
})  # fmt: skip

#: kept where they are short words, numbers or yes and no; nothing that a person or a model wrote
KEPT_FIELDS: Final = (
    "prompt_id", "permission_mode", "source", "model", "tool_name", "tool_use_id", "duration_ms", "trigger", "reason",
    "stop_hook_active", "agent_id", "agent_type", "notification_type", "error", "cwd", "transcript_path", "from_model",
    "to_model", "context_tokens",
)  # fmt: skip
#: fields that are a word of the program's own in these events only: elsewhere `error` is what a tool printed, and
#: `reason` is what a judge of permissions wrote
WORDS_ONLY_OF: Final = {"error": frozenset({"StopFailure"}), "reason": frozenset({"SessionEnd"})}
#: fields that are known and left out: texts of a person, a model or a tool, and what no page asks for
LEFT_FIELDS: Final = frozenset({
    "session_id", "hook_event_name", "session_title", "effort", "prompt", "tool_input", "tool_response", "tool_calls",
    "is_interrupt", "mcp_server", "mcp_server_name", "permission_suggestions", "last_assistant_message",
    "background_tasks", "session_crons", "agent_transcript_path", "error_details", "custom_instructions",
    "compact_summary", "message", "title", "delta", "index", "final", "turn_id", "message_id", "expansion_type",
    "command_name", "command_args", "command_source", "invoked_by", "file_path", "event", "memory_type", "load_reason",
    "globs", "trigger_file_path", "parent_file_path", "old_cwd", "new_cwd", "directory", "name", "worktree_path",
    "task_id", "task_subject", "task_description", "teammate_name", "team_name", "mode", "url", "elicitation_id",
    "requested_schema", "action", "content", "requested_model", "seconds_since_last_response", "cache_ttl",
    "prompt_cache_warm", "prompt_cache_likely_expired", "estimated_cache_write_usd", "pricing",
})  # fmt: skip
#: beside the kept fields: how many the body had that are neither kept nor left out; absent where none
UNKNOWN: Final = "unknown_fields"
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
        if event not in WORDS_ONLY_OF.get(name, (event,)):
            continue
        value = body.get(name)
        if isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**53):
            said[name] = value
        elif word := _word(value, PATH_LENGTH if name in PATH_FIELDS else FIELD_LENGTH):
            said[name] = word
    if unknown := len(body.keys() - LEFT_FIELDS - set(KEPT_FIELDS)):
        said[UNKNOWN] = unknown
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

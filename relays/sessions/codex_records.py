"""The records of a Codex rollout: which kinds are known, what a tool call asked for and what came back.

"Formats of this kind change without notice": a kind that is not named here is counted and shown as unknown.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from relays.core.meter import ActKind
from relays.sessions import shell
from relays.sessions.fields import REF_CHARS, rows, table, text

ANSWERED: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
CALLS: Final = ANSWERED | {"web_search_call", "image_generation_call", "mcp_tool_call"}
RESULTS: Final = frozenset(
    {
        "function_call_output",
        "custom_tool_call_output",
        "local_shell_call_output",
        "tool_search_output",
        "mcp_tool_call_output",
    }
)
ITEMS: Final = frozenset(
    "ghost_snapshot ghost_commit compaction compaction_summary compaction_trigger context_compaction other".split()
)
ENDS: Final = frozenset({"exec_command_end", "patch_apply_end", "mcp_tool_call_end"})
EVENTS: Final = frozenset(
    """user_message agent_message agent_message_delta agent_message_content_delta agent_reasoning agent_reasoning_delta
    agent_reasoning_raw_content agent_reasoning_raw_content_delta agent_reasoning_section_break task_complete
    turn_complete turn_aborted turn_diff error warning stream_error background_event session_configured
    exec_command_begin exec_command_output_delta exec_approval_request apply_patch_approval_request patch_apply_begin
    patch_apply_updated mcp_tool_call_begin mcp_startup_update mcp_startup_complete mcp_list_tools_response
    web_search_begin web_search_end image_generation_begin image_generation_end view_image_tool_call
    plan_update plan_delta item_started item_completed undo_started undo_completed thread_rolled_back
    thread_name_updated thread_goal_updated entered_review_mode exited_review_mode collab_agent_spawn_begin
    collab_agent_spawn_end collab_agent_interaction_begin collab_agent_interaction_end collab_waiting_begin
    collab_waiting_end collab_close_begin collab_close_end collab_resume_begin collab_resume_end
    sub_agent_activity terminal_interaction shutdown_complete deprecation_notice model_reroute model_verification
    skills_update_available list_skills_response list_custom_prompts_response get_history_entry_response
    conversation_path hook_started hook_completed request_user_input request_permissions elicitation_request
    dynamic_tool_call_request dynamic_tool_call_response guardian_assessment raw_response_item""".split()
)

_PENDING: Final = 64
_FILES: Final = 64
_PATCHED: Final = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+)$", re.MULTILINE)
_EXIT: Final = re.compile(r"(?:^Exit code:|Process exited with code) (-?\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Asked:
    """A tool call as the model wrote it."""

    name: str
    what: shell.Interest = ""
    files: list[str] = field(default_factory=list)  # that it writes, if it succeeds
    issues: list[tuple[ActKind, str]] = field(default_factory=list)


def asked(payload: Mapping[str, Any], kind: str) -> Asked:
    """What a call asks for; `kind` is the record's type."""
    name = text(payload.get("name"), 60) or kind.removesuffix("_call")
    given = payload.get("arguments") if "arguments" in payload else payload.get("input")
    arguments = _object(given)
    command = shell.command_of(arguments.get("cmd") or arguments.get("command"))
    if kind == "local_shell_call":
        command = shell.command_of(table(payload.get("action")).get("command"))
    patch = given if name == "apply_patch" and isinstance(given, str) else ""
    patch = patch if patch.startswith("***") else str(arguments.get("input") or command)
    files = [found.strip()[:REF_CHARS] for found in _PATCHED.findall(patch)][:_FILES] if "*** " in patch else []
    return Asked(name, shell.interest(command), files, list(shell.named(command)))


def result_of(payload: Mapping[str, Any]) -> tuple[str, bool]:
    """The output of a tool and whether it says that it failed."""
    output = payload.get("output")
    if isinstance(output, str) and output.startswith("{"):
        inner = _object(output)
        output = inner if "output" in inner or "metadata" in inner else output
    if isinstance(output, list):
        output = "\n".join(str(table(part).get("text") or "") for part in output)
    if isinstance(output, dict):
        code = table(output.get("metadata")).get("exit_code")
        failed = output.get("success") is False or (isinstance(code, int) and code != 0)
        body = output.get("output") if "output" in output else output.get("content")
        return (body if isinstance(body, str) else ""), failed
    if not isinstance(output, str):
        return "", False
    code_line = _EXIT.search(output, 0, 400)
    return output, bool(code_line and int(code_line[1]))


def failed_end(kind: str, payload: Mapping[str, Any]) -> bool:
    """Whether the event that ends a tool marks it as failed."""
    if payload.get("status") in ("failed", "declined") or payload.get("success") is False:
        return True
    code = payload.get("exit_code")
    if isinstance(code, int) and code != 0:
        return True
    result = table(payload.get("result"))
    inner = table(result.get("Ok"))
    return kind == "mcp_tool_call_end" and ("Err" in result or bool(inner.get("isError") or inner.get("is_error")))


def changed_files(payload: Mapping[str, Any]) -> list[str]:
    """The paths that a patch changed."""
    changes = payload.get("changes")
    paths = list(changes) if isinstance(changes, dict) else [table(one).get("path") for one in rows(changes)]
    return [path for path in paths if isinstance(path, str)][:_FILES]


def _object(value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    if not isinstance(value, str) or not value.startswith("{"):
        return {}
    try:
        return table(orjson.loads(value))
    except ValueError:
        return {}


class Pending:
    """Tool calls that wait for their result, and what came back per call of the model; bounded."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        kept = state or {}
        self._waiting: dict[str, dict[str, Any]] = {name: dict(row) for name, row in kept.get("waiting", {}).items()}
        self._counts: dict[int, list[int]] = {int(n): list(row) for n, row in kept.get("counts", {}).items()}

    def state(self) -> dict[str, Any]:
        return {
            "waiting": {name: dict(row) for name, row in self._waiting.items()},
            "counts": {str(n): list(row) for n, row in self._counts.items()},
        }

    def add(self, call_id: str, n: int, call: Asked) -> None:
        """The model's call number `n` asked for this."""
        if not call_id:
            return
        self._waiting[call_id] = {
            "n": n,
            "name": call.name,
            "what": call.what,
            "files": call.files,
            "failed": False,
        }
        while len(self._waiting) > _PENDING:
            del self._waiting[next(iter(self._waiting))]

    def ended(self, call_id: str, failed: bool, told_files: bool) -> None:
        """The event at its end says so; `told_files`: it named the changed files itself."""
        row = self._waiting.get(call_id)
        if row is not None:
            row["failed"] = row["failed"] or failed
            row["files"] = [] if told_files else row["files"]

    def asker(self, call_id: str, otherwise: int) -> int:
        """Which call of the model asked for it."""
        row = self._waiting.get(call_id)
        return int(row["n"]) if row else otherwise

    def take(self, call_id: str) -> dict[str, Any] | None:
        """Its result came: what was asked, once."""
        return self._waiting.pop(call_id, None)

    def returned(self, n: int, failed: bool) -> None:
        """A result for call `n`."""
        row = self._counts.setdefault(n, [0, 0])
        row[0] += 1
        row[1] += failed

    def of(self, n: int) -> tuple[int, int]:
        """(results, of them failed) of call `n` so far."""
        row = self._counts.get(n, (0, 0))
        return row[0], row[1]

    def forget(self, n: int) -> None:
        """Nothing more is asked of call `n`."""
        self._counts.pop(n, None)

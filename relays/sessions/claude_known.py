"""What Claude Code's files are known to hold: everything else is counted as unknown and shown.

sessions.md, 1: record types and keys seen in versions 1.0.98 to 2.1.284, and in its stream (2a).
"""

from typing import Final

#: types of records that no handler needs: they never enter the window
QUIET_TYPES: Final = frozenset(
    "summary file-history-snapshot file-history-delta queue-operation last-prompt permission-mode mode ai-title "
    "custom-title agent-name agent-color agent-setting pr-link bridge-session atis-latch continued-in cost-state "
    "history-suppression frame-link relocated worktree-state".split()
)
#: beginnings of families of such types
QUIET_FAMILIES: Final = ("artifact-",)

SYSTEM_SUBTYPES: Final = frozenset(
    "compact_boundary microcompact_boundary turn_duration stop_hook_summary api_error local_command away_summary "
    "informational bridge_status scheduled_task_fire".split()
)

RECORD_KEYS: Final = frozenset(
    # common to most
    "type subtype uuid parentUuid logicalParentUuid isSidechain userType entrypoint cwd sessionId session_id version "
    "gitBranch slug timestamp agentId sessionKind promptId promptSource origin effort isMeta isCompactSummary "
    "isVisibleInTranscriptOnly isApiErrorMessage toolUseResult sourceToolAssistantUUID sourceToolUseID requestId "
    "message permissionMode thinkingMetadata todos interruptedMessageId toolDenialKind classifierMetaLines "
    "turnPosition turnOrigin attributionSkill attributionPlugin attributionAgent attributionMcpServer "
    "attributionMcpTool error apiError errorDetails apiErrorStatus teamName agentName agentColor agentSetting "
    "forkedFrom mcpMeta imagePasteIds planContent isReplay advisorModel "
    # system
    "content level compactMetadata microcompactMetadata durationMs messageCount hookCount hookInfos hookErrors "
    "hookAdditionalContext preventedContinuation stopReason hasOutput toolUseID retryInMs retryAttempt maxRetries "
    "cause url upgradeNudge pendingBackgroundAgentCount pendingWorkflowCount "
    # progress and attachments
    "data parentToolUseID attachment "
    # records without a chain
    "summary leafUuid messageId snapshot isSnapshotUpdate snapshotMessageId trackingPath backup operation lastPrompt "
    "mode aiTitle customTitle prNumber prUrl prRepository continuedInSessionId totalCostUSD modelUsage worktreeSession "
    "bridgeSessionId lastSequenceNum".split()
)
MESSAGE_KEYS: Final = frozenset(
    "id model type role content usage stop_reason stop_sequence stop_details context_management container "
    "diagnostics".split()
)
USAGE_KEYS: Final = frozenset(
    "input_tokens cache_creation_input_tokens cache_read_input_tokens output_tokens cache_creation service_tier "
    "inference_geo server_tool_use speed iterations output_tokens_details".split()
)
WRITE_KEYS: Final = frozenset({"ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"})

#: of the stream: its control protocol and progress notices; no usage
STREAM_QUIET: Final = frozenset(
    "control_request control_response control_cancel_request keep_alive tool_progress tool_use_summary "
    "auth_status".split()
)
STREAM_SUBTYPES: Final = frozenset(
    "init status compact_boundary api_retry hook_started hook_progress hook_response local_command_output "
    "files_persisted".split()
)
STREAM_FAMILIES: Final = ("task_",)
STREAM_KEYS: Final = frozenset(
    "type subtype session_id uuid parent_tool_use_id message event request_id error tool_use_result isReplay "
    "isSynthetic timestamp priority rate_limit_info ttft_ms subagent_type task_description "
    # system
    "cwd tools mcp_servers model permissionMode slash_commands apiKeySource claude_code_version agents skills plugins "
    "capabilities output_style betas fast_mode_state status compact_result compact_error compact_metadata attempt "
    "max_retries retry_delay_ms error_status hook_id hook_name hook_event stdout stderr output exit_code outcome "
    "memory_paths analytics_disabled product_feedback_disabled "
    # result
    "is_error api_error_status duration_ms duration_api_ms num_turns result stop_reason total_cost_usd usage "
    "modelUsage permission_denials errors terminal_reason structured_output origin ttft_stream_ms "
    "time_to_request_ms".split()
)
RESULT_SUBTYPES: Final = frozenset(
    "success error_max_turns error_during_execution error_max_budget_usd error_max_structured_output_retries".split()
)

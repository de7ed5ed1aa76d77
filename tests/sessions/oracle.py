"""What the right totals of Claude Code's and Codex's files are, worked out a second time: slowly, and all at once.

See `tests.sessions.oracle_others` for the other agents' files, and `tests.sessions.oracle_prices` for the prices.

Written from sessions.md alone. It knows the whole content of every file, reads it with `json`, keeps no state, no
database and no order, and shares no code with the readers.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tests.sessions import oracle_prices

KINDS = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")


@dataclass
class Right:
    """Totals of one session."""

    calls: int = 0
    main_calls: int = 0
    copied: int = 0
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    most: int = 0
    compactions: int = 0
    cost: Decimal | None = None
    unpriced: int = 0


@dataclass
class Counted:
    """A call that counts in its session: what its price depends on."""

    model: str
    at: str
    tokens: Mapping[str, int]


def price(right: Right, calls: Sequence[Counted]) -> None:
    """Add what these calls of one session cost."""
    costs = [oracle_prices.cost(call.model, call.at, call.tokens) for call in calls]
    right.cost, right.unpriced = oracle_prices.summed(costs), costs.count(None)


def claude(files: Mapping[str, bytes]) -> dict[str, Right]:
    """Session -> what counts in it; `files`: path -> content."""
    rows = []  # (session, key, main, path, line, what it used, model, at)
    marks = []  # (session, uid, path, line)
    first: dict[str, str] = {}
    copies: set[str] = set()
    began: dict[tuple[str, str], bool] = {}
    for path, content in files.items():
        for number, record in _records(content):
            session = record.get("sessionId")
            if not session:
                continue
            at = record.get("timestamp")
            if at and (session not in first or at < first[session]):
                first[session] = at
            if record.get("uuid"):
                background = record.get("sessionKind") == "bg"
                # a background session makes a new file: what stands in it before its own was copied
                first_was = began.setdefault((path, session), background)
                if background and not first_was:
                    copies.add(session)
            if record.get("type") == "system" and record.get("subtype") == "compact_boundary":
                marks.append((session, record["uuid"], path, number))
            if record.get("type") == "assistant":
                row = _claude_row(record, path)
                if row is not None:
                    rows.append((session, row[0], row[1], path, number, row[2], record["message"]["model"], at or ""))
    found: dict[str, Right] = defaultdict(Right)
    for session in first:
        found[session]  # a session without a call is one all the same
    by_key = defaultdict(list)
    for row in rows:
        by_key[row[1]].append(row)

    def rank(session: str) -> tuple[bool, str, str]:
        return session in copies, first.get(session, "9999"), session

    counted: dict[str, list[Counted]] = defaultdict(list)
    for same in by_key.values():
        tokens = _whole([row[5] for row in same])
        main = any(row[2] for row in same)
        sessions = {row[0] for row in same}
        owner = min(sessions, key=rank)
        at = min((row[7] for row in same if row[7]), default="")
        counted[owner].append(Counted(same[0][6], at, tokens))
        for session in sessions:
            right = found[session]
            if main:
                right.most = max(right.most, sum(tokens.values()) - tokens["output"])
            if session == owner:
                right.calls += 1
                right.main_calls += main
                for kind in KINDS:
                    right.tokens[kind] += tokens[kind]
            else:
                right.copied += 1
    for uid in {mark[1] for mark in marks}:
        owner = min({mark[0] for mark in marks if mark[1] == uid}, key=rank)
        found[owner].compactions += 1
    for session, calls in counted.items():
        price(found[session], calls)
    return dict(found)


def _whole(rows: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """One call from all its rows: the most of each field. What was written to the cache is one amount: the most that a

    row says of it, of which an hour has the most that a row says of an hour.
    """
    most = {name: max(row[name] for row in rows) for name in rows[0]}
    hour = most["cache_write_1h"]
    return {
        "input": most["input"],
        "cache_read": most["cache_read"],
        "cache_write_5m": most["written"] - hour,
        "cache_write_1h": hour,
        "output": most["output"],
    }


def _records(content: bytes) -> list[tuple[int, dict[str, Any]]]:
    found = []
    whole = content[: content.rfind(b"\n") + 1]
    for number, line in enumerate(whole.split(b"\n"), 1):
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            found.append((number, record))
    return found


def _claude_row(record: Mapping[str, Any], path: str) -> tuple[str, bool, dict[str, int]] | None:
    message = record["message"]
    usage = message.get("usage")
    if not usage or message.get("model") == "<synthetic>":
        return None
    key = message.get("id") or record.get("requestId") or record.get("uuid")
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    if key is None:
        key = json.dumps(record, sort_keys=True)  # it has nothing else that it could be known by
    if not any(usage.get(name) for name in names):
        return None
    split = usage.get("cache_creation") or {}
    hour = split.get("ephemeral_1h_input_tokens", 0)
    written = max(usage.get("cache_creation_input_tokens", 0), split.get("ephemeral_5m_input_tokens", 0) + hour)
    main = not record.get("isSidechain") and not record.get("agentId") and "/subagents/" not in path
    tokens = {
        "input": usage.get("input_tokens", 0),
        "cache_read": usage.get("cache_read_input_tokens", 0),
        "written": written,
        "cache_write_1h": hour,
        "output": usage.get("output_tokens", 0),
    }
    return key, main, tokens


def codex(files: Mapping[str, bytes]) -> dict[str, Right]:
    """Thread -> what counts in it: what its parent's file has as well is the parent's."""
    totals: dict[str, list[tuple[int, int, int]]] = {}
    said: dict[str, list[tuple[str, str]]] = {}  # (model, at) of each call
    parents: dict[str, str] = {}
    for content in files.values():
        thread = model = ""
        mine: list[tuple[int, int, int]] = []
        about: list[tuple[str, str]] = []
        for _, record in _records(content):
            payload = record.get("payload", {})
            if record.get("type") == "session_meta" and not thread:
                thread = payload["id"]
                parents[thread] = payload.get("forked_from_id", "")
            if record.get("type") == "turn_context":
                model = payload["model"]
            if payload.get("type") == "token_count" and payload.get("info"):
                total = payload["info"]["total_token_usage"]
                now = total["input_tokens"], total["cached_input_tokens"], total["output_tokens"]
                if not mine or mine[-1] != now:
                    mine.append(now)
                    about.append((model, record["timestamp"]))
        totals[thread], said[thread] = mine, about
    found = {}
    for thread, mine in totals.items():
        theirs = totals.get(parents[thread], [])
        shared = 0
        while shared < min(len(mine), len(theirs)) and mine[shared] == theirs[shared]:
            shared += 1
        right = found[thread] = Right(copied=shared)
        counted = []
        for at in range(shared, len(mine)):
            before = mine[at - 1] if at else (0, 0, 0)
            if any(a < b for a, b in zip(mine[at], before, strict=True)):
                before = (0, 0, 0)
            side, cached, output = (a - b for a, b in zip(mine[at], before, strict=True))
            right.calls += 1
            right.main_calls += 1
            right.tokens["input"] += side - cached
            right.tokens["cache_read"] += cached
            right.tokens["output"] += output
            right.most = max(right.most, side)
            used = {"input": side - cached, "cache_read": cached, "output": output}
            counted.append(Counted(*said[thread][at], used))
        price(right, counted)
    return found

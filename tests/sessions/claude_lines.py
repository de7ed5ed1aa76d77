"""Records of Claude Code as its files and its stream have them, for tests to write down in a line each."""

from typing import Any

SESSION = "11111111-2222-4333-8444-555555555555"


def stamp(second: int) -> str:
    return f"2026-05-01T10:{second // 60:02d}:{second % 60:02d}.000Z"


def usage(read: int = 100, output: int = 10, *, plain: int = 1, short: int = 0, long: int = 0, **more: Any) -> Any:
    return {
        "input_tokens": plain,
        "cache_creation_input_tokens": short + long,
        "cache_read_input_tokens": read,
        "output_tokens": output,
        "cache_creation": {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": long},
        **more,
    }


def record(kind: str, n: int, **more: Any) -> dict[str, Any]:
    """A chained record: the nth of its file, child of the one before it."""
    return {
        "parentUuid": f"uuid-{n - 1}" if n > 1 else None,
        "isSidechain": False,
        "type": kind,
        "uuid": f"uuid-{n}",
        "timestamp": stamp(n),
        "cwd": "/srv/project",
        "sessionId": SESSION,
        "version": "2.1.226",
        "gitBranch": "main",
        **more,
    }


def answer(
    n: int, key: str | None, used: Any, *blocks: Any, stop: str | None = "tool_use", **more: Any
) -> dict[str, Any]:
    message = {
        "id": key,
        "type": "message",
        "role": "assistant",
        "model": more.pop("model", "claude-opus-4-5"),
        "content": list(blocks or [{"type": "text", "text": "done"}]),
        "stop_reason": stop,
        "usage": used,
    }
    return record("assistant", n, message=message, **more)


def asks(identity: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": identity, "name": name, "input": arguments}


def result(n: int, identity: str, content: Any = "fine", *, failed: bool = False, **more: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": identity, "content": content, "is_error": failed}
    return record("user", n, message={"role": "user", "content": [block]}, **more)


def said(n: int, text: str = "please", **more: Any) -> dict[str, Any]:
    return record("user", n, message={"role": "user", "content": text}, **more)


def boundary(n: int, said: Any = None, **more: Any) -> dict[str, Any]:
    """A compaction's record; `said` = its compactMetadata."""
    extra = {"compactMetadata": said} if said is not None else {}
    return record("system", n, subtype="compact_boundary", content="compacted", parentUuid=None) | extra | more

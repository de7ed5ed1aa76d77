"""How Gemini CLI says tools, figures and what runs on; the small forms that its bridge reads."""

import json
import os
from collections.abc import Mapping
from typing import Any


def table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def moves(given: object) -> bool:
    return table(given).get("is_background") is True


def is_open(row: Mapping[str, Any]) -> bool:
    return row.get("status") not in ("completed", "cancelled")


def lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def size(output: object) -> int:
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False) if output else ""
    return len(text.encode("utf-8", "replace"))


def buckets(said: Mapping[str, Any]) -> dict[str, Any]:
    """Cached tokens are part of the input, thoughts are output beside the answer; the total tells what holds which."""
    read, wrote, cached, thoughts, tool = (
        value if isinstance(value := said.get(key), int) else 0
        for key in ("input", "output", "cached", "thoughts", "tool")
    )
    total = said.get("total")
    ways = ((read + tool, wrote + thoughts), (read, wrote + thoughts), (read + tool, wrote), (read, wrote))
    inside, out = next((way for way in ways if total is None or sum(way) == total), ways[0])
    return {
        "input": max(0, inside - cached),
        "cache_read": cached,
        "cache_write_5m": 0,
        "cache_write_1h": 0,
        "output": out,
    }

"""How Codex says figures, results and failures; the small forms that both ways of driving it read."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_STATUS: Final = re.compile(r"\bstatus:? (\d{3})\b")


def table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def rows(value: object) -> Iterator[dict[str, Any]]:
    yield from (row for row in (value if isinstance(value, list) else ()) if isinstance(row, dict))


def buckets(said: Mapping[str, Any]) -> dict[str, Any]:
    """As an event takes it: the input side holds what was read from the cache and what was written to it."""
    plain, cached, written = (
        value if isinstance(value := said.get(key), int) else 0
        for key in ("input_tokens", "cached_input_tokens", "cache_write_input_tokens")
    )
    return {
        "input": max(0, plain - cached - written),
        "cache_read": cached,
        "cache_write_5m": written,
        "cache_write_1h": 0,
        "output": said.get("output_tokens"),
    }


def status(error: Mapping[str, Any]) -> int | None:
    """The HTTP status inside an error's `codexErrorInfo`, where one is told."""
    for one in table(error.get("codexErrorInfo")).values():
        if isinstance(found := table(one).get("httpStatusCode"), int):
            return found
    return status_in(str(error.get("message")))


def good(said: Mapping[str, Any]) -> bool:
    response = said.get("tool_response")
    return not (isinstance(response, dict) and response.get("isError") is True)


def size(output: object) -> int:
    text = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False) if output else ""
    return len(text.encode("utf-8", "replace"))


def status_in(words: str) -> int | None:
    """The HTTP status that a text names."""
    found = _STATUS.search(words)
    return int(found[1]) if found else None

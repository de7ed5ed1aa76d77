"""How Claude Code says messages, figures and results; the small forms that its bridge reads."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from relays.agents.bridges.bridge import read_object
from relays.agents.bridges.line import count


def table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def blocks(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from rows(message.get("content"))


def rows(value: object) -> list[dict[str, Any]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def buckets(said: Mapping[str, Any]) -> dict[str, Any]:
    """The program's usage as an event takes it: a cache write that it does not divide is one for five minutes."""
    parts = table(said.get("cache_creation"))
    whole = _figure(said, "cache_creation_input_tokens")
    hour, five = _figure(parts, "ephemeral_1h_input_tokens"), _figure(parts, "ephemeral_5m_input_tokens")
    if whole is not None and (whole or 0) > (five or 0) + (hour or 0):
        five = whole - (hour or 0)
    return {
        "input": _figure(said, "input_tokens"),
        "cache_read": _figure(said, "cache_read_input_tokens"),
        "cache_write_5m": five if five is not None else whole,
        "cache_write_1h": hour if hour is not None else 0,
        "output": _figure(said, "output_tokens"),
    }


def _figure(said: Mapping[str, Any], name: str) -> int | None:
    """None where it is not said; what is no number is 0."""
    return None if said.get(name) is None else count(said[name])


def size(content: object) -> int:
    if isinstance(content, list):
        return sum(size(block.get("text") or "") for block in content if isinstance(block, dict))
    return len(str(content or "").encode("utf-8", "replace"))


def calls_below(folder: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    if not folder.is_dir():
        return
    for path in sorted(folder.rglob("*.jsonl")):
        try:
            lines = path.read_bytes().splitlines()
        except OSError:
            continue
        for line in lines:
            message = table(read_object(line).get("message"))
            model = str(message.get("model") or "")
            if message.get("usage") and message.get("id") and model and model != "<synthetic>":
                yield str(message["id"]), model, buckets(table(message["usage"]))

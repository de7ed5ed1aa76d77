"""Our entries in Claude Code's settings.json put in and taken out, and not one byte of the rest changed.

Issue: "hooks for undriven sessions can be installed and removed by one command, changing nothing else in the user's
settings". The text is cut where our entries belong; what stands around them is never written anew. An entry is ours by
its kind and the path of its address, wherever the site moves to.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from relays.core.hooks import CLAUDE_EVENTS

PATH: Final = "/api/v1/hooks/claude-code"
VARIABLE: Final = "RELAYSITE_TOKEN"
#: events that say something of a session and that the program takes an HTTP hook for; WorktreeCreate is none: whoever
#: takes it has to make the worktree
EVENTS: Final = (
    "PreCompact",
    "PostCompact",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "StopFailure",
    "SessionEnd",
)
SECONDS: Final = 5  # that the program waits for a site that does not answer; it goes on then
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_DEEPEST: Final = 64
_STEP: Final = 2


class HookFileError(ValueError):
    """The settings are no JSON object that we can add to; one line that says where."""


@dataclass(frozen=True, slots=True)
class _Item:
    """One member of an object (with its key) or one element of an array; `start` is where its text begins."""

    key: str
    start: int
    value_at: int
    end: int
    value: Any


def installed(text: str, site: str) -> str:
    """The settings with our entry at each event; the same text where they stand already. `site`: its address.

    Raises HookFileError.
    """
    wanted = entry(site)
    text = text if text.strip() else "{}\n"
    hooks = _member(text, _top(text), "hooks")
    held = hooks.value if hooks is not None and isinstance(hooks.value, dict) else {}
    for event in EVENTS:
        if _ours(held.get(event)) == [wanted]:
            continue
        text = _without(text, event)
        text = _with(text, event, {"hooks": [wanted]})
        hooks = _member(text, _top(text), "hooks")
        held = hooks.value if hooks is not None else {}
    return text


def removed(text: str) -> str:
    """The settings without any entry of ours, at whatever event; the same text where there is none.

    Raises HookFileError.
    """
    if not text.strip():
        return text
    hooks = _member(text, _top(text), "hooks")
    for event in list(hooks.value) if hooks is not None else ():
        text = _without(text, event)
    return text


def entry(site: str) -> dict[str, object]:
    """One hook of ours; the token itself stands in no file, only the name of its variable."""
    return {
        "type": "http",
        "url": site.rstrip("/") + PATH,
        "headers": {"Authorization": f"Bearer ${VARIABLE}"},
        "allowedEnvVars": [VARIABLE],
        "timeout": SECONDS,
    }


def events_of(text: str) -> tuple[str, ...]:
    """The events at which an entry of ours stands. Raises HookFileError."""
    if not text.strip():
        return ()
    hooks = _member(text, _top(text), "hooks")
    return tuple(event for event, groups in hooks.value.items() if _ours(groups)) if hooks is not None else ()


# --- what is ours


def _is_ours(hook: object) -> bool:
    return isinstance(hook, dict) and hook.get("type") == "http" and str(hook.get("url", "")).endswith(PATH)


def _ours(groups: object) -> list[object]:
    rows = groups if isinstance(groups, list) else []
    return [
        hook
        for group in rows
        if isinstance(group, dict) and isinstance(group.get("hooks"), list)
        for hook in group["hooks"]
        if _is_ours(hook)
    ]


# --- cutting and adding


def _without(text: str, event: str) -> str:
    """One event without our entries; a group, an event or `hooks` that held nothing else goes with the last of them."""
    while True:
        hooks = _member(text, _top(text), "hooks")
        found = _member(text, _object(text, hooks.value_at), event) if hooks is not None else None
        if hooks is None or found is None or not _ours(found.value):
            return text
        groups = _array(text, found.value_at)
        at, group = next((at, one) for at, one in enumerate(groups) if _ours([one.value]))
        inner = _member(text, _object(text, group.value_at), "hooks")
        entries = _array(text, inner.value_at) if inner is not None else []
        if len(entries) > 1:
            text = _cut(text, entries, next(at for at, one in enumerate(entries) if _is_ours(one.value)))
        elif len(groups) > 1:
            text = _cut(text, groups, at)
        elif len(hooks.value) > 1:
            members = _object(text, hooks.value_at)
            text = _cut(text, members, next(at for at, one in enumerate(members) if one.key == event))
        else:
            members = _top(text)
            text = _cut(text, members, next(at for at, one in enumerate(members) if one.key == "hooks"))


def _with(text: str, event: str, group: dict[str, object]) -> str:
    hooks = _member(text, _top(text), "hooks")
    if hooks is None:
        return _add(text, 0, f'"hooks": {_spelled({event: [group]}, text, 1)}', _top(text), 1)
    members = _object(text, hooks.value_at)
    found = _member(text, members, event)
    if found is None:
        return _add(text, hooks.value_at, f"{json.dumps(event)}: {_spelled([group], text, 2)}", members, 2)
    return _add(text, found.value_at, _spelled(group, text, 3), _array(text, found.value_at), 3)


def _add(text: str, container: int, what: str, items: Sequence[_Item], depth: int) -> str:
    """`what` as the last of the items of what opens at `container` (0: the first bracket)."""
    indent = _indent(text)
    if items:
        last = items[-1]
        line = text.rfind("\n", 0, last.start) + 1
        own = text[line : last.start]
        between = f",\n{own}" if indent is not None and line and not own.strip() else ", "
        return text[: last.end] + between + what + text[last.end :]
    opened = (container or _SPACE.match(text, 0).end()) + 1  # type: ignore[union-attr]
    closed = _SPACE.match(text, opened).end()  # type: ignore[union-attr]
    if indent is None:
        return text[:opened] + what + text[closed:]
    return text[:opened] + f"\n{indent * depth}{what}\n{indent * (depth - 1)}" + text[closed:]


def _cut(text: str, items: Sequence[_Item], at: int) -> str:
    item = items[at]
    if at > 0:
        return text[: items[at - 1].end] + text[item.end :]
    if len(items) > 1:
        return text[: item.start] + text[items[1].start :]
    before = len(text[: item.start].rstrip(" \t\r\n"))
    after = _SPACE.match(text, item.end).end()  # type: ignore[union-attr]
    return text[:before] + text[after:]


def _indent(text: str) -> str | None:
    """One step of the indentation that the text uses, two blanks where it shows none; None where it is one line."""
    if "\n" not in text.strip() and text.strip() != "{}":
        return None
    found = re.search(r"\n([ \t]+)\S", text)
    return found[1] if found else " " * _STEP


def _spelled(value: object, text: str, depth: int) -> str:
    indent = _indent(text)
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    return json.dumps(value, ensure_ascii=False, indent=indent).replace("\n", "\n" + indent * depth)


# --- where things stand in the text


def _top(text: str) -> list[_Item]:
    start = _SPACE.match(text, 0).end()  # type: ignore[union-attr]
    try:
        value, end = _decoder().raw_decode(text, start)
    except RecursionError as error:
        raise HookFileError("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise HookFileError(f"it is not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from error
    except ValueError as error:
        raise HookFileError(str(error)) from error
    if text[end:].strip(" \t\r\n"):
        raise HookFileError(f"it is not JSON: something stands behind its end, at character {end}")
    if not isinstance(value, dict):
        raise HookFileError("it is no JSON object")
    hooks = value.get("hooks", {})
    if not isinstance(hooks, dict):
        raise HookFileError("its `hooks` is no object")
    for event, groups in hooks.items():
        if not isinstance(groups, list):
            raise HookFileError(f"its hooks.{event if event in CLAUDE_EVENTS else 'EVENT'} is no list")
    return _object(text, start)


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise HookFileError("a key stands twice in one object: which of them counts is not ours to say")
    return found


def _object(text: str, start: int) -> list[_Item]:
    return _items(text, start, keyed=True)


def _array(text: str, start: int) -> list[_Item]:
    return _items(text, start, keyed=False)


def _items(text: str, start: int, *, keyed: bool) -> list[_Item]:
    """The items of the object or array that opens at `start`; the text was read as JSON before."""
    items: list[_Item] = []
    decoder, at = _decoder(), start + 1
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if text[at] in "}]":
            return items
        begin, key = at, ""
        if keyed:
            key, at = decoder.raw_decode(text, at)
            at = _SPACE.match(text, _SPACE.match(text, at).end() + 1).end()  # type: ignore[union-attr]
        value, end = decoder.raw_decode(text, at)
        items.append(_Item(key, begin, at, end, value))
        at = _SPACE.match(text, end).end()  # type: ignore[union-attr]
        at += text[at] == ","


def _member(text: str, items: Sequence[_Item], key: str) -> _Item | None:
    return next((one for one in items if one.key == key), None)

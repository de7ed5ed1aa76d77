"""Files of sessions that nobody would write by hand: duplicated, interleaved, torn, reordered, forked, without ids."""

import json
from typing import Any

from hypothesis import strategies as st

from tests.sessions.oracle_prices import MODELS

#: path in the folder -> content
Files = dict[str, bytes]


@st.composite
def claude_files(draw: st.DrawFn) -> Files:
    """One to three sessions and, of some, forks, sub-agents and copies of the whole file."""
    files: dict[str, list[bytes]] = {}
    serial = 0

    def fresh(what: str) -> str:
        nonlocal serial
        serial += 1
        return f"{what}-{serial:04d}"

    for number in range(draw(st.integers(1, 3))):
        session = f"{number:08d}-0000-4000-8000-000000000000"
        records = _claude_records(draw, session, number, fresh)
        files[f"projects/a/{session}.jsonl"] = _lines(draw, records)
        if draw(st.booleans()):
            agent = fresh("agent")
            inner = _claude_records(draw, session, number, fresh, agent=agent)
            files[f"projects/a/{session}/subagents/{agent}.jsonl"] = _lines(draw, inner)
        if draw(st.booleans()):
            fork = f"{number:08d}-ffff-4000-8000-000000000000"
            kept = records[: draw(st.integers(0, len(records)))]
            hint = {"sessionKind": "bg"} if draw(st.booleans()) else {}
            own = [{**record, **hint} for record in _claude_records(draw, fork, number, fresh)]
            copied = [{**record, "sessionId": fork} for record in kept]
            files[f"projects/b/{fork}.jsonl"] = _lines(draw, [*copied, *own])
        if draw(st.integers(0, 3)) == 0:
            files[f"copies/{session}.jsonl"] = files[f"projects/a/{session}.jsonl"]
        mains = sorted(path for path in files if path.startswith("projects/a/") and "/subagents/" not in path)
        if len(mains) > 1 and draw(st.integers(0, 2)) == 0:
            # two sessions write into one file, line by line
            one, other = mains[-2:]
            files[one] = _interleaved(draw, files[one], files[other])
    return {path: _torn(draw, lines) for path, lines in files.items()}


def _interleaved(draw: st.DrawFn, one: list[bytes], other: list[bytes]) -> list[bytes]:
    """Both in their own order."""
    first = draw(st.permutations([True] * len(one) + [False] * len(other)))
    mine, theirs = iter(one), iter(other)
    return [next(mine) if of_one else next(theirs) for of_one in first]


def _claude_records(draw: st.DrawFn, session: str, day: int, fresh: Any, agent: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    base: dict[str, Any] = {"sessionId": session, "version": "2.1.226", "cwd": "/srv/x"}
    if agent:
        base |= {"isSidechain": True, "agentId": agent}
    # not all start on the same day, and some stamps step back
    for _ in range(draw(st.integers(1, 6))):
        stamp = f"2026-03-{1 + draw(st.integers(0, 20)):02d}T10:00:{draw(st.integers(0, 59)):02d}.000Z"
        kind = draw(st.sampled_from(("call", "call", "call", "boundary", "synthetic", "zero", "user", "unknown")))
        if kind == "boundary" and not agent:
            meta = {"trigger": "auto", "preTokens": draw(st.integers(0, 200_000))}
            record = {"type": "system", "subtype": "compact_boundary", "uuid": fresh("b"), "compactMetadata": meta}
            found.append({**base, "timestamp": stamp, **record})
        elif kind == "user":
            message = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}
            found.append({**base, "timestamp": stamp, "type": "user", "uuid": fresh("u"), "message": message})
        elif kind == "unknown":
            found.append({**base, "timestamp": stamp, "type": draw(st.sampled_from(("frob", "mode")))})
        else:
            found += _claude_call(draw, {**base, "timestamp": stamp}, kind, fresh)
    return found


def _claude_call(draw: st.DrawFn, base: dict[str, Any], kind: str, fresh: Any) -> list[dict[str, Any]]:
    count = st.integers(0, 60_000)
    write, hour = draw(count), draw(st.sampled_from((0, 0, 500)))
    split = draw(st.sampled_from(("all", "hour", "none", "nested only")))
    usage: dict[str, Any] = {
        "input_tokens": draw(count),
        "cache_creation_input_tokens": 0 if split == "nested only" else write,
        "cache_read_input_tokens": draw(count),
    }
    if split != "none":
        short = write - hour if split == "all" and write >= hour else 0
        usage["cache_creation"] = {"ephemeral_5m_input_tokens": short, "ephemeral_1h_input_tokens": hour}
    if kind == "zero":
        usage |= {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    model = "<synthetic>" if kind == "synthetic" else draw(st.sampled_from(MODELS))
    message = {"role": "assistant", "model": model, "stop_reason": "end_turn"}
    ids: dict[str, Any] = {}
    named = draw(st.sampled_from(("both", "both", "message", "request", "uuid", "nothing")))
    if named in ("both", "message"):
        message["id"] = fresh("msg")
    if named in ("both", "request"):
        ids["requestId"] = fresh("req")
    output = 0 if kind == "zero" else draw(st.integers(1, 5_000))
    blocks = 1 if named in ("uuid", "nothing") else draw(st.integers(1, 3))
    found = []
    for number in range(blocks):
        # a placeholder first, the final figure in any of the later ones
        said = output if number == blocks - 1 else draw(st.sampled_from((output, min(output, 1))))
        content = [{"type": "text", "text": "x" * draw(st.integers(0, 5))}]
        used = {**usage, "output_tokens": said}
        if split != "nested only" and draw(st.integers(0, 3)) == 0:
            used.pop("cache_creation", None)  # this row does not know how the amount is split
        whole = {**message, "content": content, "usage": used}
        row = {**base, **ids, "type": "assistant", "uuid": fresh("a"), "message": whole}
        if named == "nothing":
            del row["uuid"]
        found.append(row)
    return found


@st.composite
def codex_files(draw: st.DrawFn) -> Files:
    """One or two threads, with counters that are said twice or begin anew, and forks that repeat their parent."""
    files: dict[str, list[bytes]] = {}
    for number in range(draw(st.integers(1, 2))):
        thread = f"thread-{number}"
        totals = _totals(draw, [], number)
        files[f"sessions/rollout-2026-03-0{number + 1}T10-00-00-{thread}.jsonl"] = _rollout(draw, thread, "", totals)
        if totals and draw(st.booleans()):
            child = f"child-{number}"
            kept = totals[: draw(st.integers(1, len(totals)))]
            # one own call at least, and never the parent's next one
            own = _totals(draw, kept, number, least=1, odd=True)
            name = f"sessions/rollout-2026-04-0{number + 1}T10-00-00-{child}.jsonl"
            files[name] = _rollout(draw, child, thread, own)
    return {path: _torn(draw, lines, broken=False) for path, lines in files.items()}


Total = tuple[int, int, int]


def _totals(draw: st.DrawFn, kept: list[Total], salt: int, least: int = 0, odd: bool = False) -> list[Total]:
    found = list(kept)
    for _ in range(draw(st.integers(least, 5))):
        last = found[-1] if found else (0, 0, 0)
        if last[0] > 10 and draw(st.integers(0, 5)) == 0:
            # the counter began anew: all of it fell
            side = draw(st.integers(1, last[0] - 1))
            found.append((side, draw(st.integers(0, min(side, last[1]))), draw(st.integers(0, last[2]))))
            continue
        side = 2 * draw(st.integers(3, 50_000)) + odd
        found.append((last[0] + side, last[1] + draw(st.integers(0, side)), last[2] + draw(st.integers(1, 900))))
    return found


def _rollout(draw: st.DrawFn, thread: str, parent: str, totals: list[Total]) -> list[bytes]:
    meta = {"id": thread, "timestamp": "2026-03-01T10:00:00.000Z", "cwd": "/srv/x", "source": "cli"}
    if parent:
        meta["forked_from_id"] = parent
    records = [{"timestamp": "2026-03-01T10:00:00.000Z", "type": "session_meta", "payload": meta}]
    for at, (side, cached, output) in enumerate(totals):
        if draw(st.integers(0, 2)) == 0:
            turn = {"turn_id": f"{thread}-{at}", "model": draw(st.sampled_from(MODELS)), "cwd": "/srv/x"}
            records.append({"timestamp": "2026-03-01T10:00:30.000Z", "type": "turn_context", "payload": turn})
        total = {
            "input_tokens": side,
            "cached_input_tokens": cached,
            "output_tokens": output,
            "reasoning_output_tokens": 0,
        }
        payload = {"type": "token_count", "info": {"total_token_usage": total}}
        record = {"timestamp": f"2026-03-01T10:01:{at:02d}.000Z", "type": "event_msg", "payload": payload}
        records += [record] * draw(st.integers(1, 2))
    return [json.dumps(record).encode() for record in records]


def _lines(draw: st.DrawFn, records: list[dict[str, Any]]) -> list[bytes]:
    """Lines of the records, some of them again, some out of order."""
    lines = [json.dumps(record).encode() for record in records]
    if lines and draw(st.booleans()):
        again = draw(st.lists(st.sampled_from(lines), max_size=3))
        lines += again
    if len(lines) > 1 and draw(st.integers(0, 3)) == 0:
        lines = draw(st.permutations(lines))
    return lines


def _torn(draw: st.DrawFn, lines: list[bytes], broken: bool = True) -> bytes:
    lines = list(lines)
    if broken and lines and draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(lines) - 1))
        # a line cut in the middle, glued to the next one
        lines[at : at + 2] = [b"".join(lines[at : at + 2])[draw(st.integers(1, 40)) :]]
    content = b"".join(line + b"\n" for line in lines)
    if draw(st.integers(0, 3)) == 0:
        content += b'{"type":"assistant","sess'
    return content

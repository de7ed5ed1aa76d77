"""A made-up tree of session files as Claude Code writes them: projects, sub-agents, one line per content block.

The same size gives the same bytes. Texts are made up; their lengths follow those of real files: most records are small,
tool results make up most of the bytes.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path

#: of a real tree: 200 MB in 87 files with 20,000 calls
BYTES_A_CALL = 10_000
CALLS_A_FILE = 230
LETTERS = "The reader keeps each line whole and counts it once; what it does not know it names. "


@dataclass(frozen=True, slots=True)
class Tree:
    """What was written: `tokens` of all calls by name of the usage field."""

    root: Path  # what CLAUDE_CONFIG_DIR would be
    files: int
    calls: int
    size: int
    tokens: dict[str, int]


def write(root: Path, size: int) -> Tree:
    """A tree of about `size` bytes under `root`/projects."""
    chance = random.Random(f"sessions {size}")
    calls_wanted = max(size // BYTES_A_CALL, 20)
    tokens = dict.fromkeys(
        ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"), 0
    )
    files = calls = written = 0
    while calls < calls_wanted:
        project = root / "projects" / f"-srv-project-{files % 7}"
        project.mkdir(parents=True, exist_ok=True)
        session = f"{chance.getrandbits(32):08x}-0000-4000-8000-{chance.getrandbits(48):012x}"
        count = min(CALLS_A_FILE, calls_wanted - calls)
        main = project / f"{session}.jsonl"
        written += write_session(main, session, count, tokens, chance, BYTES_A_CALL)
        files, calls = files + 1, calls + count
        if files % 4 == 0 and calls < calls_wanted:
            folder = project / session / "subagents"
            folder.mkdir(parents=True)
            few = min(CALLS_A_FILE // 4, calls_wanted - calls)
            agent = f"{chance.getrandbits(28):07x}"
            written += write_session(
                folder / f"agent-{agent}.jsonl", session, few, tokens, chance, BYTES_A_CALL, agent=agent
            )
            files, calls = files + 1, calls + few
    return Tree(root, files, calls, written, tokens)


def write_session(
    path: Path,
    session: str,
    calls: int,
    tokens: dict[str, int],
    chance: random.Random,
    bytes_a_call: int,
    *,
    agent: str = "",
) -> int:
    """One file with so many calls; `tokens` is added to. The bytes that were written."""
    head = (
        f'"isSidechain":{"true" if agent else "false"},"userType":"external","cwd":"/srv/project",'
        f'"sessionId":"{session}","version":"2.1.226","gitBranch":"main",' + (f'"agentId":"{agent}",' if agent else "")
    )
    resident, minute, written = 20_000, 0, 0
    parent = "null"
    with path.open("w") as out:

        def line(text: str) -> None:
            nonlocal written
            out.write(text + "\n")
            written += len(text) + 1

        for number in range(calls):
            minute += 1
            at = f"2026-05-{1 + minute // 1440 % 28:02d}T{minute // 60 % 24:02d}:{minute % 60:02d}:00"
            message = f"msg_{chance.getrandbits(64):016x}"
            if resident > 165_000:
                line(
                    f'{{"parentUuid":null,{head}"type":"system","subtype":"compact_boundary",'
                    f'"content":"Conversation compacted",'
                    f'"compactMetadata":{{"trigger":"auto","preTokens":{resident + 900}}},'
                    f'"uuid":"{_uuid(chance)}","timestamp":"{at}.100Z","level":"info"}}'
                )
                resident = 45_000
            grown = chance.randint(200, 2_000)
            usage = {
                "input_tokens": chance.randint(1, 12),
                "cache_creation_input_tokens": grown,
                "cache_read_input_tokens": resident,
                "output_tokens": chance.randint(20, 1_500),
            }
            resident += grown
            for name, value in usage.items():
                tokens[name] += value
            words = json.dumps(
                {
                    **usage,
                    "cache_creation": {"ephemeral_5m_input_tokens": grown, "ephemeral_1h_input_tokens": 0},
                    "service_tier": "standard",
                },
                separators=(",", ":"),
            )
            tool = f"toolu_{chance.getrandbits(64):016x}"
            share = bytes_a_call // 10
            for block in (
                f'{{"type":"text","text":"{_text(chance, share)}"}}',
                f'{{"type":"tool_use","id":"{tool}","name":"Read","input":{{"file_path":"/srv/project/f{number}.py"}}}}',
            ):
                uuid = _uuid(chance)
                line(
                    f'{{"parentUuid":{parent},{head}"type":"assistant","requestId":"req_{message[4:]}","uuid":"{uuid}",'
                    f'"timestamp":"{at}.200Z","message":{{"id":"{message}","type":"message","role":"assistant",'
                    f'"model":"claude-sonnet-4-5-20250929","content":[{block}],"stop_reason":"tool_use","stop_sequence":null,'
                    f'"usage":{words}}}}}'
                )
                parent = f'"{uuid}"'
            uuid = _uuid(chance)
            result = _text(chance, bytes_a_call - 3 * share)
            failed = ',"is_error":true' if chance.random() < 0.04 else ""
            line(
                f'{{"parentUuid":{parent},{head}"type":"user","uuid":"{uuid}","timestamp":"{at}.900Z","message":{{"role":"user",'
                f'"content":[{{"tool_use_id":"{tool}","type":"tool_result","content":"{result}"{failed}}}]}},'
                f'"toolUseResult":{{"type":"text","file":{{"numLines":{number}}}}}}}'
            )
            parent = f'"{uuid}"'
    return written


def _uuid(chance: random.Random) -> str:
    return f"{chance.getrandbits(32):08x}-1111-4000-8000-{chance.getrandbits(48):012x}"


def _text(chance: random.Random, size: int) -> str:
    """Of between half and one and a half times that many letters, with the escapes that real texts have."""
    wanted = chance.randint(size // 2, size + size // 2)
    return (LETTERS * (wanted // len(LETTERS) + 1))[:wanted].replace("; ", ";\\n").replace("names", '\\"names\\"')


def write_one(path: Path, size: int, bytes_a_call: int = BYTES_A_CALL) -> int:
    """One file of about `size` bytes; its size."""
    tokens = dict.fromkeys(
        ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"), 0
    )
    chance = random.Random(f"one {size}")
    return write_session(path, path.stem, max(size // bytes_a_call, 1), tokens, chance, bytes_a_call)

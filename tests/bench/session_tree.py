"""A made-up tree of session files as Claude Code writes them: projects, sub-agents, one line per content block.

The same size gives the same bytes. Texts are made up. Which records there are, how many for each call and how long
follows real files (sessions.md, 1, and the samples): most records are short, and tool results, which stand in their
record twice (for the model, and as `toolUseResult` for the screen), make up most of the bytes. A quarter of the
sessions is of a version that writes progress records. What came out is in `Tree.makeup`: a reader that is quick with
long results gains by fewer lines for each call, one that skips what it does not know by more of the short ones.
"""

import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

#: of a real tree: 200 MB in 87 files with 20,000 calls
BYTES_A_CALL = 10_000
CALLS_A_FILE = 230
LETTERS = "The reader keeps each line whole and counts it once; what it does not know it names. "
USAGE = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


@dataclass(frozen=True, slots=True)
class Tree:
    """What was written: `tokens` of all calls by name of the usage field, `makeup`: kind -> [lines, bytes]."""

    root: Path  # what CLAUDE_CONFIG_DIR would be
    files: int
    calls: int
    size: int
    tokens: dict[str, int]
    makeup: dict[str, list[int]]

    def said(self) -> str:
        """The make-up in words."""
        lines = sum(count for count, _ in self.makeup.values())
        results = self.makeup["tool result"][1]
        each = f"{lines / self.calls:.1f} lines and {self.size / self.calls / 1e3:.1f} kB a call"
        return f"{each}, {results / self.size:.0%} of them tool results"


def write(root: Path, size: int) -> Tree:
    """A tree of about `size` bytes under `root`/projects."""
    chance = random.Random(f"sessions {size}")
    calls_wanted = max(size // BYTES_A_CALL, 20)
    tokens = dict.fromkeys(USAGE, 0)
    makeup: dict[str, list[int]] = {}
    files = calls = 0
    while calls < calls_wanted:
        project = root / "projects" / f"-srv-project-{files % 7}"
        project.mkdir(parents=True, exist_ok=True)
        session = f"{chance.getrandbits(32):08x}-0000-4000-8000-{chance.getrandbits(48):012x}"
        count = min(CALLS_A_FILE, calls_wanted - calls)
        main = project / f"{session}.jsonl"
        write_session(main, session, count, tokens, chance, BYTES_A_CALL, makeup)
        files, calls = files + 1, calls + count
        if files % 4 == 0 and calls < calls_wanted:
            folder = project / session / "subagents"
            folder.mkdir(parents=True)
            few = min(CALLS_A_FILE // 4, calls_wanted - calls)
            agent = f"{chance.getrandbits(28):07x}"
            path = folder / f"agent-{agent}.jsonl"
            write_session(path, session, few, tokens, chance, BYTES_A_CALL, makeup, agent=agent)
            files, calls = files + 1, calls + few
    return Tree(root, files, calls, sum(size for _, size in makeup.values()), tokens, dict(sorted(makeup.items())))


@dataclass(slots=True)
class _File:
    """A session file that is being written: its head, its chain, and what it is made up of."""

    out: TextIO
    chance: random.Random
    session: str
    version: str
    agent: str
    makeup: dict[str, list[int]]
    parent: str = "null"
    at: str = ""
    head: str = field(init=False)

    def __post_init__(self) -> None:
        self.head = (
            f'"isSidechain":{"true" if self.agent else "false"},"userType":"external","cwd":"/srv/project",'
            f'"sessionId":"{self.session}","version":"{self.version}","gitBranch":"main",'
            + (f'"agentId":"{self.agent}",' if self.agent else "")
        )

    def line(self, kind: str, text: str) -> None:
        self.out.write(text + "\n")
        entry = self.makeup.setdefault(kind, [0, 0])
        entry[0] += 1
        entry[1] += len(text) + 1

    def chained(self, kind: str, second: str, more: str, parent: str | None = None) -> None:
        """A record with a uuid: `more`: its keys beside those that all have; `second` "2" = 200 ms into the minute."""
        uuid = _uuid(self.chance)
        self.line(
            kind,
            f'{{"parentUuid":{parent or self.parent},{self.head}{more},"uuid":"{uuid}",'
            f'"timestamp":"{self.at}.{second}00Z"}}',
        )
        self.parent = f'"{uuid}"'


def write_session(
    path: Path,
    session: str,
    calls: int,
    tokens: dict[str, int],
    chance: random.Random,
    bytes_a_call: int,
    makeup: dict[str, list[int]],
    *,
    agent: str = "",
) -> None:
    """One file with so many calls; `tokens` and `makeup` are added to."""
    old = chance.random() < 0.25
    with path.open("w") as out:
        file = _File(out, chance, session, "2.1.20" if old else "2.1.226", agent, makeup)
        resident = 20_000
        for minute in range(1, calls + 1):
            file.at = f"2026-05-{1 + minute // 1440 % 28:02d}T{minute // 60 % 24:02d}:{minute % 60:02d}:00"
            if resident > 165_000:
                file.chained(
                    "system",
                    "1",
                    '"type":"system","subtype":"compact_boundary","content":"Conversation compacted","level":"info",'
                    f'"compactMetadata":{{"trigger":"auto","preTokens":{resident + 900}}}',
                    "null",
                )
                resident = 45_000
            resident += _call(file, minute, resident, tokens, bytes_a_call, old)


def _call(file: _File, number: int, resident: int, tokens: dict[str, int], bytes_a_call: int, old: bool) -> int:
    """The records of one call and of what comes with it; how much the window grew."""
    chance = file.chance
    # beside a call: what the user says, what the program notes, what it puts before the model
    if chance.random() < 0.1:
        said = _text(chance, bytes_a_call // 25)
        file.chained("user text", "1", f'"type":"user","message":{{"role":"user","content":"{said}"}}')
        for kind, name in (("last-prompt", "lastPrompt"), ("ai-title", "aiTitle"), ("mode", "mode")):
            file.line("short notes", f'{{"type":"{kind}","{name}":"{_text(chance, 60)}","sessionId":"{file.session}"}}')
        file.line(
            "short notes",
            f'{{"type":"file-history-snapshot","messageId":"{_uuid(chance)}","snapshot":{{"trackedFileBackups":{{}}}},'
            f'"isSnapshotUpdate":false}}',
        )
        file.chained(
            "system", "1", f'"type":"system","subtype":"turn_duration","durationMs":{number * 97},"isMeta":false'
        )
    if chance.random() < 0.3:
        file.chained(
            "attachment",
            "1",
            '"type":"attachment","attachment":{"type":"hook_success","hookName":"PostToolUse:Read","hookEvent":'
            f'"PostToolUse","content":"{_text(chance, 120)}","exitCode":0}}',
        )
    grown = chance.randint(200, 2_000)
    usage = dict(zip(USAGE, (chance.randint(1, 12), grown, resident, chance.randint(20, 1_500)), strict=True))
    for name, value in usage.items():
        tokens[name] += value
    split = {"ephemeral_5m_input_tokens": grown, "ephemeral_1h_input_tokens": 0}
    words = json.dumps({**usage, "cache_creation": split, "service_tier": "standard"}, separators=(",", ":"))
    message, tool = f"msg_{chance.getrandbits(64):016x}", f"toolu_{chance.getrandbits(64):016x}"
    share = bytes_a_call // 16
    name, asked = _tool(chance, number)
    blocks = [
        f'{{"type":"text","text":"{_text(chance, share)}"}}',
        f'{{"type":"tool_use","id":"{tool}","name":"{name}","input":{{{asked}}}}}',
    ]
    if chance.random() < 0.3:
        signed = f"{chance.getrandbits(1024):0256x}"
        blocks.insert(0, f'{{"type":"thinking","thinking":"{_text(chance, share)}","signature":"{signed}"}}')
    for block in blocks:
        file.chained(
            "assistant",
            "2",
            f'"type":"assistant","requestId":"req_{message[4:]}","message":{{"id":"{message}","type":"message",'
            f'"role":"assistant","model":"claude-sonnet-4-5-20250929","content":[{block}],"stop_reason":"tool_use",'
            f'"stop_sequence":null,"usage":{words}}}',
        )
    if old:
        file.chained(
            "progress",
            "5",
            '"type":"progress","data":{"type":"hook_progress","hookEvent":"PostToolUse","hookName":"PostToolUse:Read",'
            f'"command":"{_text(chance, 100)}"}},"parentToolUseID":"{tool}","toolUseID":"{tool}"',
        )
    result = _text(chance, bytes_a_call * 5 // 16)
    failed = ',"is_error":true' if chance.random() < 0.04 else ""
    file.chained(
        "tool result",
        "9",
        f'"type":"user","message":{{"role":"user","content":[{{"tool_use_id":"{tool}","type":"tool_result",'
        f'"content":"{result}"{failed}}}]}},"toolUseResult":{{"type":"text","file":{{"filePath":"/srv/project/f{number}.py",'
        f'"content":"{result}","numLines":{number},"startLine":1,"totalLines":{number}}}}}',
    )
    return grown


def _tool(chance: random.Random, number: int) -> tuple[str, str]:
    """A tool's name and what it is asked, about as often as agents ask for it: to read, to run, to write."""
    kind = chance.random()
    path = f'"file_path":"/srv/project/f{number if kind < 0.4 else number % 40}.py"'
    if kind < 0.4:
        return "Read", path
    if kind < 0.8:
        command = "git commit -qm 'Step'" if kind < 0.42 else f"python -m pytest -q tests/test_f{number}.py"
        return "Bash", f'"command":"{command}","description":"{_text(chance, 40)}"'
    if kind < 0.95:
        return "Edit", f'{path},"old_string":"{_text(chance, 100)}","new_string":"{_text(chance, 140)}"'
    return "Write", f'{path},"content":"{_text(chance, 900)}"'


def _uuid(chance: random.Random) -> str:
    return f"{chance.getrandbits(32):08x}-1111-4000-8000-{chance.getrandbits(48):012x}"


def _text(chance: random.Random, size: int) -> str:
    """Of between half and one and a half times that many letters, with the escapes that real texts have."""
    wanted = chance.randint(size // 2, size + size // 2)
    return (LETTERS * (wanted // len(LETTERS) + 1))[:wanted].replace("; ", ";\\n").replace("names", '\\"names\\"')


def write_one(path: Path, size: int, bytes_a_call: int = BYTES_A_CALL) -> int:
    """One file of about `size` bytes; its size."""
    chance = random.Random(f"one {size}")
    makeup: dict[str, list[int]] = {}
    write_session(path, path.stem, max(size // bytes_a_call, 1), dict.fromkeys(USAGE, 0), chance, bytes_a_call, makeup)
    return sum(written for _, written in makeup.values())

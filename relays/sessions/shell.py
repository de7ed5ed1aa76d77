"""What a shell command that an agent ran durably did: commits that git printed, issues that it named.

Mission, phase 0: the would-be baton is projected from what the session durably did. Only the session's own tool calls
are read: a commit is one that git reports in the command's output, never one that a text only mentions.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal

from relays.core.meter import ActKind

#: a commit's lines stand at the output's beginning or end; more is not searched
_SEARCHED: Final = 32 * 1024
_MOST: Final = 50

_COMMITTED: Final = re.compile(r"^\[[^\]\n]{1,200}? ([0-9a-f]{7,40})\] ", re.MULTILINE)
_PUSHED: Final = re.compile(r"^[ +*]? *[0-9a-f]{7,40}\.{2,3}([0-9a-f]{7,40}) +\S+ +-> ", re.MULTILINE)
_GH: Final = re.compile(r"\bgh\s+(?:issue|pr)\s+[a-z-]+\s+(?:--?[\w-]+(?:[= ]\S+)?\s+)*#?(\d{1,9})\b")
_REPOSITORY: Final = re.compile(r"(?:--repo|-R)[= ]+([\w.-]{1,100}/[\w.-]{1,100})")
_ADDRESS: Final = re.compile(r"https://[\w.-]+/([\w.-]{1,100}/[\w.-]{1,100})/(?:issues|pull)/(\d{1,9})\b")
_NUMBER: Final = re.compile(r"(?<![\w&/])#(\d{1,9})\b")

Interest = Literal["", "git", "gh"]


def interest(command: str) -> Interest:
    """Whether the command and its output are worth looking at: "git" = commits or pushes, "gh" = names issues."""
    if "git" in command and ("commit" in command or "push" in command):
        return "git"
    return "gh" if "gh " in command and ("issue" in command or "pr " in command) else ""


def command_of(value: object) -> str:
    """The command line of a tool's argument: a text, or a list of words."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return " ".join(word for word in value if isinstance(word, str))
    return ""


def named(command: str) -> Iterator[tuple[ActKind, str]]:
    """Issues that the command itself names: `#12`, `owner/name#12`."""
    what = interest(command)
    if what == "gh":
        repository = _REPOSITORY.search(command)
        for found in list(_GH.finditer(command))[:_MOST]:
            yield "issue", f"{repository[1] if repository else ''}#{found[1]}"
    elif what == "git":
        for found in list(_NUMBER.finditer(command[:_SEARCHED]))[:_MOST]:
            yield "issue", f"#{found[1]}"


def printed(what: Interest, output: str) -> Iterator[tuple[ActKind, str]]:
    """What the output of a command with this interest reports as done."""
    if len(output) > 2 * _SEARCHED:
        output = f"{output[:_SEARCHED]}\n{output[-_SEARCHED:]}"
    if what == "git":
        for pattern in (_COMMITTED, _PUSHED):
            for found in list(pattern.finditer(output))[:_MOST]:
                yield "commit", found[1]
    elif what == "gh":
        for found in list(_ADDRESS.finditer(output))[:_MOST]:
            yield "issue", f"{found[1]}#{found[2]}"

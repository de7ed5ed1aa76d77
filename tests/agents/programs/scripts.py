"""What the scripted model does in a relay's leg: real edits and commits through a program's own shell."""

import shlex
from typing import Any

from tests.agents.model import Step

_CLOSE = (
    "import json, pathlib; path = pathlib.Path('.relay/issues.jsonl'); "
    "rows = [json.loads(line) for line in path.read_text().splitlines()]; "
    "[row.update(state='closed') for row in rows if row['number'] == {number}]; "
    "path.write_text(''.join(json.dumps(row) + chr(10) for row in rows))"
)
GIT = "git -c user.name=Agent -c user.email=agent@example.invalid"


def close_issue(number: int) -> str:
    """The command line that writes a page, closes the issue's row and commits both."""
    edit = shlex.quote(_CLOSE.format(number=number))
    commit = f"{GIT} commit -qm 'Close #{number}'"
    return f"mkdir -p work && echo done > work/{number}.md && python3 -c {edit} && git add -A && {commit}"


def close(number: int, **more: Any) -> Step:
    return {"text": f"Issue {number}.", "shell": close_issue(number), **more}


def tangle(number: int) -> str:
    """Work on an issue that is not committed."""
    return f"mkdir -p work && echo half > work/{number}.md"

"""Secrets of a leg, taken out of whatever its agent says before it is kept: in files, in the database, on pages.

Issue: "secrets never in logs or the database". Two nets: the values themselves, of each variable with a secret's name
that the agent was given, wherever they stand; and the shapes of `core/redact`. What is replaced is text within a JSON
string or a line of a log, so that the line stays what it was.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from relays.core.redact import redact, redact_sure

#: words in the name of a variable whose value nobody may read
_NAME: Final = re.compile(
    r"KEY|TOKEN|SECRET|PASS(?:WORD|WD|PHRASE)?(?:_|\Z)|CREDENTIAL|(?:\A|_)AUTH|COOKIE|WEBHOOK|DSN|DATABASE_URL"
)
_LEAST: Final = 8  # characters of a value; a shorter one would take innocent words with it
_LONGEST: Final = 4096  # bytes of a line in which shapes are looked for
_LEG_TOKEN: Final = "RELAY_TOKEN"  # noqa: S105 (the name of a variable)
#: what a shape of a secret begins or stands with: a line without any of them is not looked at again
_HINT: Final = re.compile(
    rb"PRIVATE KEY|[sprk]k[-_]|gh[pousr]_|github_pat_|gl[a-z]+-|xox[a-z]-|npm_|pypi-|hf_|dop_v1_|A[KSB][IC]A|AIza|ya29"
    rb"|eyJ|[Bb]earer|[Bb]asic|://|hooks\.slack|/api/webhooks"
)
_NAMED: Final = re.compile(
    rb"pass(?:word|wd|phrase)|secret|token|(?:api|access|private)[_-]?key|credential", re.IGNORECASE
)


class Withheld:
    """`env`: what the agent is given. Lines and logs come out without the secrets in it."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self._values: list[tuple[bytes, bytes, bool]] = []
        for name, value in sorted((env or {}).items(), key=lambda one: -len(one[1])):
            if _secret(name, value):
                word = f"[redacted: {name}]".encode()
                for spelled in _spellings(value):
                    self._values.append((spelled, word, name == _LEG_TOKEN))

    def line(self, line: bytes, *, query: bool = False) -> bytes:
        """One line that an agent said, JSON or not. `query`: a use of the query tool, which holds the leg's token."""
        line = self._without_values(line, but_token=query)
        if not _HINT.search(line):
            return line
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            return _text(line, redact_sure)
        if not isinstance(said, dict):
            return _text(line, redact_sure)
        kept = {key: value if query and key == "token" else _record(value) for key, value in said.items()}
        return line if kept == said else json.dumps(kept, ensure_ascii=False, separators=(",", ":")).encode()

    def log(self, data: bytes) -> bytes:
        """Whole lines of a log."""
        data = self._without_values(data)
        if not _HINT.search(data) and not _NAMED.search(data):
            return data
        return b"".join(map(_cleaned, data.splitlines(keepends=True)))

    def _without_values(self, data: bytes, *, but_token: bool = False) -> bytes:
        for spelled, word, token in self._values:
            if spelled in data and not (token and but_token):
                data = data.replace(spelled, word)
        return data


def of_names(names: Iterable[str], source: Mapping[str, str] | None = None) -> Withheld:
    """For an agent that was started before: its variables as they are now. Its own token is not known any more."""
    ours = os.environ if source is None else source
    return Withheld({name: ours[name] for name in names if name in ours})


def _secret(name: str, value: str) -> bool:
    if len(value) < _LEAST or (name.startswith("RELAY_") and name != _LEG_TOKEN):
        return False
    # a file that holds a secret is named, not shown
    return bool(_NAME.search(name.upper())) and not os.path.isabs(value)


def _spellings(value: str) -> list[bytes]:
    """A value as it stands in text and in JSON strings."""
    forms = [value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]]
    return [form.encode("utf-8", "surrogateescape") for form in dict.fromkeys(forms)]


def _text(data: bytes, cleaned: Any) -> bytes:
    """Bytes that are no UTF-8 stay as they are."""
    return str(cleaned(data.decode("utf-8", "surrogateescape"))).encode("utf-8", "surrogateescape")


def _cleaned(line: bytes) -> bytes:
    if len(line) <= _LONGEST and _NAMED.search(line):
        return _text(line, redact)
    return _text(line, redact_sure) if _HINT.search(line) else line


def _record(value: Any, depth: int = 0) -> Any:
    if isinstance(value, str):
        return redact_sure(value)
    if depth >= 64:
        return value
    if isinstance(value, list):
        return [_record(one, depth + 1) for one in value]
    if isinstance(value, dict):
        return {key: _record(one, depth + 1) for key, one in value.items()}
    return value

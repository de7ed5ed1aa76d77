"""Secrets taken out of a text before it is kept or shown.

Issue "Sessions in": texts of sessions are not stored, "unless a site setting says otherwise; then with secrets
redacted". No list of shapes is complete: what is promised is that each shape below goes, that nothing else of the text
changes, and that a redacted text is redacted for good (a second pass changes nothing).
"""

import re
from collections.abc import Callable
from typing import Any

_WORD = r"(?<![A-Za-z0-9_])"
_WORDS = r"(?:password|passwd|passphrase|secret|token|(?:api|access|private)[_-]?key|credential)s?"
_NAME = r"[A-Za-z0-9_.\-]{0,60}" + _WORDS

#: kind, and what of a match is the secret: the group `s`, else all of it
_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "private key",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}-----|\Z)"
        ),
    ),
    ("key", re.compile(_WORD + r"(?:sk|pk|rk)[-_](?:ant|proj|live|test|or|svcacct)?[-_A-Za-z0-9]{16,}")),
    ("token", re.compile(_WORD + r"(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})")),
    ("token", re.compile(_WORD + r"gl(?:pat|dt|rt|cbt|ptt|ft|oas|soat)-[A-Za-z0-9_\-.]{16,}")),
    ("token", re.compile(_WORD + r"xox[a-z]-[A-Za-z0-9-]{10,}")),
    (
        "token",
        re.compile(
            _WORD + r"(?:npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{30,}|dop_v1_[a-f0-9]{40,})"
        ),
    ),
    ("key", re.compile(_WORD + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])")),
    ("key", re.compile(_WORD + r"AIza[A-Za-z0-9_\-]{30,}")),
    ("token", re.compile(_WORD + r"ya29\.[A-Za-z0-9_\-]{20,}")),
    ("token", re.compile(_WORD + r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*")),
    ("credentials", re.compile(r"\b(?:bearer|basic)\s+(?P<s>[A-Za-z0-9+/_\-.~=]{12,})", re.IGNORECASE)),
    (
        "password",
        re.compile(r"\b[a-z][a-z0-9+.\-]{1,20}://[^\s/:@'\"<>]{0,200}:(?P<s>[^\s@'\"<>]{1,200})@", re.IGNORECASE),
    ),
    (
        "webhook",
        re.compile(
            r"https://(?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api/webhooks)/(?P<s>[^\s'\"<>]+)"
        ),
    ),
    # NAME=value, "name": "value", --name value: the value, whatever it is. What stands before the word in its name is
    # not looked at: a line of dashes would be tried at each of them. A text may end within the quotes
    (
        "value",
        re.compile(
            rf"{_WORDS}[\"']?\s{{0,3}}(?:[:=]\s{{0,3}}|(?<=[a-z])\s(?=[\"'A-Za-z0-9+/_-]{{12,}}(?:\s|$)))"
            r"(?:\"(?P<d>(?:[^\"\\\n]|\\.){4,})(?:\"|(?=\\?(?:\n|\Z)))|'(?P<q>[^'\n]{4,})'|(?P<s>[^\s\"',;)}\]&]{6,}))",
            re.IGNORECASE,
        ),
    ),
)
#: values that name a secret instead of being one
_HARMLESS = re.compile(
    r"\[redacted: .*|\$.*|%.*%|<.*>|\{.*|\*+|x+|none|null|true|false|undefined|required|optional"
    r"|string|str|int|process\.env.*|os\.environ.*|[A-Za-z_.]+\(.*|\d{1,9}",
    re.IGNORECASE | re.DOTALL,
)


#: shapes that only a secret has; the last, NAME=value, also takes a word of plain language
_SURE: tuple[tuple[str, re.Pattern[str]], ...] = tuple(one for one in _SHAPES if one[0] != "value")


def redact(text: str) -> str:
    """`text` with each secret of a known shape replaced by `[redacted: kind]`; idempotent."""
    return _redacted(text, _SHAPES)


def redact_sure(text: str) -> str:
    """The same with only the shapes that nothing but a secret has: for words that must stay of use."""
    return _redacted(text, _SURE)


def _redacted(text: str, shapes: tuple[tuple[str, re.Pattern[str]], ...]) -> str:
    for kind, shape in shapes:
        text = shape.sub(_replacer(kind), text)
    return text


_SECRET_KEY = re.compile(_NAME, re.IGNORECASE)
_DEEPEST = 200  # levels of one record that are looked into; what lies deeper is left out


def redact_record(record: Any, depth: int = 0) -> Any:
    """A JSON value with the secrets of its texts replaced; the text under a key that names a secret goes whole."""
    if isinstance(record, str):
        return redact(record)
    if isinstance(record, list | dict) and depth >= _DEEPEST:
        return "[left out: too deep]"
    if isinstance(record, list):
        return [redact_record(one, depth + 1) for one in record]
    if isinstance(record, dict):
        return {
            redact(key): "[redacted: value]"
            if isinstance(value, str) and _SECRET_KEY.fullmatch(key) and not _HARMLESS.fullmatch(value)
            else redact_record(value, depth + 1)
            for key, value in record.items()
        }
    return record


def _replacer(kind: str) -> Callable[[re.Match[str]], str]:
    def replaced(match: re.Match[str]) -> str:
        for name in ("s", "d", "q"):
            secret = match.groupdict().get(name)
            if secret is not None:
                if _HARMLESS.fullmatch(secret):
                    return match.group()
                start, end = match.start(name) - match.start(), match.end(name) - match.start()
                return f"{match.group()[:start]}[redacted: {kind}]{match.group()[end:]}"
        return f"[redacted: {kind}]"

    return replaced

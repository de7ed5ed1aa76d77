"""Why a text is no TOML, no JSON or no command line: what the readers of Python say of it, as sentences.

Interface: "all texts translatable (English first)". Their English is kept word for word, and what is quoted in it is
one line; what they say beyond these rows is quoted as it is.
"""

import re
from typing import Final

from relays.core.pointers import one_line
from relays.core.sentences import Sentence, phrase, quoted

MOST_BYTES: Final = 250
#: what tomllib, int, json and shlex say; `%(what)s` stands for what they quote
SAID: Final[tuple[Sentence, ...]] = (
    phrase("Invalid statement"),
    phrase("Expected newline or end of document after a statement"),
    phrase("Found invalid character %(what)s", what=""),
    phrase("Cannot declare %(what)s twice", what=""),
    phrase("Cannot overwrite a value"),
    phrase("Cannot mutate immutable namespace %(what)s", what=""),
    phrase("Cannot redefine namespace %(what)s", what=""),
    phrase("Expected ']' at the end of a table declaration"),
    phrase("Expected ']]' at the end of an array declaration"),
    phrase("Expected '=' after a key in a key/value pair"),
    phrase("Expected %(what)s", what=""),
    phrase("Invalid initial character for a key part"),
    phrase("Unclosed array"),
    phrase("Unclosed inline table"),
    phrase("Duplicate inline table key %(what)s", what=""),
    phrase("Unescaped '\\' in a string"),
    phrase("Invalid hex value"),
    phrase("Escaped character is not a Unicode scalar value"),
    phrase("Unterminated string"),
    phrase("Illegal character %(what)s", what=""),
    phrase("Invalid date or datetime"),
    phrase("Invalid value"),
    phrase(
        "Exceeds the limit (%(most)s digits) for integer string conversion: value has %(digits)s digits; use "
        "sys.set_int_max_str_digits() to increase the limit",
        most="",
        digits="",
    ),
    phrase("Expecting value"),
    phrase("Expecting ':' delimiter"),
    phrase("Expecting ',' delimiter"),
    phrase("Expecting property name enclosed in double quotes"),
    phrase("Illegal trailing comma before end of array"),
    phrase("Illegal trailing comma before end of object"),
    phrase("Extra data"),
    phrase("Invalid control character at"),
    phrase("Invalid \\escape: "),
    phrase("Invalid \\uXXXX escape"),
    phrase("Unterminated string starting at"),
    phrase("maximum recursion depth exceeded while decoding a JSON array from a unicode string"),
    phrase("maximum recursion depth exceeded while decoding a JSON object from a unicode string"),
    phrase("No closing quotation"),
    phrase("No escaped character"),
)
_PLACES: Final[tuple[Sentence, ...]] = (
    phrase("%(why)s (at line %(line)s, column %(column)s)", why="", line="", column=""),
    phrase("%(why)s (at end of document)", why=""),
    phrase("%(why)s: line %(line)s column %(column)s (char %(char)s)", why="", line="", column="", char=""),
)


def why(error: Exception) -> Sentence:
    """What the error of a reader says."""
    text = str(error)
    for form in _PLACES:
        if found := _form(form).fullmatch(text):
            values = found.groupdict()
            return Sentence(form.text, {**values, "why": _said(values["why"])})
    return _said(text)


def _said(text: str) -> Sentence:
    for form in SAID:
        if found := _form(form).fullmatch(text):
            return Sentence(form.text, {name: one_line(value, MOST_BYTES) for name, value in found.groupdict().items()})
    return quoted(one_line(text, MOST_BYTES))


def _form(said: Sentence) -> re.Pattern[str]:
    parts = re.split(r"%\((\w+)\)s", said.text)
    return re.compile(
        "".join(f"(?P<{part}>.*)" if at % 2 else re.escape(part) for at, part in enumerate(parts)), re.DOTALL
    )

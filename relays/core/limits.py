"""The values that a policy key takes: counts, marks, durations, money, each from TOML, JSON or `--set key=value`.

Every parser raises RuleError with one line that says what is taken; none takes a boolean for a number, a negative
amount, or anything that is not finite.
"""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

from relays.core.remote import address
from relays.core.sentences import RuleError, phrase

_LARGEST_COUNT = 10**15
_LONGEST = timedelta(days=3660)
_MONEY_PLACES = 10


def count(value: object, least: int = 0) -> int:
    """A whole number, at least `least`; text of digits too."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,16}", value.strip()):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise RuleError(phrase("must be a whole number"))
    if not least <= value <= _LARGEST_COUNT:
        raise RuleError(phrase("must be between %(least)s and %(most)s", least=least, most=_LARGEST_COUNT))
    return value


def positive(value: object) -> int:
    """A whole number from 1 on."""
    return count(value, least=1)


def _mark(value: object) -> float:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,12})?|\.[0-9]{1,12}", value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RuleError(phrase("must be a number above 0 and at most 1"))
    if not 0 < value <= 1:  # NaN is refused here too
        raise RuleError(phrase("must be above 0 and at most 1"))
    return float(value)


_UNITS = {
    **dict.fromkeys(("s", "sec", "second"), 1),
    **dict.fromkeys(("m", "min", "minute"), 60),
    **dict.fromkeys(("h", "hour"), 3600),
    **dict.fromkeys(("d", "day"), 86400),
}
_DURATION_PART = re.compile(r"\s*([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([a-z]+)", re.IGNORECASE)
_DURATION_HELP = phrase("must be a duration such as 15 min, 90s, 2h or 1h30m, or a number of seconds")
_TOO_LONG = phrase("must be between 0 and ten years")


def parse_duration(value: object) -> timedelta:
    """`15 min`, `10m`, `2h`, `90s`, `1h30m`, `30 days`, or a number of seconds; not negative, at most ten years."""
    if isinstance(value, timedelta):
        duration = value
    elif isinstance(value, str):
        duration = _duration_text(value.strip())
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise RuleError(_DURATION_HELP)
    elif not 0 <= value <= _LONGEST.total_seconds():  # before timedelta, which overflows
        raise RuleError(_TOO_LONG)
    else:
        duration = timedelta(seconds=value)
    if not timedelta(0) <= duration <= _LONGEST:
        raise RuleError(_TOO_LONG)
    return duration


def _duration_text(text: str) -> timedelta:
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,6})?", text):
        text += "s"
    if not re.fullmatch(rf"(?:{_DURATION_PART.pattern})+", text, re.IGNORECASE):
        raise RuleError(_DURATION_HELP)
    micros = sum(Decimal(number) * _unit(word) * 1_000_000 for number, word in _DURATION_PART.findall(text))
    if micros > _LONGEST / timedelta(microseconds=1):
        raise RuleError(_TOO_LONG)
    return timedelta(microseconds=int(micros))


def _unit(word: str) -> int:
    word = word.lower()
    unit = _UNITS.get(word) or _UNITS.get(word[:-1] if len(word) > 2 else "")  # seconds, mins, hours, days
    if unit is None:
        raise RuleError(_DURATION_HELP)
    return unit


def format_duration(duration: timedelta) -> str:
    """The exact, shortest form that `parse_duration` reads: `15m`, `1h30m`, `0.5s`."""
    seconds, text = duration.days * 86400 + duration.seconds, ""
    for name, unit in (("d", 86400), ("h", 3600), ("m", 60)):
        whole, seconds = divmod(seconds, unit)
        text += f"{whole}{name}" if whole else ""
    if seconds or duration.microseconds or not text:
        part = f".{duration.microseconds:06d}".rstrip("0") if duration.microseconds else ""
        text += f"{seconds}{part}s"
    return text


def _positive_duration(value: object) -> timedelta:
    duration = parse_duration(value)
    if not duration:
        raise RuleError(phrase("must be longer than 0"))
    return duration


_MONEY_HELP = phrase(
    "must be an amount of money such as 25 or 2.50, with at most %(places)s decimal places", places=_MONEY_PLACES
)


def _money(value: object) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise RuleError(_MONEY_HELP)
    # a float says what it shows; 1e+2 becomes 100, so that the snapshot gives the same text again
    text = value.strip() if isinstance(value, str) else format(Decimal(str(value)), "f")
    if not re.fullmatch(rf"[0-9]{{1,10}}(\.[0-9]{{1,{_MONEY_PLACES}}})?", text):
        raise RuleError(_MONEY_HELP)
    return Decimal(text)


def _positive_money(value: object) -> Decimal:
    amount = _money(value)
    if not amount:
        raise RuleError(phrase("must be above 0"))
    return amount


def _truth(value: object) -> bool:
    known = {"true": True, "false": False, True: True, False: False}
    if isinstance(value, bool | str) and value in known:
        return known[value]
    raise RuleError(phrase("must be true or false"))


def _folder(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise RuleError(phrase("must be a folder inside the repository"))
    path = value.strip().rstrip("/")
    hostile = not path.isprintable() or path.startswith(("/", "-", "~")) or "\\" in path or len(path) > 500
    if not path or hostile or {"..", ".git"} & set(path.split("/")):
        raise RuleError(phrase("must be a relative path inside the repository, without .. in it"))
    return path


def _command(value: object) -> str:
    if not isinstance(value, str) or len(value) > 2000 or any(not char.isprintable() for char in value):
        raise RuleError(phrase("must be one line of text, at most 2000 characters"))
    return value.strip()


_TOOLS_MOST = 64


def _tools(value: object) -> tuple[str, ...]:
    """Names or globs, as a list or as one text with commas."""
    named = (value.split(",") if value.strip() else []) if isinstance(value, str) else value
    if not isinstance(named, list | tuple) or len(named) > _TOOLS_MOST:
        raise RuleError(phrase("must be a list of at most %(most)s names of tools", most=_TOOLS_MOST))
    found: list[str] = []
    for one in named:
        name = one.strip() if isinstance(one, str) else ""
        if not 0 < len(name) <= 200 or not name.isprintable() or set(name) & set(" []"):
            raise RuleError(phrase("must be names of tools, such as Bash, with * for any letters and no blank in them"))
        found.append(name)
    return tuple(dict.fromkeys(found))


def _unset(value: object) -> object:
    return None if isinstance(value, str) and value.strip().lower() in {"none", "unset"} else value


_as_text = PlainSerializer(format_duration, return_type=str, when_used="json")
_as_money = PlainSerializer(lambda amount: format(amount, "f"), return_type=str, when_used="json")

Count = Annotated[int, BeforeValidator(count)]
Positive = Annotated[int, BeforeValidator(positive)]
Mark = Annotated[float, BeforeValidator(_mark)]
Wait = Annotated[timedelta, BeforeValidator(parse_duration), _as_text]
Duration = Annotated[timedelta, BeforeValidator(_positive_duration), _as_text]
Money = Annotated[Decimal, BeforeValidator(_money), _as_money]
PositiveMoney = Annotated[Decimal, BeforeValidator(_positive_money), _as_money]
Truth = Annotated[bool, BeforeValidator(_truth)]
Folder = Annotated[str, BeforeValidator(_folder)]
Command = Annotated[str, BeforeValidator(_command)]
Address = Annotated[str, BeforeValidator(address)]
Tools = Annotated[tuple[str, ...], BeforeValidator(_tools)]
Unset = BeforeValidator(_unset)  # the word `none` means: no limit

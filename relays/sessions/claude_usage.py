"""Token counts of a Claude Code row, and whether its output figure is final.

sessions.md, 1, "Dedup rule": the cache creation of a row is the larger one of its total and of its two lifetimes
together; what the lifetimes leave of the total is a 5-minute write (cost.md, Usage).
"""

from typing import Any, Final

from relays.core.meter import AnomalyKind, Extract
from relays.core.usage import Buckets
from relays.sessions.claude_known import USAGE_KEYS, WRITE_KEYS
from relays.sessions.fields import TOKENS_MAX, text, tokens

#: from this version on, every row of a call has its final output
FINAL_SINCE: Final = (2, 1, 125)
SYNTHETIC: Final = "<synthetic>"


class Usage:
    """Turns `usage` objects into buckets; remembers the last one, for the rows of a call repeat theirs."""

    def __init__(self) -> None:
        self._last: dict[str, Any] | None = None
        self._result: tuple[Buckets, int] | None = None
        self._versions: dict[str, bool] = {}
        self._odd = Extract()

    def same(self, usage: object) -> bool:
        """Whether it is, figure by figure, the object that was read before this one, and nothing was odd about it."""
        return self._last is not None and usage == self._last

    def read(self, usage: object, out: Extract, session: str, line: int) -> tuple[Buckets, int] | None:
        """(buckets, reasoning part of the output); None where there is no usage, or all four of its kinds are 0.

        Such a row is a copy or a placeholder: what it nests is never counted. Unknown keys and impossible figures are
        noted in `out`.
        """
        if not isinstance(usage, dict):
            return None
        odd = self._odd
        result = _read(usage, odd, session, line)
        self._last, self._result = usage, result
        if odd.anomalies:
            for anomaly in odd.anomalies.values():
                out.note(anomaly.kind, anomaly.session, anomaly.line, anomaly.detail, anomaly.count)
            self._odd, self._last = Extract(), None  # an odd one is read, and noted, every time
        return result

    def placeholder(self, version: object, stop_reason: object) -> bool:
        """Whether the output of such a row is only a lower bound.

        Before 2.1.125 rows were written while the answer streamed: only one that knows why the answer stopped has
        the final figure. A version that is missing or cannot be read counts as an old one.
        """
        if stop_reason:
            return False
        if not isinstance(version, str):
            return True
        known = self._versions.get(version)
        if known is None:
            if len(self._versions) > 64:
                self._versions.clear()
            known = self._versions[version] = _version(version) < FINAL_SINCE
        return known


_KINDS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
_WRITES: Final = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
#: keys in their order, all of them known
_KNOWN: Final[set[tuple[str, ...]]] = set()


def _read(usage: dict[str, Any], out: Extract, session: str, line: int) -> tuple[Buckets, int] | None:
    shape = tuple(usage)
    if shape not in _KNOWN:
        unknown = sorted(usage.keys() - USAGE_KEYS)
        for key in unknown:
            out.note(AnomalyKind.UNKNOWN_KEY, session, line, f"usage.{text(key)}")
        if not unknown and len(_KNOWN) < 1024:
            _KNOWN.add(shape)
    get = usage.get
    plain, written = get("input_tokens"), get("cache_creation_input_tokens")
    read, output = get("cache_read_input_tokens"), get("output_tokens")
    if not (
        plain.__class__ is written.__class__ is read.__class__ is output.__class__ is int
        and 0 <= plain <= TOKENS_MAX
        and 0 <= written <= TOKENS_MAX
        and 0 <= read <= TOKENS_MAX
        and 0 <= output <= TOKENS_MAX
    ):
        plain, written, read, output = (tokens(usage, name, out, session, line) for name in _KINDS)
    if not (plain or written or read or output):
        return None
    short: Any = 0
    long: Any = 0
    thinking = 0
    split = get("cache_creation")
    if split.__class__ is dict:
        short, long = split.get("ephemeral_5m_input_tokens"), split.get("ephemeral_1h_input_tokens")
        if not (
            len(split) == 2
            and short.__class__ is long.__class__ is int
            and 0 <= short <= TOKENS_MAX
            and 0 <= long <= TOKENS_MAX
        ):
            for key in sorted(split.keys() - WRITE_KEYS):
                out.note(AnomalyKind.UNKNOWN_KEY, session, line, f"usage.cache_creation.{text(key)}")
            short, long = (tokens(split, name, out, session, line) for name in _WRITES)
    details = get("output_tokens_details")
    if isinstance(details, dict):
        thinking = min(tokens(details, "thinking_tokens", out, session, line), output)
    return Buckets(plain, read, short + max(0, written - short - long), long, output), thinking


def _version(version: str) -> tuple[int, ...]:
    numbers = []
    for part in version.split(".")[:3]:
        digits = part.split("-")[0]
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 9):
            return ()
        numbers.append(int(digits))
    return tuple(numbers)

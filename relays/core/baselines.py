"""What a baseline takes for granted where nothing is measured, per agent, each figure with its source.

Cost: "That published setting flatters the relay. The defaults of the product are the honest ones, each with its source
in the code's table: per agent: trigger, residue, a summary call, orientation and re-read measured from the data at hand
(both sides 20,000 tokens where nothing is measured), equal treatment of base and tools."

Where a figure could be chosen in favour of the relay, the other one was taken. Whatever is measured on the site
(`relays.core.learning`) replaces what stands here; the rest is ASSUMED, however well it was measured elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final, Literal

from relays.core.carryover_policies import (
    CarryOver,
    Compaction,
    ContextEditing,
    Level,
    Relay,
    SlidingWindow,
    Unbounded,
)
from relays.core.carryover_prices import Prices
from relays.core.lines import recorded
from relays.core.shadow import BATON_TOKENS, ORIENTATION_TOKENS, Figure, Provenance

PolicyName = Literal["relay", "compaction", "context_editing", "sliding_window", "none"]
POLICIES: Final[tuple[PolicyName, ...]] = ("relay", "compaction", "context_editing", "sliding_window", "none")

#: parameters that are shares of the window (or tokens), whole tokens, multiples of an input token's price
LEVELS: Final = ("mark", "trigger", "residue", "clear_at", "slide")
TOKENS: Final = ("window", "base", "kept", "growth", "output", "baton", "orientation", "handover", "reread",
                 "summary_call", "keep")  # fmt: skip
PRICES: Final = ("read_price", "write_price", "output_price")
NAMES: Final = (*TOKENS[:5], *LEVELS, *TOKENS[5:], *PRICES)

Value = Level


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: a share (Decimal) or tokens (int), where it comes from, and the range it is varied over.

    `low`, `high`: what it could as well be; None where it is not varied (what is observed or chosen).
    """

    value: Value
    provenance: Provenance
    source: str
    low: Value | None = None
    high: Value | None = None

    def figure(self) -> Figure:
        """The same as the shadow relay shows its figures."""
        value = float(self.value) if isinstance(self.value, Decimal) else self.value
        return Figure(value, self.provenance, self.source)


@dataclass(frozen=True, slots=True)
class Setting:
    """All parameters of a comparison. `name`: "published", or the agent whose defaults they are."""

    name: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Value:
        return self.parameters[name].value

    def tokens(self, name: str) -> int:
        """A parameter that is a number of tokens."""
        return int(self.parameters[name].value)

    def put(self, name: str, parameter: Parameter) -> "Setting":
        """The same setting with one parameter replaced. Raises KeyError for a name that is none."""
        if name not in NAMES:
            raise KeyError(name)
        return replace(self, parameters={**self.parameters, name: parameter})

    def given(self, name: str, value: Value, source: str = "chosen") -> "Setting":
        """The same setting with a value that somebody chose: it is ASSUMED, and not varied."""
        return self.put(name, Parameter(value, Provenance.ASSUMED, source))

    def policy(self, name: PolicyName) -> CarryOver:
        """The carry-over policy of that name. Raises ValueError for values that cannot be."""
        # 0 = such a call is not charged
        if name == "relay":
            handover = self.tokens("handover") or None
            return Relay(self["mark"], self.tokens("baton"), self.tokens("orientation"), handover)
        if name == "compaction":
            summary = self.tokens("summary_call") or None
            return Compaction(self["trigger"], self["residue"], self.tokens("reread"), summary)
        if name == "context_editing":
            return ContextEditing(self["clear_at"], self.tokens("keep"))
        return SlidingWindow(self["slide"]) if name == "sliding_window" else Unbounded()

    def prices(self) -> Prices:
        """Multiples of an input token's price, where no model's rates are at hand."""
        return Prices.multiples(*(Decimal(self[name]) for name in PRICES))


def _assumed(value: Value, source: str, low: Value | None = None, high: Value | None = None) -> Parameter:
    return Parameter(value, Provenance.ASSUMED, source, low, high)


SPEC: Final = recorded("the published setting")
#: "with window 200,000, base 4,000, growth 6,000 per turn, baton 2,000, trigger .95, residue .30, mark .60, read ×0.1,
#: write ×1.25 and nothing else charged"
PUBLISHED_VALUES: Final[Mapping[str, Value]] = {
    "window": 200_000, "base": 4_000, "kept": 0, "growth": 6_000, "output": 0,
    "mark": Decimal("0.60"), "trigger": Decimal("0.95"), "residue": Decimal("0.30"),
    "clear_at": 100_000, "slide": Decimal("0.60"),
    "baton": 2_000, "orientation": 0, "handover": 0, "reread": 0, "summary_call": 0, "keep": 3,
    "read_price": Decimal("0.1"), "write_price": Decimal("1.25"), "output_price": Decimal(0),
}  # fmt: skip


def published() -> Setting:
    """The setting of the published comparison, which flatters the relay; it is ASSUMED as a whole."""
    return Setting("published", {name: _assumed(value, SPEC) for name, value in PUBLISHED_VALUES.items()})


MARK: Final = _assumed(
    Decimal("0.60"), recorded("the policy's soft mark, as a part of the window"), Decimal("0.40"), Decimal("0.80")
)
BATON: Final = _assumed(BATON_TOKENS, recorded("the size of a baton is bounded by its form"), 500, 4_000)
ORIENTATION: Final = _assumed(
    ORIENTATION_TOKENS, recorded("no leg was measured yet: the same on both sides"), 5_000, 40_000
)
REREAD: Final = _assumed(
    ORIENTATION_TOKENS, recorded("no compaction was measured yet: the same on both sides"), 5_000, 40_000
)
HANDOVER: Final = _assumed(2_000, recorded("what a leg writes to wind down: as much as its baton"), 0, 6_000)
SUMMARY: Final = _assumed(
    4_000, recorded("what a summary's call writes: about a quarter of what it leaves"), 1_000, 12_000
)
CLEAR_AT: Final = _assumed(
    100_000, recorded("clear_tool_uses_20250919: it begins at 100,000 input tokens unless told otherwise")
)
KEEP: Final = _assumed(3, recorded("clear_tool_uses_20250919: it keeps the last 3 tool uses unless told otherwise"))
SLIDE: Final = _assumed(Decimal("0.60"), recorded("as full as the relay's window gets"))

_COMMON: Final[Mapping[str, Parameter]] = {
    "mark": MARK, "baton": BATON, "orientation": ORIENTATION, "handover": HANDOVER, "reread": REREAD,
    "summary_call": SUMMARY, "clear_at": CLEAR_AT, "keep": KEEP, "slide": SLIDE,
}  # fmt: skip

_ANTHROPIC: Final[Mapping[str, Parameter]] = {
    "read_price": _assumed(Decimal("0.1"), recorded("Anthropic, prices: a cache read costs a tenth of input")),
    "write_price": _assumed(
        Decimal("1.25"), recorded("Anthropic, prices: a cache write of 5 minutes costs 1.25 of input")
    ),
    "output_price": _assumed(Decimal(5), recorded("Anthropic, prices: output costs five times input")),
}
_OPENAI: Final[Mapping[str, Parameter]] = {
    "read_price": _assumed(Decimal("0.1"), recorded("OpenAI, prices: cached input costs a tenth of input")),
    "write_price": _assumed(Decimal(1), recorded("OpenAI, prices: writing the cache is not billed")),
    "output_price": _assumed(Decimal(6), recorded("OpenAI, prices of gpt-5.5: output costs six times input")),
}
_GOOGLE: Final[Mapping[str, Parameter]] = {
    "read_price": _assumed(Decimal("0.1"), recorded("Google, prices: cached input costs a tenth of input")),
    "write_price": _assumed(Decimal(1), recorded("Google, prices: writing the cache is not billed")),
    "output_price": _assumed(Decimal(8), recorded("Google, prices of gemini-2.5-pro: output costs eight times input")),
}

#: Claude Code keeps so many tokens of its window free for the summary and for what comes meanwhile
CLAUDE_HEADROOM: Final = 33_000
#: OpenCode keeps the model's longest answer free, at most so many tokens
OPENCODE_HEADROOM: Final = 32_000


def _below(window: int, headroom: int) -> int:
    """A trigger so many tokens under the window, but never under its half: a tiny window must be able to work."""
    return max(window - headroom, (window + 1) // 2)


def _claude(window: int) -> dict[str, Parameter]:
    trigger = _below(window, CLAUDE_HEADROOM)
    low, high = _below(window, 50_000), min(trigger + 16_000, window)
    return {
        "base": _assumed(
            29_760, recorded("system prompt and tools of Claude Code 2.1.226, read from the cache after compactions")
        ),
        "growth": _assumed(
            1_300, recorded("three sessions of Claude Code 2.1: 1,220 to 1,312 tokens a call on average")
        ),
        "output": _assumed(630, recorded("354 calls of Claude Code 2.1.226: 632 tokens on average")),
        "trigger": _assumed(
            trigger, recorded("Claude Code compacts 33,000 tokens before its window is full"), low, high
        ),
        "residue": _assumed(
            11_800,
            recorded(
                "nine measured compactions, 61,596 tokens after them at the median, less 29,760 of system prompt and "
                "tools and 20,000 that are read again"
            ),
            4_000,
            22_000,
        ),  # fmt: skip
        **_ANTHROPIC,
    }


def _codex(window: int) -> dict[str, Parameter]:
    return {
        "base": _assumed(
            10_624, recorded("system prompt and tools of Codex 0.142, read from the cache by first calls")
        ),
        "growth": _assumed(2_000, recorded("two sessions of Codex: 1,972 and 2,000 tokens a call on average")),
        "output": _assumed(417, recorded("337 calls of Codex 0.142: 417 tokens on average")),
        "trigger": _assumed(
            Decimal("0.93"), recorded("Codex compacts at about 0.93 of its window"), Decimal("0.86"), Decimal("0.95")
        ),
        "residue": _assumed(
            Decimal("0.11"),
            recorded(
                "1,304 compactions of Codex, as declared; that share may count the base, so that it is varied down to "
                "0.03"
            ),
            Decimal("0.03"),
            Decimal("0.15"),
        ),
        **_OPENAI,
    }  # fmt: skip


def _gemini(window: int) -> dict[str, Parameter]:
    return {
        "base": _assumed(
            11_700, recorded("system prompt and tools of Gemini CLI, read from the cache by a session's calls")
        ),
        "growth": _assumed(1_300, recorded("as Claude Code: no longer session was measured")),
        "output": _assumed(400, recorded("as Codex: no longer session was measured")),
        "trigger": _assumed(
            Decimal("0.5"), recorded("Gemini CLI compresses at half of the model's limit, 0.7 in older versions"),
            Decimal("0.5"), Decimal("0.7"),
        ),
        "residue": _assumed(
            Decimal("0.3"), recorded("Gemini CLI keeps the last 30 % of the conversation"),
            Decimal("0.2"), Decimal("0.4"),
        ),
        **_GOOGLE,
    }  # fmt: skip


def _opencode(window: int) -> dict[str, Parameter]:
    trigger = _below(window, OPENCODE_HEADROOM)
    return {
        "base": _assumed(11_700, recorded("as Gemini CLI: not measured")),
        "growth": _assumed(1_300, recorded("as Claude Code: not measured")),
        "output": _assumed(400, recorded("as Codex: not measured")),
        "trigger": _assumed(
            trigger,
            recorded("OpenCode compacts when the model's longest answer, at most 32,000 tokens, no longer fits"),
            _below(window, 50_000), min(trigger + 16_000, window),
        ),
        "residue": _assumed(4_000, recorded("OpenCode goes on with the summary alone"), 2_000, 20_000),
        **_ANTHROPIC,
    }  # fmt: skip


#: agent -> its own figures for a window; whoever is not here is treated as Claude Code, whose figures are measured best
AGENTS: Final = {"claude-code": _claude, "codex": _codex, "gemini-cli": _gemini, "opencode": _opencode}
#: the window that is taken where none is known
USUAL_WINDOW: Final[Mapping[str, int]] = {"claude-code": 200_000, "codex": 258_400, "gemini-cli": 1_048_576}
OTHERS: Final = "claude-code"


def defaults(agent: str = OTHERS, window: int | None = None) -> Setting:
    """The honest defaults of an agent in a window of that size (None: its usual one).

    The base stays cached over a cut, on both sides alike: an agent sends the same system prompt and tools again.
    """
    known = agent if agent in AGENTS else OTHERS
    size = window or USUAL_WINDOW.get(known, 200_000)
    own = AGENTS[known](size)
    if known != agent:
        own = {
            name: replace(one, provenance=Provenance.ASSUMED, source=f"as Claude Code: {one.source}")
            for name, one in own.items()
        }
    base = own["base"]
    kept = _assumed(base.value, recorded("the base stays cached over a cut, on both sides alike"), 0, base.value)
    parameters = {"window": _assumed(size, recorded("the agent's usual window")), **_COMMON, **own, "kept": kept}
    return Setting(agent, {name: parameters[name] for name in NAMES})

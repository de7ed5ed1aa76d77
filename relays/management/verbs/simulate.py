"""`simulate --policy P --turns N [--set KEY=VALUE …]`: the cost engine alone, on a stream that grows evenly.

Interface: "`simulate --policy relay|compaction|context_editing|sliding_window|none --turns N [--set key=value…]` →
{"billed", "peak_tokens", "events", "cache_bust_tokens", "hit_rate", "window_exceeded_at"}"; "`--set published` chooses
the published setting of `cost.md`". Everything that comes out is SIMULATED, everything that goes in is shown with it.
"""

import argparse
import difflib
import re
from dataclasses import replace
from decimal import Decimal
from typing import Final

from relays.core.baselines import AGENTS, LEVELS, NAMES, OTHERS, POLICIES, PRICES, Setting, Value, defaults, published
from relays.core.carryover import Carried, Step, Work, play
from relays.core.pricing import plain
from relays.management.cli import Exit, emit, one_line, refuse, table

MOST_TURNS: Final = 1_000_000
MOST_TOKENS: Final = 1_000_000_000
MOST_PRICE: Final = 1_000_000
PUBLISHED: Final = "published"
_NUMBER: Final = re.compile(r"[0-9][0-9_]{0,30}(\.[0-9]{0,12})?|\.[0-9]{1,12}", re.ASCII)
#: levels at which something happens: at 0 it would happen at each turn before anything was done
_NOT_ZERO: Final = ("mark", "trigger", "clear_at", "slide")
#: what a key means for one policy alone
_OF_POLICY: Final = {
    ("context_editing", "trigger"): "clear_at",
    ("sliding_window", "keep"): "slide",
}


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", required=True, choices=POLICIES, metavar="P", help=", ".join(POLICIES))
    parser.add_argument("--turns", required=True, type=_turns, metavar="N", help=f"calls, 1 to {MOST_TURNS:,}")
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="KEY=VALUE", dest="given",
        help=f"{PUBLISHED} (the setting of the published comparison), or a parameter: {', '.join(NAMES)}; "
        "levels are a share up to 1 or a number of tokens, prices multiples of an input token's",
    )  # fmt: skip
    parser.add_argument(
        "--agent", choices=tuple(AGENTS), default=OTHERS, metavar="A",
        help=f"whose defaults: {', '.join(AGENTS)} ({OTHERS} if none is said)",
    )  # fmt: skip


def _turns(text: str) -> int:
    turns = int(text) if re.fullmatch("[0-9]{1,9}", text, re.ASCII) else 0
    if not 1 <= turns <= MOST_TURNS:
        raise argparse.ArgumentTypeError(f"{text!r}: name how many turns to play, 1 to {MOST_TURNS}")
    return turns


def run(options: argparse.Namespace) -> int:
    setting = _setting(options.given, options.policy, options.agent)
    try:
        policy = setting.policy(options.policy)
        step = Step(setting.tokens("growth"), setting.tokens("output"))
        work = Work(
            setting.tokens("base"), setting.tokens("window"), (step,) * options.turns, kept=setting.tokens("kept")
        )
    except ValueError as problem:
        refuse(f"relay simulate: {problem}; change it with --set", Exit.USAGE)
    carried = play(work, policy, setting.prices())
    emit(_shape(options, setting, carried), options.json, lambda: _words(options, setting, carried))
    return Exit.FINE


def _setting(given: list[str], policy: str, agent: str) -> Setting:
    """The defaults, or the published setting, with what was given; a parameter is never given twice."""
    chosen: dict[str, Value] = {}
    named = {word for word in given if word == PUBLISHED}
    for word in given:
        if word == PUBLISHED:
            continue
        key, equals, text = word.partition("=")
        if not equals:
            refuse(f"relay simulate: --set {one_line(word)!r} is neither {PUBLISHED} nor KEY=VALUE", Exit.USAGE)
        if key not in NAMES:
            near = difflib.get_close_matches(key[:100], NAMES, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]}?" if near else f"take one of {', '.join(NAMES)}"
            refuse(f"relay simulate: --set knows no parameter {one_line(key)!r}: {hint}", Exit.USAGE)
        name = _OF_POLICY.get((policy, key), key)
        if name in chosen:
            refuse(f"relay simulate: --set gives {key} twice: say it once", Exit.USAGE)
        chosen[name] = _value(name, key, text)
    window = chosen.get("window")
    setting = published() if named else defaults(agent, int(window) if window is not None else None)
    for name, value in chosen.items():
        setting = setting.given(name, value, "given with --set")
    if "kept" not in chosen and not named:
        # the base stays cached over a cut, whatever it is
        kept = replace(setting.parameters["kept"], value=setting.tokens("base"), high=setting.tokens("base"))
        setting = setting.put("kept", kept)
    return setting


def _value(name: str, key: str, text: str) -> Value:
    shown = one_line(text)[:60]
    if not _NUMBER.fullmatch(text):
        refuse(f"relay simulate: --set {key}={shown} is no number such as 2000 or 0.6", Exit.USAGE)
    number = Decimal(text.replace("_", ""))
    if name in PRICES:
        if number > MOST_PRICE:
            refuse(f"relay simulate: --set {key}={shown}: a price is a multiple of input's, up to {MOST_PRICE}")
        return number
    if name in LEVELS and number <= 1:
        if name in _NOT_ZERO and not number:
            refuse(f"relay simulate: --set {key}={shown}: at 0 nothing could be done: name a share above 0, up to 1")
        return number
    if number != number.to_integral_value() or number > MOST_TOKENS:
        what = "a share up to 1, or a whole number of tokens" if name in LEVELS else "a whole number of tokens"
        refuse(f"relay simulate: --set {key}={shown}: {key} is {what}, at most {MOST_TOKENS}", Exit.USAGE)
    if name == "window" and not number:
        refuse("relay simulate: --set window=0: a window holds at least 1 token", Exit.USAGE)
    return int(number)


def _shape(options: argparse.Namespace, setting: Setting, carried: Carried) -> dict[str, object]:
    """`billed`: in input tokens' worth, cut off to a whole number; `exact`: the same, whole."""
    rate = carried.hit_rate
    return {
        "policy": options.policy,
        "turns": options.turns,
        "setting": setting.name,
        "provenance": "SIMULATED",
        "billed": int(carried.money),
        "exact": plain(carried.money),
        "peak_tokens": carried.peak,
        "events": len(carried.events),
        "cache_bust_tokens": carried.bust,
        "hit_rate": None if rate is None else round(rate, 4),
        "window_exceeded_at": carried.exceeded_at,
        "played": carried.played,
        "event_turns": list(carried.events),
        "tokens": carried.billed.as_mapping(),
        "parameters": {
            name: {"value": _plain(one.value), "provenance": str(one.provenance), "source": one.source}
            for name, one in setting.parameters.items()
        },
    }


def _plain(value: Value) -> int | float:
    return value if isinstance(value, int) else float(value)


def _words(options: argparse.Namespace, setting: Setting, carried: Carried) -> str:
    rate = carried.hit_rate
    what = {"relay": "rotations", "compaction": "compactions"}.get(options.policy, "cuts")
    rows = [
        ["billed", f"{int(carried.money):,}", "tokens, counted as input tokens"],
        ["peak", f"{carried.peak:,}", "tokens in the window"],
        [what, f"{len(carried.events):,}", ""],
        ["cache bust", f"{carried.bust:,}", "tokens written again because of them"],
        ["hit rate", "not yet" if rate is None else f"{rate:.1%}".replace("%", " %"), "flatters big windows"],
    ]
    if carried.exceeded_at is not None:
        rows.append(
            ["window full", f"{carried.exceeded_at:,}", "the turn at which the run failed: the rest was not played"]
        )
    lines = [f"SIMULATED: {options.policy}, {options.turns:,} turns, setting {setting.name}"]
    given = [[name, _shown(one.value), str(one.provenance), one.source] for name, one in setting.parameters.items()]
    return "\n".join(
        [*lines, table(rows, ["figure", "value", ""]), "", table(given, ["parameter", "value", "", "source"])]
    )


def _shown(value: Value) -> str:
    return f"{value:,}" if isinstance(value, int) else plain(value)

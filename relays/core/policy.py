"""Policy is data: the `[relay]` table, validated, layered, and kept whole with each relay when it starts.

Mission: "Data, not code. Rotation policy lives in dos.toml/Envelope, not scattered constants." Precedence: defaults,
site, the repository's table (which may only tighten), start. Every refusal is one line that names the key.
"""

import dataclasses
import difflib
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from relays.core import windows
from relays.core.baton import Bounds
from relays.core.limits import (
    Address,
    Command,
    Count,
    Duration,
    Folder,
    Mark,
    Money,
    Positive,
    PositiveMoney,
    Tools,
    Truth,
    Unset,
    Wait,
    format_duration,
    positive,
)
from relays.core.sentences import RuleError, Sentence, phrase
from relays.core.vocabulary import Mode

DEFAULT_WINDOW = 200_000
MEMORY_ROOT = ".relay/memory"


class PolicyError(RuleError):
    """A policy that is refused: `key` in dotted form, `why` in one line."""

    def __init__(self, key: str, why: Sentence) -> None:
        self.key = _one_line(key)
        self.why = why
        super().__init__(phrase("policy key %(key)s: %(why)s", key=self.key, why=why))


def _one_line(text: str, length: int = 100) -> str:
    plain = "".join(char if char.isprintable() else " " for char in text)
    return plain if len(plain) <= length else plain[: length - 1] + "…"


def _figures(value: object) -> object:
    if not isinstance(value, Mapping):
        raise RuleError(phrase("must be a table of keys"))
    return {name: _figure(name, one) for name, one in value.items()}


def _figure(name: object, value: object) -> float | int | str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", name) or len(name) > 100:
        raise PolicyError(f"baseline.{name}", phrase("is no plain name of a parameter"))
    if isinstance(value, str) and len(value) <= 200 and value.isprintable():
        if re.fullmatch(r"-?[0-9]{1,15}", value):
            return int(value)
        return float(value) if re.fullmatch(r"-?[0-9]{1,15}\.[0-9]{1,12}", value) else value
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= 10**15:  # NaN is not
        return value
    raise PolicyError(f"baseline.{name}", phrase("must be a number or a word"))


Figures = Annotated[dict[str, int | float | str], BeforeValidator(_figures)]


def _bounds(value: object) -> Bounds:
    if isinstance(value, Bounds):
        return value
    if not isinstance(value, Mapping):
        raise RuleError(phrase("must be a table of keys"))
    return Bounds(**{str(name): _bound(str(name), size) for name, size in value.items()})


def _bound(name: str, size: object) -> int:
    if name not in _BOUNDS:
        raise PolicyError(f"baton.{name}", phrase("unknown key"))
    try:
        return positive(size)
    except RuleError as problem:
        raise PolicyError(f"baton.{name}", problem.said) from None


_BOUNDS = tuple(bound.name for bound in dataclasses.fields(Bounds))


# --- the tables; their fields are the keys of rules.md, "Policy is data"


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LegLimits(_Table):
    """Per-LEG limits, counted from the leg's start; unset = the axis is off. They only arm."""

    turns: Annotated[Positive | None, Unset] = None
    wall: Annotated[Duration | None, Unset] = None
    spend: Annotated[PositiveMoney | None, Unset] = None
    output_tokens: Annotated[Positive | None, Unset] = None


class Marks(_Table):
    """Soft marks, 0 < mark <= 1: of the window, and of the leg limits. `context_tokens` is absolute; the lower arms."""

    context: Mark = 0.60
    context_tokens: Annotated[Positive | None, Unset] = None
    turns: Mark = 0.80
    wall: Mark = 0.80
    spend: Mark = 0.80
    output_tokens: Mark = 0.80


class Envelope(_Table):
    """For the whole relay; unset = no limit, 0 = spent from the start; never reset."""

    legs: Annotated[Count | None, Unset] = None
    spend: Annotated[Money | None, Unset] = None
    wall: Annotated[Wait | None, Unset] = None
    turns: Annotated[Count | None, Unset] = None
    output_tokens: Annotated[Count | None, Unset] = None
    queries: Annotated[Count | None, Unset] = None


class Policy(_Table):
    """One relay's policy, whole. Build it with `build`; keep it with `to_snapshot`."""

    window_tokens: Annotated[Positive | None, Unset] = None
    leg: LegLimits = LegLimits()
    mark: Marks = Marks()
    ceiling: Mark = 0.90
    tool_limit: Duration = timedelta(minutes=15)
    min_progress: Count = 1
    no_progress_legs: Count = 3
    rotations_per_hour: Count = 6
    drain_turns: Count = 3
    silence_limit: Duration = timedelta(minutes=10)
    host_patience: Duration = timedelta(minutes=10)
    every: Annotated[Duration | None, Unset] = None
    memory_root: Folder = MEMORY_ROOT
    envelope: Envelope = Envelope()
    done_check_every: Wait = timedelta(seconds=60)
    unknown_patience: Wait = timedelta(minutes=30)
    on_crash: Literal["continue", "park"] = "continue"
    green: Command = ""
    workspace: Literal["worktree", "in_place"] = "worktree"
    approvals: Positive = 1
    four_eyes: Truth = True
    resume: Literal["on_approve", "by_operator"] = "on_approve"
    gate_expiry: Annotated[Duration | None, Unset] = None
    mode: Mode = Mode.ENFORCE
    push_to: Address = ""  # where the branch of a relay that is done may be pushed; "" = nowhere
    pull_request: Truth = False  # whether a pull request is offered once it was pushed
    effectful_tools: Tools = ()  # a leg runs them only while none of its assumptions is weak
    baton: Annotated[Bounds, BeforeValidator(_bounds)] = Bounds()
    baseline: Figures = {}
    retention: Duration = timedelta(days=30)


class Tighter(StrEnum):
    """What "tighten" means for one key of a repository's table."""

    NEVER = "never"  # not the repository's to say
    LOWER = "lower"  # unset is loosest
    LOWER_OR_ON = "lower, and 0 (off) is loosest"
    HIGHER = "higher"
    PARK = "park"  # continue may become park


#: the one table of what a repository may do to each key; a key that is not here may never be set by it
TIGHTER: dict[str, Tighter] = {
    "window_tokens": Tighter.LOWER,
    "leg.turns": Tighter.LOWER,
    "leg.wall": Tighter.LOWER,
    "leg.spend": Tighter.LOWER,
    "leg.output_tokens": Tighter.LOWER,
    "mark.context": Tighter.LOWER,
    "mark.context_tokens": Tighter.LOWER,
    "mark.turns": Tighter.LOWER,
    "mark.wall": Tighter.LOWER,
    "mark.spend": Tighter.LOWER,
    "mark.output_tokens": Tighter.LOWER,
    "ceiling": Tighter.LOWER,
    "tool_limit": Tighter.LOWER,
    "min_progress": Tighter.HIGHER,
    "no_progress_legs": Tighter.LOWER_OR_ON,
    "rotations_per_hour": Tighter.LOWER_OR_ON,
    "drain_turns": Tighter.LOWER,
    "silence_limit": Tighter.LOWER,
    "unknown_patience": Tighter.LOWER,
    "on_crash": Tighter.PARK,
}


def _leaves(model: type[BaseModel], prefix: str = "") -> list[str]:
    keys: list[str] = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            keys += _leaves(inner, f"{prefix}{name}.")
        elif inner is Bounds:
            keys += [f"{prefix}{name}.{bound}" for bound in _BOUNDS]
        else:
            keys.append(prefix + name)
    return keys


#: every key in dotted form, in the order of the table; keys under `baseline` are free
KEYS: tuple[str, ...] = tuple(_leaves(Policy))
_GROUPS = frozenset(key.partition(".")[0] for key in KEYS if "." in key) | {"baseline"}


def tighter(key: str) -> Tighter:
    """What a repository may do to a key."""
    return Tighter.LOWER if key.startswith("baton.") else TIGHTER.get(key, Tighter.NEVER)


# --- layers


def _flat(layer: Mapping[str, object], where: Sentence | None) -> dict[str, object]:
    """A table as dotted keys; unknown ones are an error that names the key."""
    flat: dict[str, object] = {}
    for name, value in layer.items():
        if name in _GROUPS and isinstance(value, Mapping):
            for key, inner in _walk(value, f"{name}."):
                flat[_known(key, where)] = inner
        else:
            flat[_known(str(name), where)] = value
    return flat


def flatten(layer: Mapping[str, object]) -> dict[str, object]:
    """A `[relay]` table as dotted keys, their values as written; PolicyError for one that is unknown."""
    return _flat(layer, None)


def only(key: str, value: object) -> Policy:
    """The defaults with one key set; PolicyError where the key does not take the value."""
    return _make({_known(key, None): value}, None)


def _walk(table: Mapping[str, object], prefix: str) -> list[tuple[str, object]]:
    pairs: list[tuple[str, object]] = []
    for name, value in table.items():
        # only `baseline` goes deeper than one table; its figures keep dotted names
        if prefix.startswith("baseline.") and isinstance(value, Mapping) and prefix.count(".") < 4:
            pairs += _walk(value, f"{prefix}{name}.")
        else:
            pairs.append((f"{prefix}{name}", value))
    return pairs


def _known(key: str, where: Sentence | None) -> str:
    if key in KEYS and key != "baseline":
        return key
    if key.startswith("baseline.") and len(key) > len("baseline."):
        return key
    if key in _GROUPS:
        raise PolicyError(key, _in(phrase("must be a table of keys"), where))
    near = difflib.get_close_matches(key[:100], KEYS, n=1, cutoff=0.7)
    unknown = phrase("unknown key, did you mean %(near)s?", near=near[0]) if near else phrase("unknown key")
    raise PolicyError(key, _in(unknown, where))


def _make(flat: Mapping[str, object], where: Sentence | None) -> Policy:
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        group, dot, name = key.partition(".")
        if dot:
            nested.setdefault(group, {})[name] = value
        else:
            nested[key] = value
    return _validated(nested, where)


def _validated(nested: Mapping[str, object], where: Sentence | None) -> Policy:
    try:
        return Policy.model_validate(nested)
    except ValidationError as refusal:
        first = refusal.errors(include_url=False)[0]
        named = first.get("ctx", {}).get("error")
        if isinstance(named, PolicyError):
            raise PolicyError(named.key, _in(named.why, where)) from None
        path = [str(part) for part in first["loc"] if isinstance(part, str)]
        key = ".".join(path[:2] if path[:1] and path[0] in _GROUPS else path[:1]) or "relay"
        raise PolicyError(key, _in(_why(first), where)) from None


def _why(found: ErrorDetails) -> Sentence:
    """What pydantic refuses, in our words: by its kind, never by its English."""
    kind, context = found["type"], found.get("ctx", {})
    if isinstance(error := context.get("error"), RuleError):
        return error.said
    if kind in {"literal_error", "enum"}:
        return phrase("must be one of %(words)s", words=", ".join(re.findall(r"'([a-z_]+)'", str(context["expected"]))))
    return _KINDS.get(kind, _REFUSED)


_KINDS: dict[str, Sentence] = {
    "extra_forbidden": phrase("unknown key"),
    "model_type": phrase("must be a table of keys"),
    "model_attributes_type": phrase("must be a table of keys"),
}
_REFUSED = phrase("does not take this value")


def _in(why: Sentence, where: Sentence | None) -> Sentence:
    return phrase("%(why)s (%(where)s)", why=why, where=where) if where else why


_SITE = phrase("site policy")
_REPOSITORY = phrase("the repository's table")
_SNAPSHOT = phrase("the relay's snapshot")


def build(
    site: Mapping[str, object],
    repository: Mapping[str, object] | None,
    start: Mapping[str, object],
    sets: Sequence[str] = (),
) -> Policy:
    """The policy that a relay starts with: defaults < site < repository < start < `--set` of the start.

    Layers are `[relay]` tables, nested or with dotted keys. Raises PolicyError for the first key that is unknown, has
    a value that the key does not take, or that the repository may not set or would loosen.
    """
    flat = _flat(site, _SITE)
    policy = _make(flat, _SITE)
    if repository:
        asked = _flat(repository, _REPOSITORY)
        for key in asked:
            if tighter(key) is Tighter.NEVER:
                raise PolicyError(key, _in(phrase("a repository may not set it"), _REPOSITORY))
        tightened = _make({**flat, **asked}, _REPOSITORY)
        for key in asked:
            _check_tighter(key, value_of(policy, key), value_of(tightened, key))
        flat |= asked
    flat |= _flat(start, None)
    for text in sets:
        key, value = parse_set(text)
        flat[_known(key, None)] = value
    return _make(flat, None)


def with_sets(policy: Policy, sets: Sequence[str]) -> Policy:
    """The policy after a recorded decision that carries `key=value`, such as a new limit."""
    flat = _flat(to_snapshot(policy), None)
    for text in sets:
        key, value = parse_set(text)
        flat[_known(key, None)] = value
    return _make(flat, None)


def value_of(policy: Policy, key: str) -> object:
    """The value of a dotted key."""
    group, dot, name = key.partition(".")
    if group == "baseline":
        return policy.baseline.get(name) if dot else policy.baseline
    value: object = getattr(policy, group)
    return getattr(value, name) if dot else value


def _check_tighter(key: str, before: object, after: object) -> None:
    rule = tighter(key)
    if rule is Tighter.PARK:
        loosened = before == "park" and after != "park"
    elif rule is Tighter.HIGHER:
        loosened = _amount(after) < _amount(before)
    else:
        off = rule is Tighter.LOWER_OR_ON
        loosened = _limit(key, after, off) > _limit(key, before, off)
    if loosened:
        raise PolicyError(
            key,
            phrase(
                "a repository may only tighten it: %(before)s may not become %(after)s",
                before=_shown(before),
                after=_shown(after),
            ),
        )


def _amount(value: object) -> Decimal:
    if isinstance(value, timedelta):
        return Decimal(value // timedelta(microseconds=1))
    if isinstance(value, int | float | Decimal):
        return Decimal(value)
    raise TypeError(f"{value!r} is no amount")


def shown(value: object) -> str:
    """A value of a policy as a person writes it in a table or behind `--set`: `15m`, `25`, `none`, `true`."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(str(one) for one in value) if isinstance(value, tuple) else _shown(value)


def _limit(key: str, value: object, zero_is_off: bool) -> Decimal:
    if value is None and key == "window_tokens":
        value = DEFAULT_WINDOW
    if value is None or (zero_is_off and value == 0):
        return Decimal("Infinity")
    return _amount(value)


def _shown(value: object) -> str:
    if isinstance(value, timedelta):
        return format_duration(value)
    return "none" if value is None else str(value)


def parse_set(text: str) -> tuple[str, str]:
    """`leg.turns=40` -> its key and the value as text; the value `none` unsets a limit."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise PolicyError(key.strip() or "?", phrase("write it as key=value, for example leg.turns=40"))
    return key.strip(), value.strip()


# --- the snapshot


def to_snapshot(policy: Policy) -> dict[str, Any]:
    """The whole policy as JSON: money and durations as text, None as null. `from_snapshot` gives an equal policy."""
    return policy.model_dump(mode="json")


def from_snapshot(snapshot: Mapping[str, object]) -> Policy:
    """Read what `to_snapshot` wrote; PolicyError where it is damaged."""
    return _validated(snapshot, _SNAPSHOT)


# --- what rules ask of it


def window_for(policy: Policy, model: str) -> int:
    """The window in tokens: `window_tokens`, else the one that the `model` is known for, else 200,000."""
    return policy.window_tokens or windows.of(model) or DEFAULT_WINDOW


def check_goal(policy: Policy, *, prose: bool, watch: bool, has_cmd: bool) -> None:
    """A relay with a prose or watch goal "must have at least one envelope limit, else it does not start"; a watch
    with a `cmd` clause must say how often it looks."""
    limits = (getattr(policy.envelope, name) for name in Envelope.model_fields)
    if (prose or watch) and all(limit is None for limit in limits):
        goal = phrase("a watch") if watch else phrase("a goal in prose")
        raise PolicyError(
            "envelope", phrase("%(goal)s needs at least one limit, for example envelope.legs=20", goal=goal)
        )
    if watch and has_cmd and policy.every is None:
        raise PolicyError("every", phrase("a watch with a cmd clause needs it, for example every=10m"))

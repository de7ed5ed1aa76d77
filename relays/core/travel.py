"""What a relay needs on another host and no baton carries: its agent's name, its limits and what it has spent.

rules.md, Budgets never reset by accident: "Every leg debits; what is left goes to the successor". The record lies in
the repository, so it is as untrusted as everything there: what it says can make a relay's policy only tighter, it
names no program and no command, and no approval comes from it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from relays.core import policy
from relays.core.budget import Spent
from relays.core.policy import Envelope, Policy, PolicyError
from relays.core.vocabulary import GATE_TOKENS, Mode

FORM: Final = "relaysite.travel.v1"
LARGEST = 256 * 1024  # bytes
SHOWN = 20  # keys that were left out
#: agents whose arguments name no program, so that they may be taken over
HARMLESS_AGENTS = frozenset({"scripted"})

_MOST = 10**15
#: keys that say how this relay works and not how strictly; they are taken as they are
_AS_IT_IS = ("every", "memory_root")
#: the stricter, the further: shadow and advise hold nobody, so that a record may only bring enforcement
_MODES = tuple(Mode)
#: keys that are this house's own, or that would run something: never taken, not worth a word
_OURS = frozenset({"green", "approvals", "four_eyes", "resume", "gate_expiry", "workspace", "retention"})


class TravelError(ValueError):
    """A record that is refused, in one line."""


def _line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("holds a control character")
    return text


def _whole(pattern: str) -> AfterValidator:
    """The text is of this form from its first to its last character."""
    form = re.compile(pattern)

    def check(text: str) -> str:
        if form.fullmatch(text) is None:
            raise ValueError("has another form")
        return text

    return AfterValidator(check)


Line = Annotated[str, Field(max_length=500), AfterValidator(_line)]
Count = Annotated[int, Field(ge=0, le=_MOST)]


class _Part(BaseModel):
    # unknown keys are left alone: a later house may say more
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class SpentRecord(_Part):
    """All legs together. `wall` in seconds, `spend` a decimal in the currency of the prices."""

    turns: Count = 0
    output_tokens: Count = 0
    spend: Annotated[str, _whole(r"[0-9]{1,10}(?:\.[0-9]{1,10})?")] = "0"
    unpriced_calls: Count = 0
    wall: Annotated[float, Field(ge=0, le=_MOST / 10**6)] = 0.0
    legs: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    queries: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0


class GateRecord(_Part):
    """An episode that was open: it asks again on the host that takes the relay up."""

    token: Line
    items: Annotated[list[Line], Field(max_length=64)] = []


class Record(_Part):
    """One relay as its house saw it when it wrote this.

    `host` drives it on; "" where nobody does before a person comes. `policy`: the whole snapshot.
    """

    form: Literal["relaysite.travel.v1"]
    relay: Line
    status: Literal["ready", "running", "waiting", "idle", "parked", "done", "stopped"]
    branch: Annotated[str, Field(max_length=250)]  # judged as a name before git sees it
    start_sha: Annotated[str, _whole(r"[0-9a-f]{40}|[0-9a-f]{64}")]
    agent: Line
    agent_args: Annotated[dict[Line, Line], Field(max_length=16)] = {}
    watch: bool = False
    policy: dict[str, Any] = {}
    spent: SpentRecord = SpentRecord()
    gates: Annotated[list[GateRecord], Field(max_length=16)] = []
    user_facts: Annotated[list[Line], Field(max_length=64)] = []  # pointers
    host: Line = ""

    @property
    def ended(self) -> bool:
        return self.status in ("done", "stopped")

    @property
    def goes_on_by_itself(self) -> bool:
        """Whether the house that wrote it would start the next leg without a person."""
        return self.status in ("ready", "running", "waiting", "idle")

    @property
    def asks(self) -> tuple[GateRecord, ...]:
        """The open episodes of kinds that are known here."""
        return tuple(gate for gate in self.gates if gate.token in GATE_TOKENS)


def read(raw: bytes) -> Record:
    """The record in these bytes. Raises TravelError for anything that is not one, however it is broken."""
    if len(raw) > LARGEST:
        raise TravelError(f"it is larger than {LARGEST} bytes")
    try:
        return Record.model_validate(json.loads(raw))
    except ValidationError as refusal:
        first = refusal.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])[:80]
        raise TravelError(f"{where if where.isprintable() else 'a key'}: {first['msg'][:200]}") from None
    except (ValueError, RecursionError):
        raise TravelError("it is no JSON") from None


def write(record: Record) -> bytes:
    """The record's bytes: one line, the same record always the same."""
    return json.dumps(record.model_dump(mode="json"), sort_keys=True, separators=(",", ":")).encode() + b"\n"


def spent(record: Record, closing_leg: int) -> Spent:
    """What the relay has used: never less than its closing leg proves, whatever the record says."""
    kept = record.spent
    return Spent(
        turns=kept.turns,
        output_tokens=kept.output_tokens,
        spend=Decimal(kept.spend),
        unpriced_calls=kept.unpriced_calls,
        wall=timedelta(seconds=kept.wall),
        legs=max(kept.legs, closing_leg + 1),
        queries=kept.queries,
    )


def build_policy(
    site: Mapping[str, object],
    repository: Mapping[str, object] | None,
    record: Record | None,
    start: Mapping[str, object],
    sets: Sequence[str],
) -> tuple[Policy, tuple[str, ...]]:
    """The policy of a relay that is taken up, and the keys of its record that were not taken over.

    Defaults < site < repository < what tightens in the record < what the person gives. Raises PolicyError for what the
    site, the repository or the person says wrongly; what the record says wrongly is left out.
    """
    base = policy.build(site, repository, {})
    if record is None:
        return policy.build(site, repository, start, sets), ()
    here = policy.to_snapshot(base)
    ours = flat(here)
    tight: dict[str, object] = {}
    given: dict[str, object] = {}
    left_out: list[str] = []
    for key, value in flat(record.policy).items():
        if key in _OURS:
            left_out += [key] if key == "green" and value else []
        elif key in ours and ours[key] == value:
            continue
        elif key == "mode":
            if value in _MODES and _MODES.index(Mode(str(value))) > _MODES.index(base.mode):
                given[key] = value
            else:
                left_out.append(key)
        elif key in _AS_IT_IS:
            if _builds(here, {}, {key: value}):
                given[key] = value
            else:
                left_out.append(key)
        elif key.startswith("envelope."):
            if _builds(here, {}, {key: value}) and _lowers(base.envelope, here, key, value):
                given[key] = value
            else:
                left_out.append(key)
        elif _builds(here, {key: value}, {}):
            tight[key] = value
        else:
            left_out.append(key)
    return policy.build(here, tight, {**given, **_flat_start(start)}, sets), _named(left_out)


def _named(keys: Sequence[str]) -> tuple[str, ...]:
    """The keys for people and for records: printable, short, and no more of them than a line holds."""
    clean = sorted(key if key.isprintable() and len(key) <= 60 else "a key that is none" for key in keys)
    shown = tuple(dict.fromkeys(clean))
    return shown if len(shown) <= SHOWN else (*shown[:SHOWN], f"{len(shown) - SHOWN} more")


def flat(snapshot: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """A policy snapshot as dotted keys."""
    found: dict[str, object] = {}
    for name, value in snapshot.items():
        if isinstance(value, Mapping) and not prefix:
            found |= flat(value, f"{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def _flat_start(start: Mapping[str, object]) -> dict[str, object]:
    # a table of the person's and a dotted key of the record may name one key: the person's word stands last
    return flat(start) if any(isinstance(value, Mapping) for value in start.values()) else dict(start)


def _builds(site: Mapping[str, object], repository: Mapping[str, object], start: Mapping[str, object]) -> bool:
    try:
        policy.build(site, repository, start)
    except (PolicyError, TypeError, ValueError):
        return False
    return True


def _lowers(before: Envelope, here: Mapping[str, object], key: str, value: object) -> bool:
    """A limit of the record counts where the house has none, or a higher one."""
    name = key.removeprefix("envelope.")
    ours = getattr(before, name)
    theirs = getattr(policy.build(here, None, {key: value}).envelope, name)
    return theirs is not None and (ours is None or theirs < ours)

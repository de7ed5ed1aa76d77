"""The fold of a leg's events into what the rules need: O(1) an event, bounded, the same live and in recovery.

Mission: "Evidence, not claims": nothing here is trusted; what an agent declares is kept for the gate to resolve.
A bound that is reached never opens a gate: what no longer fits stands as one entry that refuses.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from hashlib import sha256
from typing import Any, Final

from relays.core import usage
from relays.core.events import TOLD, UNREAD, Event
from relays.core.lines import recorded
from relays.core.sequence import Seen

RECORDS: Final = 4096  # facts, decisions, questions, dead ends, artifacts, open tasks, tools in flight: each
FILES: Final = 20_000
CALLS: Final = 100_000
LABEL_CHARS: Final = 500
BACKING_CHARS: Final = 500
#: key of the entry that stands for all that did not fit; no event can name it, because names are never empty
OVERFLOW: Final = ""

#: what a call costs by a price list: its model and buckets -> dollars, None where no price is known
Price = Callable[[str, usage.Buckets], Decimal | None]

_MONEY_STEP: Final = Decimal("1E-10")


@dataclass(frozen=True, slots=True)
class Record:
    """One declared thing. `durability` is the declared class ("" = none given), `backing` "kind:ref" or "" for none."""

    seq: int
    kind: str
    label: str
    durability: str
    backing: str


@dataclass(frozen=True, slots=True)
class CallView:
    """One model call, counted once: buckets and cost by field-wise maximum of its rows.

    `cost` None = not reported, and no price is known; `listed`: it is the price list's, because none was reported.
    """

    buckets: usage.Buckets
    model: str
    cost: Decimal | None
    main: bool
    turn: int
    cache_reported: bool
    listed: bool = False


@dataclass(slots=True)
class LegView:
    """State of one leg. Tokens everywhere; `turns` counts from 1 at the first turn.

    `window` is the model's, 0 while it is not known. `next_actions` and `final` are those of the last boundary, gone
    when a later turn starts. `externalized` and `tree_parked` are the agent's statements while they stand: what came
    after them can void them. `fullness`: tool calls by how full the window was when they started, tenth 0 to 9 ->
    [calls, errors]; a call before the first usage started in an empty window. `price`: of calls whose agent reports no
    cost, so that a limit on spend holds while the leg runs.
    """

    window: int = 0
    price: Price | None = field(default=None, repr=False, compare=False)
    last_seq: int = -1
    turns: int = 0
    resident: int = 0
    last_growth: int = 0
    output: int = 0
    new_results: int = 0
    largest_result: int = 0
    peak: int = 0
    peak_turn: int = 0
    model: str = ""
    scripted: bool = False
    trouble: str = ""
    tries: int = 0
    retry_in_ms: int | None = None
    tool_calls: int = 0
    tool_errors: int = 0
    unknown_events: int = 0
    unread: int = 0  # declarations that came malformed
    told: int = 0  # declarations through the query tool
    boundaries: int = 0
    next_actions: tuple[str, ...] = ()
    final: bool = False
    externalized: bool = False
    tree_parked: bool = False
    total: usage.Buckets = usage.ZERO
    spend: Decimal = Decimal(0)
    unpriced: int = 0
    in_flight: dict[str, str] = field(default_factory=dict)
    fullness: dict[int, list[int]] = field(default_factory=dict)
    todos_open: dict[str, str] = field(default_factory=dict)
    calls: dict[str, CallView] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)
    _declared: dict[str, dict[str, Record]] = field(default_factory=dict)
    _files: dict[str, None] = field(default_factory=dict)
    _started_at: dict[str, int] = field(default_factory=dict)  # tool in flight -> tenth of the window
    named: str = ""  # the next action that was named apart from a boundary
    _turn_open: bool = False
    _last_main: str = ""
    _resident_before: int | None = None

    def apply(self, event: Event) -> bool:
        """Fold one event in. False, and nothing changes, for one that was seen, or jumped too far ahead to be ours."""
        if event.seq >= UNREAD:
            self.unread += 1
        elif event.seq >= TOLD:
            self.told += 1
        elif not self.seen.take(event.seq):
            return False
        self.last_seq = self.seen.last
        if not event.known:
            self.unknown_events += 1
            return True
        self._fold(event)
        return True

    @property
    def facts(self) -> list[Record]:
        return self._records("fact")

    @property
    def decisions(self) -> list[Record]:
        return self._records("decision")

    @property
    def questions(self) -> list[Record]:
        return self._records("open_question")

    @property
    def dead_ends(self) -> list[Record]:
        return self._records("dead_end")

    @property
    def artifacts(self) -> list[Record]:
        return self._records("artifact")

    @property
    def files_written(self) -> list[str]:
        return list(self._files)

    def _records(self, kind: str) -> list[Record]:
        return list(self._declared.get(kind, {}).values())

    def _fold(self, event: Event) -> None:
        payload = event.payload
        match event.kind:
            case "turn_started":
                self._begin_turn()
                self._turn_open = True
            case "usage":
                self._usage(payload)
            case "retry":
                self.trouble = payload["cause"]
                self.tries += 1
                self.retry_in_ms = payload.get("retry_in_ms")
            case "tool_asked":
                self._answered()
            case "tool_started":
                self._answered()
                self._tool_started(payload["id"], payload["name"])
            case "tool_ended":
                self._tool_ended(payload)
            case "boundary":
                self._answered()
                self.boundaries += 1
                # what is named at the boundary itself is newer than what was named before it
                self.next_actions = tuple(payload["next_actions"]) or ((self.named,) if self.named else ())
                self.final = payload["final"]
            case "externalized":
                self.externalized = True
            case "park_tree":
                self.tree_parked = True
            case "file_written":
                self.tree_parked = False
                self._file(event)
            case "next_action":
                self.named = payload["text"]
            case "todo":
                self._todo(payload)
            case "fact" | "decision" | "open_question" | "dead_end" | "artifact":
                self._declare(event)

    # --- turns and tokens

    def _answered(self) -> None:
        """The model answers: a call was billed, a tool asked for, a turn ended. That a turn begins says nothing."""
        self.trouble, self.tries, self.retry_in_ms = "", 0, None

    def _begin_turn(self) -> None:
        self.turns += 1
        self.next_actions = ()
        self.final = False

    def _usage(self, payload: Mapping[str, Any]) -> None:
        key: str = payload["message_id"]
        buckets = usage.Buckets.of(payload)
        cost = _cost(payload.get("cost"))
        reported = payload.get("cache_read") is not None
        old = self.calls.get(key)
        if old is None:
            self._answered()
            main = payload["chain"] == "main"
            if main:
                if not self._turn_open:
                    self._begin_turn()
                self._turn_open = False
            cost, listed = self._priced(payload["model"], buckets, cost)
            call = CallView(buckets, payload["model"], cost, main, self.turns, reported, listed)
            self._count(usage.ZERO, None, call, first=True)
        else:
            merged = usage.merge_max(old.buckets, buckets)
            before = None if old.listed else old.cost
            said = cost if before is None else before if cost is None else max(before, cost)
            cost, listed = self._priced(old.model, merged, said)
            seen = old.cache_reported or reported
            call = CallView(merged, old.model, cost, old.main, old.turn, seen, listed)
            self._count(old.buckets, old.cost, call, first=False)
        self.calls[key] = call
        if len(self.calls) > CALLS:  # its totals stay; only its key is forgotten
            del self.calls[next(iter(self.calls))]
        self.scripted = self.scripted or call.model.startswith("scripted")
        if call.main:
            self._main_call(key, call, first=old is None)

    def _priced(self, model: str, buckets: usage.Buckets, said: Decimal | None) -> tuple[Decimal | None, bool]:
        """What a call costs, and whether the price list says it: only where the agent does not."""
        if said is not None or self.price is None:
            return said, False
        found = self.price(model, buckets)
        return found, found is not None

    def _count(self, before: usage.Buckets, cost_before: Decimal | None, call: CallView, *, first: bool) -> None:
        self.total = usage.corrected(self.total, before, call.buckets)
        if call.cost is not None:
            self.spend += call.cost - (cost_before or 0)
            if not first and cost_before is None:
                self.unpriced -= 1
        elif first or cost_before is not None:
            self.unpriced += 1
            self.spend -= cost_before or 0

    def _main_call(self, key: str, call: CallView, *, first: bool) -> None:
        resident = usage.resident(call.buckets)
        if first:
            self._resident_before = self.resident if self._last_main else None
            self._last_main = key
            self.model = call.model
            self.new_results = 0
        if key == self._last_main:
            self.resident = resident
            self.output = call.buckets.output
            before = self._resident_before
            self.last_growth = 0 if before is None else max(0, resident - before)
        if resident > self.peak:
            self.peak, self.peak_turn = resident, call.turn

    # --- tools

    def _tool_started(self, tool: str, name: str) -> None:
        self.externalized = False
        self.tree_parked = False
        if tool not in self.in_flight:
            self.tool_calls += 1
            self._filled(tool)
        _put(self.in_flight, tool, name, recorded("more than %(records)s tools at once", records=RECORDS))

    def _filled(self, tool: str) -> None:
        if self.window <= 0:
            return
        tenth = min(9, self.resident * 10 // self.window)
        self.fullness.setdefault(tenth, [0, 0])[0] += 1
        if len(self._started_at) < RECORDS:
            self._started_at[tool] = tenth

    def _tool_ended(self, payload: Mapping[str, Any]) -> None:
        tokens = payload.get("result_tokens")
        if tokens is None:
            tokens = -(-(payload.get("result_bytes") or 0) // 4)
        self.new_results += tokens
        self.largest_result = max(self.largest_result, tokens)
        # an end without a start counts its result, which is in the window, but is no call of ours
        tenth = self._started_at.pop(payload["id"], None)
        if self.in_flight.pop(payload["id"], None) is not None and not payload["ok"]:
            self.tool_errors += 1
            if tenth is not None:
                self.fullness[tenth][1] += 1

    # --- what the agent declares

    def _declare(self, event: Event) -> None:
        payload, kind = event.payload, event.kind
        if kind == "artifact":
            pointer = f"{payload['kind']}:{payload['ref']}"
            record = Record(event.seq, kind, pointer[:LABEL_CHARS], "", _backing(pointer))
            key = pointer
            if payload["kind"] == "commit":
                self.externalized = False
        else:
            backing = payload.get("backing" if kind == "fact" else "pointer")
            durability = payload.get("class", "") if kind == "fact" else ""
            label = payload["label"].strip()
            key = _key(label)
            record = Record(event.seq, kind, label[:LABEL_CHARS], durability, _backing(backing))
            self.externalized = False
        records = self._declared.setdefault(kind, {})
        if record.durability == "turn" and key in records and records[key].durability != "turn":
            return  # what was load-bearing once is not talked away
        if key not in records and len(records) >= RECORDS:
            records.setdefault(
                OVERFLOW,
                Record(
                    event.seq,
                    kind,
                    recorded("more than %(records)s of kind %(kind)s", records=RECORDS, kind=kind),
                    "",
                    "",
                ),
            )
            return
        records[key] = record

    def _todo(self, payload: Mapping[str, Any]) -> None:
        if payload["open"]:
            label = payload.get("label")
            text = label[:LABEL_CHARS] if isinstance(label, str) and label.strip() else payload["id"]
            _put(self.todos_open, payload["id"], text, recorded("more than %(records)s open tasks", records=RECORDS))
        else:
            self.todos_open.pop(payload["id"], None)

    def _file(self, event: Event) -> None:
        if len(self._files) < FILES:
            self._files[event.payload["path"]] = None
        elif event.payload["path"] not in self._files:
            label = recorded("more than %(files)s files written: the rest cannot be checked", files=FILES)
            self._declared.setdefault("fact", {}).setdefault(OVERFLOW, Record(event.seq, "fact", label, "", ""))


def _put(held: dict[str, str], key: str, value: str, full: str) -> None:
    if key in held or len(held) < RECORDS:
        held[key] = value
    else:
        held[OVERFLOW] = full


def _key(label: str) -> str:
    """One label, one entry: said again with a backing, a fact is replaced. Long labels are told apart by digest."""
    if len(label) <= LABEL_CHARS:
        return label
    return label[:LABEL_CHARS] + sha256(label.encode()).hexdigest()


def _backing(pointer: str | None) -> str:
    """A pointer too long to be kept whole backs nothing: half of one could resolve to something else."""
    return pointer if pointer and len(pointer) <= BACKING_CHARS else ""


def _cost(value: object) -> Decimal | None:
    return None if value is None else Decimal(str(value)).quantize(_MONEY_STEP)

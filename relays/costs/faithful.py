"""More faithful? What was read again after compactions, against what a rotation's successor read again; OBSERVED only.

The rule is `relays.core.faithful`. A compaction's side comes from the files that the calls of imported sessions read
and wrote (`SessionTouch`); a rotation's from what its leg declared or recalled and what the next leg recalled from its
stores. Of a leg that never recalled anything nothing is known: it may have read the same files with its own tools.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from relays.core import faithful
from relays.core.faithful import ReadAgain, Rotation
from relays.core.verdicts import VerdictLine
from relays.models import Boundary, CostDue, Event, Fact, Leg, PageFault, Relay, Session, SessionTouch

#: rotations and sessions that are looked at: the newest
MOST: Final = 500


# --- sessions


def cuts_of(session: Session, keys: Sequence[str], cuts: Sequence[int]) -> list[tuple[int, int] | None]:
    """Per compaction (after main call `cut`, from 1) how many files the window held and how many were read again.

    `keys`: the session's main calls in order. None where no file is known that the window held. One query.
    """
    number = {key: at for at, key in enumerate(keys, 1)}
    touched: dict[int, set[str]] = defaultdict(set)
    for call, ref in SessionTouch.objects.filter(session=session).values_list("call", "ref").iterator(chunk_size=5_000):
        if call in number:
            touched[number[call]].add(ref)
    found: list[tuple[int, int] | None] = []
    begun = 1
    for cut in cuts:
        held = {ref for call in range(begun, cut + 1) for ref in touched.get(call, ())}
        after = [touched.get(call, set()) for call in range(cut + 1, cut + 1 + faithful.SOON)]
        one = faithful.read_again(held, after)
        found.append((one.resident, one.again) if held else None)
        begun = cut + 1
    return found


def compactions() -> list[ReadAgain]:
    """All measured compactions of the newest sessions that compacted. One query."""
    kept = CostDue.objects.filter(compactions__gt=0).order_by("-seen").values_list("cuts", flat=True)[:MOST]
    return [ReadAgain(*cut["again"]) for cuts in kept for cut in cuts if cut.get("again")]


# --- relays


def rotations(relay: Relay) -> list[Rotation]:
    """The newest rotations of a relay, oldest first. A fixed number of queries."""
    newest = Leg.objects.filter(relay=relay, calls__gt=0).order_by("-number")
    legs = list(newest.values("pk", "number", "coverage_made", "coverage_reached")[: MOST + 1])[::-1]
    keys = [leg["pk"] for leg in legs]
    held = _held(keys)
    soon = _soon(keys)
    recalled: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for pk, seq, kind, ref in PageFault.objects.filter(leg__in=keys).values_list("leg_id", "seq", "kind", "ref"):
        recalled[pk].append((seq, f"{kind}:{ref}"))
        held[pk].add(f"{kind}:{ref}")
    found: list[Rotation] = []
    for leg, following in zip(legs, legs[1:], strict=False):
        read = None
        if following["pk"] in recalled:
            until = soon.get(following["pk"])
            again = [ref for seq, ref in recalled[following["pk"]] if until is None or seq <= until]
            read = faithful.read_again(held[leg["pk"]], [again])
        made = leg["coverage_made"] or 0
        found.append(Rotation(read, made, min(leg["coverage_reached"] or 0, made)))
    return found


def _held(legs: Sequence[int]) -> dict[int, set[str]]:
    """Per leg the references that its window held: what it declared with a pointer, and the files that it wrote."""
    held: dict[int, set[str]] = defaultdict(set)
    for leg, backing in Fact.objects.filter(leg__in=legs).exclude(backing="").values_list("leg_id", "backing"):
        held[leg].add(backing)
    for leg, payload in Event.objects.filter(leg__in=legs, kind="file_written").values_list("leg_id", "payload"):
        if isinstance(payload, dict) and payload.get("path"):
            held[leg].add(f"file:{payload['path']}")
    return held


def _soon(legs: Sequence[int]) -> dict[int, int]:
    """Per leg the sequence number at which its first calls, those that count as reading again, were over."""
    rows = Boundary.objects.filter(leg__in=legs, turn=faithful.SOON)
    return dict(rows.values_list("leg_id", "seq"))


# --- the verdict


def of_relay(relay: Relay) -> dict[str, Any]:
    """The JSON of `Comparison.faithful`: {"verdict", "what", "rows": [[label, share or null, n]], "numbers"}."""
    return as_json(faithful.judge(compactions(), rotations(relay)))


def of_session(session: Session) -> dict[str, Any]:
    """The same of a session: it has no rotations, so that no word is said of it."""
    kept = CostDue.objects.filter(session=session).values_list("cuts", flat=True).first() or []
    line = faithful.judge([ReadAgain(*cut["again"]) for cut in kept if cut.get("again")], [])
    return as_json(line)


def as_json(line: VerdictLine) -> dict[str, Any]:
    rows = [[label, _of(line, name, "share"), _of(line, name, "n") or 0] for name, label in faithful.LABELS.items()]
    return {"verdict": line.verdict, "what": line.what, "rows": rows, "numbers": line.numbers}


def _of(line: VerdictLine, name: str, part: str) -> Any:
    group = line.numbers.get(name)
    return group.get(part) if isinstance(group, dict) else None

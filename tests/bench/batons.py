"""Steps 1 to 5 of the reader's ladder: how many batons a second, beside a JSON parser that checks nothing."""

import json
import time

from tests.bench.table import Row

SHA = "0123456789abcdef0123456789abcdef01234567"


def rows(seconds: float) -> list[Row]:
    return [
        _measure("a plain baton", _text(3, 3, 3), seconds),
        _measure("a baton of nearly 16 KiB", _text(64, 100, 64), seconds),
    ]


def _text(questions: int, artifacts: int, dead_ends: int) -> str:
    from relays.core.baton import SCHEMA, canonical, read
    from relays.core.objective import pin_digest

    text = json.dumps(
        {
            "schema": SCHEMA,
            "relay_id": "RLY-20260701-0001",
            "leg": 7,
            "parent_trace": "trace-7",
            "objective": {"pin_id": "pin-1", "text": "Drain it.", "digest": pin_digest("pin-1", "Drain it.")},
            "done_when": "issues:none open",
            "progress_cursor": {"start_sha": SHA, "held_region": ["docs/**"]},
            "next_action": "Close the next open issue.",
            "open_questions": [f"issue:#{number + 1} which of the two parsers" for number in range(questions)],
            "artifacts": [{"kind": "commit", "ref": f"{number:040x}"} for number in range(artifacts)],
            "do_not_rederive": [
                f"memory:tried-{number} it deadlocks on the second lock" for number in range(dead_ends)
            ],
            "tombstone": {"reason": "RELAY_ROTATED", "at_sha": SHA},
        }
    )
    baton = read(text).baton
    if baton is None:
        raise RuntimeError("the baton of the bench is refused, so there is nothing to measure")
    return canonical(baton).decode()


def _measure(what: str, text: str, seconds: float) -> Row:
    from relays.core.baton import read

    ours, peer = _rate(lambda: read(text), seconds), _rate(lambda: json.loads(text), seconds)
    return Row(
        f"parse and steps 1 to 5, {what}", ours, "/s", peer, "json.loads alone", detail={"bytes": len(text.encode())}
    )


def _rate(act, seconds: float) -> float:
    """Calls a second, over at least `seconds`."""
    count, begun = 0, time.perf_counter()
    while (spent := time.perf_counter() - begun) < seconds:
        for _ in range(10):
            act()
        count += 10
    return count / spent

"""Batons for tests: one plain valid text, and strategies that make any valid one."""

import copy
import json
from typing import Any

from hypothesis import strategies as st

from relays.core.objective import pin_digest
from relays.core.vocabulary import TOMBSTONE_REASONS

SHA = "0123456789abcdef0123456789abcdef01234567"
OTHER = "89abcdef0123456789abcdef0123456789abcdef"

PLAIN: dict[str, Any] = {
    "schema": "fak.relay.baton.v1",
    "relay_id": "RLY-20260701-0001",
    "leg": 7,
    "parent_trace": "trace-7",
    "objective": {"pin_id": "pin-1", "text": "Drain it.", "digest": pin_digest("pin-1", "Drain it.")},
    "done_when": "issue:#12 closed",
    "progress_cursor": {"start_sha": SHA, "held_region": ["docs/**"]},
    "next_action": "Close #12.",
    "open_questions": ["issue:#5 which parser"],
    "artifacts": [{"kind": "issue", "ref": "#12"}, {"kind": "commit", "ref": SHA}],
    "do_not_rederive": ["memory:tried-x it deadlocks"],
    "tombstone": {"reason": "RELAY_ROTATED", "at_sha": SHA},
}


def plain(**changes: Any) -> dict[str, Any]:
    """The plain valid baton as data, with top-level keys replaced."""
    return {**copy.deepcopy(PLAIN), **changes}


def text_of(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


# Characters with a UTF-8 form and without a line break.
CHARACTERS = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])


def line(limit: int, least: int = 1) -> st.SearchStrategy[str]:
    """One line within `limit` UTF-8 bytes that is not blank."""
    return st.text(CHARACTERS, min_size=least, max_size=40).filter(
        lambda text: len(text.encode()) <= limit and (least == 0 or text.strip() != "")
    )


SHAS = st.text("0123456789abcdef", min_size=40, max_size=40) | st.text("0123456789abcdef", min_size=64, max_size=64)
SLUGS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,12}", fullmatch=True)
ISSUES = st.integers(1, 10**9).map("#{}".format)
PATHS = st.lists(SLUGS, min_size=1, max_size=3).map("/".join).filter(lambda path: ".." not in path.split("/"))
POINTERS = st.one_of(
    st.tuples(st.just("commit"), SHAS),
    st.tuples(st.just("issue"), ISSUES),
    st.tuples(st.just("memory"), SLUGS),
    st.tuples(st.just("ledger"), SLUGS),
    st.tuples(st.just("file"), PATHS),
)


@st.composite
def entries(draw: st.DrawFn) -> str:
    kind, ref = draw(POINTERS)
    label = draw(line(100, least=0))
    return f"{kind}:{ref} {label}" if label else f"{kind}:{ref}"


@st.composite
def batons(draw: st.DrawFn) -> dict[str, Any]:
    """Any valid baton as data, optional keys now present, now not, lists with repeats."""
    pin_id, text = draw(line(60)), draw(st.text(st.characters(codec="utf-8"), min_size=1, max_size=60))
    if not text.strip():
        text = "Drain it."
    objective: dict[str, Any] = {"pin_id": pin_id, "text": text, "digest": pin_digest(pin_id, text)}
    if draw(st.booleans()):
        objective |= {"step": draw(st.integers(0, 2**63 - 1)), "source_span_id": draw(line(60, least=0))}
    cursor: dict[str, Any] = {
        "start_sha": draw(SHAS),
        "held_region": draw(st.lists(PATHS, min_size=1, max_size=4)),
    }
    if draw(st.booleans()):
        cursor |= {"ledger_ref": draw(SLUGS), "wip_tree": draw(SHAS), "session_image": draw(line(60))}
    tombstone: dict[str, Any] = {"reason": draw(st.sampled_from(sorted(TOMBSTONE_REASONS))), "at_sha": draw(SHAS)}
    if draw(st.booleans()):
        tombstone["note"] = draw(line(100, least=0))
    return {
        "schema": "fak.relay.baton.v1",
        "relay_id": draw(SLUGS),
        "leg": draw(st.integers(0, 2**63 - 1)),
        "parent_trace": draw(line(60)),
        "objective": objective,
        "done_when": draw(line(200)),
        "progress_cursor": cursor,
        "next_action": draw(line(150, least=0)),
        "open_questions": draw(st.lists(entries(), max_size=4)),
        "artifacts": [{"kind": kind, "ref": ref} for kind, ref in draw(st.lists(POINTERS, max_size=5))],
        "do_not_rederive": draw(st.lists(entries(), max_size=4)),
        "tombstone": tombstone,
    }

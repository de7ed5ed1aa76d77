"""baton.md, Canonical bytes · Bounds: the writer reproduces all that the strict reader accepts, up to the largest.

"Compact JSON in the key order above, UTF-8, no trailing newline, lists in their given order (de-duplicated, never
sorted). … A baton's digest is sha256 over these bytes. Encoding is idempotent."
"""

import hashlib
import json
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relays.core.baton import Bounds, canonical, digest, read
from relays.core.objective import pin_digest
from relays.core.strictjson import write
from tests.core.batons import OTHER, SHA, batons, plain

BOUNDS = Bounds()
MOST = BOUNDS.total * BOUNDS.factor
OPTIONAL = {"step", "source_span_id", "ledger_ref", "wip_tree", "session_image", "note"}


def spelled(value):
    """The canonical spelling, written down a second time and in another way: character by character."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{spelled(key)}:{spelled(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(spelled, value)) + "]"
    if isinstance(value, int):
        return str(value)
    short = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    escaped = (
        short.get(sign) or (f"\\u{ord(sign):04x}" if sign < " " or sign in "<>&\u2028\u2029" else sign)
        for sign in value
    )
    return '"' + "".join(escaped) + '"'


def wanted(data):
    """What must come back of an accepted baton: nothing lost but repeats and optional keys that say nothing."""
    if isinstance(data, dict):
        return {key: wanted(item) for key, item in data.items() if key not in OPTIONAL or item not in ("", 0)}
    if isinstance(data, list):
        seen = []
        for item in data:
            if item not in seen:
                seen.append(item)
        return seen
    return data


def in_order(data):
    """The same keys in the order of the contract, whatever order they came in."""
    order = {
        key: place
        for place, key in enumerate(
            "schema relay_id leg parent_trace objective pin_id text digest step source_span_id done_when "
            "progress_cursor start_sha ledger_ref wip_tree session_image held_region next_action open_questions "
            "artifacts kind ref do_not_rederive tombstone reason at_sha note".split()
        )
    }
    if isinstance(data, dict):
        return {key: in_order(data[key]) for key in sorted(data, key=order.__getitem__)}
    return [in_order(item) for item in data] if isinstance(data, list) else data


def shuffled(data, random):
    if isinstance(data, dict):
        keys = list(data)
        random.shuffle(keys)
        return {key: shuffled(data[key], random) for key in keys}
    return [shuffled(item, random) for item in data] if isinstance(data, list) else data


def check(data, text):
    """One spelling of a baton that must be accepted."""
    reading = read(text)
    assert reading.refusal is None, reading.refusal
    made = canonical(reading.baton)
    assert made == spelled(in_order(wanted(data))).encode()
    again = read(made)
    assert again.refusal is None, again.refusal
    assert canonical(again.baton) == made
    assert digest(reading.baton) == digest(again.baton) == hashlib.sha256(made).hexdigest()


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(batons(), st.randoms(), st.booleans(), st.sampled_from([None, 1]))
def test_any_spelling_of_a_baton_has_one_canonical_form(data, random, ascii_only, indent):
    check(data, json.dumps(shuffled(data, random), ensure_ascii=ascii_only, indent=indent))


def test_every_character_is_written_as_the_contract_says():
    """Escaping, over all of Unicode."""
    for start in range(0, sys.maxunicode + 1, 4096):
        text = "".join(chr(code) for code in range(start, start + 4096) if not 0xD800 <= code < 0xE000)
        assert write(text) == spelled(text)


def large(**changes):
    """A baton with every list at the most entries that a reader takes, and every line long."""
    questions = [f"issue:#{number + 1} which one" for number in range(BOUNDS.open_questions * BOUNDS.factor)]
    data = plain(
        leg=2**63 - 1,
        open_questions=questions,
        artifacts=[{"kind": "issue", "ref": f"#{n + 1}"} for n in range(BOUNDS.artifacts * BOUNDS.factor)],
        do_not_rederive=[f"memory:m{number}" for number in range(BOUNDS.do_not_rederive * BOUNDS.factor)],
        next_action="n" * (BOUNDS.next_action * BOUNDS.factor),
        done_when="d" * (BOUNDS.line * BOUNDS.factor),
    )
    data["progress_cursor"]["held_region"] = [f"r{n}/**" for n in range(BOUNDS.held_region * BOUNDS.factor)]
    data["tombstone"]["note"] = "\u00e9" * (BOUNDS.line * BOUNDS.factor // 2)
    return {**data, **changes}


def objective(text):
    return {"pin_id": "p", "text": text, "digest": pin_digest("p", text)}


@pytest.mark.parametrize(
    "data",
    [
        large(),
        plain(leg=0, open_questions=[], artifacts=[], do_not_rederive=[], next_action=""),
        plain(objective=objective("\U0010ffff" * (BOUNDS.objective * BOUNDS.factor // 4))),
        plain(objective=objective("\x00\n<>&\u2028" * 1500)),
        plain(objective=objective("<" * 20_000)),
        plain(artifacts=[{"kind": "commit", "ref": sha} for sha in (SHA, OTHER, SHA) * 300]),
        plain(open_questions=["memory:m " + "\u2029" * 300] * 3),
    ],
    ids=["all lists full", "all lists empty", "four-byte text", "escapes", "six bytes for one", "repeats", "label"],
)
def test_the_largest_and_the_smallest_are_reproduced(data):
    check(data, json.dumps(data, ensure_ascii=False))


def test_what_is_accepted_has_a_canonical_form_that_is_accepted():
    """Escapes make a text up to six times as long: where that passes the bound, it is refused when it is read."""
    data = plain(objective=objective("<" * 30_000))
    text = json.dumps(data, ensure_ascii=False)
    assert len(text.encode()) < MOST < len(spelled(in_order(data)).encode())
    refusal = read(text).refusal
    assert refusal is not None
    assert (refusal.step, refusal.path) == (1, "")
    assert "canonical" in refusal.evidence


@pytest.mark.parametrize("size", [MOST - 1, MOST, MOST + 1])
def test_the_bound_is_met_to_the_byte(size):
    text = json.dumps(plain()).encode()
    padded = text + b" " * (size - len(text))
    assert (read(padded).refusal is None) is (size <= MOST)

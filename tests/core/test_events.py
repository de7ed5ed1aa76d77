import json
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core import events
from relays.core.eventforms import KINDS, SCHEMAS, TOKENS_MAX
from relays.core.events import DEPTH, LINE_BYTES, SEQ_MAX, parse_line

USAGE = {
    "model": "m",
    "message_id": "msg-1",
    "input": 1,
    "cache_read": 2,
    "cache_write_5m": 3,
    "cache_write_1h": 4,
    "output": 5,
    "chain": "main",
}

#: one whole event of each kind of interface.md, and ours
WHOLE = {
    "turn_started": {},
    "tool_asked": {"id": "t1", "name": "deploy"},
    "tool_started": {"id": "t1", "name": "edit"},
    "tool_ended": {"id": "t1", "ok": True, "result_tokens": 10},
    "usage": USAGE,
    "retry": {"cause": "overload", "retry_in_ms": 5000},
    "compacted": {"tokens_before": 167_000},
    "fact": {"label": "the port is 8001", "class": "durable", "backing": "file:notes.md"},
    "decision": {"label": "use sqlite", "pointer": "ledger:r1"},
    "open_question": {"label": "which port?"},
    "dead_end": {"label": "tried threads", "pointer": None},
    "artifact": {"ref": "commit:" + "a" * 40},
    "assumption": {"key": "os", "statement": "linux", "source": "witnessed", "confidence": 1},
    "promotion": {"slug": "port", "class": "durable", "evidence": "file:notes.md", "consent": True},
    "page_fault": {"ref": "memory:port", "required": True, "durability": "durable"},
    "todo": {"id": "1", "open": True},
    "file_written": {"path": "work/1.md"},
    "park_tree": {},
    "externalized": {},
    "boundary": {"next_actions": ["take issue #2"], "final": False},
    "ask": {"question": "Which port?", "about": "assumption", "step": "the release"},
    "ledger": {"refs": ["commit:" + "a" * 40], "note": "done"},
    "next_action": {"text": "take issue #2"},
}


def line(kind, payload, seq=0, **more):
    return json.dumps({"kind": kind, "seq": seq, **payload, **more}).encode()


def problem(raw):
    parsed = parse_line(raw)
    assert parsed.event is None
    assert parsed.problem
    assert parsed.problem.isprintable()
    assert len(parsed.problem) <= 300
    return parsed.problem


def test_the_vocabulary_is_the_one_of_the_protocol_and_ledger():
    assert set(WHOLE) == KINDS == set(SCHEMAS)


@pytest.mark.parametrize("kind", WHOLE)
def test_a_whole_event_of_each_kind_is_accepted(kind):
    parsed = parse_line(line(kind, WHOLE[kind], seq=7) + b"\n")
    assert parsed.problem is None
    assert (parsed.event.kind, parsed.event.seq, parsed.event.at, parsed.event.known) == (kind, 7, None, True)
    apart = {"artifact": {"kind": "commit", "ref": "a" * 40}, "page_fault": {"kind": "memory", "ref": "port"}}
    assert parsed.event.payload == WHOLE[kind] | apart.get(kind, {}) == parsed.payload


@pytest.mark.parametrize(
    ("fields", "kind", "ref"),
    [
        ({"ref": "file:a:b.md"}, "file", "a:b.md"),
        ({"ref": "#12"}, "issue", "#12"),
        ({"ref": "issue:#12"}, "issue", "#12"),
        ({"artifact": {"kind": "memory", "ref": "port"}}, "memory", "port"),
    ],
)
def test_the_pointer_of_an_artifact_beside_the_kind_of_the_event(fields, kind, ref):
    payload = parse_line(line("artifact", fields)).event.payload
    assert (payload["kind"], payload["ref"]) == (kind, ref)


@pytest.mark.parametrize(
    "fields", [{"ref": "abc"}, {"ref": "tag:v1"}, {"ref": "commit:"}, {"artifact": {"ref": "x"}}, {}]
)
def test_an_artifact_without_a_whole_pointer_is_malformed(fields):
    assert problem(line("artifact", fields)).startswith("artifact: ")


REQUIRED = {
    "tool_started": ["id", "name"],
    "tool_ended": ["id", "ok", "result_tokens"],
    "usage": sorted(USAGE),
    "retry": ["cause"],
    "fact": ["label"],
    "decision": ["label"],
    "open_question": ["label"],
    "dead_end": ["label"],
    "artifact": ["ref"],
    "assumption": ["key", "source", "statement"],
    "promotion": ["slug"],
    "page_fault": ["durability", "ref", "required"],
    "todo": ["id", "open"],
    "file_written": ["path"],
    "boundary": ["final", "next_actions"],
    "ask": ["question"],
    "ledger": ["refs"],
}


@pytest.mark.parametrize(("kind", "field"), [(kind, field) for kind, fields in REQUIRED.items() for field in fields])
def test_a_missing_field_is_named(kind, field):
    found = problem(line(kind, {key: value for key, value in WHOLE[kind].items() if key != field}))
    assert found.startswith(f"{kind}: ")
    assert field in found or (field == "ref" and "kind" in found)


@pytest.mark.parametrize(
    ("kind", "payload", "named"),
    [
        ("tool_ended", {"id": "t", "ok": 1, "result_tokens": 1}, "ok"),
        ("tool_ended", {"id": "t", "ok": True, "result_tokens": -1}, "result_tokens"),
        ("tool_ended", {"id": "t", "ok": True, "result_tokens": TOKENS_MAX + 1}, "result_tokens"),
        ("tool_ended", {"id": "t", "ok": True, "result_tokens": True}, "result_tokens"),
        ("tool_started", {"id": 3, "name": "x"}, "id"),
        ("tool_started", {"id": "", "name": "x"}, "id"),
        ("usage", USAGE | {"input": 1.0}, "input"),
        ("usage", USAGE | {"input": None}, "input"),
        ("usage", USAGE | {"chain": "side"}, "chain"),
        ("usage", USAGE | {"cost": -1}, "cost"),
        ("usage", USAGE | {"cost": "much"}, "cost"),
        ("usage", USAGE | {"cost": "NaN"}, "cost"),
        ("usage", USAGE | {"cost": True}, "cost"),
        ("usage", USAGE | {"message_id": "x" * 121}, "message_id"),
        ("retry", {"cause": "elsewhere"}, "cause"),
        ("ask", {"question": "Q?", "about": "everything"}, "about"),
        ("ask", {"question": "Q?", "step": "x" * 41}, "step"),
        ("retry", {"cause": "network", "retry_in_ms": 86_400_001}, "retry_in_ms"),
        ("retry", {"cause": "network", "retry_in_ms": -1}, "retry_in_ms"),
        ("fact", {"label": "  ", "class": "durable", "backing": None}, "label"),
        ("fact", {"label": "x", "class": None, "backing": None}, "class"),
        ("fact", {"label": "x", "class": "turn", "backing": 4}, "backing"),
        ("assumption", WHOLE["assumption"] | {"source": "guessed"}, "source"),
        ("assumption", WHOLE["assumption"] | {"confidence": 1.01}, "confidence"),
        ("assumption", WHOLE["assumption"] | {"confidence": "1"}, "confidence"),
        ("todo", {"id": "1", "open": "yes"}, "open"),
        ("boundary", {"next_actions": "one", "final": False}, "next_actions"),
        ("boundary", {"next_actions": [1], "final": False}, "next_actions.0"),
        ("boundary", {"next_actions": ["x"] * 65, "final": False}, "next_actions"),
        ("ledger", {"refs": []}, "refs"),
        ("ledger", {"refs": ["x" * 511]}, "refs.0"),
    ],
)
def test_a_wrong_type_or_value_is_named(kind, payload, named):
    found = problem(line(kind, payload))
    assert found.startswith(f"{kind}: {named}: ")


def test_an_unknown_extra_field_is_kept_in_the_payload():
    parsed = parse_line(line("turn_started", {"mood": [1, {"a": None}]}))
    assert parsed.event.known
    assert parsed.event.payload == {"mood": [1, {"a": None}]}


def test_an_unknown_kind_is_kept_and_marked():
    parsed = parse_line(line("dance", {"x": 1}, seq=3))
    assert parsed.event is not None
    assert not parsed.event.known
    assert parsed.event.payload == {"x": 1}


def test_a_fact_without_class_or_backing_is_not_lost():
    """Losing a declaration would open the gate; taken as it is, it refuses the gate."""
    assert parse_line(line("fact", {"label": "only said"})).event is not None


def test_the_time_is_read_in_utc():
    parsed = parse_line(line("turn_started", {}, at="2026-03-01T12:00:00+02:00"))
    assert parsed.event.at == datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert parse_line(line("turn_started", {}, at="2026-03-01T12:00:00Z")).event.at.hour == 12


@pytest.mark.parametrize("at", [5, "soon", "2026-03-01T12:00:00", "0001-01-01T00:00:00+14:00", "", [], "1" * 5000])
def test_a_time_that_is_none_is_malformed(at):
    assert problem(line("turn_started", {}, at=at)).startswith("at: ")


@pytest.mark.parametrize("seq", [-1, 1.0, True, "1", None, SEQ_MAX + 1, [], 10**39])
def test_seq_is_an_integer_from_zero(seq):
    assert problem(line("turn_started", {}, seq=seq)).startswith("seq: ")
    assert parse_line(line("turn_started", {}, seq=SEQ_MAX)).event.seq == SEQ_MAX


@pytest.mark.parametrize("kind", ["", 5, None, [], {}, "x" * 41, "a\nb"])
def test_kind_is_a_short_name(kind):
    assert problem(line(kind, {})).startswith("kind: ")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", "empty"),
        (b"  \n", "empty"),
        (b"null", "not a JSON object"),
        (b"[]", "not a JSON object"),
        (b"{", "not JSON"),
        (b'{"kind":"park_tree","seq":0} x', "not JSON"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        (b'{"kind":"park_tree","seq":0,"x":"\xff"}', "not UTF-8"),
        (b'{"kind":"park_tree","seq":0,"seq":1}', "seq: key given twice"),
        (b'{"kind":"park_tree","seq":0,"x":{"a":1,"a":1}}', "a: key given twice"),
        (b'{"kind":"park_tree","seq":0,"x":NaN}', "NaN"),
        (b'{"kind":"park_tree","seq":0,"x":-Infinity}', "Infinity"),
        (b'{"kind":"park_tree","seq":0,"x":1e999}', "out of range"),
        (b'{"kind":"park_tree","seq":0,"x":' + b"9" * 5000 + b"}", "out of range"),
        (b'{"kind":"park_tree","seq":0,"x":"\\u0000"}', "NUL"),
        (b'{"kind":"park_tree","seq":0,"x":[{"\\ud800":1}]}', "lone surrogate"),
        (b'{"kind":"park_tree","seq":0,"x":"a\tb"}', "not JSON"),
        (b'{"kind":"park_tree","seq":0,"x":"' + b"y" * LINE_BYTES + b'"}', "more than"),
    ],
)
def test_a_malformed_line_is_a_problem_in_one_line(raw, why):
    assert why in problem(raw)


def nested(depth):
    return b'{"kind":"dance","seq":0,"x":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


def test_depth_is_bounded():
    assert parse_line(nested(DEPTH)).event is not None
    assert "nested" in problem(nested(DEPTH + 1))
    assert "nested" in problem(nested(100_000))


def test_brackets_inside_a_text_are_no_depth():
    assert parse_line(line("fact", {"label": "[" * 500 + '\\"' + "{" * 500})).event is not None


def test_hostile_quoting_costs_no_time():
    raw = b'{"x":' + b"[" * 40 + b'"' + b'\\"' * 120_000
    began = time.perf_counter()
    problem(raw)
    assert time.perf_counter() - began < 20  # a scan that starts anew at each quote takes minutes


def test_a_problem_shows_the_seq_where_it_could_be_read():
    parsed = parse_line(line("todo", {"id": "1"}, seq=12))
    assert (parsed.event, parsed.kind, parsed.seq) == (None, "todo", 12)


texts = st.text(alphabet="ab:#\0\ud800\n\u2028é☃0", max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
field_names = st.sampled_from(sorted({name for payload in WHOLE.values() for name in payload} | {"at", "seq", "kind"}))


def check(raw):
    parsed = parse_line(raw)
    assert (parsed.event is None) == (parsed.problem is not None)
    if parsed.event is None:
        assert parsed.problem
        assert parsed.problem.isprintable()
    else:
        json.dumps(parsed.event.payload, ensure_ascii=False, allow_nan=False).encode()


@given(st.binary(max_size=300))
def test_bytes_never_raise(raw):
    check(raw)


@given(st.sampled_from(sorted(WHOLE)), st.dictionaries(field_names, json_values, max_size=5))
def test_any_values_in_any_fields_never_raise(kind, change):
    check(json.dumps({"kind": kind, "seq": 0, **WHOLE[kind], **change}).encode())


@given(st.sampled_from(sorted(WHOLE)), st.data())
def test_a_cut_line_never_raises(kind, data):
    whole = line(kind, WHOLE[kind])
    check(whole[: data.draw(st.integers(0, len(whole)))])


# --- what a malformed line declared (rules.md, Externalize gate: "an unknown class is load-bearing")


@pytest.mark.parametrize(
    ("raw", "kind", "label"),
    [
        (b'{"kind":"fact","seq":1,"label":"the port is 8080","class":5}', "fact", "the port is 8080"),
        (b'{"kind":"fact","label":"no number"}', "fact", "no number"),
        (b'{"kind":"fact","seq":-1,"label":"a bad number","class":"turn"}', "fact", "a bad number"),
        (b'{"kind":"decision","seq":1,"label":"use WAL","pointer":7}', "decision", "use WAL"),
        (b'{"kind":"dead_end","seq":1,"at":"yesterday","label":"no"}', "dead_end", "no"),
        (b'{"kind":"open_question","seq":1,"label":["why"]}', "open_question", None),
        (b'{"kind":"fact","seq":1,"label":"cut', "fact", None),
        (b'{"kind": "fact" ,"seq":1,"seq":2,"label":"twice"}', "fact", None),
        (b'{"kind":"fact","seq":1,"label":"\xff"}', "fact", None),
        (b'{"kind":"fact","seq":1,"label":"' + b"x" * 300_000 + b'"}', "fact", None),
        (b'{"kind":"fact","seq":1,"label":' + b"[" * 100 + b"]" * 100 + b"}", "fact", None),
        (b'{"kind":"fact","seq":1,"label":"a\\u0000b"}', "fact", None),
        (b'{"kind":"todo","seq":1,"id":"t","open":"yes"}', "fact", None),
        (b'{"kind":"file_written","seq":1,"path":["/tmp/x"]}', "fact", None),
    ],
)
def test_a_malformed_declaration_still_declares(raw, kind, label):
    parsed = parse_line(raw)
    assert parsed.event is None
    declared = parsed.declares
    assert declared is not None
    assert (declared.kind, declared.seq) == (kind, -1)
    assert declared.payload["label"] == label if label else "cannot be read" in declared.payload["label"]
    assert "class" not in declared.payload and "backing" not in declared.payload
    json.dumps(dict(declared.payload)).encode()


@pytest.mark.parametrize(
    "raw", [b"Compiling 3 files", b'{"kind":"usage","seq":1}', b'{"kind":"boundary","seq":1}', b"", b"{", b'"fact"']
)
def test_what_meant_no_declaration_declares_nothing(raw):
    assert parse_line(raw).declares is None


def test_no_number_of_an_agent_reaches_those_of_the_tool_or_of_malformed_declarations():
    assert parse_line(b'{"kind":"turn_started","seq":%d}' % (events.TOLD - 1)).event is not None
    assert parse_line(b'{"kind":"turn_started","seq":%d}' % events.TOLD).event is None

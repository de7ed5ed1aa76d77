"""The query tool's table: closed, documented, and hostile requests refused in words."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.querytool import (
    SLICE_BYTES,
    TEXT_BYTES,
    VERBS,
    Arguments,
    QueryRefused,
    cut,
    is_request,
    read_arguments,
    read_request,
    request_line,
)

#: one whole use of each verb of interface.md, For agents
WHOLE = {
    "orient": {},
    "recall": {"kind": "file", "ref": "a.txt", "required": True, "durability": "bounded", "offset": 3},
    "ledger_append": {"refs": ["#1"], "note": "n", "assumes": ["k"]},
    "fact": {"label": "x", "class": "durable", "backing": "#1", "assumes": []},
    "decision": {"label": "x", "pointer": "#1"},
    "next_action": {"text": "Go on."},
    "open_question": {"label": "x", "pointer": "#1"},
    "dead_end": {"label": "x", "pointer": "#1"},
    "assume": {"key": "k", "statement": "s", "source": "inferred", "confidence": 1},
    "remember": {"slug": "a", "text": "t", "class": "bounded", "evidence": "#1", "expires_days": 3, "act": "remember"},
    "ask": {"question": "Which?", "about": "memory", "step": "the release"},
    "externalized": {},
    "done_check": {},
    "safe_point": {},
}


def test_the_verbs_are_those_of_the_interface():
    assert list(VERBS) == list(WHOLE)


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_is_documented_and_its_schema_is_closed(verb):
    one = VERBS[verb]
    assert one.what.endswith((".", "?")) and one.schema["type"] == "object"
    assert one.schema["additionalProperties"] is False
    assert set(WHOLE[verb]) <= set(one.schema.get("properties", {}))
    json.dumps(one.schema)


@pytest.mark.parametrize("verb", VERBS)
def test_a_whole_use_is_read_as_it_was_written(verb):
    line = request_line("token", verb, WHOLE[verb])
    assert is_request(line) and b"\n" not in line
    request = read_request(line)
    assert (request.token, request.verb, request.arguments) == ("token", verb, WHOLE[verb])
    assert isinstance(read_arguments(verb, request.arguments), Arguments)


@pytest.mark.parametrize("verb", VERBS)
def test_an_argument_that_no_verb_has_is_refused_by_its_name(verb):
    with pytest.raises(QueryRefused, match="claimed"):
        read_arguments(verb, {**WHOLE[verb], "claimed": 1})


@pytest.mark.parametrize(
    ("verb", "given", "named"),
    [
        ("recall", {"kind": "file"}, "ref"),
        ("recall", {"kind": "file", "ref": " "}, "ref"),
        ("recall", {"kind": "file", "ref": "a", "offset": -1}, "offset"),
        ("recall", {"kind": "file", "ref": "a", "offset": 2**70}, "offset"),
        ("recall", {"kind": "file", "ref": "a", "required": "yes"}, "required"),
        ("recall", {"kind": "file", "ref": "x" * 501}, "ref"),
        ("fact", {"label": "x" * 501}, "label"),
        ("fact", {"label": "x", "backing": 3}, "backing"),
        ("ledger_append", {"refs": []}, "refs"),
        ("ledger_append", {"refs": ["#1"] * 65}, "refs"),
        ("assume", {"key": "k", "statement": "s", "source": "certain"}, "source"),
        ("assume", {"key": "k", "statement": "s", "source": "stale", "confidence": 1.1}, "confidence"),
        ("assume", {"key": "k", "statement": "s", "source": "stale", "confidence": float("nan")}, "confidence"),
        ("remember", {"slug": "a", "text": "ü" * TEXT_BYTES}, "text"),
        ("remember", {"slug": "a", "act": "forget"}, "act"),
        ("remember", {"slug": "a", "expires_days": 0}, "expires_days"),
        ("ask", {"question": ""}, "question"),
        ("next_action", {"text": 5}, "text"),
    ],
)
def test_what_an_argument_must_not_be_is_refused_by_its_name(verb, given, named):
    with pytest.raises(QueryRefused, match=named) as refused:
        read_arguments(verb, given)
    assert refused.value.why.startswith(f"{verb}: ") and len(refused.value.why) <= 300
    assert refused.value.why.isprintable()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b'{"query":"relay.query.v2","token":"t","verb":"orient","args":{}}',
        b'{"query":"relay.query.v1","token":"t","verb":"orient","args":{},"as":"root"}',
        b'{"query":"relay.query.v1","verb":"orient","args":{}}',
        b'{"query":"relay.query.v1","token":"","verb":"orient","args":{}}',
        b'{"query":"relay.query.v1","token":"' + b"t" * 201 + b'","verb":"orient","args":{}}',
        b'{"query":"relay.query.v1","token":"t","verb":"forget","args":{}}',
        b'{"query":"relay.query.v1","token":"t","verb":["orient"],"args":{}}',
        b'{"query":"relay.query.v1","token":"t","verb":"orient","args":[]}',
        b'{"query":"relay.query.v1","token":"t","token":"u","verb":"orient","args":{}}',
        b'{"query":"relay.query.v1","token":"t","verb":"recall","args":{"kind":"file","ref":"a\\u0000"}}',
        b'{"query":"relay.query.v1","token":"t","verb":"orient","args":{"x":"\xff"}}',
        b'{"query":' + b"[" * 100_000,
        b'{"query":"relay.query.v1","args":"' + b"x" * 300_000 + b'"}',
    ],
)
def test_what_is_no_request_is_refused_in_one_line(line):
    with pytest.raises(QueryRefused) as refused:
        read_request(line)
    assert refused.value.why and refused.value.why.isprintable() and len(refused.value.why) < 500


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(raw):
    try:
        read_request(raw)
    except QueryRefused as refused:
        assert "\n" not in refused.why
    else:
        raise AssertionError("nothing random has a token and a verb")


@given(st.sampled_from(sorted(VERBS)), st.dictionaries(st.text(max_size=8), st.integers() | st.text() | st.none()))
def test_arguments_are_read_or_refused_whatever_they_are(verb, given_ones):
    try:
        assert isinstance(read_arguments(verb, given_ones), Arguments)
    except QueryRefused as refused:
        assert "\n" not in refused.why and len(refused.why) <= 300


@given(st.text(), st.integers(1, 64))
def test_slices_put_together_are_the_text_and_none_is_larger_than_its_limit(text, limit):
    raw = text.encode("utf-8", "replace")
    limit = max(limit, 4)
    found, offset = "", 0
    while True:
        part = cut(raw, offset, limit)
        assert len(part.text.encode()) <= limit and part.total == len(raw)
        assert part.left_out == part.total - len(part.text.encode())
        found += part.text
        if part.next_offset is None:
            break
        assert part.next_offset > offset or not part.text
        offset = part.next_offset
    assert found.encode() == raw


@given(st.binary() | st.text("aü€").map(str.encode), st.integers(0, 40) | st.integers(0, 2**40))
def test_any_bytes_are_cut_somewhere(raw, offset):
    part = cut(raw, offset)
    assert len(part.text.encode()) <= SLICE_BYTES and 0 <= part.offset <= part.total

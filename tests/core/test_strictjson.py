import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.strictjson import MAX_DEPTH, Members, OddNumber, TextFault, find_key, join, parse, shown, write

LIMIT = 10_000


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "{} {}",
        "{}x",
        "\ufeff{}",
        b"\xef\xbb\xbf{}",
        b"\xff",
        b'"\xed\xa0\x80"',  # a surrogate written as UTF-8
        "\ud800",
        '{"a":1,}',
        "{'a':1}",
        '"\n"',
        "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
        "[" * 5000,
        '{"a":' * 2000,
        "\x0c{}",
        "\u00a0{}",
        "// x\n{}",
        "01",
        "+1",
        "x" * (LIMIT + 1),
        b"x" * (LIMIT + 1),
        '"' + "é" * 6000 + '"',
    ],
)
def test_what_is_no_json_is_one_fault(text):
    with pytest.raises(TextFault) as fault:
        parse(text, LIMIT)
    assert "\n" not in fault.value.why


def test_white_space_around_is_legal_and_depth_inclusive():
    assert parse(" \t\r\n{} \n", LIMIT) == Members(())
    value = parse("[" * MAX_DEPTH + "]" * MAX_DEPTH, LIMIT)
    assert isinstance(value, list)


def test_brackets_in_strings_are_no_depth():
    assert parse(json.dumps("[{" * 500), LIMIT) == "[{" * 500
    assert parse(json.dumps('\\"[' * 500), LIMIT) == '\\"[' * 500


@pytest.mark.parametrize("text", ['"' + '\\"' * 60_000, '"' * 120_001, "\\" * 120_000, '"\\' * 60_000])
def test_a_bomb_costs_no_more_than_its_reading(text):
    begun = time.process_time()
    with pytest.raises(TextFault):
        parse(text, 131_072)
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize("text", ["7.0", "1e3", "NaN", "Infinity", "-Infinity", "-0", "9" * 20, "9" * 9000])
def test_odd_numbers_stay_odd(text):
    assert parse(text, LIMIT) == OddNumber(text)


@pytest.mark.parametrize(("text", "value"), [("0", 0), ("-1", -1), ("9" * 19, 10**19 - 1), ("true", True)])
def test_plain_values(text, value):
    made = parse(text, LIMIT)
    assert made == value
    assert type(made) is type(value)


def test_duplicates_stay_visible():
    assert parse('{"a":1,"b":{},"a":2}', LIMIT) == Members((("a", 1), ("b", Members(())), ("a", 2)))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"claimed":1}', "claimed"),
        ('{"a":{"claimed":1}}', "a.claimed"),
        ('{"a":[1,{"b":[{"claimed":1}]}]}', "a[1].b[0].claimed"),
        ('{"a":"claimed","Claimed":1}', None),
        ('["claimed"]', None),
    ],
)
def test_a_key_is_found_at_any_depth(text, path):
    assert find_key(parse(text, LIMIT), "claimed") == path


def test_hostile_keys_are_printable_in_a_path():
    assert join("", "a\n\x1b[31m") == "a\\u000a\\u001b[31m"
    assert join("top", "\ud800") == "top.\\ud800"
    assert len(join("", "x" * 5000)) == 61
    assert shown("\u202eabc") == "\\u202eabc"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=10,
    )
)
def test_what_is_written_means_the_same(value):
    text = write(value)
    assert json.loads(text) == value
    assert not set(text) & {"<", ">", "&", "\u2028", "\u2029", *map(chr, range(32))}


def test_a_value_without_a_canonical_spelling_is_refused():
    for value in (1.0, b"x", {1: 2}, object()):
        with pytest.raises(TypeError):
            write(value)

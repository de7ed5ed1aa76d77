"""Generic `relay.event.v1` files."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from relays.core.usage import resident
from tests.sessions.cuts import lines, read


def usage(name: str, read_: int, output: int = 1, **more: Any) -> dict[str, Any]:
    buckets = {"input": read_, "cache_read": 0, "cache_write_5m": None, "cache_write_1h": None, "output": output}
    return {"kind": "usage", "seq": 1, "model": "m", "message_id": name, "chain": "main", **buckets, **more}


def started(name: str) -> dict[str, Any]:
    return {"kind": "tool_started", "seq": 2, "id": name, "name": "bash"}


def ended(name: str, ok: bool = True, size: int = 40) -> dict[str, Any]:
    return {"kind": "tool_ended", "seq": 3, "id": name, "ok": ok, "result_bytes": size}


def test_calls_tools_acts_and_the_cost_that_the_agent_reports() -> None:
    content = lines(
        usage("a", 100, cost=0.25, at="2026-05-01T10:00:00Z"),
        started("t1"),
        ended("t1"),
        ended("t2", ok=False),
        {"kind": "file_written", "seq": 4, "path": "a.py"},
        {"kind": "artifact", "seq": 5, "ref": "commit:1a2b3c4"},
        {"kind": "artifact", "seq": 6, "ref": "memory:note"},
        usage("a", 100, 7, cost=0.25),
        usage("b", 300),
        usage("s", 50, chain="sub"),
    )
    found = read("relay-events", content)
    a, b, s = found.calls.values()
    assert (a.buckets.output, a.tools, a.tool_errors, a.reported_cost) == (7, 2, 1, "0.25")
    assert (resident(b.buckets), b.fill) == (300, {"tool result bash": 40, "tool result": 40})
    assert (s.chain, s.tools) == ("sub", 0)
    assert {(act.kind, act.ref, act.call) for act in found.acts.values()} == {
        ("file", "a.py", a.key),
        ("commit", "1a2b3c4", a.key),
    }
    assert not found.anomalies


def test_a_cost_that_grows_past_a_power_of_ten_is_the_larger_number() -> None:
    """ "9.5" is the larger text, and the smaller amount."""
    extract = read("relay-events", lines(usage("a", 1, cost=9.5), usage("a", 1, cost=10.2)))
    assert [call.reported_cost for call in extract.calls.values()] == ["10.2"]


def test_a_copy_is_the_same_session_and_another_file_of_that_name_is_not() -> None:
    content = lines(usage("a", 100))
    one, copy = (read("relay-events", content, path=f"{folder}/events.ndjson") for folder in ("x", "y"))
    other = read("relay-events", lines(usage("a", 101)), path="x/events.ndjson")
    assert list(one.calls) == list(copy.calls)
    assert set(one.calls).isdisjoint(other.calls)


def test_what_is_malformed_or_unknown_is_counted_and_shown() -> None:
    huge = {"kind": "fact", "seq": 1, "label": "x" * 300_000}
    found = read("relay-events", lines(b"{cut", {"kind": "odd", "seq": 1}, {"kind": "usage", "seq": 2}, huge))
    assert sorted((one.kind.value, one.detail, one.line) for one in found.anomalies.values()) == [
        ("broken_line", "", 1),
        ("broken_line", "usage", 3),
        ("huge_line", "", 4),
        ("unknown_type", "odd", 2),
    ]


RECORDS = st.one_of(
    st.builds(lambda n, size: usage(f"m{n}", size), st.integers(0, 4), st.integers(0, 999)),
    st.builds(lambda n, size: usage(f"s{n}", size, chain="sub"), st.integers(0, 4), st.integers(0, 999)),
    st.builds(lambda n: started(f"t{n}"), st.integers(0, 3)),
    st.builds(lambda n, ok: ended(f"t{n}", ok), st.integers(0, 3), st.booleans()),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=25), st.sets(st.integers(1, 25)))
def test_any_cutting_gives_the_same(records: list[dict[str, Any]], cuts: set[int]) -> None:
    content = lines(*records)
    assert read("relay-events", content, cuts) == read("relay-events", content)

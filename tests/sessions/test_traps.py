"""Public reports of what other tools got wrong, as far as it shows only when all files are put together."""

import json

import pytest

from relays.models import Session, SessionBoundary, SessionCall
from relays.sessions.run import import_paths
from relays.sessions.totals import totals
from tests.sessions.test_files import call

pytestmark = pytest.mark.django_db


def boundary(uid, minute, session="s-1", **meta):
    record = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": uid,
        "parentUuid": None,
        "sessionId": session,
        "timestamp": f"2026-03-01T10:{minute:02d}:30.000Z",
        "compactMetadata": {"trigger": "auto", **meta},
    }
    return json.dumps(record).encode() + b"\n"


def test_t03_a_message_under_several_sessions_counts_once_and_the_copies_are_inherited(tmp_path):
    own = b"".join(call(number) for number in (1, 2, 3))
    (tmp_path / "s-1.jsonl").write_bytes(own)
    (tmp_path / "s-2.jsonl").write_bytes(own.replace(b'"s-1"', b'"s-2"') + call(4, "s-2"))
    outcome = import_paths([tmp_path])
    found = totals(outcome.sources)
    assert (found["calls"], found["tokens"]["output"], found["copied_calls"]) == (4, 20, 3)
    first, second = Session.objects.order_by("sid")
    assert (first.calls, first.copied_calls, second.calls, second.copied_calls) == (3, 0, 1, 3)
    assert second.anomalies == {"inherited_copy": 3}
    # the copy's own window is shown with what it began from, marked as not its own
    assert second.series["points"] == [[1, 1001, 1], [2, 2001, 1], [3, 3001, 1], [4, 4001, 0]]


def test_t06_rows_that_a_compaction_writes_again_count_once(tmp_path):
    rows = call(1) + boundary("b-1", 1, preTokens=2000) + call(2)
    (tmp_path / "s-1.jsonl").write_bytes(rows * 5 + call(3))
    found = totals(import_paths([tmp_path]).sources)
    assert (found["calls"], found["compactions"]) == (3, 1)
    assert found["anomalies"]["repeated_record"] > 0
    assert Session.objects.get().compactions == 1


def test_t07_after_a_boundary_the_figure_from_before_it_is_not_shown(tmp_path):
    path = tmp_path / "s-1.jsonl"
    path.write_bytes(call(50) + call(160) + boundary("b-1", 41, preTokens=161_000, postTokens=17_692))
    import_paths([path])
    session, mark = Session.objects.get(), SessionBoundary.objects.get()
    assert session.fill["resident"] is None
    assert session.fill["now"] == {}
    assert (mark.declared_pre, mark.declared_post) == (161_000, 17_692)
    assert (mark.measured_before, mark.measured_after, mark.after_call) == (160_001, None, 2)
    with path.open("ab") as out:
        out.write(call(61))
    import_paths([path])
    session.refresh_from_db()
    mark.refresh_from_db()
    assert session.fill["resident"] == mark.measured_after == 61_001
    assert mark.declared_post == 17_692, "declared and measured stay apart"
    assert "unexplained_drop" not in session.anomalies


def test_a_drop_without_a_boundary_is_no_compaction(tmp_path):
    (tmp_path / "s-1.jsonl").write_bytes(call(78) + call(41) + call(42))
    import_paths([tmp_path])
    session = Session.objects.get()
    assert (session.anomalies, session.compactions) == ({"unexplained_drop": 1}, 0)


def test_t24_a_session_that_grows_past_its_window_is_seen_without_any_boundary(tmp_path):
    rows = [call(number, model="claude-opus-4-5") for number in (10, 190, 260, 430)]
    (tmp_path / "s-1.jsonl").write_bytes(b"".join(rows))
    import_paths([tmp_path])
    session = Session.objects.get()
    assert (session.window_tokens, session.max_resident, session.compactions) == (200_000, 430_001, 0)
    assert session.anomalies["implausible_usage"] == 2
    assert session.shadow["rotations"] >= 1


def test_an_hour_of_cache_is_priced_apart(tmp_path):
    split = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 1_000_000}
    usage = {"input_tokens": 0, "cache_creation_input_tokens": 1_000_000, "cache_creation": split, "output_tokens": 0}
    short = {**usage, "cache_creation": {"ephemeral_5m_input_tokens": 1_000_000, "ephemeral_1h_input_tokens": 0}}
    (tmp_path / "s-1.jsonl").write_bytes(call(1, usage=usage) + call(2, usage=short))
    import_paths([tmp_path])
    hour, minutes = SessionCall.objects.order_by("key")
    assert (hour.cache_write_1h, minutes.cache_write_5m) == (1_000_000, 1_000_000)
    assert hour.cost is not None
    assert minutes.cost is not None
    # twice the input price against one and a quarter of it
    assert hour.cost * 5 == minutes.cost * 8


def test_an_unknown_model_is_unpriced_and_the_total_says_partial(tmp_path):
    (tmp_path / "s-1.jsonl").write_bytes(call(1, model="nobody-knows-1") + call(2))
    outcome = import_paths([tmp_path])
    session = Session.objects.get()
    assert session.unpriced_calls == 1
    found = totals(outcome.sources)
    assert (found["unpriced"], found["partial"]) == ({"nobody-knows-1": 1}, True)
    assert found["cost"] is not None


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize("first", ["whole", "split"])
def test_t04_a_cache_write_without_its_split_is_the_same_amount_as_the_one_with_it(tmp_path, files, first):
    """A row that names only the total has it under 5 minutes: beside a row with the split it is not written twice."""

    def row(uuid: str, session: str, split: dict[str, int] | None) -> bytes:
        usage = {"input_tokens": 2, "cache_creation_input_tokens": 1000, "output_tokens": 5}
        usage |= {"cache_creation": split} if split else {}
        message = {"id": "m-1", "model": "claude-sonnet-4-5-20250929", "role": "assistant", "usage": usage}
        record = {"type": "assistant", "uuid": uuid, "sessionId": session, "version": "2.1.226", "message": message}
        return json.dumps({**record, "timestamp": "2026-03-01T10:00:00.000Z"}).encode() + b"\n"

    splits = {"whole": None, "split": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 900}}
    order = ("whole", "split") if first == "whole" else ("split", "whole")
    for number, name in enumerate(order):
        session = f"s-{number % files}"
        with (tmp_path / f"{session}.jsonl").open("ab") as out:
            out.write(row(f"u-{number}", session, splits[name]))
    for path in sorted(tmp_path.iterdir()):  # one after the other: rows are put together in the tables
        import_paths([path])
    found = totals(import_paths([tmp_path]).sources)
    assert (found["tokens"]["cache_write_5m"], found["tokens"]["cache_write_1h"]) == (100, 900)
    assert found["max_resident_tokens"] == 1002
    rows = set(SessionCall.objects.values_list("cache_write_5m", "cache_write_1h", "resident"))
    assert rows == {(100, 900, 1002)}

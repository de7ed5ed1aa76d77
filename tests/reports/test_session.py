"""One session's report: the finding, cost beside the agent's own, gaps named, and pages of calls without a scan."""

from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from relays.core import policy, shadow
from relays.core.meter import AnomalyKind
from relays.models import Session, SessionCall, SessionFile
from relays.reports import anomalies, as_relay, session_calls
from relays.reports import session as report
from tests.session_builders import (
    add_anomaly,
    add_calls,
    add_compaction,
    add_leg,
    make_import,
    make_session,
    make_source,
    make_story,
)
from tests.web_builders import make_user

pytestmark = pytest.mark.django_db
RULES = policy.build({}, None, {})


def simulated(**values: Any) -> dict[str, Any]:
    """A stored projection as it is written, of a window that grows by 4,000 a call."""
    window = shadow.Figure(200_000, shadow.Provenance.OBSERVED, "as the agent declares it")
    calls = [shadow.MainCall(20_000 + 4_000 * n) for n in range(60)]
    return {**shadow.would(calls, window, RULES).summary(), **values}


def finding(session: Session) -> str:
    return report.head(session, report.legs_of(session)).finding


def test_the_finding_says_what_happened_and_what_a_relay_would_have_done() -> None:
    session, _ = make_story()
    assert finding(session) == "One compaction here; as a relay: not yet"
    session.shadow = simulated()
    rotations = session.shadow["rotations"]
    assert rotations == 2
    assert (
        finding(session) == "One compaction here; as a relay two rotations, 0 of 1 judged with every pointer verified"
    )
    session.leg_rows.filter(number=0).update(unknown=0)
    assert finding(session).endswith("1 of 1 judged with every pointer verified")


#: what a session is of which only another one's file tells
NAMED: dict[str, Any] = {
    "parent": "earlier", "cwd": "", "branch": "", "version": "", "model_names": [], "first_at": None, "last_at": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"main_calls": 0, "calls": 0}, "No model call in what was read"),
        ({"main_calls": 0, "calls": 3}, "No call of the main chain: no window to look at"),
        ({"main_calls": 0, "calls": 0, "copied_calls": 4}, "Only calls that another session made; nothing of its own"),
        (
            {"main_calls": 4, "max_resident": 216_000},
            "216,000 resident, over a window that is assumed to hold 200,000; as a relay: not yet",
        ),
        (
            {
                "main_calls": 4, "max_resident": 216_000,
                "shadow": {"parameters": {"window": [200_000, "OBSERVED", "declared by the agent"]}},
            },
            "The window of 200,000 tokens was passed: 216,000 resident; as a relay: not yet",
        ),
        (NAMED, "Not read yet: a file of another session names it"),
        ({"main_calls": 4, "compactions": 13}, "13 compactions here; as a relay: not yet"),
    ],
)  # fmt: skip
def test_the_finding_of_odd_sessions(values: dict[str, Any], words: str) -> None:
    assert finding(make_session(**values)) == words


def test_a_relay_that_would_not_have_rotated_is_told_as_well() -> None:
    session = make_session(main_calls=3, shadow=simulated(rotations=0))
    assert finding(session) == "No compaction here; as a relay it would have stayed under the mark"


def test_nothing_simulated_says_what_is_missing() -> None:
    assert as_relay.as_relay(make_session(main_calls=1)).why_not == "it has not been projected yet"
    assert as_relay.as_relay(make_session(main_calls=1, window_tokens=None)).why_not.startswith("the window")
    assert "main call" in as_relay.as_relay(make_session()).why_not
    stored = shadow.would([shadow.MainCall(5)], None, RULES, model="m-1")
    told = as_relay.as_relay(make_session(main_calls=1, shadow=stored.summary()))
    assert not told.known and told.why_not == "the window of m-1 is not known"
    assert "base" in [one.name for one in told.parameters], "what is known is shown all the same"


def test_every_parameter_of_the_simulation_has_its_provenance() -> None:
    told = as_relay.as_relay(make_session(main_calls=60, shadow=simulated()))
    assert told.known and told.mark == 120_000 and told.peak and told.cost is None
    assert {one.name: one.provenance for one in told.parameters} == {
        "window": "OBSERVED", "mark": "ASSUMED", "base": "OBSERVED", "growth": "OBSERVED", "baton": "ASSUMED",
        "orientation": "ASSUMED",
    }  # fmt: skip


@pytest.mark.parametrize(
    "stored", [{}, [], "x", {"points": "x"}, {"points": [[1]], "rotations": "y", "cost": "no"}, None]
)
def test_a_stored_projection_that_is_no_projection_is_not_yet(stored: Any) -> None:
    session = make_session(main_calls=1)
    session.shadow = stored
    assert not as_relay.as_relay(session).known


def test_our_cost_beside_the_agents_own() -> None:
    session = make_session(cost=Decimal("0.527893"), reported_cost=Decimal("0.4"), calls=3)
    kpis = report.kpis(session, [])
    assert kpis.difference == Decimal("0.127893")
    session.unpriced_calls = 1
    assert report.kpis(session, []).difference is None, "a partial sum is compared with nothing"
    session.unpriced_calls, session.reported_cost = 0, None
    assert report.kpis(session, []).difference is None


def test_fidelity_is_not_yet_while_nothing_was_judged() -> None:
    session, _ = make_story()
    kpis = report.kpis(session, report.legs_of(session))
    assert (kpis.fidelity.verified, kpis.fidelity.unknown, kpis.judged, kpis.legs) == (9, 1, 1, 3)
    assert report.kpis(session, []).fidelity.score is None


def test_the_graph_knows_copied_calls_and_where_a_relay_would_rotate() -> None:
    session, _ = make_story()
    session.series = {"n": 60, "points": [[1, 20_000, 1], [2, 22_000, 1], [3, 30_000, 0], ["x", 2], [9]]}
    graph = report.graph(session, report.boundaries_of(session), report.legs_of(session))
    assert [(point.x, point.copied) for point in graph.points] == [(1, True), (2, True), (3, False)]
    assert graph.rotate_at == (28,) and graph.calls == 60 and len(graph.boundaries) == 1
    assert graph.peak and graph.peak.tokens == 30_000


def test_fields_that_no_leg_could_name_are_said_once() -> None:
    session = make_session()
    add_leg(session, 0, 1, 5, "would_rotate", baton={"pointers": ["commit:a1", "file:x"], "missing": ["next_action"]})
    add_leg(
        session, 1, 6, 9, "end", verified=1, dangling=1, unknown=0,
        baton={"pointers": ["commit:b2"], "missing": ["next_action", "tombstone.reason"], "dropped": 4},
        checks=[
            {"pointer": "commit:b2", "verdict": "verified", "evidence": "in the repository"},
            {"pointer": "file:gone", "verdict": "dangling", "evidence": "no such path"},
        ],
    )  # fmt: skip
    legs = report.leg_rows(report.legs_of(session))
    assert legs.common == ("next_action",)
    assert [row.extra for row in legs.rows] == [(), ("tombstone.reason",)]
    assert legs.rows[0].lines == (("commit:a1", "", ""), ("file:x", "", "")) and legs.rows[0].score is None
    assert legs.rows[1].lines[1] == ("file:gone", "dangling", "no such path") and legs.rows[1].dropped == 4
    assert report.leg_rows([]).common == () and legs.why == report.leg_rows([]).why == ""


def test_why_no_store_could_answer_is_said_and_a_baton_without_pointers_counts_for_nothing() -> None:
    session = make_session(main_calls=9, shadow=simulated())
    why = "the repository cannot be asked: /srv/acme/orders is not there"
    add_leg(session, 0, 1, 5, "would_rotate", verified=0, dangling=0, unknown=2, baton={"why": why})
    assert report.leg_rows(report.legs_of(session)).why == why
    assert "0 of 1 judged" in finding(session)
    session.leg_rows.update(unknown=0)
    assert "judged" not in finding(session)


def test_right_after_a_compaction_the_window_is_not_the_one_from_before() -> None:
    kpis = report.kpis(make_session(main_calls=3, fill={"resident": None}), [])
    assert kpis.now is None and kpis.compacted
    kpis = report.kpis(make_session(main_calls=3, fill={"resident": 64_513}), [])
    assert kpis.now == 64_513 and not kpis.compacted
    assert not report.kpis(make_session(), []).compacted


def test_a_session_is_followed_where_a_follow_covers_one_of_its_files() -> None:
    session = make_session()
    source = make_source(path="/srv/logs/a/x.jsonl")
    add_calls(session, [1], source)
    user = make_user()
    make_import(user, "/srv/logs/a", status="running")
    make_import(user, "/srv/log", "/srv/logs/a/x", status="running", follow=True)
    make_import(user, "/srv/logs/a", status="cancelled", follow=True)
    assert report.files(session).follow is None
    job = make_import(user, "/srv/logs/", status="waiting", follow=True)
    assert report.files(session).follow == job


def test_what_filled_the_window_sums_to_its_total() -> None:
    kinds = {f"tool result T{n:02d}": 100 + n for n in range(30)}
    session = make_session(
        fill={"total": {**kinds, "assistant text": 900}, "now": {"assistant text": 40}, "base": 24_000}
    )
    fill = report.fill(session)
    assert fill.rows[0].kind == "assistant text" and fill.rows[0].now == 40 and fill.base == 24_000
    assert len(fill.rows) == report.KINDS and fill.rows[-1].kind == f"{31 - report.KINDS + 1} more kinds"
    assert sum(row.total for row in fill.rows) == fill.total == sum(kinds.values()) + 900
    assert sum(row.share for row in fill.rows) == pytest.approx(1)
    assert report.fill(make_session()).rows == () and report.fill(make_session(fill={"total": "x"})).total == 0


# ---- anomalies ------------------------------------------------------------------------------------------------------


def test_each_kind_has_one_sentence_of_its_own() -> None:
    assert set(anomalies.KINDS) == set(AnomalyKind)
    sentences = [words.sentence for words in anomalies.KINDS.values()]
    assert len(set(sentences)) == len(sentences)
    assert all(text[0].isupper() and text.endswith(".") and len(text) > 40 for text in sentences)


def test_anomalies_of_the_session_and_of_its_files() -> None:
    session = make_session(anomalies={"unexplained_drop": 2, "unknown_type": 5, "time_backwards": 0})
    source = make_source()
    add_calls(session, [1_000], source)
    add_anomaly(source, "unknown_type", session, detail="frame-link", line=7, count=3)
    add_anomaly(source, "unknown_type", session, detail="atis-latch", line=9, count=2)
    add_anomaly(source, "broken_line", None, line=115, count=1)
    add_anomaly(make_source(), "gone", None)
    add_anomaly(source, "from_tomorrow", session)
    files = report.files(session)
    assert [(one.kind, one.count) for one in files.anomalies] == [
        ("broken_line", 1), ("from_tomorrow", 1), ("unknown_type", 5), ("unexplained_drop", 2),
    ]  # fmt: skip
    assert files.anomalies[2].details == (("frame-link", 3, 7, ""), ("atis-latch", 2, 9, ""))
    assert files.anomalies[1].title == "from tomorrow"
    assert [(row.source.pk, row.unknown) for row in files.rows] == [(source.pk, 5)]


# ---- calls ----------------------------------------------------------------------------------------------------------


def walk(session: Session, by: str) -> list[list[int]]:
    """Every page from the first on, or back from behind the last."""
    pages, at = [], {"after": None, "before": session_calls.Place(2**40, 0, 0)}[by]
    while True:
        page = session_calls.calls(session, **{by: at})
        pages.append([line.call.pk for line in page.lines])
        going = page.later if by == "after" else page.earlier
        if not going:
            return pages
        at = session_calls.place(going)
        assert at and len(pages) < 20


def test_pages_of_calls_hold_each_call_once_in_the_order_of_the_files() -> None:
    session = make_session()
    first, second = make_source(), make_source()
    add_calls(session, range(1_000, 1_070), second)
    SessionCall.objects.filter(source=second, line__in=(100, 102, 104)).update(line=100)  # three on one line
    for n in range(60):
        SessionCall.objects.create(source=first, session=session, key=f"s{n}", line=n, chain="sub", shown=n % 6 != 5)
    want = list(SessionCall.objects.filter(shown=True).order_by("source", "line", "id").values_list("pk", flat=True))
    SessionFile.objects.create(source=first, session=session)
    assert len(want) == 120
    forward, back = walk(session, "after"), walk(session, "before")
    assert sum(forward, []) == want == sum(reversed(back), [])
    assert [len(page) for page in forward] == [50, 50, 20]


def test_growth_goes_on_over_the_edge_of_a_page_and_not_over_a_file() -> None:
    session = make_session()
    add_calls(session, range(10_000, 70_000, 1_000))
    second = session_calls.calls(session, after=session_calls.place(session_calls.calls(session).later))
    assert second.lines[0].growth == 1_000 and second.cut
    assert session_calls.calls(session).lines[0].growth is None
    add_calls(session, [5], make_source(), key="other")
    lines = session_calls.calls(session, after=session_calls.place(session_calls.calls(session).later)).lines
    assert lines[-1].call.resident == 5 and lines[-1].growth is None
    assert [bool(line.file) for line in lines] == [True, *[False] * 9, True], "each file is named where it begins"


def test_files_stand_in_the_order_of_their_paths_and_many_small_ones_make_shorter_pages() -> None:
    session = make_session()
    later = make_source(path="/x/b.jsonl")
    add_calls(session, [1], later)
    for n in range(30):
        add_calls(session, [n], make_source(path=f"/x/a/{n:02d}.jsonl"), key=f"k{n}", chain="sub")
    pages = walk(session, "after")
    paths = dict(SessionCall.objects.values_list("pk", "source__path"))
    seen = [paths[pk] for page in pages for pk in page]
    assert seen == sorted(seen) and len(seen) == 31 and [len(page) for page in pages] == [12, 12, 7]
    assert sum(reversed(walk(session, "before")), []) == sum(pages, [])
    assert [row[0] for row in session_calls.calls_csv(session)][1:] == seen


@pytest.mark.parametrize("text", ["", "1.2", "1.2.3.4", "a.b.c", "-1.2.3", "1.2.9999999999999999999", "1..3", "٣.1.1"])
def test_what_is_no_place(text: str) -> None:
    assert session_calls.place(text) is None


def test_sub_agents_are_cost_and_never_window() -> None:
    session = make_session()
    add_calls(session, [30_000, 40_000])
    source = make_source()
    for n, (chain, agent, cost) in enumerate(
        [("sub", "a1", "0.5"), ("sub", "a1", "0.25"), ("aux", "", None), ("sub", "b2", "2")]
    ):
        SessionCall.objects.create(
            source=source, session=session, key=f"h{n}", line=n, chain=chain, agent_id=agent, input_tokens=100,
            output_tokens=10, cost=Decimal(cost) if cost else None,
        )  # fmt: skip
    SessionCall.objects.create(
        source=source, session=session, key="c", line=9, chain="sub", agent_id="a1", counts=False
    )
    session.calls += 4
    rows = session_calls.helpers(session, asked=False)
    assert rows is not None
    assert [(row.agent_id, row.calls, row.cost, row.unpriced) for row in rows] == [
        ("b2", 1, Decimal(2), 0), ("a1", 2, Decimal("0.75"), 0), ("", 1, None, 1),
    ]  # fmt: skip
    assert rows[1].tokens == 220 and rows[1].output == 20
    session.calls = 5_000
    assert session_calls.helpers(session, asked=False) is None and session_calls.helpers(session, asked=True)
    session.calls = session.main_calls
    assert session_calls.helpers(session, asked=False) == ()


def test_as_many_queries_for_many_calls_legs_and_files_as_for_few() -> None:
    counts = []
    for calls in (60, 3_000):
        session, source = make_story()
        for n in range(calls // 60):
            add_compaction(session, source, 100 + n)
            add_leg(session, 10 + n, n, n, "compaction", judged_at=timezone.now())
            add_anomaly(source, "unknown_type", session, detail=str(n))
        with CaptureQueriesContext(connection) as caught:
            legs = report.legs_of(session)
            report.graph(session, report.boundaries_of(session), legs)
            report.head(session, legs)
            report.leg_rows(legs)
            report.files(session)
            session_calls.calls(session)
        counts.append(len(caught))
    assert counts[0] == counts[1] <= 8

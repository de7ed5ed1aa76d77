"""The scripted worker against a real repository, driven over a real socket by a tiny supervisor."""

import json
import time

import pytest

from relays.agents.scripted_worker import Meter, close_row, cut, open_issues
from relays.core.events import parse_line
from relays.core.legview import LegView
from relays.core.safepoint import choose_next_action


def test_three_items_then_above_the_mark(repo, run_leg):
    leg = run_leg()
    assert leg.code == 0
    assert leg.answers[-1] == "stop"
    assert repo.open() == [4, 5, 6, 7]
    assert len(leg.residents) == 12
    assert 0.1 * leg.window < leg.residents[0] < 0.15 * leg.window
    assert leg.residents[-2] < leg.mark < leg.residents[-1] < leg.ceiling
    assert leg.residents == sorted(leg.residents)


def test_each_commit_has_exactly_the_page_and_the_row(repo, run_leg):
    before = repo.issues.read_bytes()
    run_leg()
    closings = repo.closings()
    assert len(closings) == 3
    for number, sha in enumerate(closings, 1):
        assert repo.git("show", "--format=", "--name-only", sha).splitlines() == [
            ".relay/issues.jsonl",
            f"work/{number}.md",
        ]
        title = repo.rows(sha)[number - 1]["title"]
        assert repo.git("show", "--no-patch", "--format=%s|%an|%ae", sha) == (
            f"Close #{number}: {title}|Scripted worker|scripted-worker@relaysite.invalid"
        )
        page = repo.git("show", f"{sha}:work/{number}.md")
        assert title in page
        assert len(page.splitlines()) > 5
        assert [row["state"] for row in repo.rows(sha)] == ["closed"] * number + ["open"] * (7 - number)
    lines = zip(before.splitlines(), repo.issues.read_bytes().splitlines(), strict=True)
    changed = [number for number, (old, new) in enumerate(lines, 1) if old != new]
    assert changed == [1, 2, 3]
    assert repo.status() == []


def test_a_whole_relay_of_legs_drains_the_backlog(repo, run_leg):
    legs = [run_leg(leg=number) for number in range(3)]
    assert [leg.code for leg in legs] == [0, 0, 0]
    assert repo.open() == []
    assert len(repo.closings()) == 7
    last = legs[-1].of("boundary")[-1]
    assert (last["final"], last["next_actions"]) == (True, ["Verify that every issue is closed."])
    assert max(max(leg.residents) for leg in legs) < 0.9 * 200_000
    questions = [len(leg.of("open_question")) for leg in legs]
    dead_ends = [len(leg.of("dead_end")) for leg in legs]
    assert questions == dead_ends == [1, 0, 0]
    ids = [event["message_id"] for leg in legs for event in leg.of("usage")]
    assert len(ids) == len(set(ids))


def test_every_thing_is_declared_by_a_pointer_that_resolves(repo, run_leg):
    leg = run_leg(leg=0)
    rows = {f"RLY-20260101-0001.0.e{event['seq']}": event for event in leg.of("ledger")}
    commits = set(repo.closings())
    assert len(rows) == 4  # three items and the dead end
    for sha, row in zip(repo.closings(), leg.of("ledger")[:1] + leg.of("ledger")[2:], strict=True):
        assert f"commit:{sha}" in row["refs"]
    for fact in leg.of("fact"):
        assert fact["class"] == "durable"
        assert fact["backing"].removeprefix("commit:") in commits
    (dead_end,) = leg.of("dead_end")
    assert dead_end["pointer"].removeprefix("ledger:") in rows
    (question,) = leg.of("open_question")
    assert question["pointer"] == "issue:#2"
    assert all(event["model"] == "scripted" and "cost" not in event for event in leg.of("usage"))


def test_usage_is_plausible(run_leg):
    leg = run_leg()
    for before, after in zip(leg.of("usage"), leg.of("usage")[1:], strict=False):
        assert after["cache_read"] > before["cache_read"]
        assert 0 < after["output"] < 2000
        assert after["cache_write_5m"] > 0
    # what a call adds is what the call before put out and got back from its tool
    results = [event["result_tokens"] for event in leg.of("tool_ended")]
    outputs = [event["output"] for event in leg.of("usage")]
    grown = [after - before for before, after in zip(leg.residents, leg.residents[1:], strict=False)]
    assert grown == [output + result for output, result in zip(outputs, results, strict=True)][:-1]


def test_boundaries_are_honest(run_leg):
    leg = run_leg()
    assert [bool(dirty) for dirty in leg.dirty_at] == [False, True, True, False] * 3
    externalized = [place for place, event in enumerate(leg.events) if event["kind"] == "externalized"]
    assert [leg.events[place + 1]["kind"] for place in externalized] == ["boundary"] * 3
    named = [event["next_actions"] for event in leg.of("boundary")]
    assert named[0] == ["Close issue #1: Write the opening page"]
    assert named[-1] == ["Close issue #4: List the commands"]
    started = [event["id"] for event in leg.of("tool_started")]
    assert started == [event["id"] for event in leg.of("tool_ended")]
    assert [event["seq"] for event in leg.events] == list(range(1, len(leg.events) + 1))


@pytest.mark.parametrize("flag", ["items", "dirty", "plant", "park", "overrun"])
def test_every_event_is_one_of_the_protocol(run_leg, flag):
    leg = run_leg(args={flag: "1"})
    view = LegView()
    for event in leg.events:
        parsed = parse_line(json.dumps(event).encode())
        assert parsed.problem is None
        assert parsed.event is not None
        assert parsed.event.known
        assert view.apply(parsed.event)
        if event["kind"] == "boundary":
            assert view.in_flight == {}
            assert choose_next_action(view.next_actions).hold is None
            assert view.externalized == leg_said(leg, event, "externalized")
            assert view.tree_parked == leg_said(leg, event, "park_tree")
    assert view.scripted
    assert view.peak == max(leg.residents)
    assert view.turns == len(leg.residents)
    assert view.unpriced == len(leg.residents)


def leg_said(leg, boundary, kind):
    """Was it among the last two events before this boundary?"""
    place = leg.events.index(boundary)
    return kind in [event["kind"] for event in leg.events[max(0, place - 2) : place]]


def test_artifacts_are_the_commit_the_issue_and_the_row_of_each_item(repo, run_leg):
    leg = run_leg()
    made = [event["ref"] for event in leg.of("artifact")]
    assert [ref for ref in made if ref.startswith("commit:")] == [f"commit:{sha}" for sha in repo.closings()]
    assert [ref for ref in made if ref.startswith("issue:")] == ["issue:#1", "issue:#2", "issue:#3"]
    rows = [f"ledger:RLY-20260101-0001.0.e{row['seq']}" for row in leg.of("ledger") if len(row["refs"]) == 2]
    assert [ref for ref in made if ref.startswith("ledger:")] == rows


def test_stop_is_obeyed_at_once(repo, run_leg):
    leg = run_leg(lambda leg, event: "stop" if len(leg.answers) == 1 else "go")
    assert leg.code == 0
    assert leg.events[-1]["kind"] == "boundary"
    assert repo.closings() == []
    assert repo.status() == ["?? work/1.md"]


def test_wind_down_finishes_the_item_and_offers_a_safe_boundary(repo, run_leg):
    def answer(leg, event):
        if len(leg.answers) == 0:
            return "wind_down"
        return "stop" if leg.said("externalized") else "wind_down RELAY_NOT_EXTERNALIZED"

    leg = run_leg(answer)
    assert leg.code == 0
    assert repo.open() == [2, 3, 4, 5, 6, 7]
    assert repo.status() == []
    assert len(leg.answers) == 4


def test_it_also_speaks_on_stdout_and_hears_on_stdin(repo, run_leg):
    leg = run_leg(on_stdout=True)
    assert leg.code == 0
    assert repo.open() == [4, 5, 6, 7]


@pytest.mark.parametrize("items", [1, 2, 5])
@pytest.mark.parametrize("window", [20_000, 1_000_000])
def test_items_and_window_set_when_the_mark_is_reached(repo, run_leg, items, window):
    leg = run_leg(window_tokens=window, ceiling_tokens=int(0.9 * window), args={"items": str(items)})
    assert len(repo.closings()) == items
    assert leg.code == 0
    assert leg.residents[-2] < leg.mark <= leg.resident < leg.ceiling


@pytest.mark.parametrize("items", range(1, 21))
@pytest.mark.parametrize("window", [2_000, 200_000, 2_000_000])
def test_the_meter_crosses_the_mark_in_the_last_turn_of_the_last_item(items, window):
    meter = Meter(window, items)
    seen = []
    for _ in range(items):
        for weight in (1.0, 1.3, 0.7, 1.0):
            meter.call(weight, tool=True)
            seen.append(meter.resident)
    assert seen[-2] < 0.6 * window <= seen[-1]
    _, result = meter.call(1.0, tool=True)
    assert meter.resident < 0.9 * window


def test_dirty_is_left_behind_and_never_parked(repo, run_leg):
    leg = run_leg(args={"dirty": "1"})
    assert "?? work/scratch.txt" in repo.status()
    assert "wind_down TREE_DIRTY_UNPARKED" in leg.answers
    assert leg.of("park_tree") == []
    assert leg.resident + leg.growth >= leg.ceiling  # held until the ceiling
    assert leg.code == 0
    for sha in repo.closings():
        assert "work/scratch.txt" not in repo.git("show", "--format=", "--name-only", sha)


def test_plant_declares_a_fact_without_backing_in_each_item(repo, run_leg):
    leg = run_leg(args={"plant": "1"})
    planted = [fact for fact in leg.of("fact") if fact["backing"] is None]
    assert len(planted) == len(repo.closings()) == 3
    assert all(fact["class"] == "durable" for fact in planted)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_next_names_so_many(repo, run_leg, count):
    leg = run_leg(args={"next": str(count)})
    named = [event["next_actions"] for event in leg.of("boundary")]
    assert {len(set(actions)) for actions in named} == {count}
    repo.issues.write_text("")
    repo.git("commit", "-am", "None left")
    leg = run_leg(leg=1, args={"next": str(count)})
    assert len(set(leg.of("boundary")[-1]["next_actions"])) == count


def test_overrun_passes_the_ceiling_without_asking(repo, run_leg):
    def answer(leg, event):
        return "stop" if leg.resident > leg.ceiling else "wind_down"

    leg = run_leg(answer, args={"overrun": "1"})
    assert leg.resident > leg.ceiling
    assert leg.code == 0
    before = [resident for resident in leg.residents if resident <= leg.ceiling]
    assert before[-1] >= leg.mark
    assert len(leg.answers) < len(leg.residents)


def test_overrun_that_nobody_stops_ends_past_its_window(run_leg):
    leg = run_leg(lambda leg, event: "wind_down HOLD", args={"overrun": "1"})
    assert 1.2 * leg.window < leg.resident < 1.4 * leg.window
    assert leg.code == 0


def test_crash_exits_3_in_the_middle_of_the_second_item(repo, run_leg):
    leg = run_leg(args={"crash": "1"})
    assert leg.code == 3
    assert repo.open() == [2, 3, 4, 5, 6, 7]
    assert repo.status() == ["?? work/2.md"]


def test_park_sends_park_tree_with_a_dirty_tree(repo, run_leg):
    leg = run_leg(args={"park": "1"})
    assert leg.answers[-1] == "stop"
    assert leg.since_boundary()[-3:] == ["park_tree", "externalized", "boundary"]
    assert leg.dirty_at[-1] == ["?? work/4.md"]
    assert len(leg.of("park_tree")) == 1
    # the successor finds the work laid back and closes that very item
    later = run_leg(leg=1)
    assert later.code == 0
    assert repo.open() == [7]
    assert repo.status() == []


def test_a_row_closed_but_never_committed_is_taken_up_again(repo, run_leg):
    leg = run_leg(lambda leg, event: "stop" if len(leg.answers) == 2 else "go")
    assert leg.dirty_at[-1] == [" M .relay/issues.jsonl", "?? work/1.md"]
    later = run_leg(leg=1)
    assert later.code == 0
    assert repo.open() == [4, 5, 6, 7]
    assert repo.status() == []


def test_only_ends_the_leg_by_itself(repo, run_leg):
    leg = run_leg(lambda leg, event: "go", args={"only": "2"})
    assert leg.code == 0
    assert repo.open() == [3, 4, 5, 6, 7]
    assert leg.of("boundary")[-1]["final"] is True
    assert leg.of("boundary")[-1]["next_actions"] == ["Close issue #3: Grüße an alle <b>Leser</b>"]


def test_told_what_holds_at_its_end_it_asks_once_more_and_exits(repo, run_leg):
    leg = run_leg(lambda leg, event: "wind_down NO_NEXT_ACTION" if event["final"] else "go", args={"only": "1"})
    assert [event["final"] for event in leg.of("boundary")][-2:] == [True, True]
    assert leg.code == 0
    assert len(leg.of("boundary")) == 6


def test_only_nothing_is_an_empty_leg(repo, run_leg):
    leg = run_leg(args={"only": "0"})
    assert (leg.code, repo.closings(), len(leg.of("usage"))) == (0, [], 1)


def test_held_with_nothing_left_it_thinks_until_the_ceiling(repo, run_leg):
    def answer(leg, event):
        ceiling = bool(leg.residents) and leg.resident + leg.growth >= leg.ceiling
        return "stop" if ceiling else "wind_down NO_NEXT_ACTION" if event["final"] or repo.open() == [] else "go"

    leg = run_leg(answer, args={"items": "8"})
    assert repo.open() == []
    assert leg.answers[-1] == "stop"
    assert leg.resident < leg.ceiling <= leg.resident + leg.growth
    assert not any(event["final"] for event in leg.of("boundary"))  # what is held does not offer its end


def test_pace_is_time_a_turn(run_leg):
    begun = time.monotonic()
    leg = run_leg(lambda leg, event: "stop" if len(leg.answers) == 4 else "go", args={"pace": "0.1"})
    assert len(leg.residents) == 5
    assert time.monotonic() - begun >= 0.5


def test_the_baton_is_read_and_not_trusted(repo, run_leg, tmp_path):
    baton = tmp_path / "baton.json"
    baton.write_text(json.dumps({"next_action": "Close issue #6: Name the ports"}))
    leg = run_leg(leg=1, baton_path=str(baton))
    assert repo.open() == [4, 5, 6, 7]
    assert "names #6" in leg.stderr
    baton.write_text("[" * 100_000)
    assert "cannot be read" in run_leg(leg=2, baton_path=str(baton)).stderr
    baton.write_text(json.dumps({"next_action": "Close issue #7: Write the last page"}))
    assert run_leg(leg=3, baton_path=str(baton)).stderr == ""


def test_a_repository_cannot_put_its_own_modules_before_ours(repo, run_leg):
    for name in ("json.py", "relays.py", "sitecustomize.py"):
        (repo.path / name).write_text("raise SystemExit(99)\n")
    repo.git("add", "-A")
    repo.git("commit", "--quiet", "-m", "Traps")
    assert run_leg().code == 0


def test_a_link_out_of_the_work_tree_is_not_followed(repo, run_leg, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (repo.path / "work").symlink_to(outside)
    leg = run_leg()
    assert leg.code == 1
    assert "leads out of the work tree" in leg.stderr
    assert list(outside.iterdir()) == []
    assert leg.of("tool_ended")[-1]["ok"] is False


def test_without_an_issue_file_there_is_nothing_to_do(repo, run_leg):
    repo.git("rm", "--quiet", "-r", ".relay")
    repo.git("commit", "--quiet", "-m", "No issues")
    leg = run_leg()
    assert leg.code == 0
    assert [event["final"] for event in leg.of("boundary")] == [True]


ROWS = (
    b'{"number": 2,  "title":"b", "state" :"open", "more":[1, 2.50]}\r\n'
    b"not json\n\n"
    b'{"state":"open","number":1,"title":"has \\"state\\": \\"open\\" in it"}\n'
    b'{"number":true,"state":"open"}\n'
    b'{"number":3,"title":"c","state":"closed"}'
)


def test_other_rows_stay_byte_for_byte():
    assert [issue.number for issue in open_issues(ROWS)] == [1, 2]
    first = close_row(ROWS, 1)
    assert first == ROWS.replace(b'{"state":"open","number":1', b'{"state":"closed","number":1')
    second = close_row(first, 2)
    assert second == first.replace(b'"state" :"open", "more"', b'"state" :"closed", "more"')
    assert close_row(second, 3) == second
    nested = b'{"number":1,"state":"open","more":{"state":"open"}}\n'
    assert json.loads(close_row(nested, 1)) == {"number": 1, "state": "closed", "more": {"state": "open"}}


def test_a_line_is_cut_at_a_character():
    assert cut("Grüße\n\tan  alle", 200) == "Grüße an alle"
    assert cut("ü" * 150, 199) == "ü" * 99

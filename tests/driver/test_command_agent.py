"""Any program can run a leg: over stdout or the socket, wordy, silent, malformed or hostile."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from relays.driver.places import leg_folder
from relays.models import Event, RelayStatus
from tests.driver.course import boundary, commit, loop, player, turn

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
Start = Callable[..., Any]

WORK = [*turn(), *boundary("Go on."), *commit("a.txt"), *turn(), *boundary("Go on.", final=True)]


def heard(relay: Any, number: int = 0) -> list[str]:
    """The answers that the player of a leg got, in its own words."""
    text = (leg_folder(relay.pk, number) / "stderr.log").read_text()
    return [line.removeprefix("answer: ") for line in text.splitlines() if line.startswith("answer: ")]


@pytest.mark.parametrize("way", ["stdout", "socket"])
def test_a_leg_over_each_way_is_asked_answered_and_closed(course: Start, way: str) -> None:
    relay = course(**player(WORK, way))
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.progress, leg.exit_code, leg.turns) == ("RELAY_ROTATED", 1, 0, 2)
    assert heard(relay) == relay.answers(0) == ["go", "stop"]
    stream = (leg_folder(relay.pk, 0) / "stream.ndjson").read_text().splitlines()
    assert len(stream) == Event.objects.filter(leg=leg).count(), "the raw stream is kept as it was spoken"


def test_an_agent_gets_its_leg_and_nothing_of_ours(
    course: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    import json
    import sys

    monkeypatch.setenv("DATABASE_SECRET", "of ours")
    out = tmp_path / "env.json"
    code = f"import json, os; json.dump(dict(os.environ), open({str(out)!r}, 'w')); print('{{}}')"
    relay = course(agent="command", args={"argv": json.dumps([sys.executable, "-S", "-c", code])})
    relay.step()
    seen = json.loads(out.read_text())
    assert "DATABASE_SECRET" not in seen and "DJANGO_SETTINGS_MODULE" not in seen
    assert (seen["RELAY_ID"], seen["RELAY_LEG"], seen["RELAY_BATON"]) == (relay.pk, "0", "")
    assert seen["RELAY_TOKEN"] and relay.open_leg.token_hash not in ("", seen["RELAY_TOKEN"])


def test_silence_with_nothing_in_flight_is_a_crash(course: Start) -> None:
    relay = course(**player([*turn(), *boundary("Go on."), {"do": "sleep", "seconds": 60}]), sets=["silence_limit=1"])
    relay.step()
    (leg,) = relay.legs
    assert leg.reason == "RELAY_ROTATED", "a safe leg that fell silent rotates, as on_crash says"
    assert leg.exit_code != 0, "it was ended"
    relay = course(
        **player([*turn(), *boundary("Go on."), {"do": "sleep", "seconds": 60}]),
        sets=["silence_limit=1", "on_crash=park"],
    )
    relay.step()
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "silence")


def test_a_tool_that_runs_long_is_no_silence(course: Start) -> None:
    tool = [{"kind": "tool_started", "id": "t", "name": "shell"}, {"do": "sleep", "seconds": 1.5}]
    ended = {"kind": "tool_ended", "id": "t", "ok": True, "result_bytes": 8}
    relay = course(**player([*turn(), *tool, ended, *boundary("Go on.", final=True)]), sets=["silence_limit=1"])
    relay.step()
    assert (relay.legs[0].reason, relay.legs[0].exit_code) == ("RELAY_ROTATED", 0)


MALFORMED = [
    '{"kind": "boundary", "seq": 50}',
    '{"kind": "boundary", "seq": 50, "next_actions": "Go on.", "final": false}',
    '{"kind": "boundary", "seq": "x", "next_actions": [], "final": false}',
    '{"kind": "boundary", "next_actions": ["Go on."], "final": 1}',
]


def test_a_malformed_boundary_gets_an_answer(course: Start) -> None:
    asked = [step for line in MALFORMED for step in ({"do": "raw", "text": line}, {"do": "ask"})]
    relay = course(**player([*turn(), *asked, *turn(), *boundary("Go on.", final=True)]))
    relay.step()
    assert heard(relay) == ["wind_down NO_NEXT_ACTION"] * 4 + ["stop"]
    assert relay.legs[0].reason == "RELAY_ROTATED"


def test_malformed_boundaries_lead_nobody_past_the_ceiling(course: Start) -> None:
    bad = {"do": "raw", "text": '{"kind": "boundary"}'}
    relay = course(**player([loop(*turn(950), bad, {"do": "ask"})]), sets=["window_tokens=1000"])
    relay.step()
    (leg,) = relay.legs
    assert leg.reason == "RELAY_PARKED_UNSAFE" and leg.cause in ("ceiling", "overrun")
    assert leg.turns == 1


def test_rubbish_between_events_is_skipped_and_stops_nothing(course: Start) -> None:
    rubbish = ["not json", "[]", "null", '{"kind": "usage", "seq": 2}', "\\u0000", '{"seq": 1e99}']
    lines = [{"do": "raw", "text": text} for text in rubbish]
    relay = course(**player([*lines, {"do": "raw", "text": "x", "times": 300_000}, *WORK]))
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.turns, leg.progress) == ("RELAY_ROTATED", 2, 1)


def test_unknown_kinds_are_kept_and_counted(course: Start) -> None:
    strange = {"kind": "weather", "sky": "clear"}
    relay = course(**player([strange, strange, *WORK]))
    relay.step()
    (leg,) = relay.legs
    assert leg.unknown_events == 2
    kept = Event.objects.filter(leg=leg, known=False)
    assert [(event.kind, event.payload) for event in kept] == [("weather", {"sky": "clear"})] * 2


def test_a_replayed_event_changes_nothing(course: Start) -> None:
    again = [{"do": "raw", "text": '{"kind": "turn_started", "seq": 1}'}] * 3
    relay = course(**player([*turn(), *again, *boundary("Go on.", final=True)]))
    relay.step()
    assert relay.legs[0].turns == 1


def test_an_agent_that_offers_its_end_is_told_once_what_holds_and_then_judged(course: Start) -> None:
    dirty = {"do": "write", "path": "half.txt", "text": "x"}
    relay = course(
        **player([*turn(), dirty, *boundary("Go on.", final=True), *turn(), *boundary("Go on.", final=True)])
    )
    relay.step()
    (leg,) = relay.legs
    assert heard(relay) == ["wind_down TREE_DIRTY_UNPARKED", "stop"]
    assert not leg.armed
    assert (leg.reason, leg.cause, leg.hold) == ("RELAY_PARKED_UNSAFE", "agent_exit", "TREE_DIRTY_UNPARKED")


def test_what_it_was_told_can_be_put_right(course: Start) -> None:
    dirty = {"do": "write", "path": "half.txt", "text": "x"}
    offers = boundary("Go on.", final=True)
    relay = course(**player([*turn(), dirty, *offers, {"do": "commit"}, *turn(), *offers]))
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.told_hold, leg.progress) == ("RELAY_ROTATED", "TREE_DIRTY_UNPARKED", 1)


def test_an_agent_that_just_exits_after_a_boundary_is_judged_at_once(course: Start) -> None:
    relay = course(**player([*turn(), *boundary("Go on."), {"do": "exit", "code": 0}]))
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.told_hold, leg.armed) == ("RELAY_ROTATED", "", "", False)


@pytest.mark.parametrize(
    ("ends", "code"),
    [
        ([*turn(), *boundary("Go on."), {"do": "exit", "code": 1}], 1),
        ([*turn(), {"do": "exit", "code": 0}], 0),
        ([*turn(), *boundary("Go on."), *turn(), {"do": "exit", "code": 0}], 0),
    ],
    ids=["exit code", "no result", "in mid-turn"],
)
def test_an_end_that_is_none_is_a_crash(course: Start, ends: list[Any], code: int) -> None:
    relay = course(**player(ends), sets=["on_crash=park"])
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause) == ("RELAY_PARKED_UNSAFE", "agent_crash")
    assert leg.exit_code == code


def test_an_agent_that_is_killed_has_crashed(course: Start, meanwhile: Callable[..., None]) -> None:
    relay = course(**player([loop(*turn(), *boundary("Go on."))]), sets=["on_crash=park"])
    meanwhile(2, lambda: os.kill(relay.open_leg.agent_pid, signal.SIGKILL))
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.exit_code) == ("RELAY_PARKED_UNSAFE", "agent_crash", -signal.SIGKILL)


def test_the_statement_is_voided_by_what_comes_after_it(course: Start) -> None:
    after = [
        {"kind": "externalized"},
        {"kind": "fact", "label": "late", "class": "durable", "backing": "file:README.md"},
    ]
    relay = course(
        **player([*turn(700), *after, *boundary("Go on.", said=False), *turn(700), *boundary("Go on.")]),
        sets=["window_tokens=1000"],
    )
    relay.step()
    assert relay.holds(0) == ["RELAY_NOT_EXTERNALIZED", ""]


DECLARED = [
    ({"kind": "decision", "label": "Use tabs"}, "Use tabs"),
    ({"kind": "open_question", "label": "Why tabs?", "pointer": "issue:#99"}, "Why tabs?"),
    ({"kind": "dead_end", "label": "Spaces"}, "Spaces"),
    ({"kind": "fact", "label": "Tabs win", "class": "strange", "backing": None}, "Tabs win"),
    ({"kind": "fact", "label": "Seen", "class": "durable", "backing": "commit:" + "a" * 40}, "Seen"),
    ({"kind": "todo", "id": "t7", "open": True}, "t7"),
    ({"kind": "file_written", "path": "/tmp/relaysite-elsewhere.txt"}, "/tmp/relaysite-elsewhere.txt"),
]


def test_the_gate_names_each_thing_that_lives_only_in_the_transcript(course: Start) -> None:
    ends = boundary("Go on.", final=True)
    relay = course(**player([*turn(), *[event for event, _ in DECLARED], *ends, *ends]))
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.hold) == ("RELAY_PARKED_UNSAFE", "RELAY_NOT_EXTERNALIZED")
    lines = relay.boundaries(0)[0].hold_detail
    assert len(lines) == len(DECLARED)
    for _, label in DECLARED:
        assert any(line.startswith(f"{label}: ") for line in lines), label


@pytest.mark.slow
@pytest.mark.parametrize(("declared", "label"), DECLARED, ids=[label for _, label in DECLARED])
def test_each_of_them_alone_refuses(course: Start, declared: dict[str, Any], label: str) -> None:
    ends = boundary("Go on.", final=True)
    relay = course(**player([*turn(), declared, *ends, *ends]))
    relay.step()
    assert relay.legs[0].hold == "RELAY_NOT_EXTERNALIZED"
    assert relay.boundaries(0)[0].hold_detail[0].startswith(f"{label}: ")


@pytest.mark.slow
def test_a_fact_of_this_turn_only_holds_nothing(course: Start) -> None:
    fleeting = {"kind": "fact", "label": "Cursor is at line 3", "class": "turn", "backing": None}
    relay = course(**player([*turn(), fleeting, *boundary("Go on.", final=True)]))
    relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED"


def test_questions_and_dead_ends_cross_by_pointer(course: Start) -> None:
    said = [
        {"kind": "open_question", "label": "Who\nreads\u2028it?", "pointer": "file:README.md"},
        {"kind": "dead_end", "label": "Two commits", "pointer": "issue:#1"},
    ]
    ends = boundary("Go on.", final=True)
    relay = course(**player({"0": [*turn(), *said, *ends], "*": [*turn(), *ends]}))
    relay.step()
    relay.step()
    assert relay.baton.open_questions[0].startswith("file:README.md Who")
    assert "\n" not in relay.baton.open_questions[0]
    assert relay.baton.do_not_rederive == ("issue:#1 Two commits",)


# --- shadow and advise


@pytest.mark.parametrize(
    ("mode", "answer"), [("shadow", "go"), ("advise", "wind_down TREE_DIRTY_UNPARKED")], ids=["shadow", "advise"]
)
def test_a_watched_leg_is_never_held_or_stopped_and_ends_as_advice(course: Start, mode: str, answer: str) -> None:
    dirty = {"do": "write", "path": "half.txt", "text": "x"}
    past = [step for used in (700, 950, 990) for step in (*turn(used), *boundary("Go on."))]
    relay = course(**player([dirty, *past, {"do": "exit", "code": 0}]), sets=["window_tokens=1000"], mode=mode)
    relay.drive()
    (leg,) = relay.legs
    assert relay.answers(0) == [answer] * 3, "not at the ceiling either"
    assert relay.holds(0) == ["TREE_DIRTY_UNPARKED"] * 3
    assert relay.boundaries(0)[1].decision["would"]["end"] is True, "what enforce would have done"
    assert (leg.reason, leg.advisory, leg.exit_code) == ("RELAY_PARKED_UNSAFE", True, 0)
    assert relay.relay.status == RelayStatus.PARKED and relay.gates == [] and relay.open_leg is None


def test_a_malformed_boundary_does_not_hold_a_watched_leg(course: Start) -> None:
    bad = {"do": "raw", "text": '{"kind": "boundary"}'}
    relay = course(**player([*turn(), bad, {"do": "ask"}, *turn(), *boundary("Go on.", final=True)]), mode="shadow")
    relay.step()
    assert heard(relay)[0] == "go"

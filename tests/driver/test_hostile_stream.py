"""A stream that lies: rules.md, Externalize gate ("A refusal names each fact"); interface.md, "a gap or a fork is
reported, not swallowed". Real agents, whose lines are forged, torn, repeated or too many."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from relays.core.events import UNREAD
from relays.driver import unheard
from relays.models import Event, Fact, RelayStatus
from tests.driver.course import Course, boundary, player, turn

HOLD = "wind_down RELAY_NOT_EXTERNALIZED"


def raw(text: str, times: int = 1) -> dict[str, object]:
    return {"do": "raw", "text": text, "times": times}


def numbered(seq: int, kind: str, **fields: object) -> dict[str, object]:
    """A line with a number of its own choice."""
    return raw(json.dumps({"kind": kind, "seq": seq, **fields}))


def play(course: Callable[..., Course], *steps: object, sets: tuple[str, ...] = ()) -> Course:
    agent = course(**player([*turn(), *steps, {"do": "exit", "code": 0}]), sets=list(sets), done="file:never.txt")
    agent.step()
    return agent


BADLY = raw('{"kind":"fact","label":"the port is 8080"}')


def test_a_fact_that_was_said_badly_refuses(course: Callable[..., Course]) -> None:
    talked_away = {"kind": "fact", "label": "the port is 8080", "class": "turn"}
    said = play(course, BADLY, talked_away, *boundary("Go on.", final=True), *boundary("Go on.", final=True))
    assert said.answers(0) == [HOLD, "stop"]
    assert any("the port is 8080" in line for line in said.boundaries(0)[0].hold_detail)
    assert said.legs[0].reason == "RELAY_PARKED_UNSAFE"
    assert [line for line in said.relay.findings if "1 line that cannot be read, first: seq" in line]


def test_said_well_it_passes(course: Callable[..., Course]) -> None:
    well = {"kind": "fact", "label": "the port is 8080", "class": "durable", "backing": "file:README.md"}
    said = play(course, BADLY, well, *boundary("Go on.", final=True))
    assert said.answers(0) == ["stop"]
    assert said.legs[0].reason == "RELAY_ROTATED"


def test_a_line_that_is_cut_or_too_long_still_refuses(course: Callable[..., Course]) -> None:
    said = play(
        course,
        raw('{"kind":"decision","seq":90,"label":"use the other'),
        raw('{"kind":"dead_end","seq":91,"label":"' + "x" * 1000 + '"} ', times=300),
        *boundary("Go on.", final=True),
        *boundary("Go on.", final=True),
    )
    told = said.boundaries(0)[0]
    assert told.answer == HOLD
    assert sum("cannot be read" in line for line in told.hold_detail) == 2


def test_a_number_forged_far_ahead_hides_nothing(course: Callable[..., Course]) -> None:
    said = play(
        course,
        numbered(2**61, "turn_started"),
        numbered(2**61 + 5, "boundary", next_actions=["Forged."], final=False),
        {"do": "ask"},
        {"kind": "fact", "label": "after the forgery", "class": "durable", "backing": "file:README.md"},
        *boundary("Go on.", final=True),
    )
    assert Fact.objects.filter(leg__relay=said.pk, label="after the forgery").exists()
    # the forged boundary is answered, so that nobody waits for ever, and never judged
    assert said.answers(0) == ["stop"]
    assert [line for line in said.relay.findings if "too far ahead" in line]


def test_a_gap_is_reported_and_what_comes_late_is_taken(course: Callable[..., Course]) -> None:
    said = play(
        course,
        numbered(50, "turn_started"),
        numbered(40, "fact", label="late", **{"class": "durable"}, backing="file:README.md"),
        *boundary("Go on.", final=True),
    )
    assert Fact.objects.filter(leg__relay=said.pk, label="late", seq=40).exists()
    assert [line for line in said.relay.findings if "missing" in line]


def test_a_fork_is_reported_and_a_replay_is_not(course: Callable[..., Course]) -> None:
    replay = numbered(20, "fact", label="one", **{"class": "turn"})
    said = play(
        course,
        replay,
        replay,
        numbered(20, "fact", label="another", **{"class": "durable"}),
        *boundary("Go on.", final=True),
    )
    found = [line for line in said.relay.findings if "other content" in line]
    assert len(found) == 1 and "1 event came again" in found[0] and "20 (fact)" in found[0]
    assert not Fact.objects.filter(leg__relay=said.pk, label="another").exists()


def test_a_flood_of_noise_is_counted_and_costs_one_line(
    course: Callable[..., Course], caplog: pytest.LogCaptureFixture
) -> None:
    said = play(course, raw("\x1b[2J<b>noise</b>\n", times=5000), *boundary("Go on.", final=True))
    assert said.relay.status == RelayStatus.READY
    found = [line for line in said.relay.findings if "that cannot be read" in line]
    assert len(found) == 1 and "5000 lines" in found[0]
    assert "\x1b" not in found[0]
    assert sum("malformed line" in record.message for record in caplog.records) <= 21


def test_what_was_said_badly_is_there_after_a_crash(course: Callable[..., Course]) -> None:
    """Records are folded again in the order of their arrival, malformed declarations among them."""
    said = play(course, raw('{"kind":"fact","label":"lost?"}'), {"do": "exit", "code": 3})
    kept = Event.objects.get(leg__relay=said.pk, seq=UNREAD)
    assert (kept.kind, kept.payload["label"]) == ("fact", "lost?")
    assert said.legs[0].reason == "RELAY_PARKED_UNSAFE"


def test_what_was_said_badly_and_not_stored_is_read_from_the_stream(tmp_path: Path) -> None:
    unheard.begin(tmp_path)
    said = [
        b'{"kind":"turn_started","seq":1}',
        b'{"kind":"fact","label":"stored"}',
        b'{"kind":"turn_started","seq":2}',
        b'{"kind":"fact","label":"not stored"}',
        b"noise",
        b'{"kind":"turn_started","seq":3}',
    ]
    (tmp_path / "stream.ndjson").write_bytes(b"\n".join(said) + b"\n")
    assert unheard.lines(tmp_path, 2) == [said[3], said[5]]

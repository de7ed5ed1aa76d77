"""rules.md, Externalize gate: what was declared is load-bearing, also when the supervisor died before it was stored.

baton.md, Tombstone: "judged from records"; the raw stream is one of them.
"""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from relays.agents.channel import STREAM
from relays.driver import unheard
from relays.driver.ingest import Ingest
from relays.models import Event
from tests.driver.conftest import Killed
from tests.driver.course import Course, boundary, commit, player, turn


def line(seq: int, text: str = "") -> bytes:
    return json.dumps({"kind": "weather", "seq": seq, "text": text}).encode()


def write(folder: Path, *lines: bytes, end: bytes = b"\n") -> None:
    with (folder / STREAM).open("ab") as stream:
        stream.write(b"\n".join(lines) + end)


def test_only_what_came_after_is_read_in_its_order(tmp_path: Path) -> None:
    unheard.begin(tmp_path)
    write(tmp_path, *map(line, range(1, 6)), b"not json", line(6))
    assert unheard.lines(tmp_path, 4) == [line(5), line(6)]
    assert unheard.lines(tmp_path, 6) == []


def test_a_torn_line_is_none(tmp_path: Path) -> None:
    unheard.begin(tmp_path)
    write(tmp_path, line(1), line(2), end=b"")
    assert unheard.lines(tmp_path, 0) == [line(1)]


def test_an_earlier_start_of_the_leg_is_not_read(tmp_path: Path) -> None:
    """It counted from 1, too: its words are not those of the agent that runs."""
    unheard.begin(tmp_path)
    write(tmp_path, *map(line, range(1, 9)))
    unheard.begin(tmp_path)
    write(tmp_path, line(1), line(2))
    assert unheard.lines(tmp_path, 1) == [line(2)]
    assert unheard.lines(tmp_path, 2) == []


@pytest.mark.parametrize("after", [0, 1, 1500, 2999, 3000])
def test_no_more_is_read_than_needed_and_no_line_is_cut(tmp_path: Path, after: int) -> None:
    unheard.begin(tmp_path)
    write(tmp_path, *(line(seq, "x" * 100) for seq in range(1, 3001)))
    assert (tmp_path / STREAM).stat().st_size > 4 * unheard.TAIL
    assert [json.loads(text)["seq"] for text in unheard.lines(tmp_path, after)] == list(range(after + 1, 3001))


def test_without_a_stream_there_is_nothing(tmp_path: Path) -> None:
    assert unheard.lines(tmp_path, 0) == []
    (tmp_path / unheard.START).write_text("rubbish")
    write(tmp_path, line(1))
    assert unheard.lines(tmp_path, 0) == []


LAST = (["fact"], ["turn_started"])  # what the agent says after its only boundary
FACT = {"kind": "fact", "label": "The port is 8080", "class": "durable", "backing": None}


@pytest.mark.parametrize("said", [True, False])
def test_a_fact_that_died_with_its_supervisor_still_refuses(
    course: Callable[..., Course], monkeypatch: pytest.MonkeyPatch, said: bool
) -> None:
    """Without it the leg is safe and rotates: what the gate would be asked about less than was declared."""
    after: list[Any] = [FACT] if said else []
    relay = course(
        **player([*commit("a.txt"), *turn(), *boundary("Go on."), *after, {"kind": "turn_started"}, {"do": "ask"}])
    )
    flush = Ingest.flush

    def dying(self: Ingest, now: datetime) -> None:
        if self.view.boundaries and [event.kind for event, _ in self.waiting if event.kind != "boundary"][-1:] in LAST:
            raise Killed
        flush(self, now)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Ingest, "flush", dying)
        relay.step()
    assert not Event.objects.filter(leg__relay=relay.pk, kind="fact").exists()
    relay.step()
    (leg,) = relay.legs
    assert Event.objects.filter(leg=leg, kind="fact").exists() == said
    if said:
        assert (leg.reason, leg.cause, leg.hold) == (
            "RELAY_PARKED_UNSAFE",
            "supervisor_crash",
            "RELAY_NOT_EXTERNALIZED",
        )
        assert "The port is 8080" in str(relay.gates[0].items)
    else:
        assert leg.reason == "RELAY_ROTATED"

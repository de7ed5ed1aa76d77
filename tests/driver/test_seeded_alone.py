"""A fresh leg is seeded with the constant preamble, the pin, the baton and pointers: a planted recap is refused.

rules.md, Reset transaction: "A rotation whose seed holds anything but a constant preamble, pin, baton and those
pointers is a bug; a test plants a recap and expects refusal."
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relays.core import reset
from relays.driver import userfacts
from relays.models import Baton, LegState, ResetTransaction
from tests.driver.course import boundary, commit, player, turn

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

Start = Callable[..., Any]
RECAP = "So far the previous leg tried threads and decided against them."
WORKS = [*commit("work-$LEG.txt"), *turn(), *boundary("Go on.", final=True)]
PLANTED = {
    "as a part of its own": lambda real: lambda *args, **values: real(*args, **values, recap=RECAP),
    "in the preamble": lambda real: (
        lambda *args, **values: real(*args, **{**values, "preamble": f"{values['preamble']}{RECAP}\n"})
    ),
    "as a user's fact": lambda real: lambda *args, **values: real(*args, **{**values, "user_facts": (RECAP,)}),
    "behind the baton": lambda real: (
        lambda *args, **values: real(*args, **{**values, "baton": values["baton"] + RECAP.encode()})
    ),
}


@pytest.mark.parametrize("where", PLANTED)
def test_a_recap_that_is_planted_into_a_rotation_is_refused_and_no_leg_begins_with_it(
    course: Start, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    relay = course(**player(WORKS))
    real = reset.seed
    planted = PLANTED[where](real)
    monkeypatch.setattr(
        reset, "seed", lambda *args, **values: (planted if values["baton"] else real)(*args, **values)
    )  # leg 0 has no baton: it starts as it is
    with pytest.raises(reset.SeedError):
        relay.step()
    assert not ResetTransaction.objects.exists() and not Baton.objects.exists(), "the whole rotation is undone"
    assert [leg.state for leg in relay.relay.legs.all()] == [LegState.ENDING]
    monkeypatch.setattr(reset, "seed", real)
    relay.step()
    assert ResetTransaction.objects.count() == 1 and len(relay.legs) == 1


def test_what_an_agent_said_is_in_no_byte_that_the_next_leg_is_given(course: Start, tmp_path: Path) -> None:
    """Not in the seed, not in the environment, not in the baton's file: it dumps all that it was given."""
    out = tmp_path / "given.json"
    dump = (
        "import json, os, pathlib; baton = pathlib.Path(os.environ['RELAY_BATON']).read_text();"
        "seed = pathlib.Path(os.environ['RELAY_SEED']).read_text();"
        f"pathlib.Path({str(out)!r}).write_text(json.dumps([dict(os.environ), baton, seed]))"
    )
    said = [
        *commit("work-0.txt"),
        *turn(),
        {"kind": "decision", "label": RECAP, "pointer": "file:work-0.txt"},
        {"kind": "fact", "label": RECAP, "class": "durable", "backing": "file:work-0.txt"},
        *boundary("Go on.", final=True),
    ]
    relay = course(**player({"0": said}))
    relay.step()
    type(relay.relay).objects.filter(pk=relay.pk).update(
        agent_args={"argv": json.dumps([sys.executable, "-S", "-c", dump])}
    )
    relay.step()
    env, baton, given = json.loads(out.read_text())
    assert RECAP not in json.dumps(env) and RECAP not in baton
    row = Baton.objects.get(relay=relay.pk, current=True)
    seed = reset.seed(reset.PREAMBLE, relay.relay.pin, row.text.encode(), userfacts.pointers(relay.pk))
    assert RECAP.encode() not in seed.bytes and baton == row.text
    assert given.encode() == seed.bytes, "what the program is given is what the record has the digest of"
    assert ResetTransaction.objects.get().seed_digest == seed.digest
    assert {name for name in env if name.startswith("RELAY_")} == {
        *("RELAY_ID", "RELAY_LEG", "RELAY_BATON", "RELAY_SEED", "RELAY_SOCKET", "RELAY_TOKEN", "RELAY_MARKER"),
        *("RELAY_TOOL", "RELAY_MCP"),
        *("RELAY_OBJECTIVE", "RELAY_DONE_WHEN", "RELAY_NEXT_ACTION", "RELAY_FACTS"),
        *("RELAY_WINDOW_TOKENS", "RELAY_CEILING_TOKENS"),
    }

"""`relay readout ID`: exactly seven lines, in their order; `--json` is the object of `status`."""

from pathlib import Path

import pytest

from tests.management.conftest import Cli
from tests.report_builders import Story
from tests.web_builders import make_relay

pytestmark = pytest.mark.django_db
KEYS = ["objective", "budget", "resident_view", "assumptions", "reset", "memory", "cache"]


def lines(text: bytes) -> dict[str, str]:
    found = dict(line.split(": ", 1) for line in text.decode().splitlines())
    assert list(found) == KEYS
    return found


def test_before_the_first_record_it_says_not_yet(cli: Cli) -> None:
    found = lines(cli("readout", make_relay(status="ready").pk).out)
    for key in ("resident_view", "assumptions", "reset", "memory"):
        assert found[key] == "not yet"


def test_after_a_rotation(cli: Cli, tmp_path: Path) -> None:
    story = Story(tmp_path / "repo", policy={"envelope": {"turns": 100}})
    story.leg(turns=4)
    story.leg(turns=4)
    story.leg(turns=4, reason="")
    found = lines(cli("readout", story.relay.pk).out)
    assert found["objective"] == "preserved"
    assert found["budget"].startswith("turns=88 tokens=none context=")
    assert f"old_trace={story.legs[0].trace} new_trace={story.legs[1].trace} seed_digest=" in found["reset"]
    assert found["cache"].endswith("(cost only)")
    whole = cli("readout", story.relay.pk, "--json").json
    assert whole == cli("status", story.relay.pk, "--json").json
    assert whole["readout"] == found

"""`relay status ID`: the JSON that scripts rely on, words for a person, and ids that are none."""

from pathlib import Path

import pytest

from relays.models import Relay
from tests.actions.acts import seen
from tests.management.conftest import Cli
from tests.report_builders import Story

pytestmark = pytest.mark.django_db

LEG = {
    "leg", "state", "armed", "cause", "hold", "trace", "parent_trace", "reason", "at_sha", "started", "ended", "turns",
    "peak_tokens", "ceiling_tokens", "fidelity", "progress", "holds", "cost",
}  # fmt: skip
TOP = {"relay", "status", "ended", "objective", "legs", "gates", "verdicts", "readout"}
VERDICTS = {"flat", "fidelity", "attribution", "coverage", "objective", "rot", "faithful", "cheaper"}
READOUT = ["objective", "budget", "resident_view", "assumptions", "reset", "memory", "cache"]


@pytest.fixture
def story(tmp_path: Path) -> Story:
    told = Story(tmp_path / "repo")
    told.leg(turns=3, priced=True)
    told.leg(turns=3, reason="RELAY_PARKED_UNSAFE", cause="ceiling", hold="TREE_DIRTY_UNPARKED")
    return told


def test_the_shape(cli: Cli, story: Story) -> None:
    gate = story.park()
    done = cli("status", story.relay.pk, "--json")
    assert (done.code, done.err, done.out.count(b"\n")) == (0, "", 1)
    data = done.json
    assert TOP <= set(data)
    assert (data["relay"], data["status"], data["ended"]) == (story.relay.pk, "parked", None)
    assert set(data["objective"]) == {"pin_id", "text", "digest"}
    assert [leg["leg"] for leg in data["legs"]] == [0, 1]
    first = data["legs"][0]
    assert set(first) >= LEG
    assert set(first["fidelity"]) == {"verified", "dangling", "unknown", "score"}
    assert set(first["cost"]) == {"total", "currency", "unpriced_calls"}
    assert isinstance(first["cost"]["total"], str)
    assert first["started"].endswith("Z")
    assert data["legs"][1]["parent_trace"] == first["trace"]
    assert first["parent_trace"] is None
    (shown,) = data["gates"]
    assert {"id", "token", "state", "seen", "blocks"} <= set(shown)
    assert (shown["id"], shown["seen"]) == (gate.pk, seen(gate))
    assert set(data["verdicts"]) == VERDICTS
    assert set(data["verdicts"].values()) <= {"holds", "violated", "not yet"}
    assert list(data["readout"]) == READOUT


def test_what_status_shows_as_seen_is_what_approve_takes(cli: Cli, story: Story) -> None:
    story.park()
    shown = cli("status", story.relay.pk, "--json").json["gates"][0]
    assert cli("approve", shown["id"], "--seen", shown["seen"], "--comment", "ok").code == 0


def test_words_for_a_person(cli: Cli, story: Story) -> None:
    gate = story.park()
    done = cli("status", story.relay.pk)
    assert done.code == 0
    text = done.out.decode()
    assert text.startswith(f"{story.relay.pk} parked ")
    assert f"gate {gate.pk} RELAY_PARKED_UNSAFE waiting blocks next leg seen {seen(gate)}" in text
    assert "RELAY_ROTATED" in text and "TREE_DIRTY_UNPARKED" in text


def test_the_score_of_a_watched_relay_is_said(cli: Cli, story: Story) -> None:
    """rules.md, Advisory before enforcement: "how often the decision would have been right by later evidence"."""
    assert b"advice" not in cli("status", story.relay.pk).out
    assert cli("status", story.relay.pk, "--json").json["advisory"] is None
    Relay.objects.filter(pk=story.relay.pk).update(mode="shadow")
    assert b"advice (shadow): not yet" in cli("status", story.relay.pk).out


def test_an_ended_relay_says_how_and_when(cli: Cli, story: Story) -> None:
    story.park()
    assert cli("stop", story.relay.pk).code == 0
    ended = cli("status", story.relay.pk, "--json").json["ended"]
    assert ended["reason"] == "STOPPED"
    assert ended["at"].endswith("Z")


ODD = ["nope", "", "RLY-20261130-9999", "../../x", "a\x1b[31mb", "a\udcff", "x" * 9999, "%", "a\u202eb", "-"]


@pytest.mark.parametrize("verb", ["status", "readout", "verify", "park", "stop", "resume"])
def test_an_unknown_relay_is_exit_14_in_one_line(cli: Cli, verb: str) -> None:
    for name in ODD:
        done = cli(verb, name)
        assert (done.code, "is not known here" in done.line) == (14, True), name
        assert done.line.isprintable()
        assert len(done.line) < 300


@pytest.mark.parametrize("verb", ["status", "readout", "verify", "park", "stop", "resume", "approve", "refuse"])
def test_a_missing_or_unknown_argument_is_usage(cli: Cli, verb: str) -> None:
    assert (cli(verb).code, cli(verb, "x", "--colour").code) == (2, 2)
    assert f"relay {verb} --help" in cli(verb).line


def test_a_gate_that_is_decided_shows_no_digest_to_decide_on(cli: Cli, story: Story) -> None:
    gate = story.park()
    digest = cli("status", story.relay.pk, "--json").json["gates"][0]["seen"]
    assert f"blocks {gate.blocks} seen {digest}" in cli("status", story.relay.pk).out.decode()
    cli("refuse", gate.pk, "--seen", digest, "--comment", "no")
    assert f"gate {gate.pk} {gate.token} refused\n" in cli("status", story.relay.pk).out.decode()

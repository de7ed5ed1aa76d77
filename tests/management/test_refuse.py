"""`relay refuse GATE`: the answer and the exit codes."""

from pathlib import Path

import pytest

from relays.models import Decision, GateEpisode, Relay
from tests.actions.acts import everything, seen
from tests.management.conftest import Cli
from tests.report_builders import Story
from tests.web_builders import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def gate(tmp_path: Path) -> GateEpisode:
    make_user("rae", "reviewer")
    told = Story(tmp_path / "repo", owner=make_user("pat", "operator"))
    told.leg(turns=2, reason="RELAY_PARKED_UNSAFE", cause="ceiling")
    return told.park()


def test_refuse_reopen_approve(cli: Cli, gate: GateEpisode) -> None:
    done = cli("refuse", gate.pk, "--seen", seen(gate), "--comment", "no", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json == {"gate": gate.pk, "state": "refused", "decision": 1, "approvals": {"have": 0, "need": 1}}
    assert Relay.objects.get().status == "parked"
    assert cli("resume", gate.relay_id).code == 13
    again = cli("refuse", gate.pk, "--reopen", "--comment", "after all", "--json")
    assert (again.json["state"], again.json["gate"] != gate.pk) == ("waiting", True)
    fresh = GateEpisode.objects.get(pk=again.json["gate"])
    assert cli("approve", fresh.pk, "--seen", seen(fresh), "--comment", "ok").code == 0
    assert Relay.objects.get().status == "ready"


def test_a_refusal_carries_what_an_approval_may(cli: Cli, gate: GateEpisode) -> None:
    done = cli(
        *["refuse", gate.pk, "--seen", seen(gate), "--comment", "no", "--next-action", "Go on."],
        *["--answer", "issue:#40=No.", "--region", "work/**", "--set", "leg.turns=9", "--objective", "Another"],
    )
    assert (done.code, done.err) == (0, "")
    acts = list(Decision.objects.order_by("seq").values_list("act", flat=True))
    assert acts == ["refuse", "next_action", "answer", "region", "limit", "objective"]
    assert Relay.objects.get().status == "parked"
    assert cli("resume", gate.relay_id).code == 0, "a new objective is a way out of a refusal"


def test_then_stop(cli: Cli, gate: GateEpisode) -> None:
    done = cli("refuse", gate.pk, "--seen", seen(gate), "--comment", "no", "--then", "stop")
    assert (done.code, done.out.decode()) == (0, f"gate {gate.pk} refused\n")
    assert Relay.objects.get().status == "stopped"


REFUSED: list[tuple[list[str], int, str]] = [
    (["--comment", "no"], 13, "changed since you looked"),
    (["--seen", "SEEN"], 2, "--comment"),
    (["--seen", "SEEN", "--comment", ""], 2, "a comment is required"),
    (["--seen", "SEEN", "--comment", "no", "--then", "explode"], 2, "it is stop"),
    (["--seen", "SEEN", "--comment", "no", "--as", "pat"], 12, "pat has no role that may review"),
    (["--comment", "no", "--reopen"], 13, "only a refused or expired gate is reopened"),
]


def test_a_refusal_is_one_line_and_changes_nothing(cli: Cli, gate: GateEpisode) -> None:
    before, shown = everything(), seen(gate)
    for arguments, code, words in REFUSED:
        actor = [] if "--as" in arguments else ["--as", "rae"]
        done = cli("refuse", gate.pk, *[shown if one == "SEEN" else one for one in arguments], *actor)
        assert (done.code, words in done.line) == (code, True), done.err
        assert done.line.isprintable()
        assert everything() == before

"""`relay approve GATE`: the answer and the exit codes."""

from pathlib import Path

import pytest

from relays.models import Decision, GateEpisode, Relay
from tests.actions.acts import everything, seen
from tests.management.conftest import Cli
from tests.report_builders import Story
from tests.web_builders import make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def story(tmp_path: Path) -> Story:
    make_user("rae", "reviewer")
    told = Story(tmp_path / "repo", owner=make_user("pat", "operator"))
    told.leg(turns=2, reason="RELAY_PARKED_UNSAFE", cause="ceiling")
    return told


@pytest.fixture
def gate(story: Story) -> GateEpisode:
    return story.park()


def test_the_answer(cli: Cli, gate: GateEpisode) -> None:
    done = cli("approve", gate.pk, "--seen", seen(gate), "--comment", "ok", "--as", "rae", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json == {"gate": gate.pk, "state": "requested", "decision": 1, "approvals": {"have": 1, "need": 1}}
    again = cli("approve", gate.pk, "--seen", seen(gate), "--comment", "ok", "--as", "rae")
    assert (again.code, "it is requested, not waiting" in again.line) == (13, True)


def test_one_of_two(cli: Cli, gate: GateEpisode) -> None:
    Relay.objects.update(policy={"approvals": 2})
    done = cli("approve", gate.pk, "--seen", seen(gate), "--comment", "ok", "--as", "rae", "--json")
    assert done.json == {"gate": gate.pk, "state": "waiting", "decision": 1, "approvals": {"have": 1, "need": 2}}
    words = cli("approve", gate.pk, "--seen", seen(gate), "--comment", "ok")
    assert words.out.decode() == f"gate {gate.pk} requested (2 of 2 approvals)\n"


def test_everything_at_once(cli: Cli, gate: GateEpisode) -> None:
    done = cli(
        *["approve", gate.pk, "--seen", seen(gate), "--comment", "ok", "--as", "rae", "--json"],
        *["--next-action", "Go on.", "--answer", "issue:#40=Yes = no.", "--region", "work/**", ".relay/**"],
        *["--set", "envelope.turns=500", "leg.turns=9", "--objective", "Close the issues that matter"],
    )
    assert (done.code, done.err) == (0, "")
    details = {row.act: row.detail for row in Decision.objects.all()}
    assert details["approve"]["carries"] == ["next_action", "answer", "region", "limit", "objective"]
    assert (details["answer"]["question"], details["answer"]["answer"]) == ("issue:#40", "Yes = no.")
    assert details["limit"]["sets"] == ["envelope.turns=500", "leg.turns=9"]
    assert Relay.objects.get().region == ["work/**", ".relay/**"]


def test_four_eyes(cli: Cli, story: Story, gate: GateEpisode) -> None:
    Relay.objects.update(owner=make_user("own", "reviewer"))
    arguments = ["approve", gate.pk, "--seen", seen(gate), "--comment", "ok", "--as", "own"]
    refused = cli(*arguments)
    assert (refused.code, "four eyes: user own started" in refused.line) == (12, True)
    from django.contrib.auth.models import User

    User.objects.exclude(username="own").update(is_active=False)
    done = cli(*arguments, "--json")
    assert (done.code, done.json["note"]) == (0, "four eyes did not bind: fewer than two people may approve")


REFUSED: list[tuple[list[str], int, str]] = [
    (["--comment", "ok"], 2, "--seen"),
    (["--seen", "SEEN"], 2, "--comment"),
    (["--seen", "SEEN", "--comment", " "], 2, "a comment is required"),
    (["--seen", "0" * 64, "--comment", "ok"], 13, "changed since you looked"),
    (["--seen", "", "--comment", "ok"], 13, "changed since you looked"),
    (["--seen", "\udcff", "--comment", "ok"], 13, "changed since you looked"),
    (["--seen", "SEEN", "--comment", "ok", "--as", "pat"], 12, "pat has no role that may review"),
    (["--seen", "SEEN", "--comment", "ok", "--as", "nobody"], 14, "no such user"),
    (["--seen", "SEEN", "--comment", "ok", "--answer", "yes"], 2, "--answer 'yes': write it as name=value"),
    (["--seen", "SEEN", "--comment", "ok", "--answer", "issue:#9=yes"], 2, "open are: issue:#40"),
    (["--seen", "SEEN", "--comment", "ok", "--region", "/etc"], 2, "'/etc'"),
    (["--seen", "SEEN", "--comment", "ok", "--set", "envelope.trns=4"], 2, "envelope.trns"),
    (["--seen", "SEEN", "--comment", "ok", "--next-action", "a\nb"], 2, "one line"),
    (["--seen", "SEEN", "--comment", "ok", "--objective", "a\udcff"], 2, "surrogate"),
    (["--seen", "SEEN", "--comment", "\x1b[31m"], 2, "control character"),
]


def test_a_refusal_is_one_line_and_changes_nothing(cli: Cli, gate: GateEpisode) -> None:
    before, shown = everything(), seen(gate)
    for arguments, code, words in REFUSED:
        actor = [] if "--as" in arguments else ["--as", "rae"]
        done = cli("approve", gate.pk, *[shown if one == "SEEN" else one for one in arguments], *actor)
        assert (done.code, words in done.line) == (code, True), done.err
        assert done.line.isprintable()
        assert everything() == before


@pytest.mark.parametrize("name", ["4711", "abc", "", "1.5", "a\x1b[31m", "\udcff", "9" * 40])
@pytest.mark.parametrize("verb", ["approve", "refuse"])
def test_an_unknown_gate_is_exit_14(cli: Cli, verb: str, name: str) -> None:
    done = cli(verb, name, "--seen", "x", "--comment", "y")
    assert (done.code, "is not known here" in done.line) == (14, True)


def test_each_thing_that_is_asked_about_is_named(cli: Cli, story: Story) -> None:
    low = ["ledger 'x' leans on 'port': query, its source is unknown", "ledger 'x' leans on 'host': refresh, stale"]
    gate = story.park("LOW_CONFIDENCE_ASSUMPTION", items=low)
    call = ["approve", gate.pk, "--seen", seen(gate), "--comment", "ok", "--as", "rae"]
    assert "cannot be waived" in cli(*call, "--waive", "file:a").line
    assert "not asked about" in cli(*call, "--confirm", "moon").line
    assert cli(*call, "--confirm", "port", "--refresh", "host", "--json").code == 0
    told = [row.detail for row in Decision.objects.filter(act="assumption")]
    assert {one["key"]: one["became"] for one in told} == {"port": "confirmed", "host": "refreshed"}


def test_a_record_is_served_by_hand_or_waived(cli: Cli, story: Story) -> None:
    faults = ["page fault: file:docs/a.md: deny, gone", "page fault: issue:#7: query_user, no answer"]
    gate = story.park("UNSERVED_PAGE_FAULT", items=faults)
    call = ["approve", gate.pk, "--seen", seen(gate), "--comment", "ok", "--as", "rae"]
    assert cli(*call, "--serve", "file:docs/a.md").code == 2, "with what?"
    assert cli(*call, "--serve", "file:docs/a.md=it is = 42", "--waive", "issue:#7", "--json").code == 0
    told = {row.detail["record"]: row.detail for row in Decision.objects.filter(act="page_fault")}
    assert (told["file:docs/a.md"]["became"], told["file:docs/a.md"]["by"]) == ("served", "it is = 42")
    assert told["issue:#7"]["became"] == "waived"

"""`relay verify ID`: check-baton's shape and exits, with relay and leg."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from relays.core import baton as batons
from relays.core.pointers import Kind
from relays.models import Verification
from tests import builders
from tests.actions.acts import current
from tests.management.conftest import Cli
from tests.report_builders import Story
from tests.web_builders import make_relay

pytestmark = pytest.mark.django_db


@pytest.fixture
def story(tmp_path: Path) -> Story:
    told = Story(tmp_path / "repo")
    told.leg(turns=2)
    told.leg(turns=2)
    return told


def test_fresh_is_exit_0_and_kept(cli: Cli, story: Story) -> None:
    done = cli("verify", story.relay.pk, "--json")
    assert (done.code, done.err) == (0, "")
    assert {"relay", "leg", "outcome", "step", "path", "checks"} <= set(done.json)
    assert (done.json["relay"], done.json["leg"], done.json["outcome"]) == (story.relay.pk, 1, "fresh")
    assert (done.json["step"], done.json["path"]) == (None, None)
    for check in done.json["checks"]:
        assert set(check) == {"step", "path", "verdict", "evidence"}
    steps = [check["step"] for check in done.json["checks"]]
    assert steps == sorted(steps) and steps[-1] == 9
    kept = Verification.objects.get(purpose="verify")
    assert (kept.outcome, kept.checks.count()) == ("fresh", len(steps))


def test_stale_is_exit_3_with_step_and_path(cli: Cli, story: Story) -> None:
    baton = current(story.relay)
    gone = batons.Artifact(Kind.COMMIT, "f" * 40)
    story.write(story.legs[1], replace(baton, artifacts=(*baton.artifacts, gone)))
    done = cli("verify", story.relay.pk, "--json")
    assert done.code == 3
    assert (done.json["outcome"], done.json["step"], done.json["path"]) == ("stale", 6, "artifacts[3].ref")
    assert {"dangling", "verified"} <= {check["verdict"] for check in done.json["checks"]}
    assert cli("verify", story.relay.pk).out.decode().startswith(f"{story.relay.pk} leg 1: stale artifacts[3].ref")


def test_done_is_exit_5(cli: Cli, story: Story) -> None:
    states = builders.issue_lines(dict.fromkeys(range(1, 41), "closed"))
    builders.commit(story.repo, {".relay/issues.jsonl": states}, "Close all")
    assert cli("verify", story.relay.pk, "--json").code == 5


def test_a_silent_store_is_exit_7(cli: Cli, story: Story) -> None:
    shutil.rmtree(story.repo)
    done = cli("verify", story.relay.pk, "--json")
    assert (done.code, done.json["outcome"]) == (7, "unknown")
    assert str(story.repo) not in str([check["evidence"] for check in done.json["checks"]])


def test_without_a_baton_it_says_so(cli: Cli) -> None:
    done = cli("verify", make_relay().pk)
    assert (done.code, "no baton yet" in done.line) == (14, True)
    done = cli("verify", make_relay(status="stopped").pk)
    assert (done.code, "stopped before a leg of it ended" in done.line) == (14, True)


def test_a_relay_that_was_done_without_a_leg_is_done(cli: Cli) -> None:
    """interface.md, Exit codes: "5 done (check-baton, verify)"."""
    relay = make_relay(status="done")
    done = cli("verify", relay.pk, "--json")
    assert (done.code, done.err) == (5, "")
    nothing = {"leg": None, "step": None, "path": None, "checks": []}
    assert done.json == {"relay": relay.pk, "outcome": "done", **nothing}
    words = cli("verify", relay.pk).out.decode()
    assert words == f"{relay.pk}: done before a leg of it ended; there is no baton to verify\n"

"""A push is a recorded decision that a background task carries out: to the policy's address, without hooks or force."""

from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from relays.actions.base import Actor, ChangedSinceSeen, NotLegalNow, NotPermitted
from relays.actions.push import push
from relays.core import policy
from relays.driver import pushing
from relays.models import Decision, Push, Relay, RelayStatus
from tests.builders import git
from tests.reading import marked
from tests.web_builders import make_relay, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.postgres]


@pytest.fixture
def relay(tmp_path: Path, settings) -> Relay:  # type: ignore[no-untyped-def]
    """A relay that is done, its branch one commit ahead, and a bare repository that its policy may push to."""
    settings.RELAY_VAR = str(tmp_path / "var")
    repo, away = tmp_path / "orders", tmp_path / "away.git"
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    (repo / "a.txt").write_text("one\n")
    git(repo, "add", ".")
    git(repo, "commit", "-qm", "Start")
    start = git(repo, "rev-parse", "HEAD").strip()
    git(repo, "switch", "-qc", "relay/RLY-1")
    (repo / "a.txt").write_text("two <b>\n")
    git(repo, "commit", "-qam", "Work")
    git(tmp_path, "init", "-q", "--bare", str(away))
    return make_relay(
        status=RelayStatus.DONE, repo=str(repo), git_dir=str(repo / ".git"), branch="relay/RLY-1", start_sha=start,
        policy=policy.to_snapshot(policy.build({}, None, {"push_to": str(away), "pull_request": True})),
    )  # fmt: skip


def tip(relay: Relay) -> str:
    return str(git(Path(relay.repo), "rev-parse", relay.branch).strip())


def away(relay: Relay) -> Path:
    return Path(relay.policy["push_to"])


def test_it_is_recorded_once_and_carried_out_in_the_background(relay: Relay) -> None:
    actor = Actor(make_user("ann", "operator"))
    asked = push(actor, relay.pk, seen=tip(relay), comment="ready")
    again = push(actor, relay.pk, seen=tip(relay))
    assert (asked.new, again.new, again.state) == (True, False, "waiting")
    decision = Decision.objects.get(act="push")
    assert (decision.seen, decision.detail["where"], decision.comment) == (tip(relay), str(away(relay)), "ready")
    assert not git(away(relay), "branch", "--list").strip(), "nothing happens before the task"
    assert pushing.carry_out() == 1
    assert git(away(relay), "rev-parse", "relay/RLY-1").strip() == tip(relay)
    row = Push.objects.get()
    assert (row.state, row.result, row.attempts) == ("done", "pushed", 1)
    assert not push(actor, relay.pk, seen=tip(relay)).new and Decision.objects.filter(act="push").count() == 1
    assert pushing.carry_out() == 0


def test_nothing_of_the_repositorys_own_config_takes_part(relay: Relay, tmp_path: Path) -> None:
    repo, trap = Path(relay.repo), tmp_path / "sprung"
    hook = repo / ".git" / "hooks" / "pre-push"
    hook.write_text(f"#!/bin/sh\ntouch {trap}\n")
    hook.chmod(0o755)
    other = tmp_path / "thief.git"
    git(tmp_path, "init", "-q", "--bare", str(other))
    git(repo, "config", f"url.{other}.pushInsteadOf", str(away(relay)))
    git(repo, "config", "credential.helper", f"!touch {trap}")
    git(repo, "config", "core.sshCommand", f"touch {trap}")
    push(Actor(make_user("", "operator")), relay.pk, seen=tip(relay))
    assert pushing.carry_out() == 1
    assert not trap.exists() and not git(other, "branch", "--list").strip()
    assert git(away(relay), "rev-parse", "relay/RLY-1").strip() == tip(relay)


def test_a_refusal_of_the_other_side_is_kept_and_never_forced(relay: Relay, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(relay.repo), str(clone))
    git(clone, "switch", "-qC", "relay/RLY-1", relay.start_sha)
    (clone / "b.txt").write_text("theirs\n")
    git(clone, "add", ".")
    git(clone, "commit", "-qm", "Theirs")
    git(clone, "push", "-q", str(away(relay)), "relay/RLY-1")
    theirs = git(away(relay), "rev-parse", "relay/RLY-1")
    push(Actor(make_user("", "operator")), relay.pk, seen=tip(relay))
    assert pushing.carry_out() == 1
    row = Push.objects.get()
    assert row.state == "failed" and "rejected" in row.result
    assert git(away(relay), "rev-parse", "relay/RLY-1") == theirs
    assert push(Actor(make_user("", "operator")), relay.pk, seen=tip(relay)).new, "a person may ask again"


def test_a_place_that_does_not_answer_is_tried_again_and_not_for_ever(relay: Relay) -> None:
    away(relay).rename(away(relay).with_name("moved.git"))
    push(Actor(make_user("", "operator")), relay.pk, seen=tip(relay))
    for _ in range(pushing.TRIES - 1):
        assert pushing.carry_out() == 0
        assert pushing.carry_out() == 0, "not before its time"
        Push.objects.update(not_before=timezone.now())
    assert Push.objects.get().state == "waiting"
    assert pushing.carry_out() == 1
    assert Push.objects.get().state == "failed"


def test_it_never_runs_without_permission(relay: Relay) -> None:
    operator = Actor(make_user("", "operator"))
    with pytest.raises(NotPermitted):
        push(Actor(make_user("", "reviewer")), relay.pk, seen=tip(relay))
    with pytest.raises(ChangedSinceSeen):
        push(operator, relay.pk, seen=relay.start_sha)
    Relay.objects.filter(pk=relay.pk).update(policy=policy.to_snapshot(policy.build({}, None, {})))
    with pytest.raises(NotLegalNow, match="push_to"):
        push(operator, relay.pk, seen=tip(relay))
    running = make_relay(policy=relay.policy, repo=relay.repo, git_dir=relay.git_dir, branch=relay.branch)
    with pytest.raises(NotLegalNow, match="only a relay that is done"):
        push(operator, running.pk, seen=tip(relay))
    assert not Push.objects.exists() and not Decision.objects.filter(act="push").exists()


def test_the_page_shows_the_diff_and_the_push_from_the_button_to_its_result(relay: Relay) -> None:
    client = Client()
    client.force_login(make_user("bob", "operator"))
    here = f"/relays/{relay.pk}/"
    diff = marked(client.get(f"{here}?tab=diff"))
    assert "two &lt;b&gt;" in diff and 'href="#f-1">a.txt' in diff and "1 file" in diff
    page = marked(client.get(here))
    assert "merge --no-ff relay/RLY-1" in page and f'value="{tip(relay)}" form="act-push"' in page
    assert client.post(f"{here}push/", {"seen": tip(relay)}).status_code == 303
    assert "is on its way to" in marked(client.get(here))
    pushing.carry_out()
    after = marked(client.get(here))
    assert "pushed" in after and "request-pull" in after and 'form="act-push"' not in after
    reader = Client()
    reader.force_login(make_user("", "manager"))
    assert 'form="act-push"' not in marked(reader.get(here))
    assert reader.post(f"{here}push/", {"seen": tip(relay)}).status_code == 403

"""`relay start`: its answer, its exit codes, and every refusal as one line that leaves nothing behind."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import OperationalError
from django.utils import timezone

from relays.driver import advance
from relays.models import GateEpisode, Relay, RelayStatus
from tests import builders
from tests.actions.acts import everything
from tests.management.conftest import Cli
from tests.web_builders import make_user

ROOT = Path(__file__).resolve().parents[2]
GOAL = ["--objective", "Close them.", "--done-when", "issues:none open", "--agent", "scripted"]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return builders.make_repo(tmp_path / "repo", issues=2)


@pytest.mark.django_db
def test_the_answer_and_the_user_local(cli: Cli, repo: Path) -> None:
    done = cli("start", "--repo", repo, *GOAL, "--region", "src/**", "docs/**", "--set", "leg.turns=9", "--json")
    assert (done.code, done.err) == (0, "")
    assert set(done.json) == {"relay", "status"}
    relay = Relay.objects.get(pk=done.json["relay"])
    assert re.fullmatch(r"RLY-\d{8}-\d{4}", relay.pk)
    assert (done.json["status"], relay.owner.get_username()) == ("ready", "local")
    assert (relay.region, relay.policy["leg"]["turns"]) == (["src/**", "docs/**"], 9)


@pytest.mark.django_db
def test_words_for_a_person_as_somebody(cli: Cli, repo: Path) -> None:
    make_user("pat", "operator")
    done = cli("start", "--repo", repo, *GOAL, "--as", "pat", "--agent-arg", "items=2", "dirty=0", "--mode", "advise")
    relay = Relay.objects.get()
    assert done.out.decode() == f"{relay.pk} ready\n"
    assert (relay.owner.get_username(), relay.agent_args) == ("pat", {"items": "2", "dirty": "0"})
    assert (relay.mode, relay.policy["mode"]) == ("advise", "advise")


@pytest.mark.django_db
def test_a_policy_file_and_a_set_over_it(cli: Cli, repo: Path, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('[relay]\nceiling = 0.8\n[relay.leg]\nturns = 4\nwall = "15 min"\n')
    assert cli("start", "--repo", repo, *GOAL, "--policy", file, "--set", "leg.turns=5").code == 0
    policy = Relay.objects.get().policy
    assert (policy["ceiling"], policy["leg"]["turns"]) == (0.8, 5)


REFUSED: dict[str, tuple[list[str], int, str]] = {
    "no arguments": (["-"], 2, "required"),
    "unknown flag": (["--colour", "red"], 2, "--colour"),
    "shortened flag": (["--reg", "x"], 2, "--reg"),
    "wait": (["--wait", "abc"], 2, "'abc' is not a number of seconds"),
    "wait negative": (["--wait=-1"], 2, "not a number of seconds"),
    "wait nan": (["--wait", "nan"], 2, "not a number of seconds"),
    "mode": (["--mode", "loud"], 2, "loud"),
    "watch": (["--watch"], 2, "envelope: a watch needs at least one limit"),
    "prose": (["--done-when", "all is well"], 2, "envelope: a goal in prose needs at least one limit"),
    "objective": (["--objective", " \n "], 2, "objective is empty"),
    "objective NUL": (["--objective", "a\0b"], 2, "NUL"),
    "objective 1 MB": (["--objective", "x" * 1024 * 1024], 2, "4096 bytes"),
    "objective not UTF-8": (["--objective", "a\udcff"], 2, "UTF-8"),
    "region": (["--region", "../up"], 2, "'../up'"),
    "region absolute": (["--region", "/etc"], 2, "'/etc'"),
    "agent": (["--agent", "nobody"], 2, "nobody"),
    "agent flag": (["--agent-arg", "itmes=2"], 2, "'itmes'"),
    "agent value": (["--agent-arg", "items=lots"], 2, "items='lots'"),
    "agent form": (["--agent-arg", "items"], 2, "name=value"),
    "set": (["--set", "leg.turns"], 2, "key=value"),
    "set key": (["--set", "leg.trns=2"], 2, "leg.trns"),
    "set value": (["--set", "leg.turns=many"], 2, "leg.turns"),
    "set escape": (["--set", "\x1b[31m=2"], 2, "unknown key"),
    "as nobody": (["--as", "nobody"], 14, "--as nobody: no such user"),
    "as blank": (["--as", ""], 2, "--as '' names nobody"),
    "as odd": (["--as", "\udcff\x1b[31m"], 14, "no such user"),
    "as outsider": (["--as", "out"], 12, "out has no role that may operate"),
    "as reviewer": (["--as", "rae"], 12, "rae has no role that may operate"),
    "repository": (["--repo", "/nonexistent/place"], 2, "/nonexistent/place: no such folder"),
    "repository blank": (["--repo", ""], 2, "names no folder"),
    "policy": (["--policy", "/nonexistent.toml"], 2, "/nonexistent.toml cannot be read"),
    "policy folder": (["--policy", "/"], 2, "cannot be read"),
}


@pytest.mark.django_db
def test_a_refusal_is_one_line_and_makes_nothing(cli: Cli, repo: Path) -> None:
    make_user("out")
    make_user("rae", "reviewer")
    before = everything(), builders.git(repo, "for-each-ref"), builders.git(repo, "worktree", "list")
    for what, (arguments, code, words) in REFUSED.items():
        done = cli("start", *([] if what == "no arguments" else ["--repo", repo, *GOAL, *arguments]))
        assert (done.code, words in done.line) == (code, True), (what, done.err)
        assert done.line.isprintable()
        assert len(done.line) < 1200
        assert everything() == before[0], what
    assert (builders.git(repo, "for-each-ref"), builders.git(repo, "worktree", "list")) == before[1:]


POLICIES: dict[str, tuple[bytes, str]] = {
    "unknown key": (b"[relay.leg]\ntrns = 4\n", "leg.trns"),
    "unknown table": (b"[relay]\n[other]\n", "other: stands outside the one table of a policy file, [relay]"),
    "not a table": (b"relay = 4\n", "must be a table of keys"),
    "no TOML": (b"[relay\n", "is not valid TOML"),
    "no text": (b"\xff\xfe[relay]\n", "cannot be read"),
    "deep": (b"a = " + b"[\n" * 5000, "nested too deeply"),
    "a long line": (b"a = " + b"[" * 5000, "more than 4096 characters"),
    "a number of absurd length": (b"[relay]\nceiling = " + b"9" * 5000, "--policy"),
    "large": (b"#" * (300 * 1024), "is longer than"),
    "empty": (b"", "no [relay] table"),
    "a bad value": (b"[relay]\nceiling = 7\n", "ceiling"),
    "an escape": (b'[relay]\n"\\u001b[31m" = 7\n', "unknown key"),
}


@pytest.mark.django_db
def test_a_bad_policy_file_is_refused_in_one_line(cli: Cli, repo: Path, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    for what, (content, words) in POLICIES.items():
        file.write_bytes(content)
        done = cli("start", "--repo", repo, *GOAL, "--policy", file)
        assert (done.code, words in done.line) == (2, True), (what, done.err)
        assert done.line.isprintable()
        assert not Relay.objects.exists()


@pytest.mark.django_db
def test_a_held_region_is_exit_6_with_its_holder(cli: Cli, repo: Path) -> None:
    holder = cli("start", "--repo", repo, *GOAL, "--json").json["relay"]
    done = cli("start", "--repo", repo, *GOAL, "--region", "src/**")
    assert done.code == 6
    assert "COLLISION_RISK" in done.line and holder in done.line
    assert Relay.objects.count() == 1


@pytest.mark.django_db
def test_escapes_in_an_objective_never_reach_the_terminal(cli: Cli, repo: Path) -> None:
    hostile = "Close \x1b[31mred\x9b31m\x07 \u202eevil\x7f\r\nthem"
    done = cli("start", "--repo", repo, *GOAL, "--objective", hostile, "--json")
    relay = Relay.objects.get()
    assert relay.objective == hostile
    for verb in ("status", "readout", "list"):
        for flags in ([], ["--json"]):
            done = cli(verb, *([] if verb == "list" else [relay.pk]), *flags)
            assert done.code == 0
            text = done.out.decode()
            assert all(sign.isprintable() for line in text.split("\n") for sign in line), text
    assert cli("status", relay.pk, "--json").json["objective"]["text"] == hostile


# --- --wait


@pytest.fixture
def here(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Supervisors run in this process, one after the other; no bell rings."""
    from relays.driver import spawn
    from relays.driver.supervise import supervise
    from relaysite.celery import app

    monkeypatch.setattr(app, "send_task", lambda *_, **__: None)
    monkeypatch.setattr(spawn, "supervisor", lambda relay_id, leg_pk: bool(supervise(leg_pk)))
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_wait_until_done(here: None, cli: Cli, repo: Path) -> None:
    done = cli("start", "--repo", repo, *GOAL, "--wait", "30", "--json")
    assert (done.code, done.err) == (0, ""), Relay.objects.get().status_why
    assert done.json["status"] == "done"
    assert Relay.objects.get().ended_reason == "RELAY_GOAL_DONE"
    assert cli("verify", done.json["relay"]).code == 5


def test_wait_until_parked_tells_how_it_goes(here: None, cli: Cli, repo: Path) -> None:
    done = cli("start", "--repo", repo, *GOAL, "--agent-arg", "items=1", "--set", "envelope.legs=1", "--wait", "60")
    assert done.code == 8
    relay = Relay.objects.get()
    assert done.out.decode().startswith(f"{relay.pk} parked ")
    assert done.err.splitlines()[0] == f"{relay.pk} ready"
    assert GateEpisode.objects.get().token == "BUDGET_EXHAUSTED"


def test_a_database_that_fills_up_names_the_relay_and_what_goes_on(
    here: None, cli: Cli, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """interface.md: "one line what, where, and what to do"; starting again would make a second relay."""

    def full(relay_id: str) -> str:
        raise OperationalError("database or disk is full")

    monkeypatch.setattr(advance, "advance", full)
    done = cli("start", "--repo", repo, *GOAL, "--wait", "30", "--json")
    relay = Relay.objects.get()
    assert (done.code, done.out) == (1, b"")
    assert f"{relay.pk} is started, but the database takes nothing more (database or disk is full)" in done.line
    assert f"then a worker goes on with {relay.pk}: `relay serve`" in done.line


def test_a_watch_that_holds_idles_at_once_and_exits_8(here: None, cli: Cli, repo: Path) -> None:
    goal = ["--objective", "Keep it.", "--done-when", "file:README.md", "--agent", "scripted", "--watch"]
    builders.commit(repo, {"README.md": "x\n", ".relay/issues.jsonl": None}, "Nothing is filed")
    done = cli("start", "--repo", repo, *goal, "--set", "envelope.legs=5", "--wait", "60")
    relay = Relay.objects.get()
    assert done.code == 8
    assert done.out.decode() == f"{relay.pk} idle done_when holds in the durable store, and nothing is pending\n"
    assert done.err.splitlines()[0].startswith(f"{relay.pk}: done_when is an invariant")
    assert (relay.status, relay.legs_used, GateEpisode.objects.count()) == (RelayStatus.IDLE, 0, 0)
    assert cli("verify", relay.pk).code == 14, "no leg has ended, so there is no baton to verify"


@pytest.mark.django_db
def test_a_goal_in_prose_says_that_a_person_confirms_it(cli: Cli, repo: Path) -> None:
    """rules.md, done_when: one clause that does not parse makes it prose, "and the start form and command say so"."""
    prose = [*GOAL, "--done-when", "issues:none open and it reads well", "--set", "envelope.legs=5"]
    done = cli("start", "--repo", repo, *prose, "--region", "a/**")
    assert done.code == 0
    for words in ("is prose", "'it reads well'", "never true by itself", "DONE_UNCONFIRMED"):
        assert words in done.err
    found = cli("start", "--repo", repo, *prose, "--region", "b/**", "--json")
    assert (found.err, "never true by itself" in found.json["note"]) == ("", True)


@pytest.mark.django_db
def test_time_over_is_exit_9_and_the_relay_stays(cli: Cli, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from relays.driver import spawn

    monkeypatch.setattr(spawn, "supervisor", lambda relay_id, leg_pk: False)
    done = cli("start", "--repo", repo, *GOAL, "--wait", "0.2", "--json")
    assert (done.code, done.json["status"]) == (9, "ready")
    assert Relay.objects.get().status == RelayStatus.READY


def manage(tmp_path: Path) -> Callable[..., list[object]]:
    env = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    env |= {"RELAY_VAR": str(tmp_path / "var")}

    def call(*arguments: object) -> list[object]:
        command = [sys.executable, str(ROOT / "manage.py"), "relay", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, env=env, cwd=tmp_path, timeout=110, check=False)
        return [done.returncode, done.stdout.decode(), done.stderr.decode()]

    return call


@pytest.mark.slow
def test_from_nothing_to_done_as_a_real_command(tmp_path: Path, repo: Path) -> None:
    """An empty RELAY_VAR, no database, no worker: one command, one JSON line, exit 0."""
    call = manage(tmp_path)
    code, out, err = call("start", "--repo", repo, *GOAL, "--wait", "90", "--json")
    assert (code, err) == (0, "")
    assert json.loads(str(out))["status"] == "done"
    assert builders.git(repo, "for-each-ref", "refs/heads/relay")
    assert builders.git(repo, "status", "--porcelain") == ""


@pytest.mark.slow
def test_one_leg_is_tried_and_a_resume_goes_on(tmp_path: Path, repo: Path) -> None:
    """ "Try one leg" runs one and parks: no gate, no successor; a resume is an ordinary relay from there on."""
    call = manage(tmp_path)
    args = ("--repo", repo, *GOAL, "--agent-arg", "items=1", "--wait", "90", "--json")
    code, out, err = call("start", *args, "--try")
    assert code == 8, (out, err)
    relay = json.loads(str(out))["relay"]
    _, found, _ = call("status", relay, "--json")
    told = json.loads(str(found))
    assert (told["status"], told["gates"]) == ("parked", [])
    assert [(leg["state"], leg["reason"]) for leg in told["legs"]] == [("ended", "RELAY_ROTATED")]
    code, out, err = call("resume", relay, "--json")
    assert (code, json.loads(str(out))["will"]) == (0, "start"), err


@pytest.mark.slow
def test_the_layers_of_the_policy_meet_in_a_real_command(
    tmp_path: Path, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rules.md, Policy is data: defaults < site < the repository's dos.toml (tighten only) < start, end to end."""
    site = tmp_path / "site.toml"
    site.write_text("[relay]\nceiling = 0.8\nno_progress_legs = 5\nunknown_patience = '20 min'\n")
    builders.commit(repo, {"dos.toml": "[relay]\nceiling = 0.7\n"}, "Tighten")
    monkeypatch.setenv("SITE_POLICY", str(site))
    call = manage(tmp_path)
    code, out, err = call("start", "--repo", repo, *GOAL, "--set", "no_progress_legs=4", "rotations_per_hour=0",
                          "--wait", "90", "--json")  # fmt: skip
    assert (code, err) == (0, ""), out
    relay = json.loads(str(out))["relay"]
    _, found, _ = call("status", relay, "--json")
    assert {leg["ceiling_tokens"] for leg in json.loads(str(found))["legs"]} == {140_000}, "0.7 of 200,000"
    builders.commit(repo, {"dos.toml": "[relay]\nceiling = 0.85\n"}, "Loosen")
    code, out, err = call("start", "--repo", repo, *GOAL)
    assert (code, out) == (2, "") and "ceiling: a repository may only tighten it: 0.8 may not become 0.85" in str(err)
    site.write_text("[relay]\nceilin = 0.8\n")
    code, out, err = call("list")
    assert (code, out) == (2, "")
    assert str(err).startswith(f"SITE_POLICY='{site}': policy key ceilin: unknown key, did you mean ceiling?")
    assert str(err).count("\n") == 1


@pytest.mark.django_db
def test_a_stored_policy_a_time_and_a_dry_run(cli: Cli, repo: Path, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("[relay]\nceiling = 0.8\n")
    saved = cli("policy", "save", "nightly", file, "--comment", "The night.", "--json")
    assert (saved.code, saved.json["number"], saved.json["table"]) == (0, 1, {"ceiling": 0.8})
    before = everything()
    tried = cli("start", "--repo", repo, *GOAL, "--policy", "nightly", "--dry-run", "--json")
    assert (tried.code, tried.json["readout"]["objective"], tried.json["holder"]) == (0, "established", None)
    assert (
        len(tried.json["prompt"].encode()) == tried.json["bytes"]
        and "context=160000" in tried.json["readout"]["budget"]
    )
    assert everything() == before
    done = cli("start", "--repo", repo, *GOAL, "--policy", "nightly@1", "--at", "2999-01-01T00:00+01:00")
    assert (done.code, "more than 366 days ahead" in done.line) == (2, True)
    at = (timezone.now() + timedelta(days=1)).replace(microsecond=0)
    done = cli("start", "--repo", repo, *GOAL, "--policy", "nightly@1", "--at", at.isoformat(), "--json")
    assert (done.code, done.json["status"]) == (0, "waiting")
    relay = Relay.objects.get()
    assert (relay.next_at, str(relay.policy_version)) == (at, "nightly@1")
    held = cli("start", "--repo", repo, *GOAL, "--dry-run")
    assert held.code == 6 and relay.pk in held.err
    assert cli("start", "--repo", repo, *GOAL, "--policy", "weekly").code == 14
    assert "write it as" in cli("start", "--repo", repo, *GOAL, "--at", "tomorrow").line
    change = cli("policy", "set", relay.pk, "--set", "ceiling=0.7", "--comment", "Less.", "--json")
    assert (change.code, Relay.objects.get().policy["ceiling"]) == (0, 0.7)
    file.write_text("[relay]\nceiling = 0.6\n")
    assert cli("policy", "save", "nightly", file).out.decode().startswith("nightly@2: 1 keys")
    diff = cli("policy", "diff", "nightly@1", "nightly", "--json")
    assert diff.json["changes"] == [{"key": "ceiling", "before": "0.8", "after": "0.6"}]
    assert cli("policy", "show", "nightly@1").out.decode() == "[relay]\nceiling = 0.8\n"
    assert [one["number"] for one in cli("policy", "list", "nightly", "--json").json["policies"]] == [2, 1]


@pytest.mark.django_db
@pytest.mark.parametrize("how", [">&-", ">&- 2>&-", "| true", "2>&-"])
def test_a_closed_stream_is_no_traceback(how: str, process_env: dict[str, str]) -> None:
    line = f'"{sys.executable}" manage.py relay list --json {how}'
    done = subprocess.run(["sh", "-c", line], capture_output=True, env=process_env, cwd=ROOT, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")

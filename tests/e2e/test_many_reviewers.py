"""Eight reviewers decide on fifty gates at once, each click twice, while the worker is killed again and again.

Interface, page 6: "if it changed meanwhile → 'changed since you looked', nothing happens"; states.md, Gate episode.
Two web processes, a worker and beat are real; the clicks are HTTP with sessions and CSRF; agents are processes. However
the clicks fall: at most one effective decision an episode, exactly one dispatch an approval, and the whole audit.

`REVIEWERS`, `GATES` and `SEED` change what is tried.
"""

import contextlib
import http.client
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client

from relays.driver import changes, gates
from relays.models import Decision, GateChange, GateEpisode, GateState, Leg, Relay, RelayStatus
from relays.reports import audit
from tests import histories
from tests.builders import git, make_repo
from tests.chaos.house import marked
from tests.driver.course import boundary, commit, player, start_relay, turn
from tests.web_builders import make_user

ROOT = Path(__file__).resolve().parents[2]
REVIEWERS = int(os.environ.get("REVIEWERS", "8"))
GATES = int(os.environ.get("GATES", "50"))
TABS = 2  # of each reviewer: a click and the same again, from wherever
#: of the reviewers these refuse
REFUSING = range(6, 8)
SETTLE = 900.0
BROKER = "sqla+sqlite:///{}/broker.sqlite3"

pytestmark = [pytest.mark.slow, pytest.mark.postgres, pytest.mark.timeout(2400)]


class Processes:
    """Web, worker and beat over the test's database; `kill` is SIGKILL of the process and all that it forked."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        self.env, self.folder = env, folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.ports: dict[str, int] = {}

    def start(self, name: str) -> None:
        celery = [sys.executable, "-m", "celery", "-A", "relaysite"]
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        if name == "beat":
            argv = [*celery, "beat", "-l", "ERROR", "--pidfile", "", "-s", str(self.folder / "beat-schedule")]
        elif name == "worker":
            argv = [*celery, "worker", "-n", name, "-c", "1", "-l", "ERROR", *quiet]
        else:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.ports[name] = probe.getsockname()[1]
            argv = [sys.executable, "-m", "uvicorn", "relaysite.asgi:application", "--lifespan", "off"]
            argv += ["--port", str(self.ports[name]), "--log-level", "error"]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                argv, env=self.env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, name: str) -> None:
        child = self.running.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()

    def wait_for_web(self) -> None:
        deadline = time.monotonic() + 120
        for port in self.ports.values():
            while True:
                line = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
                with contextlib.suppress(OSError), contextlib.closing(line):
                    line.request("GET", "/healthz")
                    answer = line.getresponse()
                    answer.read()
                    if answer.status == 200:
                        break
                assert time.monotonic() < deadline, self.said()
                time.sleep(0.2)

    def said(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in logs)


class Tab:
    """One tab of one reviewer: a session of its own over HTTP."""

    def __init__(self, user: Any, port: int) -> None:
        client = Client()
        client.force_login(user)
        self.token = "t" * 32
        self.name, self.port = user.get_username(), port
        self.cookie = f"sessionid={client.cookies['sessionid'].value}; csrftoken={self.token}"

    def ask(self, method: str, path: str, form: dict[str, str] | None = None) -> tuple[int, str]:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        headers = {"Cookie": self.cookie, "Content-Type": "application/x-www-form-urlencoded"}
        body = urlencode({**form, "csrfmiddlewaretoken": self.token}) if form is not None else None
        try:
            line.request(method, path, body=body, headers=headers)
            answer = line.getresponse()
            return answer.status, answer.read().decode()
        finally:
            line.close()


@pytest.fixture
def house(
    transactional_db: None, process_env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Processes]:
    folder = tmp_path / "house"
    folder.mkdir()
    # nobody of this process rings: a relay that is made here waits for its gate
    monkeypatch.setattr("relaysite.bell.ring", lambda task, what: None)
    made = Processes({**process_env, "BROKER_URL": BROKER.format(folder), "LOG_LEVEL": "ERROR"}, folder)
    try:
        yield made
    finally:
        for name in list(made.running):
            made.kill(name)
        markers = set(Leg.objects.exclude(marker="").values_list("marker", flat=True))
        for pid in marked(markers) if markers else ():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        end_supervisors(folder)


def end_supervisors(folder: Path) -> None:
    """Those that a worker of this house started: they have its broker in their environment."""
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            given = f"BROKER_URL={BROKER.format(folder)}".encode()
            if int(place.name) != os.getpid() and given in (place / "environ").read_bytes().split(b"\0"):
                os.kill(int(place.name), signal.SIGKILL)


def parked(repo: Path, runs: Path, n: int) -> GateEpisode:
    """A relay of its own folder that waits at a gate; its agent writes down that it ran, commits, and is done."""
    path = f"r{n:02d}/done.txt"
    script = [*turn(), {"do": "write", "path": str(runs / str(n)), "text": "ran\n"}, *commit(path)]
    agent = player([*script, *turn(), *boundary("Go on.", final=True)])
    relay = start_relay(
        repo,
        done=f"file:{path}",
        region=[f"r{n:02d}/**"],
        sets=[f"approvals={1 + n % 2}"],
        objective=f"Do {n}.",
        **agent,
    )
    now = relay.created_at
    assert changes.change_relay(relay.pk, RelayStatus.PARKED, frm=[RelayStatus.READY], now=now)
    return gates.open_episode(relay.pk, "RELAY_NO_PROGRESS", leg=None, items=[f"look at {n}"], now=now)


def test_eight_reviewers_fifty_gates_and_a_worker_that_dies(house: Processes, tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**6))
    dice = random.Random(seed)
    runs = tmp_path / "runs"
    runs.mkdir()
    people = [make_user(f"reviewer-{n}", "reviewer") for n in range(REVIEWERS)]
    repo = make_repo(tmp_path / "repo", issues=1)
    episodes = [parked(repo, runs, n) for n in range(GATES)]
    before = Decision.objects.count()
    answers: Counter[tuple[str, int]] = Counter()
    counting = threading.Lock()
    with histories.recorded(connection) as history:
        for name in ("web-1", "web-2", "worker", "beat"):
            house.start(name)
        house.wait_for_web()
        ports = list(house.ports.values())
        tabs = [(n, Tab(user, ports[(n + tab) % 2])) for n, user in enumerate(people) for tab in range(TABS)]
        looked = [digest(tabs[0][1], episode) for episode in episodes]

        def click(n: int, tab: Tab, order: list[int]) -> None:
            act = "refuse" if n in REFUSING else "approve"
            for place in order:
                form = {"decision": act, "seen": looked[place], "comment": f"{tab.name} looked at it", "next": ""}
                status, text = tab.ask("POST", f"/gates/{episodes[place].pk}/decide/", form)
                with counting:
                    answers[act, status] += 1
                assert status in (303, 409), text[:2000]

        open_before = connections_open()
        failed = at_once([ordered(click, n, tab, dice) for n, tab in tabs], house, dice)
        assert not failed, f"seed {seed}: {failed[0]}\n{house.said()}"
        # no request leaves its connection behind
        assert connections_open() <= open_before + REVIEWERS * TABS + 12
        wait_until_settled(house, episodes, seed)
        changed = history()
    check(episodes, runs, changed, before, answers, seed)
    check_repository(repo, episodes)


def connections_open() -> int:
    """How many the server of this database has; 0 for a file."""
    if connection.vendor != "postgresql":
        return 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def digest(tab: Tab, episode: GateEpisode) -> str:
    """What the gate's page has in its form."""
    status, text = tab.ask("GET", f"/gates/{episode.pk}/")
    found = re.search(r'name="seen" value="([0-9a-f]{64})"', text)
    assert status == 200 and found is not None, text[:2000]
    return found.group(1)


def ordered(click: Callable[..., None], n: int, tab: Tab, dice: random.Random) -> Callable[[], None]:
    """Nearly the same order for all, so that they meet at the gates."""
    order = sorted(range(GATES), key=lambda place: place + dice.uniform(0, 3))
    return lambda: click(n, tab, order)


def at_once(acts: list[Callable[[], None]], house: Processes, dice: random.Random) -> list[BaseException]:
    """All acts in threads of their own; meanwhile the worker is killed and started again, three times at least."""
    failed: list[BaseException] = []

    def run(act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - judged in the test's own thread
            failed.append(error)

    threads = [threading.Thread(target=run, args=[act]) for act in acts]
    for thread in threads:
        thread.start()
    kills = 0
    while kills < 3 or any(thread.is_alive() for thread in threads):
        time.sleep(dice.uniform(3.0, 9.0))
        house.kill("worker")
        house.start("worker")
        kills += 1
    for thread in threads:
        thread.join()
    return failed


def wait_until_settled(house: Processes, episodes: list[GateEpisode], seed: int) -> None:
    """Every approved relay is done, every refused one stays parked."""
    deadline = time.monotonic() + SETTLE
    while True:
        states = Counter(
            GateEpisode.objects.filter(pk__in=[one.pk for one in episodes]).values_list("state", "relay__status")
        )
        if not set(states) - {("confirmed", "done"), ("refused", "parked")}:
            return
        assert time.monotonic() < deadline, f"seed {seed}: {states}\n{house.said()}"
        time.sleep(1.0)


def check(
    episodes: list[GateEpisode], runs: Path, changed: list[histories.Change], before: int, answers: Any, seed: int
) -> None:
    said = f"seed {seed}, answers {dict(answers)}"
    assert histories.illegal(changed) == [], said
    states: Counter[str] = Counter()
    for n, gate in enumerate(episodes):
        gate.refresh_from_db()
        states[gate.state] += 1
        rows = list(Decision.objects.filter(gate=gate))
        assert {row.act for row in rows} <= {"approve", "refuse"}
        approved = [row for row in rows if row.act == "approve"]
        refused = [row for row in rows if row.act == "refuse"]
        # nobody counts twice, and nobody decided on what was decided
        assert len({row.actor_id for row in approved}) == len(approved) <= 1 + n % 2, said
        way = [became for kind, key, _, became in changed if (kind, key) == ("gate", str(gate.pk))]
        ran = (runs / str(n)).read_text().count("ran") if (runs / str(n)).exists() else 0
        started = Leg.objects.filter(relay=gate.relay_id, started_at__isnull=False).count()
        if gate.state == GateState.CONFIRMED:
            assert (len(approved), refused) == (1 + n % 2, []), said
            assert way == ["approved", "requested", "dispatched", "confirmed"], f"{said}: {way}"
            assert (ran, started) == (1, 1), f"{said}: gate {gate.pk} ran {ran} agents in {started} legs"
            last = max(approved, key=lambda row: row.seq)
            steps = GateChange.objects.filter(gate=gate, state__in=["approved", "requested"])
            assert [step.by_id for step in steps] == [last.actor_id] * 2
        else:
            assert (gate.state, len(refused), way) == (GateState.REFUSED, 1, ["refused"]), said
            assert (ran, started) == (0, 0), said
            assert max(rows, key=lambda row: row.seq) == refused[0], said
    assert states[GateState.CONFIRMED] > 0, said
    # every click was answered, and every decision is in the chain, once
    assert sum(answers.values()) == REVIEWERS * TABS * GATES
    found = audit.verify()
    assert found.ok and found.rows == Decision.objects.count(), (said, found)
    assert Decision.objects.count() - before == Decision.objects.filter(gate__in=episodes).count()
    assert connection.vendor in ("sqlite", "postgresql")


def check_repository(repo: Path, episodes: list[GateEpisode]) -> None:
    """One commit on the branch of each relay that was approved, none on the others'."""
    for gate in episodes:
        relay = Relay.objects.get(pk=gate.relay_id)
        branch = git(repo, "for-each-ref", "--format=%(refname)", f"refs/heads/{relay.branch}")
        commits = git(repo, "rev-list", "--count", f"{relay.start_sha}..{relay.branch}") if branch else "0"
        assert commits == ("1" if gate.state == GateState.CONFIRMED else "0"), relay.pk

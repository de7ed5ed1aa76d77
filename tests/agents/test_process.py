"""Containment with real processes: what an agent starts is gone when it is told to go, and when its supervisor dies."""

import os
import secrets
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from relays.agents import contained, process
from relays.agents.bridges import run
from relays.agents.process import Containment

ROOT = Path(__file__).resolve().parents[2]

#: an agent that starts a grandchild in a session of its own, which also ignores what can be ignored
AGENT = """
import os, signal, subprocess, sys, time
code = "import signal, time; [signal.signal(s, signal.SIG_IGN) for s in (1, 2, 15)]; time.sleep(600)"
subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
print("up", flush=True)
time.sleep(600)
"""

KINDS = [Containment.NAMESPACE, Containment.USER_NAMESPACE, Containment.SUBREAPER]


def allowed(kind: Containment, strongest: Containment) -> None:
    if kind in (Containment.NAMESPACE, Containment.USER_NAMESPACE):
        prefix = contained.prefix_of(kind)
        if not prefix or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
            pytest.skip(f"this machine does not allow {kind}")


def up(agent: process.AgentProcess, until) -> None:
    said = bytearray()

    def read() -> bool:
        said.extend(agent.stdout.read(100) or b"")
        return b"up" in said

    assert until(read), agent.poll()


@pytest.mark.parametrize("kind", KINDS)
def test_kill_tree_takes_the_setsid_grandchild_along(start, until, strongest, kind):
    allowed(kind, strongest)
    agent = start(AGENT, contain=kind)
    up(agent, until)
    assert agent.containment == kind
    assert until(lambda: len(process.living(agent.marker)) >= 2)
    agent.kill_tree()
    assert process.living(agent.marker) == []
    assert agent.poll() == -signal.SIGKILL
    assert not process.alive(agent.pid, agent.started, agent.boot_id)
    agent.kill_tree()  # safe to repeat


SCRUBBED = """
import subprocess, sys, time
code = "import time; open(sys.argv[1], 'w').close(); time.sleep(600)".replace("sys.argv", "__import__('sys').argv")
subprocess.Popen([sys.executable, "-c", code, sys.argv[1]], start_new_session=True, env={})
print("up", flush=True)
time.sleep(600)
"""


def using(path: Path) -> list[int]:
    """Pids of the processes that have this path as an argument."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if os.fsencode(path) in words and b"env={}" not in b" ".join(words):
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_grandchild_without_the_marker_goes_too(start, until, strongest, tmp_path, kind):
    allowed(kind, strongest)
    sign = tmp_path / "sign"
    agent = start(SCRUBBED, str(sign), contain=kind)
    up(agent, until)
    assert until(sign.exists)
    assert using(sign)
    agent.kill_tree()
    assert using(sign) == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_clean_exit_left_running_is_ended(start, until, strongest, kind):
    allowed(kind, strongest)
    agent = start(AGENT.replace("time.sleep(600)\n", "sys.exit(7)\n"), contain=kind)
    assert until(lambda: agent.poll() is not None)
    assert agent.poll() == 7
    agent.kill_tree()
    assert process.living(agent.marker) == []


LAUNCHER = """
import sys
sys.path.insert(0, sys.argv[1])
from relays.agents import contained, process
kind = process.Containment(sys.argv[4]) if sys.argv[4] else None
agent = process.launch(
    [sys.executable, "-c", sys.argv[2]], cwd="/", env={"PATH": "/usr/bin:/bin"}, marker=sys.argv[3],
    log_dir=sys.argv[5], contain=kind,
)
said = b""
import select
while b"up" not in said:
    select.select([agent.stdout], [], [])
    said += agent.stdout.read(100) or b""
print(agent.containment, flush=True)
select.select([agent.stdout], [], [])
"""


def launcher(program: str, marker: str, kind: str, log: Path, **more) -> "subprocess.Popen[bytes]":
    argv = [program, "-c", LAUNCHER, str(ROOT), AGENT, marker, kind, str(log)]
    return subprocess.Popen(argv, cwd="/", stdout=subprocess.PIPE, **more)


def end(supervisor: "subprocess.Popen[bytes]") -> None:
    supervisor.kill()
    supervisor.communicate()


@pytest.mark.parametrize("kind", ["", Containment.NAMESPACE, Containment.USER_NAMESPACE])
def test_kill_9_of_the_supervisor_leaves_no_process(tmp_path, until, strongest, kind):
    if kind:
        allowed(kind, strongest)
    elif strongest not in (Containment.NAMESPACE, Containment.USER_NAMESPACE):
        pytest.skip("this machine allows no namespace")
    marker = f"test-{secrets.token_hex(8)}"
    supervisor = launcher(sys.executable, marker, kind, tmp_path / "log")
    try:
        assert supervisor.stdout.readline().decode().strip() == (kind or strongest)
        assert until(lambda: len(process.living(marker)) >= 3)  # wrapper, agent, grandchild
        supervisor.kill()
        supervisor.wait()
        assert until(lambda: process.living(marker) == [], 2.0)
    finally:
        end(supervisor)
        process.kill_by_marker(marker)


def test_kill_9_of_a_plain_users_supervisor_leaves_no_process(tmp_path, until, strongest, plain_python):
    allowed(Containment.USER_NAMESPACE, strongest)
    if os.geteuid() != 0 or plain_python is None:
        pytest.skip("needs root, and a Python that a plain user may run")
    marker = f"test-{secrets.token_hex(8)}"
    log = Path(tempfile.gettempdir()) / marker  # tmp_path is closed to that user
    supervisor = launcher(plain_python, marker, "", log, user=65534, group=65534, extra_groups=[])
    try:
        assert supervisor.stdout.readline().decode().strip() == Containment.USER_NAMESPACE
        assert until(lambda: len(process.living(marker)) >= 3)
        supervisor.kill()
        supervisor.wait()
        assert until(lambda: process.living(marker) == [], 2.0)
    finally:
        end(supervisor)
        process.kill_by_marker(marker)
        (log / "stderr.log").unlink(missing_ok=True)
        log.rmdir()


def test_without_a_namespace_the_agent_dies_with_its_supervisor_and_recovery_finds_the_rest(tmp_path, until):
    marker = f"test-{secrets.token_hex(8)}"
    supervisor = launcher(sys.executable, marker, Containment.SUBREAPER, tmp_path / "log")
    try:
        assert supervisor.stdout.readline().decode().strip() == Containment.SUBREAPER
        assert until(lambda: len(process.living(marker)) == 2)
        supervisor.kill()
        supervisor.wait()
        assert until(lambda: len(process.living(marker)) == 1, 2.0)  # the agent itself is gone
        assert process.kill_by_marker(marker) == 1
        assert process.living(marker) == []
        assert process.kill_by_marker(marker) == 0
    finally:
        end(supervisor)
        process.kill_by_marker(marker)


def test_a_child_whose_parent_died_before_it_asked_does_not_start():
    """The parent-death signal would never come: the child looks whether its parent is still the same."""
    gone = subprocess.run([sys.executable, "-c", ""], check=True) and 2**22 + 1
    with pytest.raises(subprocess.SubprocessError):
        done = subprocess.run(["true"], preexec_fn=process._die_with(gone), check=False)
        if done.returncode == 126:
            raise subprocess.SubprocessError


def test_terminate_lets_an_agent_end_by_itself(start, until):
    code = (
        "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "print('up', flush=True)\ntime.sleep(600)"
    )
    agent = start(code)
    up(agent, until)
    agent.terminate(5.0)
    assert agent.poll() == 5


def test_terminate_kills_what_does_not_end(start, until):
    agent = start(AGENT)
    up(agent, until)
    begun = time.monotonic()
    agent.terminate(0.2)
    assert time.monotonic() - begun < 8
    assert process.living(agent.marker) == []


def test_the_agent_gets_exactly_its_environment_and_the_marker(start, until):
    agent = start("import os; print(sorted(os.environ), flush=True)")
    assert until(lambda: agent.poll() is not None)
    names = set(eval((agent.stdout.read() or b"").decode()))  # noqa: S307 (our own program's list of names)
    assert names - {"LC_CTYPE"} == {"PATH", "RELAY_MARKER"}


def test_stderr_is_capped_and_keeps_the_newest(start, until):
    agent = start("import sys\nfor n in range(60000): sys.stderr.write(f'line {n} ' + 'x' * 60 + '\\n')")
    begun = time.monotonic()
    while agent.drain_stderr():
        assert time.monotonic() - begun < 30
        if agent.poll() is None:
            time.sleep(0.001)
    folder = Path(agent._log._path).parent
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == ["stderr.log", "stderr.log.1"]
    assert sum(file.stat().st_size for file in files) <= process.STDERR_CAP
    assert "line 59999" in (folder / "stderr.log").read_text()
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)


def test_pipes_never_block(start, until):
    agent = start("import time; print('up', flush=True); time.sleep(600)")
    up(agent, until)
    assert agent.stdout.read(10) is None
    assert agent.drain_stderr() is True
    sent = 0
    while wrote := agent.stdin.write(b"x" * 65536):
        sent += wrote
    assert wrote is None
    assert sent > 0


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["no-such-program-here"], "'no-such-program-here' is not there"),
        (["./nothing"], "'./nothing' is not there"),
        (["/"], "'/' is not there or not executable"),
        ([], "needs a program"),
    ],
)
def test_what_cannot_start_says_so_in_one_line(tmp_path, argv, said):
    with pytest.raises(process.LaunchError) as caught:
        process.launch(argv, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, marker="m", log_dir=tmp_path / "log")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(process.LaunchError, match="the folder .*gone"):
        process.launch(["true"], cwd=tmp_path / "gone", env={}, marker="m", log_dir=tmp_path / "log")


def test_only_the_main_thread_starts_agents(tmp_path):
    caught: list[BaseException] = []

    def elsewhere() -> None:
        try:
            process.launch(["true"], cwd=tmp_path, env={}, marker="m", log_dir=tmp_path)
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(caught) == 1


def test_identity_is_pid_start_time_and_boot():
    pid, started, boot, host = process.this_process()
    assert pid == os.getpid()
    assert host
    assert process.alive(pid, started, boot)
    assert not process.alive(pid, started + 1, boot)
    assert not process.alive(pid, started, "another-boot")
    assert process.identity(0) is None
    assert process.identity(2**22 + 5) is None


def test_a_process_that_only_waits_to_be_reaped_is_not_alive(until):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    seen = process.identity(child.pid)
    assert seen is not None
    assert process.alive(child.pid, *seen)
    child.stdin.close()
    assert until(lambda: process.identity(child.pid) is None)
    child.wait()


def test_an_empty_marker_finds_and_kills_nothing():
    assert process.living("") == []
    assert process.kill_by_marker("") == 0


def test_a_marker_that_only_begins_alike_is_not_ours(start, until):
    agent = start(AGENT)
    up(agent, until)
    assert process.kill_by_marker(agent.marker[:-1]) == 0
    assert agent.poll() is None


def test_the_group_alone_where_there_is_no_proc(start, until):
    agent = start("import time; print('up', flush=True); time.sleep(600)", contain=Containment.GROUP)
    up(agent, until)
    agent.kill_tree()
    assert agent.poll() == -signal.SIGKILL


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_has_its_three_pipes_open_and_nothing_of_ours(start, until, strongest, kind, tmp_path):
    allowed(kind, strongest)
    secret = tmp_path / "of-ours"
    secret.write_text("not for agents")
    with secret.open() as held:  # as the database and the logs of a supervisor are
        os.set_inheritable(held.fileno(), True)
        code = (
            "import os\nopen_ones = [f'/proc/self/fd/{fd}' for fd in os.listdir('/proc/self/fd')]\n"
            "print([os.readlink(one) for one in open_ones if os.path.lexists(one)], flush=True)"
        )
        agent = start(code, contain=kind)
        said = bytearray()

        def over() -> bool:
            said.extend(agent.stdout.read(1000) or b"")
            return b"]" in said

        assert until(over)
    assert str(secret) not in said.decode() and said.count(b"pipe:") == 3
    folder = tmp_path / "agent-0"
    assert os.listdir(folder) == ["stderr.log"]
    assert (folder.stat().st_mode | (folder / "stderr.log").stat().st_mode) & 0o077 == 0


def test_a_bridges_program_hears_interrupts_though_a_background_shell_ignores_them(tmp_path: Path) -> None:
    """Codex's simple mode is stopped by SIGINT; who starts the house with `&` has it ignored by all that follow."""
    (tmp_path / "program.py").write_text("import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)")
    spawns = "import subprocess, sys; subprocess.run([sys.executable, sys.argv[1]])"
    hears = f"import runpy; runpy.run_path({run.__file__!r})['hear_interrupts'](); {spawns}"
    said = []
    for code in (spawns, hears):
        shell = f"trap '' INT; exec {shlex.quote(sys.executable)} -c {shlex.quote(code)} {tmp_path / 'program.py'}"
        said.append(subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True).stdout.strip())
    assert said == ["True", "False"]

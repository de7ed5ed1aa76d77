"""What one agent's tree may use: read in one place, applied by the kernel or looked at over the whole tree."""

import resource
import subprocess

import pytest

from relays.agents import contained, limits, process, registry
from relays.agents.base import AgentArgError
from relays.agents.limits import Limits
from relays.agents.process import Containment


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        ({"memory": "512m", "time": "90m", "file_size": "2g"}, Limits(512 * 1024**2, 5400, 2 * 1024**3)),
        ({"memory": "none", "time": "none", "file_size": "none"}, Limits()),
        ({"memory": "20000000", "time": "5", "file_size": "1m"}, Limits(20_000_000, 5, 1024**2)),
    ],
)
def test_limits_are_read_with_their_units(args, wanted):
    assert limits.read(args) == wanted


def test_by_default_there_is_one_of_each():
    usual = limits.read({})
    assert usual == limits.default() and None not in (usual.memory, usual.time, usual.file_size)


@pytest.mark.parametrize(("name", "value"), [("memory", "8x"), ("memory", "1k"), ("time", "0"), ("file_size", "-1")])
@pytest.mark.parametrize("agent", ["command", "opencode"])
def test_what_is_no_limit_is_refused_in_one_line_by_every_program(agent, name, value):
    args = {"argv": "true"} if agent == "command" else {}
    with pytest.raises(AgentArgError, match=f"agent argument {name}=.*allowed") as refused:
        registry.adapter(agent).check_args({**args, name: value})
    assert "\n" not in str(refused.value)
    registry.adapter(agent).check_args({**args, name: "none"})


def test_the_kernel_holds_the_size_of_a_file_and_no_core_is_left(start, until, tmp_path):
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE), open('/proc/self/oom_score_adj').read().strip(), flush=True)\n"
        "try:\n"
        "    open('big', 'wb').write(b'x' * 3_000_000)\n"
        "except OSError as error:\n"
        "    print('held', error.errno, flush=True)\n"
    )
    agent = start(code, limits=Limits(file_size=2 * 1024**2))
    said = bytearray()

    def over() -> bool:
        said.extend(agent.stdout.read(1000) or b"")
        return b"held" in said

    assert until(over), said
    assert said.startswith(b"(0, 0) 500\n")
    assert (tmp_path / "big").stat().st_size <= 2 * 1024**2
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY, "ours is as it was"


@pytest.mark.parametrize("kind", [Containment.NAMESPACE, Containment.USER_NAMESPACE, Containment.SUBREAPER])
def test_the_whole_tree_is_counted_also_what_lost_its_parent(start, until, kind):
    prefix = contained.prefix_of(kind)
    if prefix and subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"this machine does not allow {kind}")
    code = (
        "import os, subprocess, sys, time\n"
        "hog = 'x = bytearray(80_000_000)\\nprint(1, flush=True)\\nimport time; time.sleep(600)'\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.execv(sys.executable, [sys.executable, '-S', '-c', hog])\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "time.sleep(600)\n"
    )
    agent = start(code, contain=kind)
    assert until(lambda: limits.resident(agent.members()) > 80_000_000)
    agent.kill_tree()
    assert limits.resident(agent.members()) == 0 and process.living(agent.marker) == []


def test_sizes_are_told_in_words():
    assert limits.spelled(3.25 * 1024**3) == "3.2 GiB" and limits.spelled(12 * 1024**2) == "12 MiB"
    assert limits.resident([2**22 + 7]) == 0

"""A real program under a user who is not root, in the pid namespace of that user's own user namespace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pydantic
import pytest

from relays.agents import contained, process
from tests.agents import real
from tests.agents.conftest import Repo, context
from tests.agents.model import Model, Step
from tests.builders import make_repo

pytestmark = real.marks

ROOT = Path(__file__).parents[3]
NOBODY = 65534
NAMES = "ANTHROPIC_BASE_URL,ANTHROPIC_API_KEY"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that a plain user can reach, which pytest's own is not."""
    made = Path(tempfile.mkdtemp(prefix="plain-", dir="/tmp"))  # noqa: S108 (closed to all but that user below)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_kill_9_of_a_plain_users_supervisor_leaves_nothing_of_the_program(
    place: Path, plain_python: str | None
) -> None:
    program = real.require("claude-code")
    if os.geteuid() != 0 or plain_python is None:
        pytest.skip("needs root, and a Python that a plain user may run")
    prefix = contained.prefix_of(process.Containment.USER_NAMESPACE)
    tried = subprocess.run([*prefix, program, "--version"], user=NOBODY, group=NOBODY, check=False, capture_output=True)
    if not prefix or tried.returncode != 0:
        pytest.skip("this machine allows a plain user no user namespace, or not this program")
    packages = str(Path(pydantic.__file__).parents[1])  # our own, for a Python that has none
    asked = [plain_python, "-c", "import pydantic"]
    env = {"PYTHONPATH": packages}
    if subprocess.run(asked, env=env, user=NOBODY, group=NOBODY, capture_output=True, check=False).returncode != 0:
        pytest.skip("the Python that a plain user may run cannot read our packages, or is another version")
    tree, folder, home = make_repo(place / "tree", issues=1), place / "leg", place / "home"
    for one in (folder, home):
        one.mkdir()
    (folder / "seed.txt").write_text("Close the issues.")
    args = {"program": program, "env": NAMES}
    ctx = context(Repo(tree), folder, "", seed_path=str(folder / "seed.txt"), args=args)
    (place / "context.json").write_text(json.dumps(asdict(ctx)))
    subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", str(place)], check=True)
    own = os.readlink("/proc/self/ns/pid")
    told = "id -u > who.new; readlink /proc/self/ns/pid >> who.new; setsid sleep 600 & mv who.new who; sleep 60"
    script: list[Step] = [{"shell": told}, {"text": "never asked for"}]
    with Model(script) as model:
        env = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(place), "PYTHONPATH": packages}
        env |= {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "test-key"}
        alone = [
            plain_python,
            "-m",
            "tests.agents.programs.lone_supervisor",
            "claude-code",
            str(place / "context.json"),
        ]
        supervisor = subprocess.Popen(alone, cwd=ROOT, env=env, user=NOBODY, group=NOBODY, extra_groups=[])
        try:
            deadline = time.monotonic() + 60
            while not (tree / "who").exists() and supervisor.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            assert (tree / "who").exists(), [path.read_text() for path in folder.glob("stderr.log")]
            user, namespace = (tree / "who").read_text().split()
            assert user == str(NOBODY) and namespace != own
            assert len(real.below(tree)) >= 3, "bridge, program, tool"
        finally:
            supervisor.kill()
            supervisor.wait()
        deadline = time.monotonic() + 10
        while real.below(tree) and time.monotonic() < deadline:
            time.sleep(0.05)
    assert not real.below(tree) and not process.living(ctx.marker)

"""rules.md, Externalize gate: "A fact passes only when its backing pointer is `verified`".

More than 200 ways to keep something only in the transcript, folded from the lines that an agent would write and judged
against real git: every one is refused by name, and the same thing said with a pointer that resolves passes.
"""

import json
import os
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from relays.core import legview
from relays.core.events import UNREAD, parse_line
from relays.core.externalize import STATEMENT
from relays.core.legview import LegView
from relays.driver import budgets
from relays.driver import git as relay_git
from relays.driver.commands import Commands
from relays.driver.measure import Measure, Measured
from relays.models import Leg
from relays.stores.worktree import add_worktree
from tests.builders import commit, git, head
from tests.driver.course import Course

KINDS = ("fact", "decision", "open_question", "dead_end")
NOWHERE = "f" * 40
#: pointers that name nothing, nothing that resolves, or nothing that any store could answer for
BACKINGS: tuple[str | None, ...] = (
    None, "", " ", "it is in my notes", "see above", "transcript:12", "turn:3", "message:m1", "https://example.org/x",
    "commit", "commit:", "commit:HEAD", "commit:main", "commit:HEAD~1", "commit:" + "a" * 12, f"commit:{NOWHERE}",
    "commit:" + "A" * 40, f"commit:{NOWHERE} ", "commit:-x", "commit:refs/heads/main", "COMMIT:" + NOWHERE,
    "issue:1", "#0", "#999", "issue:#", "#-1", "#1 or #2", "acme/orders#1", "issue:closed",
    "memory:none", "memory:../README", "memory:/etc/passwd", "memory:a/b", "memory:", "memory:-x",
    "file:none.txt", "file:/etc/passwd", "file:../x", "file:-x", "file:[", "file:", "file:*.none",
    "file:" + "x" * 600, "FILE:README.md", "file :README.md", " file:README.md", "file:README.md ",
    "file:READ\u200bME.md",
    "file:./README.md",
    "ledger:RLY-0.0.e1", "ledger:none.jsonl#L1", "ledger:README.md#L1", "ledger:README.md#L999",
    "ledger:", "ledger:../x#L1",
)  # fmt: skip
CLASSES = (
    "",
    "durable",
    "bounded",
    "Turn",
    "TURN",
    " turn",
    "turn ",
    "turns",
    "ephemeral",
    "none",
    "tuｒn",
    "turn\u200b",
)
MALFORMED = (
    '{"kind":"fact","label":"@"}',
    '{"kind":"fact","seq":-1,"label":"@","class":"turn"}',
    '{"kind":"fact","seq":1.5,"label":"@"}',
    '{"kind":"fact","seq":"7","label":"@"}',
    '{"kind":"fact","seq":8,"label":"@","class":0}',
    '{"kind":"fact","seq":8,"label":"@","class":null}',
    '{"kind":"fact","seq":8,"label":"@","class":"turn","backing":7}',
    '{"kind":"decision","seq":8,"label":"@","pointer":["file:README.md"]}',
    '{"kind":"open_question","seq":8,"label":"@","at":"soon"}',
    '{"kind":"dead_end","label":"@","pointer":"file:README.md"}',
)


class World:
    """A relay's leg 0 as its supervisor would measure it, without an agent."""

    def __init__(self, course: Course) -> None:
        self.relay = course.relay
        self.leg = Leg.objects.get(relay=self.relay)
        add_worktree(relay_git.store(self.relay), Path(self.relay.worktree), self.relay.branch, self.relay.start_sha)
        self.tree = Path(self.relay.worktree)
        self.leg.reflog_lines = len(relay_git.tree(self.relay).reflog())
        self.view = LegView()
        self.seq = 0

    def say(self, *lines: str | dict[str, Any]) -> None:
        for line in lines:
            if isinstance(line, dict):
                self.seq += 1
                line = json.dumps({"seq": self.seq, **line})
            parsed = parse_line(line.encode())
            event = parsed.event
            if event is None:
                assert parsed.declares is not None, line
                event = type(parsed.declares)(
                    parsed.declares.kind, UNREAD + self.view.unread, None, parsed.declares.payload
                )
            assert self.view.apply(event)

    def look(self) -> Measured:
        policy = budgets.policy_of(self.relay)
        return Measure(self.relay, self.leg, policy, self.view, Commands(self.relay, policy)).look(
            statement_required=True
        )

    def refused(self) -> set[str]:
        gate = self.look().gate
        assert gate.admit == (not gate.culprits)
        return {culprit.label for culprit in gate.culprits}


@pytest.fixture
def world(course: Callable[..., Course]) -> World:
    return World(course(done="file:never.txt"))


def declared(kind: str, label: str, backing: object) -> dict[str, Any]:
    return {"kind": kind, "label": label, "backing" if kind == "fact" else "pointer": backing}


def ways() -> Iterable[tuple[str, str | dict[str, Any]]]:
    """Label -> the line that keeps it only in the transcript."""
    for kind in KINDS:
        for number, backing in enumerate(BACKINGS):
            label = f"{kind} {number}"
            yield label, declared(kind, label, backing)
        yield f"{kind} alone", {"kind": kind, "label": f"{kind} alone"}
    for number, durability in enumerate(CLASSES):
        yield f"class {number}", {"kind": "fact", "label": f"class {number}", "class": durability}
    for number, raw in enumerate(MALFORMED):
        yield f"malformed {number}", raw.replace("@", f"malformed {number}")
    for number in range(8):
        yield f"task {number}", {"kind": "todo", "id": f"task {number}", "open": True}
    chance = random.Random(19)
    for number in range(60):
        noise = "".join(chance.choice("cfilmo:#/.*[]-_~ \t\u202eabé019") for _ in range(chance.randrange(1, 40)))
        yield f"noise {number}", declared(chance.choice(KINDS), f"noise {number}", noise)


def test_every_way_is_refused_by_name(world: World) -> None:
    every = list(ways())
    assert len(every) >= 300
    world.say(*(line for _, line in every))
    world.say(
        *(declared(kind, f"{kind} well said", "file:README.md") for kind in KINDS),
        declared("fact", "by commit", f"commit:{world.relay.start_sha}"),
        declared("decision", "by issue", "#1"),
        {"kind": "fact", "label": "scratch", "class": "turn"},
        {"kind": "externalized"},
    )
    assert world.refused() == {label for label, _ in every}


def test_said_properly_all_of_them_pass(world: World) -> None:
    """What makes the refusals above mean something."""
    for label, line in ways():
        kind = line["kind"] if isinstance(line, dict) else json.loads(line)["kind"]
        again = (
            {"kind": "todo", "id": label, "open": False} if kind == "todo" else declared(kind, label, "file:README.md")
        )
        world.say(line, again)
    world.say({"kind": "externalized"})
    assert world.refused() == set()


TALKED_AWAY: dict[str, list[dict[str, Any]]] = {
    "said again as ephemeral": [declared("fact", "x", None), {"kind": "fact", "label": "x", "class": "turn"}],
    "said again with blanks": [declared("fact", "x", None), {"kind": "fact", "label": " x\t", "class": "turn"}],
    "backing withdrawn": [declared("fact", "x", "file:README.md"), declared("fact", "x", None)],
    "closed before opened": [{"kind": "todo", "id": "x", "open": False}, {"kind": "todo", "id": "x", "open": True}],
    "a task under a label": [{"kind": "todo", "id": "t", "open": True, "label": "x"}],
    "behind a flood": [
        *({"kind": "fact", "label": f"filler {n}", "class": "turn"} for n in range(legview.RECORDS)),
        declared("fact", "x", None),
    ],
}


def test_no_order_of_saying_talks_it_away(world: World) -> None:
    for way, lines in TALKED_AWAY.items():
        world.view = LegView()
        world.say(*lines, {"kind": "externalized"})
        (label,) = world.refused()
        assert label == "x" or "more than" in label, way


def test_a_statement_covers_only_what_came_before_it(world: World) -> None:
    later: list[dict[str, Any]] = [
        declared("fact", "y", "file:README.md"),
        declared("decision", "y", "#1"),
        declared("open_question", "y", "#1"),
        declared("dead_end", "y", "#1"),
        {"kind": "artifact", "ref": f"commit:{NOWHERE}"},
        {"kind": "tool_started", "id": "t", "name": "edit"},
    ]
    assert world.refused() == {STATEMENT}
    for line in later:
        world.view = LegView()
        world.say({"kind": "externalized"}, line)
        assert world.refused() == {STATEMENT}, line


def test_a_file_that_no_commit_holds(world: World) -> None:
    paths = ["/tmp/n.md", "../n.md", "~/n.md", "$HOME/n.md", "file:///n.md", ".git/n.md"]
    world.say(*({"kind": "file_written", "path": path} for path in [*paths, "notes.md"]), {"kind": "externalized"})
    assert world.refused() == set(paths)


def hidden(bit: str) -> Callable[[Path], object]:
    def hide(tree: Path) -> None:
        git(tree, "update-index", bit, "README.md")
        (tree / "README.md").write_text("changed\n")

    return hide


def elsewhere(tree: Path) -> None:
    git(tree, "checkout", "-q", "--detach")
    commit(tree, {"x.txt": "x\n"}, "Nobody has it")
    git(tree, "checkout", "-q", "-")


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda tree: (tree / "README.md").write_text("changed\n"), id="dirty"),
        pytest.param(lambda tree: (tree / "new.txt").write_text("new\n"), id="untracked"),
        pytest.param(lambda tree: (tree / "README.md").unlink(), id="removed"),
        pytest.param(hidden("--assume-unchanged"), id="assume-unchanged"),
        pytest.param(hidden("--skip-worktree"), id="skip-worktree"),
        pytest.param(lambda tree: ((tree / "README.md").write_text("x"), git(tree, "stash")), id="stash"),
        pytest.param(elsewhere, id="detached-commit"),
        pytest.param(lambda tree: (tree / ".git").write_text("gitdir: /nowhere\n"), id="no-git"),
        pytest.param(lambda tree: os.mkfifo(_log(tree)), id="no-reflog"),
    ],
)
def test_what_lies_about_unsaid_is_found(world: World, act: Callable[[Path], object]) -> None:
    world.say({"kind": "externalized"})
    assert world.refused() == set()
    act(world.tree)
    assert world.refused() - {STATEMENT}


def _log(tree: Path) -> Path:
    log = Path(git(tree, "rev-parse", "--git-path", "logs/HEAD"))
    log.unlink()
    return log


def test_a_store_that_falls_silent_refuses_everything(world: World) -> None:
    world.say(declared("fact", "x", "file:README.md"), {"kind": "externalized"})
    assert world.refused() == set()
    assert head(Path(world.relay.repo))
    os.rename(world.relay.git_dir, world.relay.git_dir + ".away")
    assert "x" in world.refused()

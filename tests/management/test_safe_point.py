"""`safe-point ID`: rules.md, "Safe point = nothing in flight ∧ tree green or explicitly parked ∧ exactly one next
action", and Externalize gate; interface.md, Shapes. Looked at while a real leg runs, which does not notice.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relays.models import Boundary, Decision, DriverClaim, Event, Fact, RelayStatus, Verification
from relays.stores.gitrun import counting
from tests.builders import git
from tests.driver.course import Course, boundary, commit, player, turn
from tests.management.conftest import Cli, Result
from tests.web_builders import make_relay

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.postgres]
KEYS = {"safe", "hold", "armed", "in_flight", "tree", "next_actions", "gate", "done"}
Look = Callable[..., Result]


@pytest.fixture
def looked(cli: Cli, course: Callable[..., Course], meanwhile: Callable[..., None]) -> Look:
    """Play a leg and look at it just before its `at`th boundary is judged; nothing may have been written by that."""

    def play(*script: Any, at: int = 1, **values: Any) -> Result:
        relay = course(**values, **player([*script, *boundary("Go on.", final=True)]))
        found: list[Result] = []

        def look() -> None:
            def records() -> tuple[object, ...]:
                tables = (DriverClaim, Event, Boundary, Fact, Verification, Decision)
                index = relay.worktree / ".git"
                place = git(relay.worktree, "rev-parse", "--absolute-git-dir")
                stamp = Path(f"{place}/index").stat().st_mtime_ns if index.exists() else 0
                return (*(list(table.objects.order_by("pk").values()) for table in tables), stamp)

            before = records()
            found.append(cli("safe-point", relay.pk, "--json"))
            assert records() == before, "a look writes nothing and refreshes no index"

        meanwhile(at, look)
        relay.step()
        assert relay.legs, "the leg went on to its end"
        (result,) = found
        assert KEYS <= set(result.json)
        assert (result.json["relay"], result.json["leg"], result.json["live"]) == (relay.pk, 0, True)
        return result

    return play


def test_a_leg_that_may_stop_is_exit_0(looked: Look) -> None:
    done = looked(*commit("one.txt"), *turn(), *boundary("Take the next issue."))
    assert done.code == 0
    assert {key: done.json[key] for key in KEYS} == {
        "safe": True,
        "hold": None,
        "armed": False,
        "in_flight": [],
        "tree": {"dirty": [], "parked": False, "operation": ""},
        "next_actions": ["Take the next issue."],
        "gate": {"admit": True, "facts": []},
        "done": False,
    }


def test_dirty_paths_hold_it_and_are_named(looked: Look) -> None:
    done = looked({"do": "write", "path": "half.txt", "text": "x"}, *turn(), *boundary("Go on."))
    assert (done.code, done.json["safe"], done.json["hold"]) == (10, False, "TREE_DIRTY_UNPARKED")
    assert done.json["tree"] == {"dirty": ["half.txt"], "parked": False, "operation": ""}
    assert [fact["label"] for fact in done.json["gate"]["facts"]] == ["half.txt"]
    assert done.json["gate"]["facts"][0]["fix"]


def test_work_that_is_parked_does_not(looked: Look) -> None:
    done = looked({"do": "write", "path": "half.txt", "text": "x"}, {"kind": "park_tree"}, *turn(), *boundary("Go on."))
    assert done.code == 0
    assert done.json["tree"] == {"dirty": ["half.txt"], "parked": True, "operation": ""}


@pytest.mark.parametrize(
    ("actions", "hold"), [([], "NO_NEXT_ACTION"), (["One.", "Two."], "AMBIGUOUS_NEXT_ACTION"), (["x" * 201], None)]
)
def test_exactly_one_next_action(looked: Look, actions: list[str], hold: str | None) -> None:
    done = looked(*turn(), *boundary(*actions))
    assert (done.code, done.json["hold"]) == (10, hold or "NO_NEXT_ACTION")
    assert done.json["next_actions"] == actions


def test_a_tool_in_flight(looked: Look) -> None:
    done = looked(*turn(), {"kind": "tool_started", "id": "t1", "name": "bash"}, *boundary("Go on."))
    assert (done.code, done.json["hold"]) == (10, "IN_FLIGHT_TOOL_CALL")
    assert done.json["in_flight"] == ["t1"]


def test_git_in_the_middle_of_something(looked: Look) -> None:
    started = {"do": "git", "args": ["bisect", "start"]}
    done = looked(*commit("one.txt"), started, *turn(), *boundary("Go on."))
    assert (done.code, done.json["safe"], done.json["hold"]) == (10, False, "NOT_AT_SAFE_POINT")
    assert done.json["tree"]["operation"] == "bisect"


def test_a_fact_without_a_durable_backing_refuses_the_gate_and_says_what_would_help(looked: Look) -> None:
    facts = [
        {"kind": "fact", "label": "The port is 8080", "class": "durable", "backing": None},
        {"kind": "fact", "label": "See the plan", "class": "durable", "backing": "file:no-such-plan.md"},
        {"kind": "fact", "label": "It has a readme", "class": "durable", "backing": "file:README.md"},
        {"kind": "fact", "label": "Only for now", "class": "turn", "backing": None},
    ]
    done = looked(*facts, *turn(), *boundary("Go on."), repo=None, issues=1, done="file:never.txt")
    assert (done.code, done.json["safe"], done.json["hold"]) == (10, True, "RELAY_NOT_EXTERNALIZED")
    gate = done.json["gate"]
    assert gate["admit"] is False
    seen = {fact["label"]: (fact["verdict"], bool(fact["fix"])) for fact in gate["facts"]}
    assert seen["The port is 8080"] == (None, True)
    assert seen["See the plan"] == ("dangling", True)
    assert seen["Only for now"] == (None, False)
    assert all(set(fact) == {"label", "backing", "verdict", "fix"} for fact in gate["facts"])


def test_an_armed_leg_owes_its_statement(looked: Look) -> None:
    script = [*commit("one.txt"), *turn(130_000), *boundary("Go on.", said=False), *turn(130_500)]
    done = looked(*script, *boundary("Go on.", said=False), at=2)
    assert (done.code, done.json["armed"], done.json["safe"]) == (10, True, True)
    assert (done.json["hold"], done.json["gate"]["admit"]) == ("RELAY_NOT_EXTERNALIZED", False)
    assert done.json["gate"]["facts"][-1]["label"] == "externalized"
    assert "send externalized" in done.json["gate"]["facts"][-1]["fix"]


def test_done_when_as_it_stands_at_the_tip(looked: Look) -> None:
    assert looked(*commit("goal.txt"), *turn(), *boundary("Go on."), done="file:goal.txt").json["done"] is True
    # nobody has run the command for this tip, and a look runs none
    assert looked(*commit("a.txt"), *turn(), *boundary("Go on."), done='cmd:"exit 3"').json["done"] is None


@pytest.mark.slow
def test_in_words(cli: Cli, course: Callable[..., Course], meanwhile: Callable[..., None]) -> None:
    relay = course(**player([{"do": "write", "path": "half.txt", "text": "x"}, *turn(), *boundary("Go on.")]))
    said: list[str] = []
    meanwhile(1, lambda: said.append(cli("safe-point", relay.pk).out.decode()))
    relay.step()
    assert said[0].startswith(f"{relay.pk} leg 0: not here, TREE_DIRTY_UNPARKED\n")
    assert "dirty: half.txt" in said[0] and "fact: half.txt:" in said[0]


def test_a_leg_that_has_ended_is_shown_as_it_was_left(cli: Cli, course: Callable[..., Course]) -> None:
    relay = course(issues=2, args={"items": "1", "dirty": "1"})
    relay.drive()
    assert relay.relay.status == RelayStatus.PARKED
    with counting() as processes:
        done = cli("safe-point", relay.pk, "--json")
    assert (done.code, done.json["live"], done.json["hold"]) == (10, False, "TREE_DIRTY_UNPARKED")
    assert done.json["in_flight"] == []
    assert len(processes) < 40
    git(relay.worktree, "clean", "-fdq")
    assert cli("safe-point", relay.pk, "--json").json["tree"]["dirty"] == []
    assert "(it has ended)" in cli("safe-point", relay.pk).out.decode()


@pytest.mark.slow
def test_a_tree_that_is_gone_is_not_called_clean(cli: Cli, course: Callable[..., Course]) -> None:
    relay = course(issues=2, args={"items": "1"}, sets=["envelope.legs=1"])
    relay.drive()
    assert cli("safe-point", relay.pk).code == 0
    shutil.rmtree(relay.worktree)
    done = cli("safe-point", relay.pk, "--json")
    assert (done.code, done.json["safe"], done.json["hold"]) == (10, False, "TREE_DIRTY_UNPARKED")


def test_nothing_to_look_at(cli: Cli, course: Callable[..., Course]) -> None:
    assert cli("safe-point", "RLY-none").code == 14
    made = make_relay()
    done = cli("safe-point", made.pk)
    assert done.code == 14 and "no leg" in done.line
    assert cli("safe-point", course().pk).code == 14

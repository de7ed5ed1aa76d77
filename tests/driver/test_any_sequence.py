"""states.md, all of its tables: in whatever order events, crashes, people, the clock and a changed world come, every
change that the database sees is in them, and what is counted is never given back.

A state machine over the real driver, real agents and real git; a failure prints the sequence that leads to it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from relays.actions import decide, park, resume
from relays.actions.base import Refused
from relays.agents import process
from relays.driver import attached, baton_maker, gates, reconcile, successor
from relays.driver.boundaries import Boundaries
from relays.driver.ending import Ending
from relays.driver.ingest import Ingest
from relays.driver.prepare import Prepare
from relays.driver.supervisor import Supervisor
from relays.models import (
    LIVE_STATES,
    OPEN_GATES,
    OPEN_STATES,
    Baton,
    DriverClaim,
    GateEpisode,
    Leg,
    LegState,
    Relay,
    RelayStatus,
    ResetTransaction,
    Tombstone,
)
from relays.reports import gate as gate_report
from tests import histories
from tests.builders import git
from tests.driver.conftest import Killed
from tests.driver.course import Course, boundary, commit, loop, operator, player, reviewer, turn

DIRTY = {"do": "write", "path": "half.txt", "text": "half\n"}
#: what an agent does in one leg
LEGS: dict[str, Any] = {
    "works": [*commit("w-$LEG.txt"), *turn(), *boundary("Go on."), *turn(), *boundary("Go on.", final=True)],
    "idles": [*turn(), *boundary("Go on.", final=True)],
    "leaves a mess": [*commit("w-$LEG.txt"), *turn(), DIRTY, *boundary("Go on."), *boundary("Go on.", final=True)],
    "crashes": [*commit("w-$LEG.txt"), *turn(), *boundary("Go on."), {"do": "exit", "code": 3}],
    "says nothing": [{"do": "exit", "code": 7}],
    "goes on until it is stopped": [*commit("w-$LEG.txt"), loop(*turn(700), *boundary("Go on."))],
    "passes the ceiling": [*turn(950), *boundary("Go on."), *turn(950), *boundary("Go on.")],
    "knows no next action": [*commit("w-$LEG.txt"), *turn(), *boundary(final=True), *boundary(final=True)],
    "asks": [{"kind": "open_question", "label": "Which way?"}, *turn(), *boundary("Go on.", final=True)],
}
SETS = ["on_crash=park", "envelope.legs=3", "envelope.turns=9", "no_progress_legs=2", "rotations_per_hour=2",
        "resume=by_operator", "approvals=2"]  # fmt: skip
GOALS = ["issues:none open", "file:w-2.txt", "All is well."]
DEATHS: list[tuple[Any, str]] = [
    (Prepare, "_may_start"), (Prepare, "_to_starting"), (Supervisor, "_launch"), (Supervisor, "_running"),
    (Ingest, "flush"), (Boundaries, "judge"), (Ending, "judge"), (Ending, "record"), (Ending, "again"),
    (baton_maker, "gather"), (Ending, "_move_on"), (successor, "make"), (Ending, "close"),
]  # fmt: skip
PEOPLE = ["park", "park now", "stop", "stop now", "resume", "approve", "refuse", "refuse and stop", "reopen"]


def person(relay: Course, act: str) -> None:
    """What a person tries; a refusal is an answer."""
    gate = GateEpisode.objects.filter(relay=relay.pk).order_by("-pk").first()
    try:
        if act.startswith(("park", "stop")):
            (park.park if act.startswith("park") else park.stop)(operator(), relay.pk, now=act.endswith("now"))
        elif act == "resume":
            resume.resume(operator(), relay.pk)
        elif gate is not None:
            seen = gate_report.seen_digest(gate, decide._tip(relay.relay))
            if act == "approve":
                decide.approve(reviewer(), gate.pk, seen=seen, comment="Looked.", next_action="Go on.", host_dead=True)
            else:
                how: dict[str, Any] = {"refuse and stop": {"then": "stop"}, "reopen": {"reopen": True}}.get(act, {})
                decide.refuse(reviewer(), gate.pk, seen=seen, comment="No.", **how)
    except Refused:
        pass


@contextmanager
def beside(owner: Any, name: str, nth: int, after: bool, act: Callable[[], object]) -> Iterator[None]:
    """Inside, the nth call of that method has `act` before or after it."""
    real, calls = getattr(owner, name), 0

    def meeting(*args: Any, **values: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth and not after:
            act()
        found = real(*args, **values)
        if calls == nth and after:
            act()
        return found

    with mock.patch.object(owner, name, meeting):
        yield


def die() -> None:
    raise Killed


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_sequence_leaves_the_tables(course: Callable[..., Course], monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0

    class Sequence(RuleBasedStateMachine):
        relay: Course
        spent: tuple[Any, ...] = ()

        @initialize(
            legs=st.lists(st.sampled_from(sorted(LEGS)), min_size=4, max_size=4),
            sets=st.lists(st.sampled_from(SETS), max_size=2, unique=True),
            done=st.sampled_from(GOALS),
            mode=st.sampled_from(["", "", "", "shadow", "advise"]),
            outlives=st.booleans(),
        )
        def start(self, legs: list[str], sets: list[str], done: str, mode: str, outlives: bool) -> None:
            script = {str(n): LEGS[name] for n, name in enumerate(legs)} | {"*": LEGS["works"]}
            values = player(script, way="reconnect" if outlives else "stdout")
            if outlives:
                values["args"]["reconnect"] = "1"
            if not any(one.startswith("envelope") for one in sets):
                sets = [*sets, "envelope.legs=9"]
            if not any(one.startswith("envelope.turns") for one in sets):
                # an agent that goes on for ever is ended by nothing else in shadow and advise, nor under hysteresis
                sets = [*sets, "envelope.turns=40"]
            self.relay = course(**values, sets=[*sets, "window_tokens=1000"], done=done, mode=mode)

        def step(self) -> None:
            nonlocal steps
            steps += 1
            try:
                self.relay.step()
            except Killed:
                pass

        @precondition(lambda self: self.relay.open_leg is not None and self.relay.driven)
        @rule()
        def a_supervisor_comes(self) -> None:
            self.step()

        @precondition(lambda self: self.relay.open_leg is not None and self.relay.driven)
        @rule(where=st.sampled_from(DEATHS), nth=st.integers(1, 2), after=st.booleans())
        def a_supervisor_comes_and_dies(self, where: tuple[Any, str], nth: int, after: bool) -> None:
            with beside(*where, nth, after, die):
                self.step()

        @precondition(lambda self: self.relay.open_leg is not None and self.relay.driven)
        @rule(where=st.sampled_from(DEATHS), after=st.booleans(), act=st.sampled_from(PEOPLE))
        def a_person_comes_beside_it(self, where: tuple[Any, str], after: bool, act: str) -> None:
            inside = where[1] in ("_move_on", "make")  # in the midst of its transaction: nobody else writes there
            with beside(*where, 1, after, (lambda: None) if inside else (lambda: person(self.relay, act))):
                self.step()

        @precondition(lambda self: self.relay.open_leg is not None and self.relay.driven)
        @rule(where=st.sampled_from(DEATHS))
        def its_claim_is_taken(self, where: tuple[Any, str]) -> None:
            def taken() -> None:
                DriverClaim.objects.filter(relay=self.relay.pk).update(fence=F("fence") + 1)

            with beside(*where, 1, False, taken):
                self.step()

        @rule(act=st.sampled_from(PEOPLE))
        def a_person_comes(self, act: str) -> None:
            person(self.relay, act)

        @precondition(lambda self: self.relay.relay.status == RelayStatus.WAITING)
        @rule()
        def a_wait_is_over(self) -> None:
            Relay.objects.filter(pk=self.relay.pk).update(next_at=timezone.now() - timedelta(seconds=1))

        @rule()
        def the_clock_ticks(self) -> None:
            reconcile.reconcile()
            gates.expire(timezone.now())

        @rule(what=st.sampled_from(["dirty", "reset", "empty commit", "lock", "lost host"]))
        def the_world_changes(self, what: str) -> None:
            tree = self.relay.worktree
            if what == "lost host":
                DriverClaim.objects.filter(relay=self.relay.pk).exclude(holder="").update(
                    host="far", heartbeat=timezone.now() - timedelta(hours=1)
                )
            elif not (tree / ".git").exists():
                return
            elif what == "dirty":
                (tree / "found.txt").write_text("somebody's\n")
            elif what == "reset":
                git(tree, "reset", "-q", "--hard", self.relay.relay.start_sha, ok=(0, 128))
            elif what == "empty commit":
                git(tree, "commit", "-q", "--allow-empty", "-m", "Foreign", ok=(0, 1, 128))
            else:
                (Path(git(tree, "rev-parse", "--absolute-git-dir")) / "index.lock").touch()

        # --- what holds after each of them

        @invariant()
        def every_change_is_legal(self) -> None:
            assert histories.illegal(changes()) == []

        @invariant()
        def nothing_is_doubled_or_given_back(self) -> None:
            if not hasattr(self, "relay"):
                return
            relay = self.relay.relay
            legs = list(Leg.objects.filter(relay=relay).order_by("number"))
            assert [leg.number for leg in legs] == list(range(len(legs)))
            assert sum(leg.state in OPEN_STATES for leg in legs) <= 1
            ended = [leg for leg in legs if leg.state == LegState.ENDED]
            assert Tombstone.objects.filter(leg__relay=relay).count() == len(ended)
            assert Baton.objects.filter(relay=relay, current=True).count() == bool(ended)
            olds = ResetTransaction.objects.filter(old_leg__relay=relay).values_list("old_leg", flat=True)
            assert len(olds) == len(set(olds))
            spent = (relay.turns_used, relay.output_used, relay.wall_used, relay.legs_used, relay.queries_used)
            assert all(now >= before for now, before in zip(spent, self.spent, strict=False)), "a budget grew"
            self.spent = spent
            assert relay.turns_used == sum(leg.turns for leg in legs)
            assert relay.legs_used == sum(leg.started_at is not None for leg in legs)

        @invariant()
        def what_rests_has_nothing_that_runs(self) -> None:
            if not hasattr(self, "relay"):
                return
            relay = self.relay.relay
            live = [leg for leg in relay.legs.all() if leg.state in LIVE_STATES]
            if relay.final:
                assert not live and self.relay.open_leg is None
                assert not GateEpisode.objects.filter(relay=relay, state__in=OPEN_GATES).exists()
                assert (relay.park, relay.stop) == ("", "")
            if relay.status in (RelayStatus.PARKED, RelayStatus.IDLE, RelayStatus.WAITING):
                assert not live, relay.status_why
            for leg in relay.legs.exclude(marker=""):
                assert leg in live or not process.living(leg.marker), "no agent outlives its leg"

        def teardown(self) -> None:
            for leg in Leg.objects.filter(relay=self.relay.pk).exclude(marker="").select_related("relay"):
                attached.end_strays(leg)

    with histories.recorded(connection) as changes:
        run_state_machine_as_test(
            Sequence,
            settings=settings(
                max_examples=60,
                stateful_step_count=16,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    assert steps > 60, "the driver was hardly asked"

"""Any interleaving of a leg's events, of crashes and of what people ask gives a legal history.

states.md, How a leg ends · Relay · Leg; rules.md, Arm and fire · Externalize gate · No progress and watch. The machine
below takes the driver's part with the rules alone, over events as an agent sends them, and keeps what really happened
beside it: what the rules said is judged by that, never by their own values.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from relays.core import lifecycle, rotation
from relays.core.boundary import BoundaryDecision, BoundaryView, Green, Step, decide, owes_statement
from relays.core.donewhen import DoneVerdict, Truth
from relays.core.events import Event, parse_line
from relays.core.externalize import GateVerdict, LoadBearing, detect, gate
from relays.core.legview import LegView
from relays.core.lifecycle import CRASHES, NEVER_ROTATES, EndView, has_successor, judge_end
from relays.core.pointers import Answer, Verdict
from relays.core.policy import build
from relays.core.progress import after_leg
from relays.core.rotation import CAP_WINDOW, ceiling_tokens
from relays.core.safepoint import TreeState, choose_next_action, judge
from relays.core.vocabulary import Cause, Hold, Mode, Reason

WINDOW = 1000
RESTING = {"parked", "done", "stopped"}
SLIPS = ("dirty", "in flight", "undeclared", "open task", "no statement", "tool after the statement", "no action")
SLIPS += ("two actions",)
REAL = "issue:#1"  # the one pointer that the stores have


class History:
    """A relay of many legs, one after the other."""

    def __init__(self, mode, per_hour, empty_limit, min_progress, on_crash, has_green):
        self.mode, self.has_green = mode, has_green
        self.policy = build(
            {},
            None,
            {
                "rotations_per_hour": per_hour,
                "no_progress_legs": empty_limit,
                "min_progress": min_progress,
                "on_crash": on_crash,
            },
        )
        self.ceiling = ceiling_tokens(self.policy, WINDOW)
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.relay = self.change(lifecycle.RELAY, lifecycle.NEW, "ready")
        self.rotations: list[datetime] = []  # entries of the cap
        self.admitted: list[datetime] = []  # the same, as it really happened
        self.armed_legs = self.progress_total = self.progress_at_arm = self.empty_run = 0
        self.arms: list[int] = []  # the relay's verified progress at each arm
        self.ends: list[tuple[Reason, int]] = []  # each leg's reason, and the progress that it made
        self.dirty = False
        self.goal = False
        self.new_leg()

    def change(self, table, frm, to):
        lifecycle.check_change(table, frm, to)
        return to

    def new_leg(self):
        self.view, self.events, self.seq = LegView(), [], 0
        self.leg = self.change(lifecycle.LEG, lifecycle.NEW, "pending")
        self.leg = self.change(lifecycle.LEG, self.leg, "starting")
        self.leg = self.change(lifecycle.LEG, self.leg, "running")
        self.relay = self.change(lifecycle.RELAY, self.relay, "running")
        self.armed = False
        self.draining = ""
        self.told = self.held_for_tools = False
        self.made = 0  # verified progress of this leg
        self.tools: dict[str, int] = {}  # in flight, as the agent knows them
        self.parked = self.said = False  # the agent's statements, as the rules word them
        self.backed: dict[str, bool] = {}  # declared and load-bearing -> a store has it
        self.todos: set[str] = set()
        self.offers: tuple[str, ...] = ()
        self.called = False  # a main call since the last boundary: no second one before it was asked
        self.results = 0

    def say(self, kind, **fields):
        self.seq += 1
        parsed = parse_line(json.dumps({"kind": kind, "seq": self.seq, **fields}).encode())
        assert parsed.event, parsed.problem
        assert self.view.apply(parsed.event)
        self.events.append(parsed.event)

    def running(self):
        return self.relay == "running" and not self.held_for_tools

    # --- the agent

    def calls_the_model(self, output, first):
        if self.called:
            return
        size = self.view.resident + self.view.output + self.results if self.view.calls else first
        self.say("turn_started")
        self.usage(size, output)
        self.called, self.offers, self.results = True, (), 0

    def usage(self, size, output):
        zero = dict.fromkeys(("cache_read", "cache_write_5m", "cache_write_1h"), 0)
        self.say("usage", model="m", message_id=f"m{self.seq}", input=size, output=output, chain="main", **zero)

    def starts_a_tool(self, name):
        if name not in self.tools:
            self.say("tool_started", id=name, name="edit")
            self.tools[name] = self.seq
            self.said = self.parked = False

    def ends_a_tool(self, name, tokens, ok):
        if self.tools.pop(name, None) is not None:
            self.say("tool_ended", id=name, ok=ok, result_tokens=tokens)
            self.results += tokens
            if self.held_for_tools and not self.tools:
                self.end(Cause.CEILING)

    def writes_a_file(self):
        self.say("file_written", path="a.py")
        self.dirty, self.parked = True, False

    def commits(self, counts):
        self.dirty = False
        self.made += counts

    def parks_its_tree(self):
        self.say("park_tree")
        self.parked = True

    def keeps_it_in_the_transcript(self, label, kind):
        self.say(kind, label=f"{kind} {label}")
        self.backed[f"{kind} {label}"] = False
        self.said = False

    def externalizes_it(self, label, kind):
        self.say(kind, label=f"{kind} {label}", **{"backing" if kind == "fact" else "pointer": REAL})
        self.backed[f"{kind} {label}"] = True
        self.said = False

    def keeps_its_to_do_list(self, name, is_open):
        self.say("todo", id=name, open=is_open)
        (self.todos.add if is_open else self.todos.discard)(name)

    def says_that_all_is_declared(self):
        self.say("externalized")
        self.said = True

    def reaches_the_goal(self):
        self.goal = True

    def takes_a_turn(self, first, fill, counts, slip, final):
        """A turn that fills the window and is ready to end, but for one slip; the other acts go anywhere."""
        self.calls_the_model(output=10, first=first)
        for name in (*self.tools, "t"):
            self.starts_a_tool(name)
            self.ends_a_tool(name, tokens=fill, ok=True)
        self.commits(counts)
        for label in [label for label, there in self.backed.items() if not there]:
            kind, _, name = label.partition(" ")
            self.externalizes_it(label=name, kind=kind)
        for name in sorted(self.todos):
            self.keeps_its_to_do_list(name=name, is_open=False)
        if slip == "dirty":
            self.writes_a_file()
        if slip == "undeclared":
            self.keeps_it_in_the_transcript(label="x", kind="fact")
        if slip == "open task":
            self.keeps_its_to_do_list(name="p", is_open=True)
        if slip != "no statement":
            self.says_that_all_is_declared()
        if slip in ("in flight", "tool after the statement"):
            self.starts_a_tool(name="c")
        if slip == "tool after the statement":
            self.ends_a_tool(name="c", tokens=1, ok=False)
        offers = {"no action": (), "two actions": ("a", "b")}.get(slip, ("go on",))
        self.reaches_a_boundary(offers=offers, final=final)

    # --- what is beside the agent

    def time_passes(self, minutes):
        self.now += timedelta(minutes=minutes)
        if self.relay == "waiting" and self.verdict_of_the_cap().admit:
            self.relay = self.change(lifecycle.RELAY, self.relay, "ready")
            self.follow()

    def somebody_drains_it(self, why):
        if not self.draining:
            self.leg = self.change(lifecycle.LEG, self.leg, "draining")
            self.draining = why

    def the_park_is_withdrawn(self):
        self.leg = self.change(lifecycle.LEG, self.leg, "running")
        self.draining = ""

    def it_is_cut_off(self, cause):
        if cause is Cause.STOP:
            self.draining = "stop"
        self.end(cause)

    def an_event_comes_again(self, of):
        if self.events:
            before = vars_of(self.view)
            assert not self.view.apply(self.events[of % len(self.events)])
            assert vars_of(self.view) == before

    def the_supervisor_reads_its_records_again(self):
        """rules.md, The driver: "judged from records", which say what the lost process knew."""
        again = LegView()
        for event in self.events:
            assert again.apply(
                Event(event.kind, event.seq, event.at, json.loads(json.dumps(event.payload, default=str)))
            )
        assert vars_of(again) == vars_of(self.view)
        self.view = again

    def a_person_resumes_it(self):
        """rules.md, Park, approve, resume, stop: "Resume restarts hysteresis and the empty run, not the cap"."""
        self.armed_legs, self.empty_run = 0, 0
        self.arms.clear()
        self.ends.clear()
        self.goal = False
        self.dirty = False
        self.relay = self.change(lifecycle.RELAY, self.relay, "ready")
        self.new_leg()

    # --- a boundary

    def reaches_a_boundary(self, offers, final):
        self.say("boundary", next_actions=list(offers), final=final)
        self.offers, self.called = offers, False
        was_armed = self.armed
        decision = self.judged(final)
        if decision.armed and not self.armed:
            self.arms.append(self.progress_total + self.made)
            self.armed, self.armed_legs, self.progress_at_arm = True, self.armed_legs + 1, self.arms[-1]
            decision = self.judged(final)
        self.check_boundary(decision, was_armed, final)
        if decision.step is Step.WAIT:
            self.held_for_tools = True
        elif decision.end:
            self.end(decision.cause, fired=decision.cause is None, final=final)
        elif final and decision.step is Step.WIND_DOWN:
            self.told = True

    def judged(self, final) -> BoundaryDecision:
        axes = rotation.axis_uses(
            self.policy, WINDOW, self.view.resident, self.view.turns, timedelta(0), self.view.spend, 0
        )
        since = self.progress_total + self.made - self.progress_at_arm
        return decide(
            BoundaryView(
                mode=self.mode,
                armed=self.armed,
                crossed=rotation.crossed(axes),
                may_arm=rotation.may_arm(self.armed_legs, since, self.policy.min_progress),
                in_flight=frozenset(self.view.in_flight.values()),
                tree=self.tree(),
                safe=self.safe(self.view.next_actions),
                gate=self.gate(),
                done=self.done(),
                watch_quiet=None,
                ceiling=rotation.ceiling_hit(
                    self.view.resident, self.view.last_growth, self.view.output, self.view.new_results, self.ceiling
                ),
                draining=self.draining,
                drain_over=False,
                cap=self.verdict_of_the_cap(),
                green=Green.PASSED if self.has_green else Green.NONE,
                final=self.view.final,
                told=self.told,
            )
        )

    def tree(self) -> TreeState:
        return TreeState(dirty=("a.py",) if self.dirty else (), parked=self.view.tree_parked)

    def safe(self, offers):
        return judge(self.view.in_flight.values(), self.tree(), choose_next_action(offers))

    def gate(self) -> GateVerdict:
        spoken = [
            LoadBearing(one.label, one.kind, "", one.backing)
            for one in (*self.view.decisions, *self.view.questions, *self.view.dead_ends)
        ]
        found = detect(
            tree=self.tree(),
            stashes=0,
            open_todos=self.view.todos_open.values(),
            files_outside=(),
            commits_off_branch=(),
            declared=spoken,
        )
        facts = [LoadBearing(one.label, one.kind, one.durability, one.backing) for one in self.view.facts]
        required = owes_statement(self.mode, armed=self.armed, draining=self.draining)
        answers = {REAL: Answer(Verdict.VERIFIED, "it is open")}
        return gate([*facts, *found], answers, statement_required=required, statement_holds=self.view.externalized)

    def done(self) -> DoneVerdict:
        return DoneVerdict(Truth.TRUE if self.goal else Truth.FALSE, (), False)

    def verdict_of_the_cap(self):
        return rotation.cap(self.rotations, self.now, self.policy.rotations_per_hour)

    # --- what really is

    def truly_safe(self) -> bool:
        """Nothing in flight, the tree clean or explicitly parked, exactly one next action."""
        return not self.tools and (not self.dirty or self.parked) and len(self.offers) == 1

    def truly_durable(self) -> bool:
        """All that was declared is in a store, no task is open, and a leg that owes the statement has made it."""
        owes = self.draining or (self.armed and self.mode is not Mode.SHADOW)
        return all(self.backed.values()) and not self.todos and (self.said or not owes)

    def check_boundary(self, decision: BoundaryDecision, was_armed: bool, final: bool) -> None:
        assert decision.answer in {"go", "stop", "wait", "wind_down"} | {f"wind_down {hold}" for hold in Hold}
        assert decision.armed or not was_armed, "armed is sticky"
        if was_armed is False and self.armed:
            arms, least = self.arms, self.policy.min_progress
            assert len(arms) == 1 or least == 0 or arms[-1] - arms[-2] >= least, "hysteresis"
        if self.mode is not Mode.ENFORCE and not self.draining and not final:
            assert not decision.end and decision.step in (Step.GO, Step.WIND_DOWN), "it never holds, stops or rotates"
        if decision.end and decision.cause is None and not self.goal:
            assert self.truly_safe() and self.truly_durable(), "it fires at a safe point with the gate passed only"
            assert self.armed or self.draining
            limit = self.policy.rotations_per_hour
            lately = [one for one in self.admitted if self.now - one < CAP_WINDOW]
            assert self.draining or final or not limit or len(lately) < limit, "a capped leg works on"
        if not decision.end and decision.hold is None and self.armed and self.mode is Mode.ENFORCE:
            raise AssertionError("an armed leg that may end here ends")

    # --- the end

    def end(self, cause, *, fired=False, final=False):
        self.leg = self.change(lifecycle.LEG, self.leg, "ending")
        offers = self.view.next_actions
        if cause in (Cause.PARK_NOW, Cause.STOP) and self.called:
            offers = ()
        made = self.made if self.made else None
        run = after_leg(self.empty_run, made)
        tree = self.tree()
        if cause is Cause.HOST_LOST:
            tree = replace(tree, known=False)
        decision = judge_end(
            EndView(
                done=self.done(),
                watch=False,
                watch_pending=True,
                safe=judge(self.view.in_flight.values(), tree, choose_next_action(offers)),
                gate=self.gate(),
                tree_ok=tree.green_or_parked,
                empty_legs=run,
                no_progress_legs=self.policy.no_progress_legs,
                cause=cause,
                agent_ended=cause is Cause.AGENT_EXIT,
                prose=False,
                green_failed=False,
                crash_parks=self.policy.on_crash == "park",
            )
        )
        self.offers = tuple(offers)
        self.check_end(decision, cause, fired)
        self.leg = self.change(lifecycle.LEG, self.leg, "ended")
        self.empty_run, self.progress_total = run, self.progress_total + self.made
        self.ends.append((decision.reason, self.made))
        self.held_for_tools = False
        self.move_on(decision)

    def check_end(self, decision, cause, fired):
        clean = not self.tools and (not self.dirty or self.parked)
        reason = decision.reason
        assert reason in {Reason.GOAL_DONE, Reason.ROTATED, Reason.NO_PROGRESS, Reason.PARKED_UNSAFE}
        if reason is Reason.PARKED_UNSAFE:
            assert decision.cause, "the cause stands beside it"
            assert not (self.truly_safe() and self.truly_durable()) or cause in NEVER_ROTATES | CRASHES
        else:
            assert clean and self.truly_durable() and cause is not Cause.HOST_LOST
        if reason is Reason.GOAL_DONE:
            assert self.goal
        if reason in (Reason.ROTATED, Reason.NO_PROGRESS):
            assert self.truly_safe()
            limit = self.policy.no_progress_legs
            empty = [not made for _, made in self.ends] + [not self.made]
            in_a_row = len(empty) if all(empty) else empty[::-1].index(False)
            assert (reason is Reason.NO_PROGRESS) == (0 < limit <= in_a_row), "K in a row"
        if fired:
            assert reason in (Reason.ROTATED, Reason.NO_PROGRESS, Reason.GOAL_DONE), "what fires ends well"
        if cause in CRASHES and self.policy.on_crash == "park":
            assert reason is not Reason.ROTATED

    def move_on(self, decision):
        stop, park = self.draining == "stop", self.draining == "park"
        if decision.reason is Reason.GOAL_DONE and (stop or self.mode is Mode.ENFORCE):
            self.relay = self.change(lifecycle.RELAY, self.relay, "done")
        elif stop:
            self.relay = self.change(lifecycle.RELAY, self.relay, "stopped")
        elif has_successor(
            decision,
            park=park,
            stop=stop,
            envelope_spent=self.draining == "envelope",
            blocking_ask=False,
            mode=self.mode,
        ):
            assert decision.reason is Reason.ROTATED and not self.draining and self.mode is Mode.ENFORCE
            if self.verdict_of_the_cap().admit:
                self.relay = self.change(lifecycle.RELAY, self.relay, "ready")
                self.follow()
            else:
                self.relay = self.change(lifecycle.RELAY, self.relay, "waiting")
        else:
            self.relay = self.change(lifecycle.RELAY, self.relay, "parked")

    def follow(self):
        """The successor starts: that is the cap's entry."""
        self.rotations.append(self.now)
        self.admitted.append(self.now)
        self.new_leg()

    # --- over the whole history

    def holds(self):
        self.a_held_leg_stays_under_its_ceiling()
        self.no_hour_has_more_rotations_than_the_cap()
        self.no_run_of_empty_legs_is_longer_than_k()
        self.the_view_is_what_the_agent_did()

    def a_held_leg_stays_under_its_ceiling(self):
        """rules.md, Arm and fire: the peak never exceeds "the ceiling by more than one tool result"."""
        if self.mode is Mode.ENFORCE and not self.draining:
            # a window that grows by what a call and its tools bring is foreseen whole
            assert self.view.peak < self.ceiling

    def no_hour_has_more_rotations_than_the_cap(self):
        if limit := self.policy.rotations_per_hour:
            for start in self.admitted:
                assert sum(start <= one < start + CAP_WINDOW for one in self.admitted) <= limit

    def no_run_of_empty_legs_is_longer_than_k(self):
        if limit := self.policy.no_progress_legs:
            run = 0
            for reason, made in self.ends:
                run = 0 if made else run + 1
                assert run < limit or reason is not Reason.ROTATED

    def the_view_is_what_the_agent_did(self):
        if self.relay == "running":
            assert set(self.view.in_flight) == set(self.tools)
            assert (self.view.externalized, self.view.tree_parked) == (self.said, self.parked)
            assert set(self.view.todos_open) == self.todos


def vars_of(view: LegView) -> dict[str, object]:
    return {name: getattr(view, name) for name in LegView.__slots__}


def running(history):
    return history.relay == "running" and not history.held_for_tools


def alive(history):
    return history.relay == "running"


def always(history):
    return True


KINDS = st.sampled_from(["fact", "decision", "open_question", "dead_end"])
CUTS = [Cause.PARK_NOW, Cause.STOP, Cause.AGENT_CRASH, Cause.SUPERVISOR_CRASH, Cause.HOST_LOST, Cause.SILENCE]

#: what may happen: when it can, how often beside the others, and with which values
ACTS = {
    History.takes_a_turn: (
        running,
        30,
        {
            "first": st.sampled_from([0, 100, 650, 700, 800]),
            "fill": st.sampled_from([10, 100, 250]),
            "counts": st.booleans(),
            "slip": st.sampled_from(["", "", "", "", *SLIPS]),
            "final": st.sampled_from([False, False, False, True]),
        },
    ),
    History.calls_the_model: (running, 2, {"output": st.integers(0, 120), "first": st.integers(0, 300)}),
    History.starts_a_tool: (running, 2, {"name": st.sampled_from("abc")}),
    History.ends_a_tool: (
        alive,
        3,
        {"name": st.sampled_from("abc"), "tokens": st.integers(0, 200), "ok": st.booleans()},
    ),
    History.writes_a_file: (running, 1, {}),
    History.commits: (running, 1, {"counts": st.booleans()}),
    History.parks_its_tree: (running, 1, {}),
    History.keeps_it_in_the_transcript: (running, 1, {"label": st.sampled_from("xyz"), "kind": KINDS}),
    History.externalizes_it: (running, 1, {"label": st.sampled_from("xyz"), "kind": KINDS}),
    History.keeps_its_to_do_list: (running, 1, {"name": st.sampled_from("pq"), "is_open": st.booleans()}),
    History.says_that_all_is_declared: (running, 1, {}),
    History.reaches_the_goal: (running, 1, {}),
    History.reaches_a_boundary: (
        running,
        2,
        {"offers": st.sampled_from([(), ("go on",), ("go on",), ("a", "b")]), "final": st.booleans()},
    ),
    History.time_passes: (always, 2, {"minutes": st.sampled_from([1, 20, 61])}),
    History.somebody_drains_it: (running, 1, {"why": st.sampled_from(["park", "stop", "envelope"])}),
    History.the_park_is_withdrawn: (lambda history: running(history) and history.draining == "park", 1, {}),
    History.it_is_cut_off: (alive, 6, {"cause": st.sampled_from(CUTS)}),
    History.an_event_comes_again: (alive, 1, {"of": st.integers(0, 10**6)}),
    History.the_supervisor_reads_its_records_again: (alive, 1, {}),
    History.a_person_resumes_it: (lambda history: history.relay == "parked", 8, {}),
}
ACT = st.sampled_from([act for act, (_, often, _) in ACTS.items() for _ in range(often)]).flatmap(
    lambda act: st.tuples(st.just(act), st.fixed_dictionaries(ACTS[act][2]))
)


@settings(max_examples=70)
@given(
    st.builds(
        History,
        mode=st.sampled_from([Mode.ENFORCE, Mode.ENFORCE, Mode.ENFORCE, Mode.ADVISE, Mode.SHADOW]),
        per_hour=st.sampled_from([0, 1, 2]),
        empty_limit=st.sampled_from([0, 1, 2, 3]),
        min_progress=st.sampled_from([0, 1, 2]),
        on_crash=st.sampled_from(["continue", "park"]),
        has_green=st.booleans(),
    ),
    st.lists(ACT, min_size=40, max_size=120),
)
def test_every_interleaving_gives_a_legal_history(history, acts):
    for act, values in acts:
        if ACTS[act][0](history):
            act(history, **values)
            history.holds()

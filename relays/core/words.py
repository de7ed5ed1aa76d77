"""The other closed words of the product: causes, states, verdicts, dispositions, each with what it means and its fix.

Mission: "Closed vocabulary". The tokens that stop or arm a relay are in `vocabulary`; these stand beside them on pages.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from relays.core.assumptions import Action
from relays.core.objective import Reconciliation
from relays.core.pointers import Verdict
from relays.core.promotion import Outcome as Promoted
from relays.core.residency import FaultOutcome
from relays.core.vocabulary import Cause, Mode


@dataclass(frozen=True, slots=True)
class Word:
    """`anchor` is its place on the page Vocabulary; `fix` is "" where nothing is to be done."""

    group: str
    value: str
    meaning: str
    fix: str = ""

    @property
    def anchor(self) -> str:
        return f"{self.group}-{self.value.replace(' ', '-')}"


@dataclass(frozen=True, slots=True)
class Group:
    """One closed set: `name` is the beginning of its anchors."""

    name: str
    title: str
    about: str
    words: tuple[Word, ...]


def _group(name: str, title: str, about: str, *rows: tuple[str, ...]) -> Group:
    return Group(name, title, about, tuple(Word(name, str(row[0]), *row[1:]) for row in rows))


GROUPS: Final[tuple[Group, ...]] = (
    _group(
        "cause",
        "causes",
        "what ended a leg that did not end at a safe point; it stands beside RELAY_PARKED_UNSAFE",
        (Cause.CEILING, "no further call fits under the ceiling", "look at what is durable, then approve"),
        (
            Cause.OVERRUN,
            "a program that cannot be held passed the ceiling",
            "look at what is durable; give it a smaller step, or a program that can be held",
        ),
        (Cause.AGENT_EXIT, "the agent ended by itself without a safe point", "look at what is durable, then approve"),
        (
            Cause.AGENT_CRASH,
            "the agent ended with an error, a signal or no result",
            "read the end of the leg's log; approve when what broke is mended",
        ),
        (
            Cause.SILENCE,
            "no event came for the policy's silence_limit",
            "read the leg's log; raise silence_limit where long silence is normal",
        ),
        (
            Cause.SUPERVISOR_CRASH,
            "the process that watched the leg died",
            "the page Health says whether workers and disk are well; then approve",
        ),
        (Cause.PARK_NOW, "a person ended the leg at once", "look at what is durable, then approve"),
        (Cause.STOP, "a person stopped the relay", "none: a stopped relay stays stopped"),
        (Cause.SIGN_IN, "the agent's sign-in was refused", "sign the program in on the host, then approve"),
        (
            Cause.HOST_LOST,
            "the host of the leg was not heard of for host_patience",
            "make sure that the host is dead, and say so when approving",
        ),
        (
            Cause.ENVELOPE,
            "a limit of the relay's envelope was spent in mid-work",
            "set a new limit and resume, or stop",
        ),
        (Cause.START_FAILED, "no leg could be started", "the gate shows the error; mend it, then approve"),
    ),
    _group(
        "status",
        "status of a relay",
        "done and stopped are final",
        ("ready", "a leg is about to start", "none; if it stays so, look at the page Health"),
        ("running", "a leg runs"),
        (
            "waiting",
            "a time or a store must come: cap, back-off, overload, a held region",
            "none: it goes on by itself",
        ),
        ("idle", "a watch that holds", "none: it wakes when what it watches changes"),
        ("parked", "a person must come", "decide its gate, or resume what a person parked"),
        ("done", "the goal is reached in the durable stores", "look at the diff of its branch, and merge it"),
        ("stopped", "a person ended it for good", "none: branch, batons and records stay"),
    ),
    _group(
        "gate",
        "state of a gate",
        "waiting, approved, requested and dispatched are open",
        ("waiting", "a person's decision is missing", "decide on its page"),
        ("approved", "enough people approved what was shown", "an operator resumes, where the policy says so"),
        ("requested", "the next leg is asked for", "none"),
        ("dispatched", "the next leg is on its way", "none"),
        ("confirmed", "the new leg's first event was seen, or no leg is needed", "none"),
        ("refused", "a person refused; the relay stays parked", "reopen it, state a new objective, or stop the relay"),
        ("expired", "nobody decided for gate_expiry", "reopen it, or stop the relay"),
        ("superseded", "what it asked about is gone", "none"),
    ),
    _group(
        "mode",
        "modes",
        "advisory before enforcement",
        (
            Mode.SHADOW,
            "what would be done is recorded and scored; nothing is changed",
            "advise, once it is right often",
        ),
        (Mode.ADVISE, "the same, and agent and page are told", "enforce, once it is right often"),
        (Mode.ENFORCE, "legs are held, ended and handed over", "none"),
    ),
    _group(
        "pointer",
        "verdicts of pointers",
        "what a durable store said",
        (Verdict.VERIFIED, "the store has it", "none"),
        (Verdict.DANGLING, "the store does not have it", "it counts as stale: the cursor is rebuilt, or a gate asks"),
        (Verdict.UNKNOWN, "the store did not answer", "bring the store back; it is tried again by itself"),
    ),
    _group(
        "outcome",
        "outcomes of the ladder",
        "what the reader of a baton concludes",
        ("fresh", "every step passed: a leg may start from it", "none"),
        ("stale", "it no longer matches the stores", "none: the cursor is rebuilt and a fresh baton is written"),
        ("invalid", "it is no baton: its form, size or digest is wrong", "write a fresh one from the stores"),
        ("held", "another relay holds its region", "wait for the holder, narrow the region, or stop the holder"),
        ("unknown", "a store did not answer, and nothing dangles", "bring the store back; it is tried again"),
        ("done", "the goal holds already", "none: no leg starts"),
    ),
    _group(
        "verdict",
        "computed verdicts",
        "holds, violated, or not yet with what is missing; never more than the records show",
        (
            "flat",
            "no leg's peak of resident tokens passed its ceiling",
            "look at the legs that did: overrun, or a tool result",
        ),
        (
            "fidelity",
            "the pointers of its batons resolved when the next leg looked",
            "look at what dangled on the baton's page",
        ),
        ("attribution", "each commit belongs to one leg", "the verdict names the commits that are in two"),
        (
            "objective",
            "the objective's digest changed by decisions only",
            "the page of the baton shows where it drifted",
        ),
        ("rot", "errors do not become more frequent as windows fill", "lower the soft mark"),
        ("faithful", "what it did is what records say it did", "the page Cost says which calls are missing"),
        ("cheaper", "it cost less than compaction would have", "the page Cost says under which parameters"),
    ),
    _group(
        "assumption",
        "dispositions of assumptions",
        "what may be done with one, by its source and confidence",
        (Action.USE, "strong enough to act on", "none"),
        (Action.QUERY, "too weak for an effect: a person is asked", "confirm it, or have it read again"),
        (Action.REFRESH, "stale: read again before it is used", "none: the next leg reads it again"),
    ),
    _group(
        "memory",
        "dispositions of observations",
        "whether one becomes a memory",
        (Promoted.PROMOTED, "its evidence resolves and its class lasts", "none"),
        (Promoted.REFUSED, "it may not become a memory", "name evidence that resolves, or let it go"),
        (Promoted.EXPIRED, "it was for its turn only", "none"),
        (Promoted.AMBIGUOUS, "it has not earned durable status", "a person promotes it with evidence, or refuses it"),
    ),
    _group(
        "fault",
        "dispositions of page faults",
        "what becomes of a record that a leg needs",
        (FaultOutcome.PAGE_IN, "it is read from its durable store", "none"),
        (FaultOutcome.CONTINUE_WITH_POINTER, "not needed now: the pointer is enough", "none"),
        (FaultOutcome.QUERY_USER, "needed, and its store does not have it", "serve it by hand, waive it, or stop"),
        (FaultOutcome.DENY, "not served: transcripts of earlier legs never are", "none"),
    ),
    _group(
        "reconciled",
        "what became of an objective",
        "between two statements of it",
        (Reconciliation.PRESERVED, "the same, byte by byte", "none"),
        (Reconciliation.ESTABLISHED, "stated for the first time", "none"),
        (Reconciliation.DRIFTED, "another text than the pinned one", "confirm the objective, or state a new one"),
        (Reconciliation.DROPPED, "no longer carried", "confirm the objective, or state a new one"),
        (Reconciliation.QUERY_USER, "it cannot be told which is meant", "confirm the objective, or state a new one"),
    ),
)

WORDS: Final[Mapping[str, Word]] = {word.anchor: word for group in GROUPS for word in group.words}


def find(group: str, value: str) -> Word | None:
    """The word of a group, or None for one that is not in it."""
    return WORDS.get(f"{group}-{value.replace(' ', '-')}")

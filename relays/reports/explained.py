"""One sentence for every figure and word of the pages, for each key of a policy, and for each setting.

Issue: "every token and figure explains itself on hover or focus, with the link to its page in the docs". The tag
`explain` shows these where a figure is named; the pages `/docs/` list them all. Tokens explain themselves from their
own table (`relays.core.vocabulary`).
"""

from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from relays.core import policy, policytable
from relays.reports.explained_costs import COSTS
from relays.reports.explained_records import RECORDS

#: key -> its name, and what it says in one sentence
FIGURES: dict[str, tuple[str, str]] = {
    "relay": (
        gettext_noop("relay"),
        gettext_noop("One goal, run as a sequence of bounded legs that hand over a baton."),
    ),
    "leg": (
        gettext_noop("leg"),
        gettext_noop(
            "One bounded agent session, numbered from 0; it ends at a safe point, at its ceiling or with the goal."
        ),
    ),
    "baton": (
        gettext_noop("baton"),
        gettext_noop(
            "The small typed record of pointers that a leg hands over; the next leg verifies each of "
            "them before it starts."
        ),
    ),
    "tombstone": (
        gettext_noop("tombstone"),
        gettext_noop(
            "A leg's typed exit record: why it ended, where the branch stood, and a note that is made from records."
        ),
    ),
    "turn": (gettext_noop("turn"), gettext_noop("One call of the model with the tool calls that it asks for.")),
    "boundary": (
        gettext_noop("boundary"),
        gettext_noop(
            "The moment when all tools of a turn have ended, before the next call of the model; only "
            "here a leg can end."
        ),
    ),
    "hold": (
        gettext_noop("hold"),
        gettext_noop("Why a boundary did not rotate; one at most for each boundary, the strongest."),
    ),
    "status": (
        gettext_noop("status"),
        gettext_noop(
            "ready and running go on by themselves, waiting comes back by itself, idle watches, "
            "parked needs a person, done and stopped have ended."
        ),
    ),
    "context": (
        gettext_noop("context now"),
        gettext_noop(
            "Resident tokens of the last turn: uncached input, cache reads and cache writes of that "
            "one call, against the soft mark and the ceiling."
        ),
    ),
    "mark": (
        gettext_noop("soft mark"),
        gettext_noop("Where the leg is armed: it goes on to the next safe point and rotates there."),
    ),
    "ceiling": (
        gettext_noop("ceiling"),
        gettext_noop("Where the leg is ended in any case; a leg that ends here without a safe point parks its relay."),
    ),
    "window": (
        gettext_noop("window"),
        gettext_noop(
            "What the model can hold at once; taken from the agent where it says so, else assumed for the model."
        ),
    ),
    "peak": (
        gettext_noop("peak resident"),
        gettext_noop("The most resident tokens of any turn of the leg or session."),
    ),
    "turns": (
        gettext_noop("turns"),
        gettext_noop("Calls of the model on the main chain; sub-agents are counted apart."),
    ),
    "progress": (
        gettext_noop("verified progress"),
        gettext_noop(
            "Commits on the branch, issues closed, ledger rows and memories that the stores "
            "themselves show; what an agent says about itself counts nothing."
        ),
    ),
    "money": (
        gettext_noop("money"),
        gettext_noop("What the calls cost by the prices of their time; a call without a price is unpriced, never 0."),
    ),
    "baseline": (
        gettext_noop("against the baseline"),
        gettext_noop(
            "The same work played through another way to carry it, with every parameter shown; "
            "negative means that the relay was cheaper."
        ),
    ),
    "unit": (gettext_noop("a unit"), gettext_noop("Money or tokens for one verified unit of progress.")),
    "forecast": (
        gettext_noop("forecast"),
        gettext_noop("How many more legs the envelope pays for, by the legs so far."),
    ),
    "cold": (
        gettext_noop("cold prefix"),
        gettext_noop(
            "What it costs to read the prefix again when the provider's cache has let go of it "
            "meanwhile; cost only, no decision reads it."
        ),
    ),
    "parked": (
        gettext_noop("parked in all"),
        gettext_noop("Hours in which this relay waited for a person, over all its gates."),
    ),
    "waits": (gettext_noop("waits"), gettext_noop("How long ago this gate opened.")),
    "flat": (
        gettext_noop("flat"),
        gettext_noop(
            "Whether peaks stay level over the legs: no peak over its ceiling by more than one tool "
            "result, and no upward slope beyond chance; it needs three armed legs."
        ),
    ),
    "fidelity": (
        gettext_noop("fidelity"),
        gettext_noop(
            "Pointers of a baton that resolved when the next leg started, of all that were verified "
            "or dangling; one dangling pointer violates it."
        ),
    ),
    "coverage": (
        gettext_noop("coverage"),
        gettext_noop("Of what a leg durably made, the part that its successor reaches from the baton; only 1 holds."),
    ),
    "attribution": (
        gettext_noop("attribution"),
        gettext_noop("Each commit belongs to one leg; a commit in two legs violates it, foreign commits are listed."),
    ),
    "objective": (
        gettext_noop("objective"),
        gettext_noop("The pinned words of the goal: one digest in every baton, unless a person states new ones."),
    ),
    "rot": (
        gettext_noop("rot"),
        gettext_noop("Whether tool calls fail more often in later legs or fuller windows, beyond chance."),
    ),
    "faithful": (
        gettext_noop("faithful"),
        gettext_noop("How much is read again after a baton, against how much is read again after a compaction."),
    ),
    "cheaper": (
        gettext_noop("cheaper"),
        gettext_noop(
            "Whether the relay cost less than one compacting session would have; it holds only where "
            "the whole band has one sign."
        ),
    ),
    "budget": (
        gettext_noop("budget"),
        gettext_noop("What is left of the relay's envelope; a spent budget stays spent, whoever runs the next leg."),
    ),
    "resident_view": (
        gettext_noop("resident view"),
        gettext_noop(
            "Spans that the leg holds, spans that were left out with their digest, and records that "
            "were asked for and served or refused."
        ),
    ),
    "assumptions": (
        gettext_noop("assumptions"),
        gettext_noop(
            "What a leg takes for granted: used, asked about, or to be read again; an effect needs "
            "all of them to be used."
        ),
    ),
    "reset": (
        gettext_noop("reset"),
        gettext_noop(
            "The record of the last rotation: old and new trace, the digest of what the new leg was "
            "given, and how much was left out."
        ),
    ),
    "memory": (
        gettext_noop("memory"),
        gettext_noop("Promotions to durable memory: promoted with evidence, refused or expired, or asked about."),
    ),
    "cache": (
        gettext_noop("cache"),
        gettext_noop(
            "Whether the last call found its prefix cached: warm, cold, or not reported. It changes "
            "the cost and nothing else."
        ),
    ),
    "provenance": (
        gettext_noop("provenance"),
        gettext_noop(
            "OBSERVED was read from records, SIMULATED was computed from them, ASSUMED is a value that nobody measured."
        ),
    ),
    "band": (
        gettext_noop("band"),
        gettext_noop("From the lowest to the highest saving that the unknown parameters allow."),
    ),
    "break_even": (
        gettext_noop("break-even"),
        gettext_noop("How many tokens a fresh leg may re-read before the relay costs as much as compaction."),
    ),
    "bust": (
        gettext_noop("cache-bust tokens"),
        gettext_noop("Tokens that were written to the cache again because their prefix had changed."),
    ),
    "compactions": (
        gettext_noop("compactions"),
        gettext_noop("Summaries that the agent really made of its own window."),
    ),
    "last": (
        gettext_noop("last data"),
        gettext_noop("When the newest record of it arrived; what runs and has been silent for long is looked after."),
    ),
    "digest": (
        gettext_noop("digest"),
        gettext_noop("A SHA-256 of the canonical bytes; equal digests mean equal records."),
    ),
    "fix": (gettext_noop("fix"), gettext_noop("What a person does about a token; each token has exactly one.")),
    **COSTS,
    **RECORDS,
}

#: key of a policy -> what it means
POLICY: dict[str, str] = {
    "window_tokens": gettext_noop("the window; without it, by the model, else 200,000"),
    "leg.turns": gettext_noop("turns that a leg may take before it is armed"),
    "leg.wall": gettext_noop("running time of a leg before it is armed"),
    "leg.spend": gettext_noop("money of a leg before it is armed"),
    "leg.output_tokens": gettext_noop("output tokens of a leg before it is armed"),
    "mark.context": gettext_noop("soft mark as a part of the window"),
    "mark.context_tokens": gettext_noop("soft mark in tokens; the lower of both arms"),
    "mark.turns": gettext_noop("soft mark of the leg's turns"),
    "mark.wall": gettext_noop("soft mark of the leg's running time"),
    "mark.spend": gettext_noop("soft mark of the leg's money"),
    "mark.output_tokens": gettext_noop("soft mark of the leg's output tokens"),
    "ceiling": gettext_noop("the ceiling as a part of the window: the leg ends here in any case"),
    "tool_limit": gettext_noop("how long running tools are waited for at the ceiling"),
    "min_progress": gettext_noop("verified progress that a leg needs before the next one may be armed; 0 is off"),
    "no_progress_legs": gettext_noop("legs in a row without verified progress that park the relay; 0 is off"),
    "rotations_per_hour": gettext_noop("rotations that one hour may see; 0 is off"),
    "drain_turns": gettext_noop("turns that a draining leg still has"),
    "silence_limit": gettext_noop("how long an agent may say nothing before it counts as hung"),
    "host_patience": gettext_noop("how long a host's heartbeat may fail before its leg counts as lost"),
    "every": gettext_noop("how often a watch looks by itself"),
    "memory_root": gettext_noop("the folder of memories in the repository"),
    "envelope.legs": gettext_noop("legs of the whole relay; never reset"),
    "envelope.spend": gettext_noop("money of the whole relay; never reset"),
    "envelope.wall": gettext_noop("running time of the whole relay; pauses do not count"),
    "envelope.turns": gettext_noop("turns of the whole relay; never reset"),
    "envelope.output_tokens": gettext_noop("output tokens of the whole relay; never reset"),
    "envelope.queries": gettext_noop("clarification questions of the whole relay"),
    "done_check_every": gettext_noop("how often a command of done_when is run beside a leg, at most"),
    "unknown_patience": gettext_noop("how long a store that does not answer is waited for before a person is asked"),
    "on_crash": gettext_noop("continue from records after a crash, or park"),
    "green": gettext_noop("a command that must pass on a clean checkout of the tip before a leg rotates"),
    "workspace": gettext_noop("a worktree of its own, or in place"),
    "approvals": gettext_noop("how many reviewers must approve"),
    "four_eyes": gettext_noop("nobody approves what they started, where at least two people may approve"),
    "resume": gettext_noop("an approval resumes, or an operator does it"),
    "gate_expiry": gettext_noop("how long a gate waits before it expires"),
    "mode": gettext_noop("shadow records only, advise tells too, enforce acts"),
    "push_to": gettext_noop("where the branch of a relay that is done may be pushed; nowhere without it"),
    "pull_request": gettext_noop("whether a pull request is offered once the branch was pushed"),
    "effectful_tools": gettext_noop("tools that are denied while an assumption of the leg is weak"),
    "baton.total": gettext_noop("bytes of a baton"),
    "baton.objective": gettext_noop("bytes of its objective"),
    "baton.next_action": gettext_noop("bytes of its next action"),
    "baton.line": gettext_noop("bytes of one of its lines"),
    "baton.label": gettext_noop("bytes of one of its labels"),
    "baton.open_questions": gettext_noop("open questions that it may hold"),
    "baton.artifacts": gettext_noop("artifacts that it may hold"),
    "baton.do_not_rederive": gettext_noop("dead ends that it may hold"),
    "baton.held_region": gettext_noop("globs of its region"),
    "baton.factor": gettext_noop("how much longer than its bounds a text may be before the baton is refused unread"),
    "baseline": gettext_noop("parameters of the baselines, by name"),
    "retention": gettext_noop("how long raw logs of legs are kept"),
}

#: environment variable -> its default in words, and what it means
SETTINGS: dict[str, tuple[str, str]] = {
    "RELAY_VAR": ("var/", gettext_noop("the folder for everything that is written")),
    "DATABASE_URL": (
        gettext_noop("SQLite in RELAY_VAR"),
        gettext_noop("sqlite:////absolute/path or postgres://user:password@host:port/name"),
    ),
    "BROKER_URL": (gettext_noop("embedded, in RELAY_VAR"), gettext_noop("amqp://…, redis://… or rediss://…")),
    "SECRET_KEY": (
        gettext_noop("made on the first run"),
        gettext_noop("at least 32 characters; SECRET_KEY_FILE names a file that holds it"),
    ),
    "PUBLIC_URL": ("http://127.0.0.1:8000", gettext_noop("the address that people use; https:// makes cookies secure")),
    "ALLOWED_HOSTS": (
        gettext_noop("local names, and the host of PUBLIC_URL"),
        gettext_noop("host names that are answered, with commas between them"),
    ),
    "SITE_POLICY": (
        gettext_noop("none"),
        gettext_noop("a TOML file whose [relay] table is this site's layer of every relay's policy"),
    ),
    "SITE_PRICES": (
        gettext_noop("none"),
        gettext_noop("a TOML file with this site's own prices; they go before those of the price library"),
    ),
    "SESSION_ROOTS": (
        gettext_noop("the agents' own folders"),
        gettext_noop("absolute folders with : between them; a page may import what lies inside"),
    ),
    "KEEP_TRANSCRIPTS": (
        "0",
        gettext_noop("1 keeps redacted lines of session files that are read from then on; else no text is stored"),
    ),
    "HOOKS_BLOCK_COMPACTION": ("0", gettext_noop("1 has the hooks of sessions that nobody drives refuse a compaction")),
    "NOTIFY_URLS": (
        gettext_noop("none"),
        gettext_noop("where this site's own notices go: webhooks and addresses of Apprise, with blanks between them"),
    ),
    "NOTIFY_PRIVATE": ("0", gettext_noop("1 lets notices go to this host and to private networks too")),
    "TIME_ZONE": (
        "UTC",
        gettext_noop("the fleet's zone: days are cut in it, and it stands in where a viewer's zone is not known"),
    ),
    "LOG_LEVEL": ("WARNING", gettext_noop("DEBUG, INFO, WARNING, ERROR or CRITICAL")),
    "DEBUG": ("0", gettext_noop("1 shows the error pages of developers; never on an address that others reach")),
}


@dataclass(frozen=True, slots=True)
class Explained:
    """A figure in the reader's language. `slug`: its anchor on the page `/docs/figures/`."""

    slug: str
    name: str
    sentence: str


def explained(key: str) -> Explained:
    """KeyError for a figure that nobody explained: a page that names it would not explain itself."""
    name, sentence = FIGURES[key]
    return Explained(key.replace("_", "-"), _(name), _(sentence))


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a table of the docs."""

    name: str
    default: str
    meaning: str


def figures() -> tuple[Explained, ...]:
    return tuple(sorted((explained(key) for key in FIGURES), key=lambda one: one.name.casefold()))


def settings_rows() -> tuple[Row, ...]:
    return tuple(Row(name, _(default), _(meaning)) for name, (default, meaning) in SETTINGS.items())


def policy_rows() -> tuple[Row, ...]:
    """Every key in the order of the policy, with the default that stands in the code."""
    plain = policy.to_snapshot(policy.Policy())

    def default(key: str) -> str:
        group, dot, name = key.partition(".")
        value = plain[group][name] if dot else plain[group]
        return policytable.word(value) if value not in (None, "", [], {}, ()) else "—"

    return tuple(Row(key, default(key), _(POLICY[key])) for key in policy.KEYS)

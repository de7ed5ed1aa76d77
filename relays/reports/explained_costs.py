"""Figures of sessions, calls, prices and comparisons; `relays.reports.explained` shows them with all others."""

from django.utils.translation import gettext_noop

#: key -> its name, and what it says in one sentence
COSTS: dict[str, tuple[str, str]] = {
    "calls": (
        gettext_noop("calls"),
        gettext_noop("Requests to the model that came back with a usage record; each counts once, whatever files "
                     "hold it."),
    ),
    "tokens": (
        gettext_noop("tokens"),
        gettext_noop("Uncached input, cache reads, cache writes and output of all calls, each call once."),
    ),
    "sessions": (
        gettext_noop("sessions"),
        gettext_noop("Work of agents that nobody drives, read from their own files; it is watched and scored, "
                     "never held."),
    ),
    "input": (
        gettext_noop("uncached input"),
        gettext_noop("Input tokens that were neither read from the provider's cache nor written to it, at the full"
                     " price."),
    ),
    "cache_read": (
        gettext_noop("cache read"),
        gettext_noop("Input tokens that the provider took from its cache, at its lowest price."),
    ),
    "cache_write": (
        gettext_noop("cache write"),
        gettext_noop("Input tokens that were written to the provider's cache, at its higher price; how long they "
                     "stay has its own price."),
    ),
    "output": (gettext_noop("output"), gettext_noop("Tokens that the model wrote, with those of its thinking.")),
    "in_all": (gettext_noop("in all"), gettext_noop("The sum over all of them, each counted once.")),
    "resident": (
        gettext_noop("resident"),
        gettext_noop("What the model held at a call: uncached input, cache reads and cache writes of that one call."),
    ),
    "growth": (
        gettext_noop("growth"),
        gettext_noop("Resident tokens of a call less those of the call before it on the main chain; negative where"
                     " the window shrank."),
    ),
    "share": (
        gettext_noop("share"), gettext_noop("The part of the whole, by the sizes of what came in between two calls."),
    ),
    "chain": (
        gettext_noop("chain"),
        gettext_noop("Whether a call was made on the main chain or beside it, by a sub-agent; only the main chain "
                     "fills the window."),
    ),
    "tool_results": (gettext_noop("tool results"), gettext_noop("Results of tool calls, as the agent marked them.")),
    "failed": (gettext_noop("failed"), gettext_noop("Tool results that the agent marked as errors.")),
    "rate": (gettext_noop("rate"), gettext_noop("Failed tool results as a part of all of them.")),
    "interval": (
        gettext_noop("95 % interval"),
        gettext_noop("Where the true rate lies with 95 % confidence; not shown under 30 results."),
    ),
    "window_full": (
        gettext_noop("window full"), gettext_noop("Resident tokens of the call as a part of the model's window."),
    ),
    "as_relay": (
        gettext_noop("as a relay"),
        gettext_noop("Where legs would have ended and what each would have handed over, computed from the "
                     "session's own calls; nothing was held."),
    ),
    "declared": (
        gettext_noop("declared"),
        gettext_noop("What the agent itself wrote about its compaction; it leaves out the prompt, tools and files "
                     "that it attaches again."),
    ),
    "measured": (
        gettext_noop("measured"),
        gettext_noop("Resident tokens of the main call just before or after, from its usage record."),
    ),
    "took": (gettext_noop("took"), gettext_noop("How long it took, between the times that its records carry.")),
    "ended_by": (
        gettext_noop("ended by"),
        gettext_noop("What ends this stretch: a point where a relay would have rotated, a compaction that really "
                     "happened, or the end of what was read."),
    ),
    "would_be_baton": (
        gettext_noop("would-be baton"),
        gettext_noop("The pointers that a leg would have handed over here, made from records of the session alone."),
    ),
    "stretch": (
        gettext_noop("stretch"),
        gettext_noop("The calls between two cuts of the same session: its start, a compaction, or a would-be "
                     "rotation."),
    ),
    "unrecognised": (
        gettext_noop("unrecognised"),
        gettext_noop("Lines that no reader knows; they are counted and named, and no figure is made of them."),
    ),
    "read": (gettext_noop("read"), gettext_noop("How much of the file was taken in; the rest is no whole record yet.")),
    "form": (gettext_noop("form"), gettext_noop("In which of the known forms the agent writes its files.")),
    "copies": (
        gettext_noop("copies"), gettext_noop("Calls that stand in more than one file; they count in one session only."),
    ),
    "at_call": (
        gettext_noop("at call"), gettext_noop("The number of the main call, counted from 1 over the whole work."),
    ),
    "ended_leg": (
        gettext_noop("ended leg"),
        gettext_noop("The leg, or the stretch of a session, that this boundary ended; the next one wrote again."),
    ),
    "after_call": (
        gettext_noop("after its call"), gettext_noop("The last main call of that leg, counted from its own first."),
    ),
    "way": (
        gettext_noop("way to carry"),
        gettext_noop("How work is carried over a full window: by relay, by compaction, by another policy; each is "
                     "played through on the same work."),
    ),
    "events": (
        gettext_noop("events"),
        gettext_noop("Rotations or compactions that this way makes, or the call at which it would not have gone on."),
    ),
    "hit_rate": (
        gettext_noop("hit rate"),
        gettext_noop("Cache reads as a part of all input tokens; alone it says little, as it flatters big windows."),
    ),
    "saved": (
        gettext_noop("saved"),
        gettext_noop("What the work would have cost another way, less what it cost; negative where the relay was "
                     "dearer."),
    ),
    "parameter": (
        gettext_noop("parameter"),
        gettext_noop("A quantity that the comparison needs; each says whether it was observed, computed or assumed."),
    ),
    "range": (
        gettext_noop("range"),
        gettext_noop("From where to where the parameter may lie; all others stay as they stand."),
    ),
    "turns_verdict": (
        gettext_noop("verdict"),
        gettext_noop("Whether cheaper turns into dearer while the parameter moves over its range, and where."),
    ),
    "reread": (
        gettext_noop("re-read tokens"), gettext_noop("What a fresh leg reads again that its predecessor had read."),
    ),
    "envelope": (
        gettext_noop("envelope"),
        gettext_noop("Limits of the whole relay: legs, money, running time, turns, output tokens, questions; never"
                     " reset by a new leg."),
    ),
    "used": (gettext_noop("used"), gettext_noop("What is spent of this limit so far, from records.")),
    "left_legs": (gettext_noop("legs left"), gettext_noop("For how many more legs of the usual size the limit lasts.")),
    "left_units": (
        gettext_noop("units left"),
        gettext_noop("For how many more verified units of progress the limit lasts, at the price of those so far."),
    ),
    "spent": (
        gettext_noop("spent"),
        gettext_noop("Money of the month so far, of all of the owner's relays; calls without a price are not in it."),
    ),
    "limit": (
        gettext_noop("limit"),
        gettext_noop("What the owner's relays may cost in the month; over it the owner is told, and starts say so."),
    ),
    "warns": (gettext_noop("warns from"), gettext_noop("From which part of the limit on the owner is told.")),
    "unpriced": (
        gettext_noop("unpriced"),
        gettext_noop("Calls whose model had no price at their time; they are counted, and never taken for 0."),
    ),
}  # fmt: skip

"""Figures of legs, batons, tables and forms; `relays.reports.explained` shows them with all others."""

from django.utils.translation import gettext_noop

#: key -> its name, and what it says in one sentence
RECORDS: dict[str, tuple[str, str]] = {
    "from_turn": (gettext_noop("from turn"), gettext_noop("Where the leg begins on the axis that all legs share.")),
    "at_turn": (gettext_noop("at turn"), gettext_noop("The turn of the leg at which its peak was.")),
    "first": (gettext_noop("first"), gettext_noop("Resident tokens of the leg's first call: what it began with.")),
    "of_ceiling": (
        gettext_noop("of ceiling"), gettext_noop("The leg's peak as a part of its ceiling; over 100 % it was passed."),
    ),
    "verified": (
        gettext_noop("verified"), gettext_noop("Pointers that a durable store confirmed when the next leg looked."),
    ),
    "dangling": (gettext_noop("dangling"), gettext_noop("Pointers whose store answered and does not have them.")),
    "unknown": (
        gettext_noop("unknown"),
        gettext_noop("Pointers whose store did not answer; they count neither for nor against."),
    ),
    "made": (
        gettext_noop("made"), gettext_noop("Durable things that the leg made: commits, ledger rows, issues, memories."),
    ),
    "reached": (gettext_noop("reached"), gettext_noop("Those of them that the next leg can reach from the baton.")),
    "commits": (
        gettext_noop("commits"),
        gettext_noop("Commits on the relay's branch that belong to this leg, as git shows them."),
    ),
    "time": (gettext_noop("time"), gettext_noop("From the start of the leg to its end, or until now.")),
    "pointers": (
        gettext_noop("pointers"),
        gettext_noop("Lines of a baton that name something in a durable store: a commit, an issue, a ledger row, a"
                     " memory."),
    ),
    "outcome": (
        gettext_noop("outcome at reload"),
        gettext_noop("What the reader of the baton concluded before the next leg started."),
    ),
    "size": (gettext_noop("size"), gettext_noop("Bytes of the canonical form.")),
    "next_action": (
        gettext_noop("next action"),
        gettext_noop("The one thing that the next leg does first; a baton has exactly one."),
    ),
    "answer": (gettext_noop("answer"), gettext_noop("What the driver answered at this boundary, word for word.")),
    "evidence": (gettext_noop("evidence"), gettext_noop("What the judgement rests on, word for word from the store.")),
    "fact": (
        gettext_noop("fact"),
        gettext_noop("Something that the leg relies on, declared by it or detected in its trace."),
    ),
    "fact_class": (gettext_noop("class"), gettext_noop("How long the fact is to last, which says what must back it.")),
    "backing": (
        gettext_noop("backing"),
        gettext_noop("The durable record that carries the fact over to the next leg; without one the leg may not end."),
    ),
    "verdict": (
        gettext_noop("verdict"),
        gettext_noop("What records say: holds, violated, or not yet; unknown where a store did not answer."),
    ),
    "samples": (
        gettext_noop("n"),
        gettext_noop("How many measured compactions or legs the value rests on."),
    ),
    "seq": (
        gettext_noop("number"),
        gettext_noop("The place of a decision in the chain; each carries the digest of the one before."),
    ),
    "act": (
        gettext_noop("act"), gettext_noop("What was done; each act is a decision, recorded before it is carried out."),
    ),
    "row": (
        gettext_noop("ledger row"),
        gettext_noop("A line that was appended to the relay's ledger; it is never changed."),
    ),
    "references": (gettext_noop("references"), gettext_noop("Pointers to what the row is about.")),
    "pin": (gettext_noop("pin"), gettext_noop("The number under which the objective is kept; every baton names it.")),
    "region": (
        gettext_noop("region"),
        gettext_noop("Which paths the relay may write to; two living relays never hold regions that overlap."),
    ),
    "lease": (
        gettext_noop("lease"),
        gettext_noop("Whether the relay holds its region now; it is let go when the relay ends."),
    ),
    "start": (gettext_noop("start"), gettext_noop("The commit at which the relay's branch began.")),
    "worktree": (
        gettext_noop("worktree"),
        gettext_noop("The folder in which legs work; it is the relay's own, the repository's work tree is not "
                     "touched."),
    ),
    "cursor": (
        gettext_noop("cursor"),
        gettext_noop("The commit that the baton names as the end of its leg; the next leg starts from it."),
    ),
    "branch": (gettext_noop("branch"), gettext_noop("The relay's own branch; nothing is merged or pushed by itself.")),
    "tip": (gettext_noop("tip"), gettext_noop("The commit at which the branch stood when it was looked at.")),
    "read_anew": (
        gettext_noop("read anew"),
        gettext_noop("What the stores had that the baton did not name, read when its cursor was rebuilt."),
    ),
    "culprit": (gettext_noop("culprit"), gettext_noop("The first line of the baton that did not resolve.")),
    "taken": (gettext_noop("taken"), gettext_noop("When the store was asked about the pointer.")),
    "used_as": (gettext_noop("used as"), gettext_noop("What the baton names the pointer for.")),
    "pointer": (
        gettext_noop("pointer"),
        gettext_noop("A name of something in a durable store, which is looked up before it is believed."),
    ),
    "trace": (gettext_noop("trace"), gettext_noop("The identity of one leg; what a leg does is recorded under it.")),
    "parent": (gettext_noop("parent"), gettext_noop("The trace of the leg before; a new leg knows it by name only.")),
    "started_from": (gettext_noop("started from"), gettext_noop("The commit that the leg began with.")),
    "ended_at": (
        gettext_noop("ended at"), gettext_noop("The commit at which the branch stood when the leg had ended."),
    ),
    "parked_work": (
        gettext_noop("parked work"),
        gettext_noop("Changes that were not committed when the leg ended, kept as a commit beside the branch."),
    ),
    "laid_back": (
        gettext_noop("laid back"),
        gettext_noop("Whether the parked work was put back for the next leg, or no longer fitted."),
    ),
    "seed": (
        gettext_noop("seed"),
        gettext_noop("The text that a leg starts with, by its digest; it is made from records, never from a "
                     "transcript."),
    ),
    "out_of": (gettext_noop("out of"), gettext_noop("The parts that the seed was made of.")),
    "left_behind": (
        gettext_noop("left behind"), gettext_noop("Spans of the leg before that the new leg was not given."),
    ),
    "unknown_events": (
        gettext_noop("unknown events"),
        gettext_noop("Events of the agent that nobody knows; they are counted and drive nothing."),
    ),
    "exit_code": (
        gettext_noop("exit code"), gettext_noop("What the agent's program gave back when it ended; 0 is fine."),
    ),
    "reason": (gettext_noop("reason"), gettext_noop("The token that says why the leg ended.")),
    "cause": (gettext_noop("cause"), gettext_noop("What ended a leg that did not end at a safe point.")),
    "decides": (
        gettext_noop("decides"),
        gettext_noop("Who may decide on this gate, and whose decision does not count because they started it."),
    ),
    "shown": (
        gettext_noop("shown"),
        gettext_noop("The digest of all that the page shows; a decision counts for exactly this."),
    ),
    "checked": (gettext_noop("verified"), gettext_noop("When the pointers were last looked up.")),
    "key": (gettext_noop("key"), gettext_noop("The name of one value of a policy.")),
    "value": (gettext_noop("value"), gettext_noop("What holds now.")),
    "from_layer": (
        gettext_noop("from"),
        gettext_noop("The layer that set the value: defaults, site, repository, stored policy, the start or a "
                     "decision."),
    ),
    "default": (gettext_noop("default"), gettext_noop("What holds where no layer says otherwise.")),
    "version": (
        gettext_noop("version"),
        gettext_noop("Stored policies are never changed; each change is a new version, and relays keep the one "
                     "they started with."),
    ),
    "keys_set": (
        gettext_noop("keys set"), gettext_noop("Keys that this policy sets; the layers under it say the rest."),
    ),
    "living": (gettext_noop("of them living"), gettext_noop("Relays with this policy that have not ended.")),
    "check": (
        gettext_noop("check"),
        gettext_noop("One thing that must be well for relays to run; each is measured when the page is made."),
    ),
    "found": (gettext_noop("found"), gettext_noop("What was measured.")),
    "state": (gettext_noop("state"), gettext_noop("How it stands now.")),
    "token_state": (
        gettext_noop("state"),
        gettext_noop("Whether the token still opens the API: it stands, has expired or was revoked."),
    ),
    "expires": (gettext_noop("expires"), gettext_noop("When the token ends by itself; each has an end.")),
    "last_used": (gettext_noop("last used"), gettext_noop("When the token was last shown to this site.")),
    "starts": (
        gettext_noop("starts"),
        gettext_noop("The first letters of the token, to tell it from others; the rest is kept nowhere."),
    ),
    "role": (gettext_noop("role"), gettext_noop("What one may do: operator, reviewer, manager or admin.")),
    "hooks_kept": (gettext_noop("kept"), gettext_noop("Calls of hooks that were taken in during the last day.")),
    "hooks_over": (
        gettext_noop("over the bound"),
        gettext_noop("Calls of hooks beyond what one token may send in a minute; they were dropped and counted."),
    ),
    "hooks_torn": (
        gettext_noop("torn or too large"),
        gettext_noop("Calls of hooks that were no whole message, or too big; nothing of them was kept."),
    ),
    "hooks_refused": (
        gettext_noop("without a token that stands"),
        gettext_noop("Calls of hooks that were refused because no valid token came with them."),
    ),
    "channel": (
        gettext_noop("channel"), gettext_noop("A place where notices go: an address of Apprise, or a signed webhook."),
    ),
    "sent": (gettext_noop("sent"), gettext_noop("Notices that arrived in the last seven days.")),
    "undelivered": (
        gettext_noop("did not arrive"),
        gettext_noop("Notices that were given up after all tries; each can be sent again."),
    ),
    "waiting": (gettext_noop("waiting"), gettext_noop("Notices that are on their way or will be tried again.")),
    "readers": (gettext_noop("readers"), gettext_noop("People and relays that are told by this channel.")),
    "tries": (gettext_noop("tries"), gettext_noop("How often it was sent; each further try waits longer.")),
    "selected": (gettext_noop("selected"), gettext_noop("Spans that the leg holds.")),
    "elided": (gettext_noop("elided"), gettext_noop("Spans that were left out, each with its digest.")),
    "page_faults": (
        gettext_noop("page faults"),
        gettext_noop("Records that were asked for: how many were served and how many refused."),
    ),
    "queries": (gettext_noop("queries"), gettext_noop("Questions to a person that the envelope still has.")),
    "use": (gettext_noop("use"), gettext_noop("Assumptions that are strong enough to act on.")),
    "query": (gettext_noop("query"), gettext_noop("Assumptions that are too weak: a person is asked.")),
    "refresh": (gettext_noop("refresh"), gettext_noop("Assumptions that are stale: read again before they are used.")),
    "old_trace": (gettext_noop("old trace"), gettext_noop("The trace of the leg that ended.")),
    "new_trace": (gettext_noop("new trace"), gettext_noop("The trace of the leg that began.")),
    "seed_digest": (gettext_noop("seed digest"), gettext_noop("The digest of what the new leg was given.")),
    "omitted": (gettext_noop("omitted"), gettext_noop("How many spans of the old leg were left out.")),
    "promoted": (gettext_noop("promoted"), gettext_noop("Observations that became a memory, with evidence.")),
    "refused_or_expired": (
        gettext_noop("refused or expired"),
        gettext_noop("Observations that may not become a memory, or were for their turn only."),
    ),
    "ambiguous": (
        gettext_noop("ambiguous"), gettext_noop("Observations that have not earned durable status; a person decides."),
    ),
    "done_when": (
        gettext_noop("done when"),
        gettext_noop("Clauses that durable stores answer; the goal is reached when all hold at one look. Prose "
                     "needs a person."),
    ),
    "agent": (gettext_noop("agent"), gettext_noop("The program that runs each leg.")),
    "stored_policy": (
        gettext_noop("stored policy"),
        gettext_noop("A policy under a name; it is copied into the relay when it starts."),
    ),
    "mode": (gettext_noop("mode"), gettext_noop("shadow records only, advise tells too, enforce holds and ends legs.")),
    "reviewers": (
        gettext_noop("reviewers"),
        gettext_noop("The group that alone decides on the relay's gates; without one, whoever may review."),
    ),
    "watch": (
        gettext_noop("watch"),
        gettext_noop("A relay that keeps something true instead of reaching a goal; it is idle while it holds."),
    ),
    "verdict_holds": (
        gettext_noop("holds"), gettext_noop("It is so, by records, within every bound that is named beside it."),
    ),
    "verdict_violated": (
        gettext_noop("violated"), gettext_noop("Records show that it is not so; what shows it stands beside."),
    ),
    "verdict_not_yet": (
        gettext_noop("not yet"), gettext_noop("No record says it yet; nothing is guessed and nothing counts as 0."),
    ),
    "verdict_passed": (
        gettext_noop("passed"), gettext_noop("This step of the ladder found nothing against the baton."),
    ),
    "verdict_refused": (
        gettext_noop("refused"), gettext_noop("It was looked at and does not count; why stands beside it."),
    ),
    "verdict_failed": (
        gettext_noop("failed"), gettext_noop("It was tried and did not work; the error stands beside it."),
    ),
    "verdict_spent": (gettext_noop("spent"), gettext_noop("Nothing of the limit is left.")),
    "verdict_left_out": (gettext_noop("left out"), gettext_noop("It was not needed here, so nobody looked.")),
    "verdict_true": (gettext_noop("true"), gettext_noop("The store answers yes.")),
    "verdict_false": (gettext_noop("false"), gettext_noop("The store answers no.")),
    "token_word": (
        gettext_noop("token"),
        gettext_noop("A reason out of a closed set, with one fix, one colour and one shape; a word from elsewhere "
                     "drives nothing."),
    ),
    "gate": (
        gettext_noop("gate"),
        gettext_noop("A question to a person that a relay waits for; it holds what was shown, who decided and what"
                     " became of it."),
    ),
    "token": (
        gettext_noop("API token"),
        gettext_noop("What a program signs in with; it belongs to a person, has one role and an end, and is shown "
                     "once."),
    ),
    "median_error": (
        gettext_noop("median error"),
        gettext_noop("Half of the predictions were nearer to what was observed than this."),
    ),
    "count_right": (
        gettext_noop("count right"),
        gettext_noop("Sessions of which the engine told the number of compactions that really happened."),
    ),
    "error": (gettext_noop("error"), gettext_noop("What was predicted against what was observed, as a part of it.")),
    "observed": (
        gettext_noop("observed"), gettext_noop("What the calls of the session really cost, by their usage records."),
    ),
    "predicted": (
        gettext_noop("predicted"),
        gettext_noop("What the engine says that the same session costs, from its first calls and what was learned "
                     "elsewhere."),
    ),
    "learned": (
        gettext_noop("learned"),
        gettext_noop("How many of these sessions the engine's figures were learned from; a session never predicts "
                     "itself."),
    ),
    "chain_head": (
        gettext_noop("head"),
        gettext_noop("The digest of the newest decision that was checked; it stands for all before it."),
    ),
    "externalize": (
        gettext_noop("what would externalize it"),
        gettext_noop("What has to be written to a durable store before the leg may end here."),
    ),
    "stored": (gettext_noop("stored"), gettext_noop("The durable record that holds it, if there is one.")),
    "as_they_are": (
        gettext_noop("left as they are"),
        gettext_noop("Relays that were not touched, since they ended or changed meanwhile."),
    ),
    "problems": (
        gettext_noop("problems"),
        gettext_noop("What could not be read, each with its file and line; the rest was read."),
    ),
    "prompt": (
        gettext_noop("first prompt"),
        gettext_noop("What the first leg is given: the objective and pointers, no transcript and no summary."),
    ),
    "would_rotate": (
        gettext_noop("would rotate"),
        gettext_noop("Here a relay would have ended the leg at a safe point; in this session nothing was held."),
    ),
    "rotations": (
        gettext_noop("rotations"), gettext_noop("How many times a relay would have begun a fresh leg in this session."),
    ),
    "leg_state": (
        gettext_noop("state of a leg"),
        gettext_noop("How far the leg is: it starts, runs, is armed for its next safe point, ends, or has ended."),
    ),
    "looked_at": (
        gettext_noop("of how many"),
        gettext_noop("How many cases were looked at; where they are too few nothing is judged."),
    ),
    "since_shrank": (
        gettext_noop("since it last shrank"),
        gettext_noop("Tokens of it that came in since the window last became smaller, so that they are still held."),
    ),
    "reconciled": (
        gettext_noop("against the one before"),
        gettext_noop("What became of the objective between two batons: the same, byte by byte, stated first, "
                     "drifted, or dropped."),
    ),
    "left": (
        gettext_noop("left"), gettext_noop("What remains of the limit; unknown where calls had no price or no figure."),
    ),
    "left_for_it": (
        gettext_noop("left for it"),
        gettext_noop("What remained of each limit when the new leg began; a rotation gives nothing back."),
    ),
    "span": (gettext_noop("span"), gettext_noop("A piece of a leg's window: what it is, and where it came in.")),
    "spans": (gettext_noop("spans"), gettext_noop("How many pieces stand in this line.")),
    "way_back": (
        gettext_noop("way back"),
        gettext_noop("How the leg gets at what it was not given: a pointer that it may ask for."),
    ),
    "record": (gettext_noop("record"), gettext_noop("The record that a leg needed and did not hold.")),
    "required": (
        gettext_noop("required"),
        gettext_noop("Whether the leg could not go on without it; else the pointer was enough."),
    ),
    "disposition": (
        gettext_noop("outcome"),
        gettext_noop("What was decided, by the closed rules for records of this kind; each word is in the vocabulary."),
    ),
    "assumption_key": (
        gettext_noop("key"),
        gettext_noop("The name under which an assumption is kept; a later one of the same name takes its place."),
    ),
    "assumption_source": (
        gettext_noop("source"),
        gettext_noop("Where the assumption came from: a person, a store, the agent, or an inference."),
    ),
    "confidence": (
        gettext_noop("confidence"), gettext_noop("How sure its source says it is; not given counts as weak."),
    ),
    "slug": (gettext_noop("slug"), gettext_noop("The name of the memory, and of its file in the repository.")),
    "tool_use": (gettext_noop("use"), gettext_noop("The number of the use of the query tool in its leg.")),
    "verb": (gettext_noop("verb"), gettext_noop("What the leg asked the query tool for.")),
}  # fmt: skip

#: head of a table that a report names -> its figure
HEADS: dict[str, str] = {
    **dict.fromkeys(("leg", "pin", "digest", "objective", "used", "state", "span", "spans", "record", "required"), ""),
    **dict.fromkeys(("confidence", "seed", "omitted", "slug", "evidence", "turn", "resident", "verb", "left"), ""),
    **dict.fromkeys(("commits", "turns"), ""),
    "against the one before": "reconciled", "axis": "envelope", "limit": "envelope", "way back": "way_back",
    "outcome": "disposition", "action": "disposition", "answer": "disposition", "key": "assumption_key",
    "statement": "assumptions", "source": "assumption_source", "old trace": "old_trace", "new trace": "new_trace",
    "seed bytes": "size", "bytes": "size", "made of": "out_of", "left for it": "left_for_it", "class": "fact_class",
    "cache read": "cache_read", "written": "cache_write", "use": "tool_use", "about": "references",
}  # fmt: skip

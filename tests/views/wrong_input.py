"""Wrong input of every kind for every form of the pages, and words of what must be answered to it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth.models import User
from django.utils import timezone

from relays.core import policytable
from relays.models import GateEpisode, GateState, Relay, RelayStatus, Session
from relays.reports.gate import branch_tip, seen_digest
from tests import web_builders as web
from tests.whole_house import World, build


class Case(NamedTuple):
    """Fields that are posted to an address, and words of the text that must come of it."""

    at: str
    fields: Mapping[str, Any]
    says: str
    words: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class House:
    """The whole house, and relays and gates that refuse in their own ways."""

    world: World
    relay: Relay  # over a real repository, parked at its gate
    running: Relay
    done: Relay
    stopped: Relay
    gate: GateEpisode
    refused: GateEpisode
    spent: GateEpisode
    fault: GateEpisode
    leans: GateEpisode

    @property
    def users(self) -> dict[str, User]:
        return self.world.users

    @property
    def own(self) -> dict[str, dict[str, Any]]:
        return self.world.own

    @property
    def known(self) -> list[str]:
        """Names of what is there, which an answer may quote."""
        rows = [self.relay, self.running, self.done, self.stopped]
        rows += [gate.relay for gate in (self.gate, self.refused, self.spent, self.fault, self.leans)]
        found = {value for row in rows for value in (row.pk, row.repo, row.branch, row.owner.username, row.objective)}
        found |= {person.username for person in self.users.values()}
        found |= {str(gate.pk) for gate in (self.gate, self.refused, self.spent, self.fault, self.leans)}
        return [*found, "nightly", "The night shift", "file:a.txt", "issue:#40", *map(str, settings.SESSION_ROOTS)]

    @staticmethod
    def seen(gate: GateEpisode) -> str:
        """What a page of the gate would have shown."""
        return seen_digest(gate, branch_tip(gate.relay)[0])


def furnish(folder: Path) -> House:
    """The house of the cases."""
    world = build(folder)

    def parked(token: str, *items: str, **values: Any) -> GateEpisode:
        relay = web.make_relay(status=RelayStatus.PARKED)
        return web.make_gate(relay, token, items=list(items), **values)

    gate = GateEpisode.objects.get(pk=world.arguments["pk"])
    place = {name: getattr(gate.relay, name) for name in ("repo", "git_dir", "branch", "worktree")}
    Session.objects.filter(pk=world.own["session_promote"]["pk"]).update(cwd=gate.relay.repo)
    return House(
        world,
        gate.relay,
        web.make_relay(),
        web.make_relay(status=RelayStatus.DONE, ended_at=timezone.now(), **place),
        web.make_relay(status=RelayStatus.STOPPED, ended_at=timezone.now(), **place),
        gate,
        parked("RELAY_PARKED_UNSAFE", "One dirty path", state=GateState.REFUSED),
        parked("BUDGET_EXHAUSTED", "turns"),
        parked("UNSERVED_PAGE_FAULT", "page fault: file:a.txt: deny, not resident"),
        parked("LOW_CONFIDENCE_ASSUMPTION", "the plan leans on 'some key': query, 0.2"),
    )


def every(house: House) -> Iterator[Case]:
    """All of them."""
    for cases in (start_cases, policy_cases, relay_cases, house_cases):
        yield from cases(house)


def start_cases(house: House) -> Iterator[Case]:
    """Every field of the start form, and of a start from a session."""
    repo = house.relay.repo
    good = {
        "repo": repo, "objective": "Xyzzy", "done_when": "issues:none open", "agent": "scripted", "region": "**",
        "form": "a" * 22,
    }  # fmt: skip

    def start(says: str, do: str = "start", **fields: str) -> Case:
        return Case("start", {**good, "do": do, **fields}, says)

    yield start("names no folder", repo="")
    yield start("Name a folder inside a git repository", "check", repo="\0")
    yield start("the objective is empty", objective="")
    yield start("the objective is longer than", objective="x" * 5000)
    yield start("the objective holds a NUL", objective="a\0b")
    yield start("it can take", objective="<" * 4000)
    yield start("done_when is empty", done_when="")
    yield start("bytes long, more than", done_when="x" * 501)
    yield start("line break or another control", done_when="a\tb")
    for clause, says in (
        ("it reads well", "none of the clauses"),
        ("issue:#1 open", "must end with"),
        ("issue:#1", "must end with"),
        ("file:a.txt closed", "nothing may follow the value"),
        ("issues:some open", "it is not"),
        ('cmd:" "', "the command is empty"),
        ('cmd:"a\\n"', "are escapes"),
    ):
        yield start(says, "check", done_when=clause)
        yield start("No store can say", "check", done_when=clause, watch="1")
        yield start("which no store can say holds", done_when=clause, watch="1")
        yield start("needs at least one limit", done_when=clause)
    yield start("needs at least one limit", watch="1")
    yield start("a watch with a cmd clause needs it", watch="1", done_when='cmd:"make test"', legs="3")
    yield start("more than", region="\n".join(f"f{n}" for n in range(70)))
    for glob in ("/etc", "a/../b", "a//b", "#a", "[a", "-a", ":a", "a\\b", "a\x01b", "x" * 600):
        yield start("it ", region=glob) if glob != "[a" else start("is not closed", region=glob)
    yield start("ref: ", "check", done_when="commit:abc")
    yield start("no such", repo="/nowhere/at/all")
    yield start("choose one of", agent="clerk")
    yield start("write it as name=value", agent_args="pace")
    yield start("is no time", at="soon")
    yield start("is over; name a time ahead", at="2020-01-01T00:00")
    yield start("days ahead; name an earlier one", at="2999-01-01T00:00")
    yield start("lost its own name", form="")
    yield start("write it as NAME or NAME@NUMBER", policy="nightly@x")
    yield start("is not known here", policy="daily")
    yield start("no group", reviewers="nobody-here")
    yield start("must be one of", mode="reckless")
    for sets, says in (
        ("turns", "write it as key=value"),
        ("enveloppe.turns=4", "did you mean"),
        ("zzz=4", "unknown key"),
        ("leg=4", "must be a table of keys"),
        ("ceiling=7", "must be above 0"),
    ):
        yield start(says, "check", sets=sets)
        yield start(says, sets=sets)
    for name in ("legs", "turns", "spend", "wall"):
        yield start("must be", **{name: "lots"})
    for agent, args, says in (
        ("scripted", "pace=fast", "seconds a turn"),
        ("scripted", "retry=never", "is not allowed: one of"),
        ("scripted", "dirty=7", "is not allowed"),
        ("scripted", "legs=12345", "is not known to the scripted worker"),
        ("scripted", "zzz=1", "is not known to the scripted worker"),
        ("command", "zzz=1", "is not known to the command agent"),
        ("command", "env=A", "needs agent argument argv"),
        ("command", "argv=[1]", "is no list of texts"),
        ("command", "argv=[", "cannot be read"),
        ("command", 'argv="', "cannot be read"),
        ("command", "argv=a\nreconnect=2", "is neither 0 nor 1"),
        ("command", "argv=a\nenv=RELAY_X", "none that starts"),
        ("command", "argv=a\nenv=SECRET_KEY", "is a secret of this site"),
        ("command", "argv=a\nmemory=lots", "is no limit"),
        ("claude-code", "zzz=1", "is not known to the"),
        ("claude-code", "config=theirs", "is not allowed: one of"),
        ("claude-code", "model=", "is no text of one line"),
        ("codex", "config=x", "is neither key=value"),
    ):
        yield start(says, "check", agent=agent, agent_args=args)
        yield start(says, agent=agent, agent_args=args)
    session = (house.own["session_promote"]["pk"],)
    for do in ("check", "start"):
        form = {"do": do, "form": "b" * 22, "objective": "x" * 5000, "done_when": "it reads", "region": "**"}
        yield Case("session_promote", {**form, "agent": "clerk", "agent_args": "x"}, "write it as name=value", session)
        yield Case(
            "session_promote",
            {**form, "agent": "clerk"},
            "choose one of" if do == "check" else "is longer than",
            session,
        )


#: values that some key does not take
WRONG = (
    "lots", "-1", "0", "1.5", "7", "10000000000000000", "9" * 30, "none", "yes", "a,b c", "/etc", "..", "a\tb",
    "11 years", "x" * 2050, "https://user:word@host/x", "1e5", "[x]",
)  # fmt: skip


def policy_cases(house: House) -> Iterator[Case]:
    """The editor as form (every key against every wrong value), as text, and the policy of a relay."""
    name = {"name": "daily", "comment": "Days are long"}
    for wrong in WRONG:
        fields = {f"key.{key}": wrong for keys in policytable.GROUPS.values() for key in keys}
        yield Case("policy_new", {**name, "do": "save", **fields}, "must be")
    yield Case("policy_new", {**name, "do": "check", "key.baseline": "a b=1\nc"}, "")
    for text, says in (
        ("[relay]\nceiling = 7\n", "must be above 0"),
        ("[relay]\nceilling = 0.5\n", "did you mean"),
        ("[relay]\nleg = 5\n", "must be a table of keys"),
        ("relay = 5\n", "must be a table of keys"),
        ("[relay]\n[relay.baton]\nx = 5\n", "unknown key"),
        ("[relay]\n[relay.baton]\ntotal = 'x'\n", "must be a whole number"),
        ("[relay]\n[relay.baseline]\n'a b' = 5\n", "is no plain name"),
        ("[relay]\n[relay.baseline]\nab = []\n", "must be a number or a word"),
        ("[relay]\nmode = 'reckless'\n", "must be one of"),
        ("[relay]\non_crash = 'run'\n", "must be one of"),
        ("[relay]\n[other]\n", "stands outside the one table"),
        ("", "the file has no"),
        ("x" * 5000, "has a line of more than"),
        ("# words\n" * 9000, "the file is longer than"),
        *((f"[relay]\n{broken}", "is not valid TOML") for broken in BROKEN),
    ):
        yield Case("policy_new", {**name, "as": "text", "do": "save", "text": text}, says)
    fine = {"as": "text", "do": "save", "text": "[relay]\nceiling = 0.8\n"}
    yield Case("policy_new", {**fine, "name": "A name"}, "a letter or digit first")
    yield Case("policy_new", {**fine, "name": "new"}, "not a word of an address")
    yield Case("policy_new", {**fine, **name, "comment": "a\x01b"}, "holds a control character")
    yield Case("policy_new", {**fine, **name, "comment": "x" * 10_001}, "the comment is longer than")
    relay = (house.running.pk,)
    yield Case("relay_policy", {"comment": "", "sets": "envelope.turns=9"}, "a comment is required", relay)
    yield Case("relay_policy", {"comment": "because", "sets": ""}, "name a stored policy", relay)
    yield Case("relay_policy", {"comment": "because", "sets": "ceiling=7"}, "must be above 0", relay)
    yield Case("relay_policy", {"comment": "because", "sets": "approvals=2"}, "fixed when a relay starts", relay)
    yield Case("relay_policy", {"comment": "because", "policy": "daily"}, "is not known here", relay)


#: one text for each thing that a reader of TOML says
BROKEN = (
    "=", "a = 1 b", "a\x01", "a = 1\na = 2", "[a]\n[a]", "a.b = 1\n[relay.a]\n", "[a", "[[a]", "a 1", "a = ", "a = [",
    "a = {", "a = {b = 1, b = 2}", 'a = "\\x"', 'a = "\\u12"', 'a = "\\ud800"', 'a = "b', 'a = "b\x01"', 
    "a = 2026-13-01", "a = {b", "[]\n", "a = x",
)  # fmt: skip


def relay_cases(house: House) -> Iterator[Case]:
    """What is pressed on a relay's page, and its gate's."""
    relay, done, stopped = (house.running.pk,), (house.done.pk,), (house.stopped.pk,)
    long, odd = "x" * 400, "a\x01b"
    for act in ("park", "park_now", "stop", "stop_now", "resume"):
        yield Case(f"relay_{act}", {"comment": odd}, "holds a control character", relay)
        yield Case(f"relay_{act}", {}, "stays" if act[0] != "r" else "start a new relay", done)
    yield Case("relay_resume", {}, "waits for a decision", (house.gate.relay_id,))
    yield Case("relay_resume", {}, "reopen it with", (house.refused.relay_id,))
    yield Case("relay_facts", {"do": "thing"}, "say whether it is a fact or a pin", relay)
    yield Case("relay_facts", {"do": "fact", "stated": ""}, "must be one line of plain text", relay)
    yield Case("relay_facts", {"do": "fact", "stated": long * 3}, "is too long for a ledger row", relay)
    yield Case("relay_facts", {"do": "pin", "stated": "nothing"}, "write it as kind:ref", relay)
    yield Case("relay_facts", {"do": "pin", "stated": "file:none.txt"}, "does not resolve", (house.relay.pk,))
    yield Case("relay_facts", {"do": "pin file:none.txt"}, "standing are", relay)
    yield Case("relay_facts", {"do": "fact", "stated": "all is well"}, "no leg follows", stopped)
    yield Case("relay_restate", {}, "a comment is required", relay)
    yield Case("relay_restate", {"comment": "so"}, "say --objective", relay)
    yield Case("relay_restate", {"comment": "so", "sets": "ceiling=1"}, "only limits of the envelope", relay)
    yield Case("relay_restate", {"comment": "so", "sets": "envelope.turns=x"}, "must be a whole number", relay)
    yield Case("relay_restate", {"comment": "so", "objective": "x" * 5000}, "is longer than", relay)
    yield Case("relay_restate", {"comment": "so", "objective": "Other"}, "start a new relay", done)
    yield Case("relay_push", {}, "only a relay that is done", relay)
    yield Case("relay_push", {}, "its policy names no address", done)
    gate = (house.gate.pk,)
    approve = {"decision": "approve", "comment": "so"}
    for fields, says in (
        ({}, "press Approve or Refuse"),
        ({"decision": "approve"}, "a comment is required"),
        ({"comment": "so"}, "press Approve or Refuse"),
        ({"decision": "approve", "comment": odd}, "holds a control character"),
        (approve, "changed"),
        ({**approve, "next": "Close it", "next_own": "Other"}, "a next action was written"),
        ({**approve, "subject-1": "file:a", "way-1": "waived", "by-1": "text"}, "a text was written"),
        ({"decision": "reopen", "comment": "so"}, "only a refused or expired gate"),
    ):
        yield Case("gate_decide", {"seen": "0" * 64, **fields}, says, gate)
    for one in (house.gate, house.spent):
        for fields, says in (
            ({"next_own": "x" * 300}, "one line of at most"),
            ({"region": "\n".join(f"f{n}" for n in range(70))}, "globs"),
            ({"sets": "envelope.turns"}, "write it as key=value"),
            ({"sets": "envelope.turns=x"}, "must be a whole number"),
            ({"sets": "ceiling=7"}, "must be above 0"),
            ({"sets": "four_eyes=true"}, "a decision changes limits only"),
            ({"objective": "x" * 5000}, "is longer than"),
            ({"ref-1": "#99", "answer-1": "yes"}, "no open question of gate"),
            ({"subject-1": "file:a.txt", "way-1": "waived"}, "cannot be"),
            ({"subject-1": "file:a.txt", "way-1": "confirmed"}, "cannot be"),
        ):
            yield Case("gate_decide", {**approve, "seen": house.seen(one), **fields}, says, (one.pk,))
    fault, leans = (house.fault.pk,), (house.leans.pk,)
    for fields, says in (
        ({"subject-1": "file:a.txt", "way-1": "confirmed"}, "served"),
        ({"subject-1": "file:other.txt", "way-1": "waived"}, "is not asked about here"),
        ({"subject-1": "file:a.txt", "way-1": "served", "by-1": "x" * 600}, "what serves it is one line"),
    ):
        yield Case("gate_decide", {**approve, "seen": house.seen(house.fault), **fields}, says, fault)
    wrong = {"subject-1": "some key", "way-1": "waived"}
    yield Case("gate_decide", {**approve, "seen": house.seen(house.leans), **wrong}, "refreshed", leans)
    spent = (house.spent.pk,)
    yield Case("gate_decide", {**approve, "seen": house.seen(house.spent)}, "needs a new limit", spent)
    yield Case("gate_decide", {**approve, "seen": "0"}, "not waiting", (house.refused.pk,))
    yield Case("gate_reviewers", {}, "a comment is required", gate)
    yield Case("gate_reviewers", {"comment": "so", "group": "none"}, "no group", gate)
    yield Case("gate_reviewers", {"comment": "so", "group": ""}, "everybody who may review", gate)


def house_cases(house: House) -> Iterator[Case]:
    """Tokens, users, reviewers, notifications, budgets, layout, maintenance, imports."""
    token = {"name": "ci", "role": "operator", "days": "30"}
    yield Case("tokens", {**token, "name": ""}, "its name is one line")
    yield Case("tokens", {**token, "role": "king"}, "take one of")
    yield Case("tokens", {**token, "days": "many"}, "is no number of days")
    yield Case("tokens", {**token, "days": "9999"}, "it lasts 1 to")
    yield Case("tokens", {**token, "owner": "nobody-here"}, "is not known")
    yield Case("tokens", {**token, "owner": house.users["norole"].username}, "has not the role")
    yield Case("users", {"name": "a b", "role": "admin"}, "is not usable")
    yield Case("users", {"name": "newone", "role": "king"}, "take one of")
    yield Case("users", {"name": house.users["admin"].username, "role": "admin"}, "there is one of that name")
    own, other = house.users["admin"].pk, house.users["norole"].pk
    yield Case("user_act", {}, "nobody deactivates themselves", (own, "deactivate"))
    yield Case("user_act", {}, "is active already", (other, "activate"))
    yield Case("user_act", {"role": "king"}, "take one of", (other, "give"))
    yield Case("user_act", {"role": "operator"}, "has not the role", (other, "take"))
    yield Case("user_act", {"role": "admin"}, "has the role", (own, "give"))
    yield Case("user_act", {"role": "admin"}, "the last admin", (own, "take"))
    for fields, says in (
        ({"name": "a/b"}, "is not usable"),
        ({"name": "night"}, "name its first members"),
        ({"name": "night", "add": "nobody-here"}, "no such user"),
        ({"name": "night", "add": "ann", "remove": "ann"}, "added and removed at once"),
    ):
        yield Case("reviewers", fields, says)
    for url, says in (
        ("", "is one line of"),
        ("ftp://a/b", "is not allowed: take https"),
        ("https://a:b@c/", "a webhook is"),
        ("https://[::1/", "cannot be read"),
        ("json://localhost/?verify=no", ""),
    ):
        yield Case("channels", {"name": "Nights", "url": url}, says)
    yield Case("channels", {"name": "", "url": "https://a/"}, "its name is one line")
    channel = house.own["channel_test"]["pk"]
    told = {"channel": str(channel), "scope": "all", "event": ["gate_opened"]}
    yield Case("subscribe", {**told, "event": []}, "choose at least one of")
    yield Case("subscribe", {**told, "scope": "some"}, "take all, mine or relay")
    yield Case("subscribe", {**told, "scope": "relay", "relay": "RLY-1"}, "is not known here")
    yield Case("subscribe", {**told, "channel": "99"}, "is not known here")
    yield Case("unsubscribe", {}, "is not one of yours", (999,))
    yield Case("channel_test", {}, "did not arrive", (channel,))
    budget = {"owner": house.users["operator"].username, "limit": "100", "month": "", "warn_at": "80"}
    for field, value, says in (
        ("owner", "nobody-here", "no such user"),
        ("limit", "lots", "such as 100"),
        ("limit", "-5", "must be dollars"),
        ("month", "soon", "is no month"),
        ("warn_at", "high", "such as 80"),
        ("warn_at", "900", "must be a part of the limit"),
    ):
        yield Case("budgets", {**budget, field: value}, says)
    yield Case("budgets", {**budget, "owner": house.users["admin"].username, "remove": "1"}, "has no budget for")
    for field in ("density", "first_tab", "language", "zone", "numbers", "theme", "closed"):
        yield Case("layout", {field: "sideways"}, "take one of")
    act = {"comment": "A new disk", "sure": "1"}
    yield Case("maintenance", {"do": "park_all"}, "tick that you mean it")
    yield Case("maintenance", {**act, "do": "dance"}, "Say what is to be done")
    yield Case("maintenance", {**act, "do": "park_all"}, "it is under way already")
    yield Case("maintenance", {**act, "do": "park_all", "comment": "a\x01"}, "holds a control character")
    yield Case("maintenance", {**act, "do": "resume_all"}, "there is no relay to do it to")
    yield Case("maintenance", {**act, "do": "policy_all", "sets": "ceiling=7"}, "must be above 0")
    yield Case("maintenance", {**act, "do": "policy_all", "sets": ""}, "write one key=value a line")
    yield Case(
        "maintenance", {**act, "do": "policy_all", "sets": "ceiling=0.7", "comment": ""}, "a comment is required"
    )
    more = {"sets": "ceiling=0.7", "relays": "RLY-1"}
    yield Case("maintenance", {**act, "do": "policy_all", **more}, "is no relay that goes on")
    drain = (house.own["maintenance_confirm"]["pk"],)
    yield Case("maintenance_confirm", {}, "only a list is confirmed", drain)
    yield Case("imports", {"path": ""}, "files or folders")
    yield Case("imports", {"path": "a/b"}, "is not absolute")
    yield Case("imports", {"path": "/etc/none"}, "is outside the folders")
    yield Case("imports", {"path": "/etc/\x01"}, "cannot be a path here")
    job = (house.own["import_cancel"]["pk"],)
    yield Case("import_resume", {}, "only one that was cancelled", job)

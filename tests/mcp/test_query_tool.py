"""The agents' query tool as agents meet it: the official MCP client over stdio drives every verb against its own leg.

Interface, For agents: "A fresh leg has the baton and this query tool, nothing else"; "Leg-scoped token; nothing else is
reachable with it."
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from relays.core.querytool import VERBS
from relays.models import Baton, Event, Fact, LedgerRow, Leg, PageFault, Promotion, ResetTransaction, ToolUse

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

ROOT = Path(__file__).parents[2]
NEXT = [["next_action", {"text": "Go on."}], ["externalized", {}]]


def test_the_official_client_drives_the_whole_verb_list(asked: Callable[..., Any]) -> None:
    calls = [
        ["list", {}],
        ["orient", {}],
        {"do": "commit", "path": "work/1.md", "text": "first\n"},
        ["recall", {"kind": "file", "ref": "work/1.md"}],
        ["ledger_append", {"refs": ["commit:$SHA"], "note": "Wrote the first page."}],
        ["fact", {"label": "The page is written", "class": "durable", "backing": "commit:$SHA"}],
        ["decision", {"label": "Pages are markdown", "pointer": "file:work/1.md"}],
        ["open_question", {"label": "Is one page enough?", "pointer": "issue:#1"}],
        ["dead_end", {"label": "HTML pages", "pointer": "file:work/1.md"}],
        ["assume", {"key": "k", "statement": "Nobody reads HTML.", "source": "witnessed"}],
        ["remember", {"slug": "pages", "text": "Pages are markdown.", "class": "durable", "evidence": "commit:$SHA"}],
        {"do": "add"},
        ["ask", {"question": "Is one page enough?"}],
        ["done_check", {}],
        ["next_action", {"text": "Write the second page."}],
        ["externalized", {}],
        ["safe_point", {}],
    ]
    relay, (said,) = asked(calls)
    answers = dict(zip([call[0] for call in calls if isinstance(call, list)], said, strict=False))
    assert "error" not in said[-1] and not any("refused" in one for one in said), said
    assert set(answers["list"]) == set(VERBS)
    assert all(schema["type"] == "object" and what for what, schema in answers["list"].values())
    assert answers["orient"]["baton"] is None and answers["orient"]["objective"]["text"] == "Close every open issue."
    assert answers["recall"]["outcome"] == "page_in" and answers["recall"]["record"]["text"] == "first\n"
    assert answers["ledger_append"]["row"] == f"{relay.pk}.0.t1"
    assert answers["fact"]["passes_the_gate"] and answers["decision"]["passes_the_gate"]
    assert answers["assume"]["action"] == "use"
    assert answers["remember"]["outcome"] == "promoted" and answers["remember"]["file"] == ".relay/memory/pages.md"
    assert answers["ask"]["pointer"].startswith(f"ledger:{relay.pk}.0.t")
    assert answers["done_check"]["done"] is False
    assert answers["safe_point"]["may_stop"], answers["safe_point"]
    assert answers["safe_point"]["next_actions"] == ["Write the second page."]
    leg = relay.legs[0]
    assert (leg.reason, relay.baton.next_action) == ("RELAY_ROTATED", "Write the second page.")
    assert list(ToolUse.objects.filter(leg=leg).values_list("verb", flat=True)) == [
        call[0] for call in calls if isinstance(call, list) and call[0] != "list"
    ]
    assert not ToolUse.objects.filter(refused=True).exists()
    assert Promotion.objects.get().outcome == "promoted" and PageFault.objects.get().outcome == "page_in"
    assert "memory:pages" in {f"{one.kind}:{one.ref}" for one in relay.baton.artifacts}
    kept = Event.objects.filter(leg=leg, payload__through="query tool").values_list("kind", flat=True)
    assert sorted(kept) == sorted(
        ["page_fault", "ledger", "fact", "decision", "open_question", "dead_end", "assumption", "promotion", "ask"]
        + ["next_action", "externalized"]
    )
    assert Fact.objects.filter(leg=leg, kind="dead_end", verdict="verified").exists()


def test_a_token_of_another_leg_an_expired_one_and_a_wrong_one_are_refused_in_words(
    asked: Callable[..., Any], course: Callable[..., Any]
) -> None:
    ended = course(issues=1)
    ended.step()
    other = course(issues=1)
    tokens = {"expired": "of-a-leg-that-ended", "another": "of-a-leg-that-runs"}
    Leg.objects.filter(relay=ended.pk, state="ended").update(token_hash=sha256(tokens["expired"].encode()).hexdigest())
    Leg.objects.filter(relay=other.pk).update(state="running", token_hash=sha256(b"of-a-leg-that-runs").hexdigest())
    relay, (said,) = asked(
        [
            ["orient", {}],
            {"do": "token", "is": tokens["expired"]},
            ["orient", {}],
            {"do": "token", "is": tokens["another"]},
            ["recall", {"kind": "file", "ref": "README.md"}],
            {"do": "token", "is": "no-such-token"},
            ["fact", {"label": "planted"}],
        ]
    )
    assert "relay" in said[0]
    assert "expired" in said[1]["refused"] and "ended" in said[1]["refused"]
    assert "another leg" in said[2]["refused"]
    assert "wrong" in said[3]["refused"] and "RELAY_TOKEN" in said[3]["refused"]
    assert list(ToolUse.objects.values_list("verb", flat=True)) == ["orient"], "what a stranger asks is no use of a leg"
    assert not Fact.objects.filter(label="planted").exists()
    assert any("query tool: " in line and "refused" in line for line in relay.relay.findings)


def test_after_its_leg_a_token_has_expired_and_the_command_line_says_so(asked: Callable[..., Any]) -> None:
    relay, (said,) = asked([{"do": "shell", "args": ["done_check", "--json"]}])
    assert said[0]["exit"] == 0 and json.loads(said[0]["out"])["done"] is False
    env = {"RELAY_SOCKET": "/tmp/relay-that-is-gone/s", "RELAY_TOKEN": "spent", "PATH": os.environ["PATH"]}
    line = [sys.executable, str(ROOT / "manage.py"), "relay", "agent", "orient"]
    done = subprocess.run(line, env=env, capture_output=True, text=True, cwd=relay.worktree)
    assert done.returncode == 12 and done.stdout == ""
    assert "expired" in done.stderr and "Traceback" not in done.stderr


HOSTILE = {
    "file": [
        "../../etc/passwd",
        "/etc/passwd",
        "-rf",
        "--upload-pack=x",
        "a\u0000b",
        "a\nb",
        ":(exclude)x",
        "x" * 4000,
        "a\\b",
    ],
    "memory": ["../secret", "a/b", "-x", "."],
    "commit": ["HEAD", "main", "--all", "abc123", "A" * 40],
    "ledger": ["../x#L1", "-x", "a b"],
    "issue": ["1", "#0", "#-1", "--"],
    "digest": ["x", "../", "A" * 64],
}


def test_a_hostile_ref_is_refused_in_words(asked: Callable[..., Any]) -> None:
    calls = [["recall", {"kind": kind, "ref": ref}] for kind, refs in HOSTILE.items() for ref in refs]
    _, (said,) = asked([*calls, ["orient", {}]])
    refusals = said[: len(calls)]
    words = [one.get("refused", "served") for one in refusals]
    assert all(one.startswith(("recall: ", "the request cannot be read: ")) for one in words), words
    assert all("\n" not in one["refused"] and len(one["refused"]) < 400 for one in refusals)
    assert "relay" in said[len(calls)], "the tool goes on"
    assert ToolUse.objects.filter(refused=True).count() == len(calls) - 1, "one was no request at all: it held a NUL"
    assert not PageFault.objects.filter(outcome="page_in").exists()


def test_what_is_recalled_comes_in_slices_from_every_store_and_transcripts_never_come(
    asked: Callable[..., Any],
) -> None:
    big = "".join(f"line {number}: ü\n" for number in range(4000))
    relay, (_, second) = asked(
        [
            {"do": "commit", "path": "big.txt", "text": big},
            ["remember", {"slug": "port", "text": "8001", "class": "bounded", "evidence": "commit:$SHA"}],
            {"do": "add"},
            ["ledger_append", {"refs": ["commit:$SHA"], "note": "Row."}],
            ["next_action", {"text": "Go on."}],
            ["externalized", {}],
        ],
        [
            ["orient", {}],
            ["recall", {"kind": "file", "ref": "big.txt"}],
            ["recall", {"kind": "file", "ref": "big.txt", "offset": 16384}],
            ["recall", {"kind": "file", "ref": "*.txt"}],
            ["recall", {"kind": "issue", "ref": "#2"}],
            ["recall", {"kind": "memory", "ref": "port"}],
            ["recall", {"kind": "ledger", "ref": "$RELAY.0.t1"}],
            ["recall", {"kind": "memory", "ref": "port", "durability": "bounded"}],
            ["recall", {"kind": "file", "ref": "gone.txt"}],
            ["recall", {"kind": "transcript", "ref": "leg 0"}],
            ["recall", {"kind": "turn", "ref": "1"}],
            ["recall", {"kind": "digest", "ref": "$OMITTED"}],
            ["recall", {"kind": "digest", "ref": "$BATON"}],
        ],
        between=lambda relay: {
            "$BATON": Baton.objects.get(relay=relay.pk, current=True).digest,
            "$OMITTED": ResetTransaction.objects.get(old_leg__relay=relay.pk).omitted[0]["digest"],
        },
    )
    orient, part, rest, listed, issue, memory, row, pointer, gone, transcript, turn, omitted, baton = second[:13]
    assert orient["baton"]["leg"] == 0 and all(one["verdict"] == "verified" for one in orient["pointers"])
    assert orient["memory"]["slugs"] == ["port"]
    assert part["record"]["bytes"] == len(big.encode()) and part["record"]["next_offset"] == 16384
    assert part["record"]["left_out"] == len(big.encode()) - 16384 and "offset=16384" in part["record"]["more"]
    assert big.startswith(part["record"]["text"] + rest["record"]["text"]) and rest["record"]["offset"] == 16384
    assert 2 * 16384 - 4 < rest["record"]["next_offset"] <= 2 * 16384, "cut between two characters"
    assert listed["record"]["text"] == "big.txt"
    assert json.loads(issue["record"]["text"])["state"] == "open"
    assert memory["record"]["text"].endswith("8001\n") and "data" in memory["record"]["is"]
    assert json.loads(row["record"]["text"])["note"] == "Row."
    assert pointer["outcome"] == "continue_with_pointer" and "record" not in pointer
    assert gone["outcome"] == "continue_with_pointer" and gone["verdict"] == "dangling"
    for one in (transcript, turn, omitted):
        assert one["outcome"] == "deny" and "transcript" in one["why"] and "record" not in one
    assert baton["outcome"] == "page_in" and json.loads(baton["record"]["text"])["leg"] == 0
    counts = Counter(PageFault.objects.filter(leg=relay.legs[1]).values_list("outcome", flat=True))
    assert counts == {"page_in": 7, "continue_with_pointer": 2, "deny": 3}
    assert "UNSERVED_PAGE_FAULT" not in relay.waiting, "what is optional asks nobody"


def test_a_required_record_that_cannot_come_is_asked_and_keeps_the_next_leg(asked: Callable[..., Any]) -> None:
    relay, (said,) = asked(
        [
            {"do": "commit", "path": "a.txt", "text": "a\n"},
            ["recall", {"kind": "file", "ref": "gone.txt", "required": True}],
            ["recall", {"kind": "file", "ref": "a.txt", "required": True}],
            ["next_action", {"text": "Go on."}],
            ["externalized", {}],
        ]
    )
    assert said[0]["outcome"] == "deny" and said[0]["asked"] == "UNSERVED_PAGE_FAULT"
    assert said[1]["outcome"] == "page_in"
    assert relay.waiting == ["UNSERVED_PAGE_FAULT"] and relay.relay.status == "parked"
    (item,) = relay.gates[0].items
    assert item.startswith("page fault: file:gone.txt: deny")
    assert PageFault.objects.filter(required=True).values_list("outcome", flat=True).order_by("seq")[0] == "deny"


def test_a_row_of_a_relay_on_another_repository_is_not_reachable(
    asked: Callable[..., Any], course: Callable[..., Any]
) -> None:
    other = course(issues=1)
    other.step()
    row = LedgerRow.objects.filter(relay=other.pk).first()
    assert row is not None
    _, (said,) = asked([["recall", {"kind": "ledger", "ref": row.pk}]])
    assert said[0]["outcome"] == "continue_with_pointer" and "not known here" in said[0]["evidence"]
    assert "record" not in said[0]


def test_what_leans_on_a_weak_assumption_is_asked_and_a_row_that_does_is_not_written(asked: Callable[..., Any]) -> None:
    relay, (said,) = asked(
        [
            {"do": "commit", "path": "a.txt", "text": "a\n"},
            ["assume", {"key": "guess", "statement": "It is fast.", "source": "inferred", "confidence": 0.79}],
            ["assume", {"key": "old", "statement": "It was fast.", "source": "stale"}],
            ["ledger_append", {"refs": ["commit:$SHA"], "assumes": ["guess"]}],
            ["fact", {"label": "fast", "backing": "commit:$SHA", "assumes": ["never said"]}],
            ["remember", {"slug": "s", "text": "t", "class": "durable", "evidence": "commit:$SHA", "assumes": ["old"]}],
            ["next_action", {"text": "Go on."}],
            ["externalized", {}],
        ]
    )
    guess, old, row, fact, remember = said[:5]
    assert (guess["action"], old["action"]) == ("query", "refresh")
    assert row["row"] is None and row["asked"] == fact["asked"] == remember["asked"] == "LOW_CONFIDENCE_ASSUMPTION"
    assert remember["outcome"] == "refused" and not (relay.worktree / ".relay/memory/s.md").exists()
    assert not LedgerRow.objects.filter(by="agent").exists()
    assert relay.waiting == ["LOW_CONFIDENCE_ASSUMPTION"] and len(relay.gates[0].items) == 3


def test_a_question_is_debited_and_refused_where_the_budget_is_spent(asked: Callable[..., Any]) -> None:
    relay, (said,) = asked(
        [["ask", {"question": "Which port?"}], ["ask", {"question": "Which host?"}]], sets=["envelope.queries=1"]
    )
    assert said[0]["pointer"] == f"ledger:{relay.pk}.0.t0" and said[1]["asked"] == "BUDGET_EXHAUSTED"
    assert relay.relay.queries_used == 1


def test_closed_arguments_and_unknown_verbs_are_refused_by_name(asked: Callable[..., Any]) -> None:
    calls = [
        ["fact", {"label": "x", "claimed": True}],
        ["fact", {"label": ""}],
        ["recall", {"kind": "file"}],
        ["assume", {"key": "k", "statement": "s", "source": "certain"}],
        ["next_action", {"text": "two\nlines"}],
        ["remember", {"slug": "a/b", "text": "t", "class": "durable"}],
        ["forget", {"slug": "a"}],
    ]
    _, (said,) = asked(calls)
    for call, one, name in zip(
        calls, said, ["claimed", "label", "ref", "source", "next_action", "memory ref", "verb"], strict=False
    ):
        assert name in one["refused"], (call, one)


def test_an_agent_that_asks_where_it_stands_before_it_says_anything_runs(asked: Callable[..., Any]) -> None:
    relay, (said,) = asked([{"do": "quiet"}, ["orient", {}], {"do": "turn"}, *NEXT])
    assert said[0]["relay"] == relay.pk and said[0]["window"]["turns"] == 0
    assert relay.legs[0].turns == 1 and relay.baton.next_action == "Go on."

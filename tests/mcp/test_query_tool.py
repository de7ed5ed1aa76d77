"""The agents' query tool as agents meet it: the official MCP client over stdio drives every verb against its own leg.

Interface, For agents: "A fresh leg has the baton and this query tool, nothing else"; "Leg-scoped token; nothing else is
reachable with it."
"""

from collections.abc import Callable
from typing import Any

import pytest

from relays.core.querytool import VERBS
from relays.models import Event, Fact, PageFault, Promotion, ToolUse

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

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

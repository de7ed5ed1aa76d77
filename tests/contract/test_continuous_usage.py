"""The continuous-usage contract, sentence by sentence, on a relay that really ran: each test has its sentence's name.

Mission, continuous-usage.txt: "The Contract" and "What The User No Longer Manages".
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from relays.core import baton as batons
from relays.core import reset
from relays.core.baton import Baton
from tests.builders import git, make_repo
from tests.reading import marked

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
LEGS = 4


@dataclass
class Seen:
    """What is left of one relay of four legs, read once."""

    repo: Path
    relay: dict[str, Any] = field(default_factory=dict)
    legs: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    resets: list[dict[str, Any]] = field(default_factory=list)
    events: dict[int, list[tuple[int, str, dict[str, Any]]]] = field(default_factory=dict)  # by leg
    faults: list[dict[str, Any]] = field(default_factory=list)
    facts: list[dict[str, Any]] = field(default_factory=list)
    promotions: dict[str, str] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)  # notes of the ledger rows that agents wrote
    gates: list[tuple[str, str, str]] = field(default_factory=list)  # token, state, blocks
    left: list[dict[str, Any]] = field(default_factory=list)  # of the envelope, after each leg
    pages: dict[str, str] = field(default_factory=dict)
    memories: list[str] = field(default_factory=list)  # files under the memory root at the branch's tip

    @property
    def batons(self) -> list[Baton]:
        read = [batons.read(text).baton for text in self.texts]
        return [baton for baton in read if baton is not None]


@pytest.fixture(scope="module")
def seen(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("contract")
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        from django.conf import settings
        from django.core.management import call_command

        from relays.driver import spawn
        from tests.tamper import unguarded

        patch.setattr(settings, "RELAY_VAR", folder / "var")
        patch.setattr("relaysite.celery.app.send_task", lambda *_, **__: None)
        patch.setattr(spawn, "supervisor", lambda relay_id, leg_pk: True)
        found = Seen(make_repo(folder / "repo", issues=3))
        try:
            _run(found)
        finally:
            with unguarded():
                call_command("flush", interactive=False, verbosity=0)
    yield found


def _run(seen: Seen) -> None:
    from django.test import Client

    from relays import models
    from relays.core import budget
    from relays.driver import budgets
    from tests.contract.story import EVERY_RECORD, FIRST, REST
    from tests.driver.course import Course, player, reviewer, start_relay

    leans = {"kind": "ledger", "refs": ["file:a.txt"], "note": "leans on what was read", "assumes": ["os"]}
    told = {"kind": "fact", "label": "The port is 8080", "class": "bounded", "backing": "file:a.txt"}
    script = {"0": [*FIRST[:-2], leans, told, *FIRST[-2:]], "*": REST}
    course = Course(start_relay(seen.repo, **{**EVERY_RECORD, **player(script)}).pk)
    for _ in range(LEGS):
        course.step()
        axes = budget.left(budgets.policy_of(course.relay).envelope, course.relay.spent)
        seen.left.append({axis.axis: axis.left for axis in axes})
    mine = {"leg__relay": course.pk}
    seen.relay = models.Relay.objects.filter(pk=course.pk).values()[0]
    seen.legs = list(models.Leg.objects.filter(state="ended").order_by("number").values())
    seen.texts = list(models.Baton.objects.order_by("leg__number").values_list("text", flat=True))
    seen.resets = list(models.ResetTransaction.objects.order_by("new_leg__number").values())
    for number, *event in models.Event.objects.order_by("pk").values_list("leg__number", "seq", "kind", "payload"):
        seen.events.setdefault(number, []).append(tuple(event))
    seen.faults = list(models.PageFault.objects.filter(**mine).order_by("pk").values())
    seen.facts = list(models.Fact.objects.filter(**mine).order_by("pk").values())
    seen.promotions = dict(models.Promotion.objects.filter(**mine).values_list("slug", "outcome"))
    seen.rows = list(models.LedgerRow.objects.filter(by="agent").values_list("note", flat=True))
    seen.gates = list(models.GateEpisode.objects.values_list("token", "state", "blocks"))
    seen.memories = git(seen.repo, "ls-tree", "-r", "--name-only", course.relay.branch, ".relay/memory/").split()
    client = Client()
    client.force_login(reviewer().user)
    for kind in ("objective", "view", "resets", "assumptions", "memory", "budget"):
        page = marked(client.get(f"/relays/{course.pk}/?tab=evidence&of={kind}"))
        seen.pages[kind] = page.partition('id="records"')[2].partition("</section>")[0]


def turn_digests(events: list[tuple[int, str, dict[str, Any]]]) -> list[str]:
    """The sha256 of each turn of a leg, from its events as they are stored now."""
    digests, hasher, turns = [], hashlib.sha256(), 0
    for seq, kind, payload in events:
        if kind == "turn_started":
            turns += 1
            if turns > 1:
                digests.append(hasher.hexdigest())
                hasher = hashlib.sha256()
        hasher.update(f"{seq}\0{kind}\0{json.dumps(payload, sort_keys=True)}\0".encode())
    return [*digests, hasher.hexdigest()]


# ---- The Contract ---------------------------------------------------------------------------------------------------


def test_the_objective_stays_stable(seen: Seen) -> None:
    """ "carried across replans, resets, and session migrations by identity and digest"."""
    pins = {json.dumps(json.loads(text)["objective"], sort_keys=True) for text in seen.texts}
    assert len(seen.batons) == LEGS
    assert len(pins) == 1
    own = hashlib.sha256(f"{seen.relay['pin_id']}\0{seen.relay['objective']}".encode()).hexdigest()
    assert {baton.objective.digest for baton in seen.batons} == {own}
    assert len(re.findall(r"</svg>preserved</(?:a|span)>", seen.pages["objective"])) == LEGS - 1


def test_the_full_history_remains_recoverable(seen: Seen) -> None:
    """ "A span that leaves the current view is cold, not forgotten": every turn is there, and proves to be the same."""
    assert len(seen.resets) == LEGS
    for record in seen.resets[: LEGS - 1]:
        number = next(leg["number"] for leg in seen.legs if leg["id"] == record["old_leg_id"])
        assert [span["digest"] for span in record["omitted"]] == turn_digests(seen.events[number])
    for leg in seen.legs:
        joined = "".join(turn_digests(seen.events[leg["number"]]))
        assert leg["turns_digest"] == hashlib.sha256(joined.encode()).hexdigest()
    served = [fault for fault in seen.faults if fault["required"]]
    assert {fault["outcome"] for fault in served} == {"page_in"}
    assert {fault["outcome"] for fault in seen.faults} == {"page_in", "continue_with_pointer"}


def test_a_reset_carries_witnessed_evidence(seen: Seen) -> None:
    """ "the old trace, new trace, carryover seed digest, budget rearm, contributors, and omitted-span digests"."""
    traces = [leg["trace"] for leg in seen.legs]
    for record, baton, text in zip(seen.resets, seen.batons, seen.texts, strict=True):
        number = traces.index(record["old_trace"])
        assert record["new_trace"] not in traces[: number + 1]
        seed = reset.seed(reset.PREAMBLE, baton.objective, text.encode())
        assert record["seed_digest"] == seed.digest
        assert record["contributors"] == [part.as_mapping() for part in seed.contributors]
        assert all(span["reason"] and len(span["digest"]) == 64 for span in record["omitted"])
        assert sum(span["count"] for span in record["omitted"]) == seen.legs[number]["turns"]
        assert set(record["rearm"]) == {"turns", "output_tokens", "queries", "spend", "wall", "legs"}
        assert record["seed_digest"][:8] in seen.pages["resets"]


def test_budgets_do_not_reset_accidentally(seen: Seen) -> None:
    """ "Resetting the context trace does not mint a fresh runway or erase a spent one"."""
    for axis in ("turns", "output_tokens", "wall", "queries"):
        over = [left[axis] for left in seen.left]
        assert over == sorted(over, reverse=True), axis
    assert [left["turns"] for left in seen.left] == [48, 47, 46, 45]
    handed = [record["rearm"]["turns"]["left"] for record in seen.resets]
    assert handed == [48, 47, 46, 45]
    assert seen.left[-1]["wall"] < timedelta(hours=2)


def test_assumptions_are_scored_before_use(seen: Seen) -> None:
    """ "only after the assumption's source and confidence clear policy"."""
    assert seen.rows == ["leans on what was read"]
    for word in ("use", "query", "refresh"):
        assert re.search(rf"</svg>{word}</(?:a|span)>", seen.pages["assumptions"])


def test_memory_promotion_is_separate_from_context_survival(seen: Seen) -> None:
    """ "A fact can stay useful in current context without becoming durable memory"."""
    assert seen.promotions == {
        "earned": "promoted", "passing": "refused", "unclassified": "expired", "bare": "ambiguous",
    }  # fmt: skip
    fact = next(one for one in seen.facts if one["label"] == "The port is 8080")
    assert (fact["verdict"], fact["backing"]) == ("verified", "file:a.txt")
    assert not [name for name in seen.memories if "port" in name or "bare" in name or "passing" in name]


def test_relay_mode_is_pointer_or_nothing(seen: Seen) -> None:
    """ "A relay leg may carry forward durable pointers, not a transcript summary"."""
    for baton, text in zip(seen.batons, seen.texts, strict=True):
        assert batons.canonical(baton) == text.encode()
        assert len(text) < 16_384
        for said in ("is so", "The port is 8080", "scripted-player", "turn_started"):
            assert said not in text
    kinds = [[part["kind"] for part in record["contributors"]] for record in seen.resets]
    assert kinds == [["preamble", "objective_pin", "baton"]] * LEGS


# ---- What The User No Longer Manages --------------------------------------------------------------------------------


def test_choose_the_bounded_resident_view_for_the_next_turn(seen: Seen) -> None:
    assert all(0 < leg["peak_tokens"] <= leg["ceiling_tokens"] for leg in seen.legs)
    assert max(leg["peak_tokens"] for leg in seen.legs[1:]) <= seen.legs[0]["peak_tokens"], "no leg begins with more"
    for part in ("preamble", "objective_pin", "baton"):
        assert f"seed: {part}" in seen.pages["view"]


def test_keep_dropped_spans_recoverable_by_digest(seen: Seen) -> None:
    for record in seen.resets[: LEGS - 1]:
        for span in record["omitted"]:
            assert span["digest"][:8] in seen.pages["view"]
            assert f"{record['old_trace']}/{span['index']}" in seen.pages["view"]


def test_carry_the_pinned_objective_and_remaining_budget_through_hidden_resets(seen: Seen) -> None:
    for record, baton, left in zip(seen.resets, seen.batons, seen.left, strict=True):
        assert baton.objective.digest == seen.relay["objective_digest"]
        assert (record["rearm"]["turns"]["left"], record["rearm"]["turns"]["limit"]) == (left["turns"], 50)


def test_show_the_reset_transaction_when_continuity_depends_on_it(seen: Seen) -> None:
    for record in seen.resets:
        assert f'data-copy="{record["old_trace"]}"' in seen.pages["resets"]
        assert f'data-copy="{record["new_trace"]}"' in seen.pages["resets"]
    assert "turns 45" in seen.pages["resets"]


def test_query_or_refresh_assumptions_before_using_weak_evidence(seen: Seen) -> None:
    for key in ("port", "moon", "host"):
        assert f"{key} is so" in seen.pages["assumptions"]
    assert seen.rows == ["leans on what was read"]


def test_keep_context_only_facts_out_of_durable_memory_unless_promotion_is_justified(seen: Seen) -> None:
    assert [slug for slug, outcome in seen.promotions.items() if outcome == "promoted"] == ["earned"]
    for slug in ("passing", "unclassified", "bare"):
        assert slug in seen.pages["memory"]
    asked = [(token, blocks) for token, _, blocks in seen.gates]
    assert asked == [("AMBIGUOUS_MEMORY_PROMOTION", "promotion to memory")], "it is asked, and no leg waits for it"

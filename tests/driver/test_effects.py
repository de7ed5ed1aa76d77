"""rules.md: "An effectful step (a fact, decision, ledger row or memory that cites it …) needs all `use`, else the ask
opens"; "Promotion to memory: `bounded`/`durable` need a resolving evidence pointer or explicit consent; else
`ambiguous` (ask) or `refused`; unclassified expires. All outcomes are kept, so that they can be counted"."""

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from relays.driver import effects
from relays.models import Assumption, GateEpisode, LedgerRow, Leg, LegState, Promotion, RelayStatus
from relays.reports import status
from tests.actions.acts import approve, refuse
from tests.driver.course import Course, Step, boundary, commit, player, reviewer, turn
from tests.web_builders import make_gate, make_leg, make_relay

Start = Callable[..., Course]
END = boundary("Go on.", final=True)


def assumes(key: str, source: str, **more: Any) -> Step:
    return {"kind": "assumption", "key": key, "statement": f"{key} holds", "source": source, **more}


def promotes(slug: str, **more: Any) -> Step:
    return {"kind": "promotion", "slug": slug, **more}


def outcomes(relay: Course) -> dict[str, str]:
    return dict(Promotion.objects.filter(leg__relay=relay.pk).values_list("slug", "outcome"))


def test_what_leans_on_a_weak_assumption_asks_and_a_row_that_does_is_not_written(course: Start) -> None:
    script = [
        *commit("a.txt"),
        *turn(),
        assumes("os", "witnessed"),
        assumes("port", "inferred", confidence=0.5),
        assumes("host", "stale"),
        {"kind": "ledger", "refs": ["file:a.txt"], "note": "sure", "assumes": ["os"]},
        {"kind": "ledger", "refs": ["file:README.md"], "note": "not sure", "assumes": ["os", "port"]},
        {"kind": "decision", "label": "Use it", "pointer": "file:a.txt", "assumes": ["host", "never said"]},
        *END,
    ]
    relay = course(**player(script), done="file:goal.txt")
    relay.step()
    assert [row.note for row in LedgerRow.objects.filter(relay=relay.pk, by="agent")] == ["sure"]
    (gate,) = relay.gates
    assert (gate.token, gate.blocks) == ("LOW_CONFIDENCE_ASSUMPTION", "next leg")
    assert gate.items == [
        "ledger 'not sure' leans on 'port': query, confidence 0.5 is below 0.8 (inferred)",
        "decision 'Use it' leans on 'host': refresh, stale: read it again",
        "decision 'Use it' leans on 'never said': query, not recorded as an assumption",
    ]
    assert relay.legs[0].reason == "RELAY_ROTATED" and relay.relay.status == RelayStatus.PARKED
    assert status.status(relay.pk)["readout"]["assumptions"] == "use=1 query=1 refresh=1"


@pytest.mark.slow
def test_a_promotion_is_judged_by_its_evidence_when_the_leg_ends_and_ambiguous_ones_are_asked(course: Start) -> None:
    memory = {"do": "write", "path": ".relay/memory/earned.md", "text": "Earned.\n"}
    script = [
        memory,
        *commit("a.txt"),
        *turn(),
        promotes("earned", **{"class": "durable", "evidence": "file:a.txt"}),
        promotes("gone", **{"class": "durable", "evidence": "file:no/such"}),
        promotes("unreadable", **{"class": "bounded", "evidence": "because"}),
        promotes("bare", **{"class": "durable", "consent": True}),
        promotes("passing", **{"class": "turn", "evidence": "file:a.txt"}),
        promotes("whatever"),
        assumes("port", "unknown"),
        promotes("leaning", **{"class": "durable", "evidence": "file:a.txt", "assumes": ["port"]}),
        *END,
    ]
    relay = course(**player({"0": script, "*": [*turn(), *END]}), done="file:goal.txt")
    relay.step()
    assert outcomes(relay) == {
        "earned": "promoted",
        "gone": "refused",
        "unreadable": "refused",
        "bare": "ambiguous",
        "passing": "refused",
        "whatever": "expired",
        "leaning": "refused",
    }
    assert "memory:earned" in [f"{one.kind}:{one.ref}" for one in relay.baton.artifacts]
    asked = {gate.token: (gate.items, gate.blocks) for gate in relay.gates}
    assert asked["AMBIGUOUS_MEMORY_PROMOTION"] == (["memory:bare"], "promotion to memory")
    assert status.status(relay.pk)["readout"]["memory"] == "promoted=1 refused_or_expired=5 ambiguous=1"


@pytest.mark.django_db
@pytest.mark.parametrize(("act", "outcome"), [(approve, "promoted"), (refuse, "refused")])
def test_a_persons_word_settles_what_was_asked_and_nothing_else(act: Callable[..., Any], outcome: str) -> None:
    relay = make_relay(status=RelayStatus.RUNNING)
    leg = make_leg(relay)
    for seq, (slug, was) in enumerate([("asked", "ambiguous"), ("not-asked", "ambiguous"), ("settled", "expired")]):
        Promotion.objects.create(leg=leg, seq=seq, slug=slug, outcome=was, at=timezone.now())
    items = ["memory:asked", "memory:settled", "May I?"]
    gate = make_gate(relay, "AMBIGUOUS_MEMORY_PROMOTION", items=items, blocks=effects.REMEMBERING)
    act(reviewer(), gate)
    found = dict(Promotion.objects.values_list("slug", "outcome"))
    assert found == {"asked": outcome, "not-asked": "ambiguous", "settled": "expired"}
    relay.refresh_from_db()
    assert relay.status == RelayStatus.RUNNING


@pytest.mark.django_db
def test_an_effect_that_cites_nothing_leans_on_nothing() -> None:
    leg = make_leg(make_relay(), state=LegState.RUNNING)
    weak = {"statement": "s", "source": "unknown", "action": "query", "at": timezone.now()}
    Assumption.objects.create(leg=leg, key="port", **weak)
    assert effects.admitted(leg, "fact", {"label": "it"}, timezone.now())
    assert not effects.admitted(leg, "fact", {"label": "it", "assumes": ["port"]}, timezone.now())
    assert not effects.admitted(leg, "fact", {"label": "it", "assumes": ["port"]}, timezone.now())
    assert GateEpisode.objects.get().items == ["fact 'it' leans on 'port': query, its source is unknown"], (
        "said again, it is asked once"
    )
    other = make_leg(make_relay(), state=LegState.RUNNING)
    assert not effects.admitted(other, "fact", {"label": "it", "assumes": ["port"]}, timezone.now()), "another leg's"


@pytest.mark.django_db
def test_evidence_that_nobody_answers_for_stays_open() -> None:
    leg = make_leg(make_relay(), state=LegState.RUNNING)
    Promotion.objects.create(leg=leg, seq=1, slug="a", outcome="ambiguous", at=timezone.now())
    leg.events.create(seq=1, kind="promotion", payload={"class": "durable", "evidence": "file:a"}, at=timezone.now())
    assert set(effects.judge_promotions(leg, None).values()) == {"ambiguous"}
    assert Leg.objects.get(pk=leg.pk).promotions.get().outcome == "ambiguous"

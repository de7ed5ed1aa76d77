"""baton.md, Bounds, over the other batons of a relay: "the baton points at that row", also legs, rebuilds and decisions
later; and a driver's row is one, whoever retries."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from relays.core import baton as batons
from relays.core.baton import Artifact, Cursor, TombstoneRecord
from relays.core.objective import make_pin
from relays.core.pointers import Kind
from relays.core.reload import pointers_of
from relays.driver import adopt, baton_maker, budgets, rebaton
from relays.models import Baton, LedgerRow, Leg, Relay
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db

SHA = "a" * 40
BOUNDS = batons.Bounds()


@pytest.fixture
def relay() -> Relay:
    pin = make_pin("pin-1", "Work through every part of it.")
    return make_relay(pin_id=pin.pin_id, objective=pin.text, objective_digest=pin.digest)


@pytest.fixture
def leg(relay: Relay) -> Leg:
    return make_leg(relay, 0, reason="RELAY_ROTATED")


def plain(relay: Relay, **changes: object) -> batons.Baton:
    baton = batons.Baton(
        relay_id=relay.pk, leg=0, parent_trace="tr-0", objective=relay.pin, done_when=relay.done_when,
        cursor=Cursor(start_sha=SHA, held_region=tuple(relay.region)), next_action="Go on.", open_questions=(),
        artifacts=(), do_not_rederive=(), tombstone=TombstoneRecord("RELAY_ROTATED", SHA),
    )  # fmt: skip
    return replace(baton, **changes)  # type: ignore[arg-type]


def issues(first: int, count: int) -> tuple[Artifact, ...]:
    return tuple(Artifact(Kind.ISSUE, f"#{number}") for number in range(first, first + count))


def overflow(relay: Relay, leg: Leg) -> tuple[batons.Baton, LedgerRow]:
    """A baton that holds more than it may, fitted and made the current one; and the row of what moved."""
    baton = rebaton.fit(relay, leg, plain(relay, artifacts=issues(1, 140)), BOUNDS, timezone.now())
    rebaton.store(relay, leg, baton, "rotation", timezone.now())
    return baton, LedgerRow.objects.get(relay=relay, by="driver")


def test_what_has_no_room_stands_in_a_row_that_the_baton_points_at(relay: Relay, leg: Leg) -> None:
    baton, row = overflow(relay, leg)
    assert row.refs == [f"issue:#{number}" for number in range(1, 14)]
    assert baton.artifacts == (Artifact(Kind.LEDGER, row.pk), *issues(14, 127))
    batons.check_new(baton)


def test_rows_make_a_chain_from_the_newest_to_the_first(relay: Relay, leg: Leg) -> None:
    _, first = overflow(relay, leg)
    later = make_leg(relay, 1, reason="RELAY_ROTATED")
    # the clock was set back: the newest row is still the one that was written last
    earlier = timezone.now() - timedelta(days=3)
    baton = rebaton.fit(relay, later, plain(relay, artifacts=issues(500, 130)), BOUNDS, earlier)
    second = LedgerRow.objects.get(relay=relay, leg=later)
    assert second.refs[0] == f"ledger:{first.pk}" and first.pk not in [one.ref for one in baton.artifacts]
    again = rebaton.fit(relay, later, plain(relay), BOUNDS, earlier)
    assert again.artifacts == (Artifact(Kind.LEDGER, second.pk),), "though nothing moves any more"


def test_a_leg_that_made_more_than_one_row_lists_gets_several_in_one_chain(relay: Relay, leg: Leg) -> None:
    baton = rebaton.fit(relay, leg, plain(relay, artifacts=issues(1, 1000)), BOUNDS, timezone.now())
    batons.check_new(baton)
    rows = {row.pk: row.refs for row in LedgerRow.objects.filter(relay=relay)}
    assert len(rows) == 3 and all(len(refs) <= rebaton.LISTED + 1 for refs in rows.values())
    listed: list[str] = []
    walked = baton.artifacts[0].ref
    while walked:
        before, refs = [], list(rows.pop(walked))
        if refs[0].startswith("ledger:"):
            before = [refs.pop(0).removeprefix("ledger:")]
        listed, walked = [*refs, *listed], before[0] if before else ""
    assert rows == {} and listed == [f"issue:#{number}" for number in range(1, 1000 - 127 + 1)]


def test_a_row_of_moved_entries_is_taken_up_whole_on_another_host(relay: Relay, leg: Leg) -> None:
    """What travels under `refs/relay/ledger` reads back: an entry keeps its label, and the chain its order."""
    dead_ends = tuple(f"memory:tried-{number} it deadlocks, a < b" for number in range(140))
    rebaton.fit(relay, leg, plain(relay, do_not_rederive=dead_ends, artifacts=issues(1, 130)), BOUNDS, timezone.now())
    row = LedgerRow.objects.get(relay=relay)
    assert any(" it deadlocks" in ref for ref in row.refs)
    travelled = {"id": row.pk, "refs": row.refs, "note": row.note, "by": row.by, "at": row.at.isoformat()}
    read = adopt._ledger_row(relay, travelled, {0: leg.pk}, timezone.now())
    assert read is not None and (read.pk, read.refs, read.note) == (row.pk, row.refs, row.note)
    forged = {**travelled, "by": "agent"}
    assert adopt._ledger_row(relay, forged, {0: leg.pk}, timezone.now()) is None, "an agent's row holds pointers alone"


def test_ten_rows_and_more_are_told_apart_by_their_number(relay: Relay, leg: Leg) -> None:
    for number in range(12):
        rebaton.driver_row(relay, leg, [f"issue:#{number + 1}"], "overflow: 1 older entries", timezone.now())
    assert rebaton.overflow_row(relay, leg) == Artifact(Kind.LEDGER, f"{relay.pk}.0.d11")


def test_the_newest_row_is_found_where_the_current_baton_points_and_the_ledger_is_not_searched(
    relay: Relay, leg: Leg
) -> None:
    """baton.md, Bounds ("this is what makes it O(1)"): closing a leg costs the same after 10,000 legs."""
    _, row = overflow(relay, leg)
    strays = [make_leg(relay, number, reason="RELAY_ROTATED") for number in (1, 2)]
    LedgerRow.objects.bulk_create(
        LedgerRow(
            id=f"{relay.pk}.{one.number}.d{900 + number}", relay=relay, leg=one, refs=["issue:#1"],
            note="overflow: 1 older entries of the baton", by="driver", at=timezone.now(),
        )
        for one in strays
        for number in range(20)
    )  # fmt: skip
    closing = make_leg(relay, 3)
    with CaptureQueriesContext(connection) as asked:
        assert rebaton.overflow_row(relay, closing) == Artifact(Kind.LEDGER, row.pk)
    assert len(asked) == 3, "the current baton, the leg's own rows, the rows that the baton names"
    assert all("relay_id" not in one["sql"].partition("WHERE")[2] for one in asked if "relays_ledgerrow" in one["sql"])
    made = rebaton.driver_row(relay, closing, ["issue:#2"], "overflow: 1 older entries of the baton", timezone.now())
    assert made.pk == f"{relay.pk}.3.d1", "one more than the row that it will point at"


def test_the_newest_row_of_the_ledger_is_that_of_the_baton_before_or_of_a_leg_since(relay: Relay, leg: Leg) -> None:
    """baton.md, Shape: `ledger_ref`; it stands still where nobody wrote a row."""

    def row(pk: str, one: Leg | None, minutes: int) -> str:
        at = timezone.now() + timedelta(minutes=minutes)
        LedgerRow.objects.create(id=f"{relay.pk}.{pk}", relay=relay, leg=one, refs=["issue:#1"], by="person", at=at)
        return f"{relay.pk}.{pk}"

    def last(previous: batons.Baton | None) -> str:
        return baton_maker._last_row(relay, previous)

    assert last(None) == ""
    decided = row("r.p1", None, 0)
    assert last(None) == decided, "of a decision before any leg had ended"
    before = replace(plain(relay), leg=4, cursor=Cursor(start_sha=SHA, ledger_ref=decided))
    assert last(before) == decided
    closed, running = make_leg(relay, 4, reason="RELAY_ROTATED"), make_leg(relay, 5)
    late = row("4.c1", closed, 2)
    assert last(before) == late, "written to the closed leg after its baton"
    own = row("5.e3", running, 3)
    assert last(before) == own
    assert last(replace(before, leg=6)) == decided


def test_the_same_content_of_the_same_leg_is_one_row(relay: Relay, leg: Leg) -> None:
    now = timezone.now()
    one = rebaton.driver_row(relay, leg, ["issue:#1"], "overflow: 1", now)
    other = rebaton.driver_row(relay, leg, ["issue:#2"], "overflow: 1", now)
    assert rebaton.driver_row(relay, leg, ["issue:#1"], "overflow: 1", now + timedelta(hours=1)) == one
    assert rebaton.driver_row(relay, leg, ["issue:#2"], "overflow: 1", now) == other != one
    assert LedgerRow.objects.count() == 2


def test_a_rebuilt_baton_goes_on_pointing_at_it(relay: Relay, leg: Leg) -> None:
    baton, row = overflow(relay, leg)
    current = Baton.objects.get(relay=relay, current=True)
    verified = frozenset(at.path for at in pointers_of(baton)[2:6])
    fresh = rebaton.after_stale(relay, current, cursor=SHA, verified_paths=verified, now=timezone.now())
    read = rebaton.read(fresh)
    assert read.artifacts[0] == Artifact(Kind.LEDGER, row.pk) and len(read.artifacts) == len(verified)
    none = rebaton.after_stale(relay, fresh, cursor=SHA, verified_paths=frozenset(), now=timezone.now())
    assert rebaton.read(none).artifacts == (Artifact(Kind.LEDGER, row.pk),), "ours, whatever else is gone"


def test_a_decision_on_a_full_baton_moves_the_oldest_and_stands_in_it(relay: Relay, leg: Leg) -> None:
    rebaton.store(relay, leg, plain(relay, artifacts=issues(1, 128)), "rotation", timezone.now())
    current = Baton.objects.get(relay=relay, current=True)
    mirrors = [rebaton.Mirror(7, {"next_action": "Close #9."})]
    row = rebaton.after_decision(
        relay, current, mirrors=mirrors, next_action="Close #9.", answers={}, now=timezone.now()
    )
    read = rebaton.read(row)
    batons.check_new(read)
    assert read.artifacts[-1] == Artifact(Kind.LEDGER, f"{relay.pk}.0.p7")
    moved = LedgerRow.objects.get(relay=relay, by="driver")
    assert read.artifacts[0].ref == moved.pk and moved.refs == ["issue:#1", "issue:#2"]


def test_encoding_an_accepted_baton_checks_no_bounds(relay: Relay, leg: Leg) -> None:
    """ "Bounds are the maker's duty for a NEW baton; encoding an accepted one checks none." """
    large = plain(relay, artifacts=issues(1, 900))
    accepted = batons.read(batons.canonical(large)).baton
    assert accepted == large, "the reader takes eight times as much"
    row = rebaton.store(relay, leg, large, "rotation", timezone.now())
    assert rebaton.read(row) == large and row.digest == batons.digest(large)
    # what is made from it is new, and within its bounds
    fresh = rebaton.after_stale(
        relay, row, cursor=SHA, verified_paths=frozenset(f"artifacts[{n}].ref" for n in range(900)), now=timezone.now()
    )
    batons.check_new(rebaton.read(fresh), budgets.policy_of(relay).baton)
    rows = LedgerRow.objects.filter(relay=relay, by="driver").values_list("refs", flat=True)
    moved = [ref for refs in rows for ref in refs if not ref.startswith("ledger:")]
    assert len(moved) + len(rebaton.read(fresh).artifacts) - 1 == 900

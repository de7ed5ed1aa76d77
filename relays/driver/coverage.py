"""How much of what a leg durably made its successor reaches from the baton: judged at the reload, beside fidelity."""

from collections.abc import Mapping

from django.db import transaction

from relays.core import coverage
from relays.core.coverage import Coverage
from relays.core.pointers import Kind, Pointer, PointerError, Verdict, parse_pointer
from relays.core.reload import pointers_of
from relays.driver import rebaton
from relays.driver.claim import Claim
from relays.driver.reload import Reloaded
from relays.models import Baton, Fact, LedgerRow, Leg, Promotion
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores


def keep(row: Baton, reloaded: Reloaded, claim: Claim, beside: Mapping[str, int] | None = None) -> None:
    """Judge the leg that wrote this baton and keep the two numbers beside it; nothing where a store did not answer.

    `beside`: columns of that leg that are kept with them either way. Raises LostClaim.
    """
    columns = dict(beside or {})
    try:
        found = judge(row, reloaded)
    except StoreUnavailable:
        found = None
    if found is not None:
        columns |= {"coverage_made": found.made, "coverage_reached": found.reached}
    if not columns:
        return
    with transaction.atomic():
        claim.hold()
        Leg.objects.filter(pk=row.leg_id).update(**columns)


def judge(row: Baton, reloaded: Reloaded) -> Coverage | None:
    """None = not yet: what the leg made was never counted, or something that is missing was not answered for.

    Raises StoreUnavailable.
    """
    leg, stores = row.leg, reloaded.stores
    if leg.progress is None or stores is None or reloaded.ladder.outcome == "invalid":
        return None
    baton = rebaton.read(row)
    verdicts = {check.path: check.verdict for check in reloaded.ladder.checks if check.pointer}
    places = pointers_of(baton)
    pointed = {at.pointer for at in places if at.pointer is not None and verdicts.get(at.path) == Verdict.VERIFIED}
    made = _made(leg)
    start = baton.cursor.start_sha if verdicts.get("progress_cursor.start_sha") == Verdict.VERIFIED else ""
    rows = dict(LedgerRow.objects.filter(leg=leg).values_list("id", "refs"))
    found = coverage.judge(made, pointed=pointed, below=_below(stores, made, start), rows=rows)
    if found.missing and Verdict.UNKNOWN in verdicts.values():
        return None
    return found


def _below(stores: Stores, made: list[Pointer], start: str) -> frozenset[str]:
    """Those of the leg's commits that the cursor reaches; none from a cursor that is not on the branch itself."""
    shas = [pointer.ref for pointer in made if pointer.kind is Kind.COMMIT]
    if not start or not shas:
        return frozenset()
    answers = stores.git.resolve_commits(shas, start)
    return frozenset(sha for sha in shas if answers[sha].verdict is Verdict.VERIFIED)


def _made(leg: Leg) -> list[Pointer]:
    """What the leg durably made: its commits, whether they count or not, closed issues, ledger rows and memories."""
    detail = leg.progress_detail
    made = [Pointer(Kind.COMMIT, str(sha)) for sha in detail.get("made", [])]
    made += [parse_pointer(str(issue)) for issue in detail.get("issues", [])]
    rows = LedgerRow.objects.filter(leg=leg, by="agent").order_by("at", "id").values_list("id", flat=True)
    made += [Pointer(Kind.LEDGER, row) for row in rows]
    slugs = Promotion.objects.filter(leg=leg, outcome="promoted").values_list("slug", flat=True)
    named = [f"{Kind.MEMORY}:{slug}" for slug in slugs]
    # a memory that the leg declared and that was there when it ended
    named += Fact.objects.filter(
        leg=leg, kind=Fact.Kind.ARTIFACT, verdict=Verdict.VERIFIED, backing__startswith=f"{Kind.MEMORY}:"
    ).values_list("backing", flat=True)
    for text in named:
        try:
            made.append(parse_pointer(text))
        except PointerError:
            continue  # a slug that no store could hold was never made
    return made

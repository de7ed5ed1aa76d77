"""Clean: an operator removes what ended relays left behind, where nothing is lost by it."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from relays.actions.base import Actor, check_comment, need, record
from relays.driver import cleaning
from relays.driver.changes import RELAYS, bump
from relays.driver.cleaning import Left

NAMED = 200  # things that the decision names


@dataclass(frozen=True, slots=True)
class Cleaned:
    """`removed`: what is gone, or with a dry run what would go. `kept`: what stays, each with why."""

    removed: tuple[str, ...]
    kept: tuple[tuple[str, str], ...]


def clean(actor: Actor, *, dry_run: bool = False, comment: str = "") -> Cleaned:
    """Look at everything that was left behind, record what goes, then remove it. A dry run changes nothing."""
    need(actor, "operate", "clean")
    check_comment("clean", comment)
    moment = timezone.now()
    found = list(cleaning.look(moment))
    goes = [one for one in found if not one.why]
    kept = [(one.path, one.why) for one in found if one.why]
    if dry_run or not goes:
        return Cleaned(tuple(one.path for one in goes), tuple(kept))
    with transaction.atomic():
        record(actor, "clean", now=moment, comment=comment, detail=_detail(goes))
        bump(RELAYS)
    removed = []
    for one in goes:
        if why := cleaning.carry_out(one):
            kept.append((one.path, why))
        else:
            removed.append(one.path)
    return Cleaned(tuple(removed), tuple(kept))


def _detail(goes: Sequence[Left]) -> dict[str, object]:
    return {"remove": [one.path for one in goes[:NAMED]], "more": max(0, len(goes) - NAMED)}

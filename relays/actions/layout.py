"""A person chooses how pages are laid out for them: kept as a preference, and no decision about any relay."""

from collections.abc import Sequence

from relays.actions.base import Actor, Usage, need
from relays.models import Layout
from relays.reports import layout as report
from relays.reports.relay import TABS


def choose(
    actor: Actor, *, density: str | None = None, first_tab: str | None = None, closed: Sequence[str] | None = None
) -> report.Chosen:
    """Keep what is given, leave the rest as it is. Raises Usage for a word that is no choice, NotPermitted."""
    need(actor, "read", "layout")
    now = report.of(actor.user)
    chosen = report.Chosen(
        now.density if density is None else density,
        now.first_tab if first_tab is None else first_tab,
        now.closed if closed is None else tuple(closed),
    )
    offered = [("density", [chosen.density], report.DENSITIES), ("first tab", [chosen.first_tab], TABS)]
    for what, given, known in [*offered, ("panel", list(chosen.closed), report.PANELS)]:
        for word in given:
            if word not in known:
                raise Usage(f"layout: {what} {word[:40]!r} is not known; take one of {', '.join(known)}")
    Layout.objects.update_or_create(
        user=actor.user,
        defaults={"density": chosen.density, "first_tab": chosen.first_tab, "closed": sorted(set(chosen.closed))},
    )
    return report.of(actor.user)

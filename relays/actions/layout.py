"""A person chooses how pages are laid out for them: kept as a preference, and no decision about any relay."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from django.utils.translation import gettext as _

from relays.actions.base import Actor, Usage, need
from relays.models import Layout
from relays.reports import layout as report
from relays.reports.figures import STYLES
from relays.reports.relay import TABS


def choose(
    actor: Actor,
    *,
    density: str | None = None,
    first_tab: str | None = None,
    closed: Sequence[str] | None = None,
    language: str | None = None,
    zone: str | None = None,
    numbers: str | None = None,
    theme: str | None = None,
    keys: str | None = None,
) -> report.Chosen:
    """Keep what is given, leave the rest as it is. Raises Usage for a word that is no choice, NotPermitted."""
    need(actor, "read", _("layout"))
    given: list[tuple[str, str, str | None, Collection[str]]] = [
        ("density", _("density"), density, report.DENSITIES),
        ("first_tab", _("first tab"), first_tab, TABS),
        ("language", _("language"), language, ("", *report.languages())),
        ("zone", _("time zone"), zone, ("", "UTC", *report.zones())),
        ("numbers", _("numbers"), numbers, STYLES),
        ("theme", _("colours"), theme, report.THEMES),
        ("keys", _("keys"), keys, report.KEYS),
    ]
    for _field, what, word, known in given:
        if word is not None:
            _known(what, word, known)
    for word in closed or ():
        _known(_("panel"), word, report.PANELS)
    changes = {field: word for field, _what, word, _all in given if word is not None}
    chosen = replace(report.of(actor.user), **changes)  # type: ignore[arg-type]
    if closed is not None:
        chosen = replace(chosen, closed=tuple(sorted(set(closed))))
    Layout.objects.update_or_create(
        user=actor.user,
        defaults={**{field: getattr(chosen, field) for field, *_rest in given}, "closed": sorted(chosen.closed)},
    )
    return report.of(actor.user)


def hints_done(actor: Actor) -> None:
    """The hints of the first sign-in were read or skipped: they are not shown to this person again."""
    need(actor, "read", _("layout"))
    Layout.objects.update_or_create(user=actor.user, defaults={"hints_done": True})


def _known(what: str, word: str, known: Collection[str]) -> None:
    if word in known:
        return
    some = [one for one in known if one]
    shown = ", ".join(some) if len(some) <= 12 else f"{', '.join(some[:3])}, …"
    raise Usage(
        _("layout: %(what)s %(word)s is not known; take one of %(known)s")
        % {"what": what, "word": repr(word[:40]), "known": shown}
    )

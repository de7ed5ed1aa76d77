"""What a notice says: one line, a few more for a person, and the same as JSON for a program."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, override

from relays.core.vocabulary import token
from relays.models import GateState, Layout, Notice
from relays.reports.figures import whole
from relays.reports.notifications import WORDS
from relays.reports.rules import AXES
from relays.reports.sentences import told

log = logging.getLogger(__name__)

NAMED: Final = 10  # of many notices that go together
#: what a person is needed for, or soon will be
URGENT: Final = frozenset({Notice.Event.GATE_OPENED, Notice.Event.BUDGET_WARNING})


@dataclass(frozen=True, slots=True)
class Words:
    """`url`: the page where what was told is seen and decided, from PUBLIC_URL."""

    title: str
    lines: tuple[str, ...]
    url: str
    urgent: bool = False

    @property
    def text(self) -> str:
        return "\n".join([*self.lines, "", self.url])

    @property
    def plain(self) -> str:
        """The same, where a service might call people by an `@` that a person wrote into a relay's words."""
        return "\n".join([*(line.replace("@", "@\u200b") for line in self.lines), "", self.url])


def in_language_of(readers: Sequence[str], make: Callable[[], Words]) -> Words:
    """What `make` says in the language that these users chose, numbers with it; English where they differ or none did.

    One query.
    """
    chosen = Layout.objects.filter(user__username__in=readers).values_list("language", flat=True)
    asked = set(chosen) if len(chosen) == len(set(readers)) else set()
    language = asked.pop() if len(asked) == 1 else ""
    with override(language if language in dict(settings.LANGUAGES) else settings.LANGUAGE_CODE):
        return make()


def of(notice: Notice) -> Words:
    """Agent-written text is never part of it: what waits is read on the page, where it is shown as text."""
    event, detail = notice.event, notice.detail if isinstance(notice.detail, dict) else {}
    relay = notice.relay
    lines = [_clip(relay.objective)] if relay else []
    if event in (Notice.Event.GATE_OPENED, Notice.Event.GATE_DECIDED, Notice.Event.GATE_CONFIRMED) and relay:
        word = token(str(detail.get("token", "")))
        names = {
            "gate": notice.gate_id,
            "relay": relay.pk,
            "token": word.value,
            "state": _(str(detail.get("state") or "—")),
        }
        if event == Notice.Event.GATE_OPENED:
            title = _("%(relay)s waits for a person: %(token)s") % names
            lines += [_("why: %(why)s") % {"why": _(word.meaning)}, _("what to do: %(fix)s") % {"fix": _(word.fix)}]
        elif event == Notice.Event.GATE_DECIDED and detail.get("state") == GateState.SUPERSEDED:
            title = _("Gate %(gate)s of %(relay)s needs nobody any more: %(token)s") % names
        elif event == Notice.Event.GATE_DECIDED:
            title = _("Gate %(gate)s of %(relay)s is %(state)s: %(token)s") % names
        else:
            title = _("Gate %(gate)s of %(relay)s is confirmed: %(token)s") % names
        return Words(title, tuple(lines), _link("gate", notice.gate_id), event in URGENT)
    if event == Notice.Event.RELAY_DONE and relay:
        lines.append(_("its work is on the branch %(branch)s") % {"branch": relay.branch})
        return Words(_("%(relay)s is done") % {"relay": relay.pk}, tuple(lines), _link("relay", relay.pk))
    if event == Notice.Event.BUDGET_WARNING and relay:
        title = _("%(relay)s has less than a fifth of its budget left: %(axis)s") % {
            "relay": relay.pk,
            "axis": _(AXES.get(str(detail.get("axis", "")), str(detail.get("axis") or "—"))),
        }
        lines.append(_("when it is spent the leg is drained and a person is asked; a new limit is a decision"))
        return Words(title, tuple(lines), _link("relay", relay.pk), event in URGENT)
    if event == Notice.Event.BUDGET_WARNING and notice.owner:
        names = {**{key: str(value) for key, value in detail.items()}, "owner": notice.owner.get_username()}
        over = detail.get("state") == "over"
        title = (
            _("Budget of %(owner)s for %(month)s is spent: $%(spent)s of $%(limit)s")
            if over
            else _("Budget of %(owner)s for %(month)s: $%(spent)s of $%(limit)s spent")
        ) % names
        return Words(title, (_("it warns and stops nothing"),), _link("budgets"), event in URGENT)
    if event == Notice.Event.MONTHLY_REPORT:
        title = _("What relays cost in %(month)s") % {"month": detail.get("month", "")}
        return Words(title, tuple(told(str(line)) for line in detail.get("lines", ())), _link("budgets"))
    return Words(
        _("A test of notices from Relaysite"), (_("this is how a notice of this site arrives"),), _link("notifications")
    )


def together(notices: Sequence[Notice]) -> Words:
    """Many notices at once, in one message: how many of what, the first of them by name, and where to look."""
    counts = Counter(str(WORDS.get(one.event, one.event)) for one in notices)
    lines = [f"{whole(n)} × {what}" for what, n in counts.most_common()]
    first: list[Words] = []
    for one in notices[:NAMED]:
        try:
            first.append(of(one))
        except Exception:  # noqa: BLE001 - it is counted all the same, and keeps no other from its turn
            log.exception("notice %s could not be told by name", one.pk)
    lines += ["", *(f"· {one.title}" for one in first)]
    if len(notices) > len(first):
        lines.append(_("and %(n)d more") % {"n": len(notices) - len(first)})
    title = ngettext("%(n)d notice at once", "%(n)d notices at once", len(notices)) % {"n": len(notices)}
    return Words(title, tuple(lines), _link("needs_you"), any(one.event in URGENT for one in notices))


def payload(notice: Notice, delivery: int) -> dict[str, Any]:
    """The JSON body of a webhook; keys may be added, none is renamed."""
    words, relay = of(notice), notice.relay
    return {
        "id": delivery,
        "event": notice.event,
        "at": notice.at.isoformat(),
        "title": words.title,
        "lines": list(words.lines),
        "url": words.url,
        "relay": {"id": relay.pk, "status": relay.status, "objective": _clip(relay.objective)} if relay else None,
        "gate": {"id": notice.gate_id, **notice.detail} if notice.gate_id else None,
        "owner": notice.owner.get_username() if notice.owner else relay.owner.get_username() if relay else None,
        "detail": notice.detail,
    }


def _link(name: str, *arguments: object) -> str:
    return f"{settings.PUBLIC_URL}{reverse(name, args=arguments)}"


def _clip(text: str) -> str:
    line = " ".join(text.split())
    line = "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in line)
    return line if len(line) <= 200 else f"{line[:199]}…"

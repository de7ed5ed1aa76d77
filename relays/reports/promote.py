"""`/sessions/<id>/promote/`: what a session would hand to a driven relay, and what each field of the form means.

Interface, page 8: "Promote to a driven relay." Nothing is made up from the transcript: the objective is typed by a
person, and what no durable store holds is named as what stays behind.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from relays.agents import registry
from relays.agents.base import AgentArgError
from relays.core import donewhen, objective, region
from relays.models import Decision, Session, SessionLeg
from relays.reports.sentences import refused, told
from relays.reports.session import LegRow, leg_rows

#: the newest of them are named
EARLIER = 5


@dataclass(frozen=True, slots=True)
class Said:
    """What a field means, or why it cannot stand: `wrong` says which; "" = nothing to say yet."""

    text: str = ""
    wrong: bool = False


@dataclass(frozen=True, slots=True)
class PromotePage:
    """`folder`: what is known of the session's folder without asking git: "" = it is there.

    `last`: the last shadow leg with its would-be baton, None = none is stored. `earlier`: relays that were started from
    this session, newest first.
    """

    session: Session
    folder: str
    last: LegRow | None
    missing: tuple[str, ...]
    agents: tuple[str, ...]
    earlier: tuple[str, ...]

    @property
    def possible(self) -> bool:
        return not self.folder


def promote_page(session: Session) -> PromotePage:
    """Two queries."""
    last = SessionLeg.objects.filter(session=session).order_by("-number").first()
    row = leg_rows([last]).rows[0] if last is not None else None
    started = Decision.objects.filter(act="start", detail__origin__session=session.pk, relay__isnull=False)
    return PromotePage(
        session=session,
        folder=_folder(session.cwd),
        last=row,
        missing=tuple(sorted(row.missing)) if row else (),
        agents=registry.names(),
        earlier=tuple(started.order_by("-seq").values_list("relay_id", flat=True)[:EARLIER]),
    )


def _folder(path: str) -> str:
    if not path:
        return _("its files never named the folder that it worked in")
    if not os.path.isabs(path):
        return _("its folder %(path)s is not named from / on") % {"path": path}
    if not os.path.isdir(path):
        return _("its folder %(path)s is not on this host") % {"path": path}
    return ""


def checked(values: Mapping[str, str], globs: Sequence[str], agent_args: Mapping[str, str]) -> dict[str, Said]:
    """Field -> what the rules say of it as it stands, by the same functions that a start asks. No query, no store."""
    return {
        "objective": _objective(values.get("objective", "")),
        "done_when": _done_when(values.get("done_when", "")),
        "region": _region(globs),
        "agent": _agent(values.get("agent", ""), agent_args),
    }


def _objective(text: str) -> Said:
    try:
        objective.make_pin("pin", text)
    except objective.ObjectiveError as error:
        return Said(refused(error), True)
    return Said(_("It is carried word for word, by identity and digest, into every baton."))


def _done_when(text: str) -> Said:
    try:
        done = donewhen.parse(text)
    except donewhen.DoneWhenError as error:
        return Said(refused(error), True)
    if done.prose:
        return Said(
            _(
                "Prose: %(why)s. No store can say that it holds, so a reviewer confirms it, and the relay needs a "
                "limit of its envelope."
            )
            % {"why": told(done.why_prose)}
        )
    clauses = ", ".join(clause.text for clause in done.clauses)
    return Said(
        _("Machine-readable: a store is asked for %(clauses)s; the relay ends by itself when all hold.")
        % {"clauses": clauses}
    )


def _region(globs: Sequence[str]) -> Said:
    try:
        held = region.check_region(globs)
    except region.RegionError as error:
        return Said(refused(error), True)
    if held == region.EVERYTHING:
        return Said(_("Everything in the repository: no other relay may work in it meanwhile."))
    return Said(
        ngettext(
            "%(held)s glob held; what lies outside is left alone.",
            "%(held)s globs held; what lies outside is left alone.",
            len(held),
        )
        % {"held": len(held)}
    )


def _agent(name: str, args: Mapping[str, str]) -> Said:
    try:
        registry.adapter(name).check_args(dict(args))
    except (registry.UnknownAgent, AgentArgError) as error:
        return Said(refused(error), True)
    return Said()

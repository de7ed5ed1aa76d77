"""What a gate says in words: the finding in one sentence, its cause, and what stands beside it."""

from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from relays.core.vocabulary import Cause, Reason, token
from relays.models import GateEpisode, Leg
from relays.reports.figures import whole

_CAUSES = {
    Cause.CEILING: gettext_lazy("reached its ceiling"),
    Cause.OVERRUN: gettext_lazy("ran past its ceiling"),
    Cause.AGENT_EXIT: gettext_lazy("ended by itself"),
    Cause.AGENT_CRASH: gettext_lazy("was cut off when its agent crashed"),
    Cause.SILENCE: gettext_lazy("went silent"),
    Cause.SUPERVISOR_CRASH: gettext_lazy("was cut off when its supervisor crashed"),
    Cause.PARK_NOW: gettext_lazy("was parked at once"),
    Cause.STOP: gettext_lazy("was stopped"),
    Cause.SIGN_IN: gettext_lazy("was cut off when its agent's sign-in was lost"),
    Cause.HOST_LOST: gettext_lazy("was cut off when its host was lost"),
    Cause.ENVELOPE: gettext_lazy("ended because the envelope was spent"),
    Cause.START_FAILED: gettext_lazy("did not start"),
}
#: a leg that these ended had no say in where: that it was at no safe point goes without saying
_CUT_OFF = {Cause.AGENT_CRASH, Cause.SUPERVISOR_CRASH, Cause.SIGN_IN, Cause.HOST_LOST}
#: how a stop that no leg could keep writes its cause among its lines
_CAUSE = "cause: "


def cause_of(gate: GateEpisode, leg: Leg | None) -> str:
    """What ended the leg; of a leg that never started, what its gate was opened with. "" where neither is known."""
    if leg is not None and leg.cause:
        return leg.cause
    said = (line.removeprefix(_CAUSE) for line in _lines(gate) if line.startswith(_CAUSE))
    return next((word for word in said if word in set(Cause)), "")


def said_beside(gate: GateEpisode, leg: Leg | None) -> tuple[str, ...]:
    """The gate's own lines without those whose word has a place of its own: the hold and the cause."""
    told = {leg.hold if leg is not None else "", f"{_CAUSE}{cause_of(gate, leg)}"}
    return tuple(line for line in _lines(gate) if line.strip() and line not in told)


def _lines(gate: GateEpisode) -> list[str]:
    return [str(item) for item in (gate.items if isinstance(gate.items, list) else [gate.items])]


def headline(gate: GateEpisode, leg: Leg | None) -> str:
    """The finding in one sentence, made from records only."""
    word = token(gate.token)
    if gate.token == Reason.PARKED_UNSAFE and leg is not None:
        cause = cause_of(gate, leg)
        if cause == Cause.START_FAILED:
            return _("Leg %(leg)d could not be started") % {"leg": leg.number}
        how = _CAUSES[Cause(cause)] if cause in set(Cause) else _("ended")
        values = {"leg": leg.number, "how": how, "tokens": whole(leg.peak_tokens)}
        if cause in (Cause.CEILING, Cause.OVERRUN):
            return _("Leg %(leg)d %(how)s at %(tokens)s tokens without a safe point") % values
        if cause in _CUT_OFF:
            return _("Leg %(leg)d %(how)s") % values
        return _("Leg %(leg)d %(how)s without a safe point") % values
    if gate.token == Reason.NO_PROGRESS:
        run, at = gate.relay.empty_run, leg.number if leg else 0
        if run > 1 and leg:
            return _("%(run)d legs in a row without verified progress, up to leg %(leg)d") % {"run": run, "leg": at}
        if run > 1:
            return _("%(run)d legs in a row without verified progress") % {"run": run}
        return _("No verified progress, up to leg %(leg)d") % {"leg": at} if leg else _("No verified progress")
    said = capfirst(_(word.meaning))
    return _("%(what)s (leg %(leg)d)") % {"what": said, "leg": leg.number} if leg else said

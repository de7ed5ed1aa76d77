"""Maintenance: an operator parks all, resumes all that maintenance parked, changes a policy key of many, cleans up.

Interface, Pages 10: "Maintenance (drain and park all, resume all, clean up worktrees and refs of ended relays)". One
decision says what was asked for, and each relay's own decision names it. Workers carry it out in steps; between two
steps nobody holds it, so that a worker that dies costs a step. "Destructive actions say what will happen": what clean
would remove is listed first, and only what was listed goes.
"""

import logging
import time
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import IntegrityError, OperationalError, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.actions import park as parking
from relays.actions import policies
from relays.actions import resume as resuming
from relays.actions.base import Actor, NotFound, NotLegalNow, Refused, Usage, check_comment, need, record
from relays.core import policy
from relays.core.lines import recorded
from relays.driver import cleaning, gates
from relays.driver.changes import INBOX, RELAYS
from relays.driver.places import RELAY_ID
from relays.models import Decision, Maintenance, MaintenanceItem, Relay
from relays.models.pulse import bump
from relays.reports import maintenance as report
from relays.reports.maintenance import OPEN, TOPIC
from relays.reports.sentences import refused
from relaysite import bell

log = logging.getLogger(__name__)

TASK = "relays.tasks.maintain"
STEP_TAKES = 20.0  # seconds
BEAT_STALE = timedelta(seconds=120)  # no task runs for so long
NAMED = 200  # things that a decision names
Kind, Status, State = Maintenance.Kind, Maintenance.Status, MaintenanceItem.State


def park_all(actor: Actor, *, comment: str = "", expected: int | None = None) -> Maintenance:
    """Every relay that goes on drains to its next safe point and parks. Raises NotLegalNow (it is under way, nothing
    to park, or many more relays than `expected` were shown)."""
    return _begin(actor, Kind.PARK_ALL, report.parkable(), comment, expected)


def resume_all(actor: Actor, *, comment: str = "", expected: int | None = None) -> Maintenance:
    """Every relay that maintenance parked and nobody has taken up since goes on; what a gate keeps stays parked."""
    return _begin(actor, Kind.RESUME_ALL, report.held(), comment, expected)


def policy_all(
    actor: Actor, *, sets: Sequence[str], comment: str, expected: int | None = None, relays: Sequence[str] = ()
) -> Maintenance:
    """Every relay that has not ended (or of `relays` each) gets these values by a decision of its own, from its next
    boundary on. Raises Usage for a value that no policy can have, before anything is changed."""
    need(actor, "operate", _("change policies"))
    lines = check_sets(sets)
    if not comment.strip():
        raise Usage(_("change policies: a comment is required; say why"))
    found = report.living()
    if relays:
        named = list(dict.fromkeys(relays))
        ids = [one for one in named if RELAY_ID.fullmatch(one)]
        known = set(found.filter(pk__in=ids).values_list("pk", flat=True))
        if missing := [one for one in named if one not in known]:
            raise Usage(
                _("change policies: %(missing)s is no relay that goes on; name others, or none for all")
                % {"missing": repr(missing[0][:60])}
            )
        found = found.filter(pk__in=named)
    return _begin(actor, Kind.POLICY_ALL, found, comment, expected, lines)


def look(actor: Actor, *, comment: str = "") -> Maintenance:
    """List what clean would remove and what it keeps, with why. Nothing is removed before `confirm`."""
    need(actor, "operate", _("clean up"))
    check_comment(_("clean up"), comment)
    with transaction.atomic():
        row = _open(actor, Kind.CLEAN, Status.LOOKING, comment)
        bump(TOPIC)
        bell.ring(TASK, row.pk)
    return row


def confirm(actor: Actor, act_id: object) -> Maintenance:
    """Remove what was listed, as far as it still may go. Raises NotLegalNow where there is no list to confirm."""
    need(actor, "operate", _("clean up"))
    row = act_or_refuse(act_id)
    with transaction.atomic():
        listed = Maintenance.objects.filter(pk=row.pk, status=Status.LISTED)
        if not listed.update(status=Status.RUNNING, beat_at=None, looked=[]):
            raise NotLegalNow(
                _("maintenance %(row)s: it is %(status)s; only a list is confirmed, look anew")
                % {"row": row.pk, "status": _(row.status)}
            )
        goes = list(row.items.filter(state=State.PLANNED).values_list("path", flat=True)[: NAMED + 1])
        if not goes:
            raise NotLegalNow(_("maintenance %(row)s: nothing of the list can go") % {"row": row.pk})
        more = max(0, row.items.filter(state=State.PLANNED).count() - NAMED)
        detail = {"maintenance": row.pk, "remove": goes[:NAMED], "more": more}
        record(actor, "clean", now=timezone.now(), comment=row.comment, detail=detail)
        bump(TOPIC)
        bell.ring(TASK, row.pk)
    row.refresh_from_db()
    return row


def cancel(actor: Actor, act_id: object) -> Maintenance:
    """End it: what is done stays done, the rest is left as it is."""
    need(actor, "operate", _("cancel maintenance"))
    row = act_or_refuse(act_id)
    now = timezone.now()
    with transaction.atomic():
        going = Maintenance.objects.filter(pk=row.pk, status__in=OPEN)
        idle = going.filter(_unheld(now)).update(status=Status.CANCELLED, cancel=True, ended_at=now)
        if not idle and not going.update(cancel=True):
            raise NotLegalNow(
                _("maintenance %(row)s: it is %(status)s already; nothing was changed")
                % {"row": row.pk, "status": _(row.status)}
            )
        record(actor, "cancel_maintenance", now=now, detail={"maintenance": row.pk, "kind": row.kind})
        bump(TOPIC)
    row.refresh_from_db()
    return row


def act_or_refuse(act_id: object) -> Maintenance:
    """The act of that number. Raises NotFound."""
    text = str(act_id)
    if text.isascii() and text.isdecimal() and len(text) < 18:
        row = Maintenance.objects.select_related("asked_by").filter(pk=int(text)).first()
        if row is not None:
            return row
    raise NotFound(
        _("maintenance %(text)s is not known here; the page Maintenance lists those that are")
        % {"text": repr(text[:40])}
    )


def _begin(
    actor: Actor,
    kind: str,
    relays: "Iterable[Relay]",
    comment: str,
    expected: int | None,
    sets: Sequence[str] = (),
) -> Maintenance:
    need(actor, "operate", _named(kind))
    check_comment(_named(kind), comment)
    with transaction.atomic():
        row = _open(actor, kind, Status.RUNNING, comment, sets)
        found = [relay.pk for relay in relays]
        if not found:
            raise NotLegalNow(
                _("%(kind)s: there is no relay to do it to; nothing was changed") % {"kind": _named(kind)}
            )
        if expected is not None and len(found) > expected + max(3, expected // 10):
            raise NotLegalNow(
                _("%(kind)s: it would be %(found)s relays now, %(expected)s were shown; look again")
                % {"kind": _named(kind), "found": len(found), "expected": expected}
            )
        MaintenanceItem.objects.bulk_create([MaintenanceItem(act=row, relay_id=pk) for pk in found], batch_size=500)
        detail = {"maintenance": row.pk, "kind": kind, "relays": len(found), **({"sets": list(sets)} if sets else {})}
        record(actor, "maintenance", now=row.asked_at, comment=comment, detail=detail)
        bump(TOPIC)
        bell.ring(TASK, row.pk)
    return row


def _named(kind: str) -> str:
    return _(kind.replace("_", " "))


def _open(actor: Actor, kind: str, status: str, comment: str, sets: Sequence[str] = ()) -> Maintenance:
    """One act of a kind is open at a time, by constraint: a double press is one act."""
    try:
        with transaction.atomic():
            return Maintenance.objects.create(
                kind=kind, status=status, asked_by=actor.user, comment=comment, asked_at=timezone.now(),
                sets=list(sets),
            )  # fmt: skip
    except IntegrityError as error:
        raise NotLegalNow(
            _("%(kind)s: it is under way already; wait, or cancel it") % {"kind": _named(kind)}
        ) from error


# ---- the work -------------------------------------------------------------------------------------------------------


def ring_due() -> int:
    """Ring for each act that is open and that nobody works on; how many. Called periodically: bells get lost."""
    due = Maintenance.objects.filter(_unheld(timezone.now()), status__in=(Status.LOOKING, Status.RUNNING))
    keys = list(due.values_list("pk", flat=True))
    for pk in keys:
        bell.ring(TASK, pk)
    return len(keys)


def _unheld(now: datetime) -> Q:
    return Q(beat_at__isnull=True) | Q(beat_at__lt=now - BEAT_STALE)


def step(act_id: int, seconds: float = STEP_TAKES) -> str:
    """Go on with an act for so long; one word says how it stands: `busy`, `over`, or its status."""
    now = timezone.now()
    going = Maintenance.objects.filter(pk=act_id, status__in=(Status.LOOKING, Status.RUNNING))
    if not going.filter(_unheld(now)).update(beat_at=now):
        return "busy" if going.exists() else "over"
    row = Maintenance.objects.select_related("asked_by").get(pk=act_id)
    until = time.monotonic() + seconds
    try:
        if row.kind == Kind.CLEAN:
            over = _look_on(row, until) if row.status == Status.LOOKING else _remove_on(row, until)
        else:
            over = _relays_on(row, until)
    except OperationalError:  # the database did not answer, or was held by others: the next step goes on
        log.exception("maintenance %s was interrupted; it goes on", act_id)
        over = False
    except Exception as error:
        log.exception("maintenance %s failed", act_id)
        return _end(row, Status.FAILED, f"{type(error).__name__}: {error}")
    if _cancelled(row):
        return _end(row, Status.CANCELLED)
    if over:
        return _end(row, Status.LISTED if row.status == Status.LOOKING else Status.DONE)
    with transaction.atomic():
        Maintenance.objects.filter(pk=act_id).update(beat_at=None)
        bump(TOPIC)
        bell.ring(TASK, act_id)
    return row.status


def _end(row: Maintenance, status: str, error: str = "") -> str:
    now = timezone.now()
    ended = None if status == Status.LISTED else now
    with transaction.atomic():
        Maintenance.objects.filter(pk=row.pk).update(status=status, beat_at=None, ended_at=ended, error=error[:500])
        bump(TOPIC, RELAYS, INBOX)
    return status


def _cancelled(row: Maintenance) -> bool:
    return bool(Maintenance.objects.filter(pk=row.pk, cancel=True).exists())


def _relays_on(row: Maintenance, until: float) -> bool:
    """Do it to one relay after the other; whether none is left."""
    actor = Actor(row.asked_by)
    while time.monotonic() < until and not _cancelled(row):
        items = list(row.items.filter(state=State.PLANNED).order_by("pk")[:10])
        if not items and not _came_since(row):
            return True
        for item in items:
            if time.monotonic() > until:
                break
            state, why, decision = _one(row, actor, str(item.relay_id))
            with transaction.atomic():
                values = {"state": state, "why": why[:1000], "decision": decision, "at": timezone.now()}
                MaintenanceItem.objects.filter(pk=item.pk, state=State.PLANNED).update(**values)
                bump(TOPIC)
    return False


def _came_since(row: Maintenance) -> int:
    """Take up what began to go on while all was being parked, by a start or an approval on its way; how many.

    What an operator resumed meanwhile was meant, and stays as it is.
    """
    if row.kind != Kind.PARK_ALL:
        return 0
    newest = report.newest_parking("act")
    late = report.parkable().exclude(pk__in=row.items.values("relay")).annotate(parking=newest)
    found = list(late.filter(Q(parking=None) | ~Q(parking="resume")).values_list("pk", flat=True))
    MaintenanceItem.objects.bulk_create([MaintenanceItem(act=row, relay_id=pk) for pk in found], ignore_conflicts=True)
    return len(found)


_WORDS = {Kind.PARK_ALL: "park", Kind.RESUME_ALL: "resume", Kind.POLICY_ALL: "relay_policy"}


def _one(row: Maintenance, actor: Actor, relay_id: str) -> tuple[str, str, int | None]:
    """What came of one relay: its state, why it was left as it is, and the number of its decision."""
    word = _WORDS[Kind(row.kind)]
    if (made := _ours(row, relay_id, word)) is not None:  # by a worker that died before it wrote that down
        return State.DONE, "", made
    try:
        if row.kind == Kind.PARK_ALL:
            parking.park(actor, relay_id, comment=row.comment, of=row.pk)
        elif row.kind == Kind.POLICY_ALL:
            policies.change(actor, relay_id, sets=row.sets, comment=row.comment, of=row.pk)
        else:
            if not report.held().filter(pk=relay_id).exists():
                return State.KEPT, recorded("somebody has taken it up since"), None
            if (gate := gates.undecided(relay_id).first()) is not None:
                return (
                    State.KEPT,
                    recorded("gate %(gate)s (%(token)s) waits for a decision", gate=gate.pk, token=gate.token),
                    None,
                )
            resuming.resume(actor, relay_id, row.comment, of=row.pk)
    except Refused as refusal:
        return State.KEPT, str(refusal), None
    except OperationalError:
        raise
    except Exception as error:  # noqa: BLE001 - a relay whose records do not read keeps no other from its turn
        log.exception("maintenance %s: %s was left as it is", row.pk, relay_id)
        return State.KEPT, f"{type(error).__name__}: {error}", None
    decision = _ours(row, relay_id, word)
    if decision is None:
        status = Relay.objects.filter(pk=relay_id).values_list("status", flat=True).first()
        return State.KEPT, recorded("somebody was faster: it is %(status)s", status=status), None
    return State.DONE, "", decision


def _ours(row: Maintenance, relay_id: str, act: str) -> int | None:
    """The number of the decision that this act made on a relay: found again after a worker died between the two."""
    last = Decision.objects.filter(relay=relay_id, act=act).order_by("-seq").values("seq", "detail").first()
    return last["seq"] if last and last["detail"].get("maintenance") == row.pk else None


def _look_on(row: Maintenance, until: float) -> bool:
    """List place after place; whether all were looked at."""
    looked = set(row.looked)
    for name, unit in cleaning.units(timezone.now()):
        if name in looked:
            continue
        if time.monotonic() > until or _cancelled(row):
            return False
        found = list(unit())
        now = timezone.now()
        items = [
            MaintenanceItem(
                act=row, path=one.path, unit=name, why=one.why, at=now, state=State.KEPT if one.why else State.PLANNED
            )
            for one in found
        ]
        looked.add(name)
        with transaction.atomic():
            MaintenanceItem.objects.bulk_create(items, batch_size=500)
            Maintenance.objects.filter(pk=row.pk).update(looked=sorted(looked), beat_at=now)
            bump(TOPIC)
    return True


def _remove_on(row: Maintenance, until: float) -> bool:
    """Remove what was listed, place after place, each judged anew; whether nothing of the list is left."""
    wanted = set(row.items.filter(state=State.PLANNED).values_list("unit", flat=True))
    for name, unit in cleaning.units(timezone.now()):
        if name not in wanted:
            continue
        listed = {item.path: item for item in row.items.filter(state=State.PLANNED, unit=name)}
        for one in unit():
            item = listed.get(one.path)
            if item is None:
                continue
            if time.monotonic() > until or _cancelled(row):
                return False
            why = one.why or cleaning.carry_out(one)
            _settle(item, why)
            del listed[one.path]
        for item in listed.values():
            _settle(item, "")  # it is there no more
        wanted.discard(name)
    for item in row.items.filter(state=State.PLANNED, unit__in=wanted):
        _settle(item, "")
    return not row.items.filter(state=State.PLANNED).exists()


def _settle(item: MaintenanceItem, why: str) -> None:
    now = timezone.now()
    with transaction.atomic():
        state = State.KEPT if why else State.DONE
        MaintenanceItem.objects.filter(pk=item.pk).update(state=state, why=why[:1000], at=now)
        Maintenance.objects.filter(pk=item.act_id).update(beat_at=now)
        bump(TOPIC, RELAYS)


def check_sets(sets: Sequence[str]) -> list[str]:
    """`key=value` lines of a form that the defaults could take, or Usage."""
    found = [line.strip() for text in sets for line in text.splitlines() if line.strip()]
    if not found or any("=" not in line for line in found):
        raise Usage(_("policy: write one key=value a line, such as envelope.turns=400"))
    try:
        policy.with_sets(policy.build({}, None, {}), found)
    except policy.PolicyError as error:
        raise Usage(_("policy: %(error)s") % {"error": refused(error)}) from error
    return found

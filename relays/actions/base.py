"""What every act of a person shares: who acts, what refuses, and the append-only record that comes first.

architecture.md: "A decision of a person goes the same way: recorded first, carried out after, confirmed by what is
then observed."
"""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from relays.driver import changes
from relays.driver.places import RELAY_ID
from relays.models import Decision, GateEpisode, Relay
from relays.reports import roles
from relays.reports.audit import GENESIS, chain_digest

COMMENT_LENGTH = 10_000


class Refused(Exception):
    """An act that does not happen: one line that says what, where and what to do. Nothing was changed."""

    exit_code = 2


class Usage(Refused):
    """What was written cannot stand. `field`: the one of a form that says so, "" = none alone."""

    exit_code = 2

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


class Held(Refused):
    exit_code = 6


class NotPermitted(Refused):
    exit_code = 12


class NotLegalNow(Refused):
    exit_code = 13


class ChangedSinceSeen(Refused):
    exit_code = 13


class NotFound(Refused):
    exit_code = 14


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: a user of the product and, on the command line, the operating system's user beside it."""

    user: User
    os_user: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an act on a relay led to: `will` is drain, now, start or none."""

    relay: str
    status: str
    leg: int | None
    will: str


def need(actor: Actor, right: str, what: str) -> None:
    """Raise NotPermitted unless the actor may. `what` they wanted is told as it is given."""
    if not actor.user.is_active or not roles.may(actor.user, right):
        raise NotPermitted(
            _("%(what)s: user %(username)s has no role that may %(right)s; ask an admin for the role %(ROLE_FOR)s")
            % {
                "what": what,
                "username": actor.user.get_username(),
                "right": _(right),
                "ROLE_FOR": _(roles.ROLE_FOR[right]),
            }
        )


def relay_or_refuse(relay_id: str) -> Relay:
    # what cannot be an id never reaches a database: one of them takes no NUL, none a lone surrogate
    if RELAY_ID.fullmatch(relay_id):
        relay = Relay.objects.select_related("owner", "reviewers").filter(pk=relay_id).first()
        if relay is not None:
            return relay
    raise NotFound(
        _("relay %(relay_id)s is not known here; `relay list` shows those that are") % {"relay_id": repr(relay_id[:60])}
    )


def lock(relay: Relay) -> None:
    """First in an act's transaction: its relay's row, locked until the commit on either database, and read anew.

    So acts on one relay happen one after the other, and never in the middle of a driver's change of that relay.
    """
    changes.lock(relay.pk)
    relay.refresh_from_db()


def check_comment(act: str, comment: str) -> None:
    """Raise Usage for a comment that cannot be kept as it was written."""
    if len(comment) > COMMENT_LENGTH:
        raise Usage(
            _("%(act)s: the comment is longer than %(COMMENT_LENGTH)s characters; say it shorter")
            % {"act": act, "COMMENT_LENGTH": COMMENT_LENGTH}
        )
    if any(unicodedata.category(sign) in ("Cc", "Cs") and sign not in "\n\r\t" for sign in comment):
        raise Usage(_("%(act)s: the comment holds a control character; write it as plain text") % {"act": act})


def gate_or_refuse(gate_id: object) -> GateEpisode:
    text = str(gate_id)
    if text.isascii() and text.isdecimal() and len(text) < 19:
        gate = GateEpisode.objects.select_related("relay__reviewers", "leg").filter(pk=int(text)).first()
        if gate is not None:
            return gate
    raise NotFound(
        _("gate %(text)s is not known here; `relay status ID` lists a relay's gates") % {"text": repr(text[:60])}
    )


def record(
    actor: Actor,
    act: str,
    *,
    now: datetime,
    relay: Relay | None = None,
    gate: GateEpisode | None = None,
    comment: str = "",
    seen: str = "",
    detail: Mapping[str, Any] | None = None,
) -> Decision:
    """Append one decision to the hash chain. Call it inside the transaction that requests what was decided."""
    while True:
        last = Decision.objects.order_by("-seq").values("seq", "digest").first()
        seq = last["seq"] + 1 if last else 1
        previous = last["digest"] if last else GENESIS
        row = Decision(
            seq=seq,
            relay=relay,
            gate=gate,
            act=act,
            actor=actor.user,
            os_user=actor.os_user,
            comment=comment,
            seen=seen,
            detail=dict(detail or {}),
            previous=previous,
            at=now,
        )
        row.digest = chain_digest(row)
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except IntegrityError:
            # another act took this number at the same time; the chain goes on behind it
            if Decision.objects.filter(seq=seq).exists():
                continue
            raise
        return row

"""A person keeps a policy under a name, version by version, and gives a running relay another policy.

Rules, Policy is data: "validated, versioned, snapshotted into each relay when it starts", and: "A running relay's
policy changes only by a recorded decision, from the next boundary on".
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.actions import carried
from relays.actions.base import (
    Actor,
    NotFound,
    NotLegalNow,
    Outcome,
    Usage,
    check_comment,
    lock,
    need,
    record,
    relay_or_refuse,
)
from relays.core import policy, policyfile, policytable
from relays.core.vocabulary import Ask
from relays.driver import budgets, causes
from relays.driver.changes import INBOX, RELAYS, bump, topic
from relays.models import LIVE_STATES, GateEpisode, GateState, Leg, PolicyVersion, Relay
from relays.reports.sentences import refused

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
#: words that are addresses of pages
RESERVED = frozenset({"new"})


def save(actor: Actor, name: str, text: str, *, comment: str = "") -> PolicyVersion:
    """Keep a policy file as the next version of a name. The same table again is the newest version as it stands.

    Raises Usage with the key named, or NotPermitted; nothing is kept then.
    """
    need(actor, "operate", _("save a policy"))
    _check_name(name)
    check_comment(_("policy"), comment)
    table = checked(text)
    digest = hashlib.sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
    moment = timezone.now()
    while True:
        last = PolicyVersion.objects.filter(name=name).first()
        if last is not None and last.digest == digest:
            return last
        row = PolicyVersion(
            name=name,
            number=last.number + 1 if last else 1,
            text=text,
            table=table,
            digest=digest,
            comment=comment.strip(),
            made_by=actor.user,
            at=moment,
        )
        try:
            with transaction.atomic():
                row.save(force_insert=True)
                detail = {"name": name, "number": row.number, "digest": digest}
                record(actor, "policy", now=moment, comment=comment, detail=detail)
        except IntegrityError:
            if PolicyVersion.objects.filter(name=name, number=row.number).exists():
                continue  # somebody else saved a version at the same time
            raise
        return row


def checked(text: str) -> dict[str, Any]:
    """The canonical table of a policy file, valid over the site's; Usage names the key that is not."""
    try:
        table = policyfile.parse_toml_relay_table(text, alone=True)
        policy.build(settings.SITE_POLICY, None, table)
        return policytable.canonical(table)
    except policy.PolicyError as error:
        raise Usage(_("policy: %(error)s") % {"error": refused(error)}, error.key) from error


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name) or name in RESERVED:
        text = (
            _(
                "policy: name %(name)s: small letters, digits, dots and hyphens, at most 60, a letter or digit first, "
                "and not a word of an address"
            )
            if name in RESERVED
            else _(
                "policy: name %(name)s: small letters, digits, dots and hyphens, at most 60, a letter or digit first"
            )
        )
        raise Usage(text % {"name": repr(name[:80])}, "name")


def version_or_refuse(named: str) -> PolicyVersion:
    """`NAME` (its newest version) or `NAME@NUMBER`; NotFound says which there are."""
    name, at, number = named.partition("@")
    # what can be no name never reaches a database: one of them takes no NUL
    rows = PolicyVersion.objects.filter(name=name) if NAME.fullmatch(name) else PolicyVersion.objects.none()
    if at and not (number.isascii() and number.isdecimal() and len(number) < 10):
        raise Usage(_("policy %(named)s: write it as NAME or NAME@NUMBER") % {"named": repr(named[:80])}, "policy")
    row = (rows.filter(number=int(number)) if at else rows).first()
    if row is None:
        known = ", ".join(PolicyVersion.objects.order_by("name").values_list("name", flat=True).distinct()[:10])
        there = (
            _("stored are: %(known)s") % {"known": known}
            if known
            else _("none is stored yet; `relay policy save NAME FILE` keeps one")
        )
        raise NotFound(_("policy %(named)s is not known here; %(there)s") % {"named": repr(named[:80]), "there": there})
    return row


def change(
    actor: Actor,
    relay_id: str,
    *,
    sets: Sequence[str] = (),
    version: PolicyVersion | None = None,
    comment: str,
    of: int | None = None,
) -> Outcome:
    """Give a relay that has not ended other values, or a stored version's, by one recorded decision.

    They hold from the next boundary on; what the version does not name stays as it is. Who decides (`approvals`,
    `four_eyes`) and where it works (`workspace`) are fixed when a relay starts. Raises Refused, and then nothing was
    changed; limits that a waiting gate asks about are decided there. `of`: the maintenance that it is part of.
    """
    relay = relay_or_refuse(relay_id)
    act = _("policy of %(relay)s") % {"relay": relay_id}
    need(actor, "operate", act)
    if not comment.strip():
        raise Usage(_("%(act)s: a comment is required; say why") % {"act": act}, "comment")
    check_comment(act, comment)
    moment = timezone.now()
    with transaction.atomic():
        lock(relay)
        if relay.final:
            raise NotLegalNow(
                _("%(act)s: it is %(status)s; start a new relay for more work")
                % {"act": act, "status": _(relay.status)}
            )
        found, wanted = _changed(relay, act, sets, version)
        limits = any(one.startswith("envelope.") for one in wanted)
        gate = GateEpisode.objects.filter(relay=relay, token=Ask.BUDGET_EXHAUSTED, state=GateState.WAITING).first()
        if limits and gate is not None:
            raise NotLegalNow(
                _("%(act)s: gate %(gate)s asks about its limits (%(token)s); decide there")
                % {"act": act, "gate": gate.pk, "token": gate.token}
            )
        given = {"policy": str(version)} if version else {}
        detail = {"carries": list(found.acts), "sets": wanted, **given, **({"maintenance": of} if of else {})}
        decision = record(actor, "relay_policy", now=moment, relay=relay, comment=comment, detail=detail)
        carried.apply(actor, None, relay, found, decision, moment)
        if version is not None:
            Relay.objects.filter(pk=relay_id).update(policy_version=version)
        causes.settle(relay, moment, but=0)
        bump(topic(relay_id), RELAYS, INBOX)
    relay.refresh_from_db()
    live = Leg.objects.filter(relay=relay, state__in=LIVE_STATES).values_list("number", flat=True).first()
    return Outcome(relay_id, relay.status, live, "none")


def _changed(
    relay: Relay, act: str, sets: Sequence[str], version: PolicyVersion | None
) -> tuple[carried.Changes, list[str]]:
    """The checked change and each `key=value` of it that says something else than the relay's policy does now."""
    if not sets and version is None:
        raise Usage(_("%(act)s: name a stored policy, or key=value") % {"act": act})
    try:
        before = budgets.policy_of(relay)
        asked = policytable.merged(version.table if version else {}, policytable.sets_table(sets))
        wanted = _differing(before, asked)
        for key in wanted:
            if key in carried.NO_LIMITS:
                raise Usage(
                    _("%(act)s: %(key)s: fixed when a relay starts; start a new relay with it")
                    % {"act": act, "key": key},
                    key,
                )
        texts = [f"{key}={value}" for key, value in wanted.items()]
        after = policy.with_sets(before, texts)
        carried.check_fit(relay, after, None)
    except policy.PolicyError as error:
        raise Usage(_("%(act)s: %(error)s") % {"act": act, "error": refused(error)}, error.key) from error
    if not texts:
        raise NotLegalNow(_("%(act)s: it says so already; nothing was changed") % {"act": act})
    if not carried.can_carry(relay):
        raise NotLegalNow(
            _("%(act)s: its stored baton does not read, so it can carry nothing; or stop it") % {"act": act}
        )
    return replace(NOTHING, policy=after, sets=tuple(texts)), texts


NOTHING = carried.Changes("", {}, (), None, (), None)


def _differing(before: policy.Policy, asked: Mapping[str, object]) -> dict[str, str]:
    """Key -> the value as text, of what the relay's policy does not say already."""
    found = {}
    for key, value in policytable.canonical(asked).items():
        text = policytable.word(value)
        if policy.shown(policy.value_of(before, key)) != text:
            found[key] = text
    return found

"""Groups of reviewers, and which one decides on a relay's gates: each change is a recorded decision."""

import re
from collections.abc import Sequence

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from relays.actions.base import (
    Actor,
    NotFound,
    NotLegalNow,
    NotPermitted,
    Usage,
    check_comment,
    lock,
    need,
    record,
    relay_or_refuse,
)
from relays.core.policy import Policy
from relays.driver import budgets, gates
from relays.driver.changes import INBOX, RELAYS, bump, topic
from relays.models import Decision, GateEpisode, GateState, Relay, ReviewerGroup
from relays.reports import reviewers, roles

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,59}")


def change_group(
    actor: Actor, name: str, *, add: Sequence[str] = (), remove: Sequence[str] = (), comment: str = ""
) -> Decision:
    """Make the group where there is none by that name, and change who is in it. An admin's act, recorded.

    A group that relays stand on keeps at least one member who may review.
    """
    need(actor, roles.ADMINISTER, _("group %(name)s") % {"name": name[:60]})
    check_comment(_("group"), comment)
    if not NAME.fullmatch(name) or name != name.strip():
        raise Usage(
            _("group name %(name)s is not usable: letters, digits, blanks and . _ -, at most 60")
            % {"name": repr(name[:80])}
        )
    if both := sorted(set(add) & set(remove)):
        raise Usage(
            _("group %(name)s: %(both)s cannot be added and removed at once") % {"name": name, "both": ", ".join(both)}
        )
    if unknown := [one for one in (*add, *remove) if not one.isprintable()]:  # a NUL never reaches a database
        raise NotFound(
            _("group %(name)s: no such user: %(unknown)s") % {"name": name, "unknown": repr(unknown[0][:150])}
        )
    with transaction.atomic():
        group = ReviewerGroup.objects.select_for_update().filter(name=name).first()
        if group is None and not add:
            raise Usage(_("group %(name)s: there is none by that name; name its first members") % {"name": name})
        people = {user.get_username(): user for user in User.objects.filter(username__in=[*add, *remove])}
        if unknown := [one for one in (*add, *remove) if one not in people]:
            raise NotFound(
                _("group %(name)s: no such user: %(unknown)s")
                % {"name": name, "unknown": ", ".join(one[:150] for one in unknown[:5])}
            )
        made = group is None
        group = group or ReviewerGroup.objects.create(name=name)
        before = set(group.members.values_list("username", flat=True))
        group.members.add(*[people[one] for one in add])
        group.members.remove(*[people[one] for one in remove])
        standing = Relay.objects.filter(reviewers=group).exclude(status__in=("done", "stopped"))
        if standing.exists() and not reviewers.names_of(group):
            raise NotLegalNow(
                _(
                    "group %(name)s: nobody who may review would be left in it, and %(standing)s relays stand on it; "
                    "add somebody first, or give those relays another group"
                )
                % {"name": name, "standing": standing.count()}
            )
        return record(
            actor,
            "group",
            now=timezone.now(),
            comment=comment,
            detail={
                "group": name,
                "made": made,
                "added": sorted(set(add) - before),
                "removed": sorted(set(remove) & before),
            },
        )


def choose(name: str) -> ReviewerGroup:
    """The group of that name, or NotFound."""
    group = ReviewerGroup.objects.filter(name=name).first() if name.isprintable() else None
    if group is None:
        known = ", ".join(reviewers.groups()[:8]) or _("none; an admin makes one with `relay group add NAME USER`")
        raise NotFound(_("reviewers: no group %(name)s; known: %(known)s") % {"name": repr(name[:60]), "known": known})
    return group


def check_enough(what: str, group: ReviewerGroup, rules: Policy, owner: str) -> None:
    """Raise Usage where the group could never give the approvals that the policy wants."""
    everybody, names = reviewers.names_of(None), reviewers.names_of(group)
    bound = rules.four_eyes and reviewers.binds(owner, everybody)
    able = [name for name in names if not (bound and name == owner)]
    if len(able) < rules.approvals:
        besides = (
            _(", %(owner)s who started it not counted (four eyes)") % {"owner": owner}
            if bound and owner in names
            else ""
        )
        raise Usage(
            ngettext(
                "%(what)s: %(approvals)s approval wanted, and group %(group)s has %(able)s who may "
                "approve%(besides)s; add members, or choose another group",
                "%(what)s: %(approvals)s approvals wanted, and group %(group)s has %(able)s who may "
                "approve%(besides)s; add members, or choose another group",
                rules.approvals,
            )
            % {
                "what": what,
                "approvals": rules.approvals,
                "group": group.name,
                "able": len(able),
                "besides": besides,
            }
        )


def give(actor: Actor, relay_id: str, group_name: str, comment: str) -> Decision:
    """From now on only members of the group decide on the relay's gates; "": everybody who may review.

    By an admin, or by somebody who may decide on it now. Who looked at a waiting gate looks again: its approvals lapse.
    """
    relay = relay_or_refuse(relay_id)
    what = _("reviewers %(relay)s") % {"relay": relay_id}
    if not comment.strip():
        raise Usage(_("%(what)s: a comment is required; say why in --comment") % {"what": what})
    check_comment(what, comment)
    with transaction.atomic():
        lock(relay)
        if not roles.may(actor.user, roles.ADMINISTER):
            need(actor, roles.REVIEW, what)
            check_member(actor, relay, what)
            if budgets.policy_of(relay).four_eyes and actor.user.pk == relay.owner_id:
                raise NotPermitted(
                    _("%(what)s: four eyes: who started it does not choose its reviewers; an admin does")
                    % {"what": what}
                )
        if relay.final:
            raise NotLegalNow(
                _("%(what)s: it is %(status)s; nothing is decided on it any more")
                % {"what": what, "status": _(relay.status)}
            )
        group = choose(group_name) if group_name else None
        if group is not None:
            check_enough(what, group, budgets.policy_of(relay), relay.owner.get_username())
        before = relay.reviewers.name if relay.reviewers else ""
        if before == (group.name if group else ""):
            text = _("%(what)s: group %(group)s decides already")
            everybody = _("%(what)s: everybody who may review decides already")
            raise NotLegalNow((text if before else everybody) % {"what": what, "group": before})
        decision = record(
            actor,
            "reviewers",
            now=timezone.now(),
            relay=relay,
            comment=comment,
            detail={"group": group.name if group else "", "before": before},
        )
        Relay.objects.filter(pk=relay_id).update(reviewers=group)
        for pk in GateEpisode.objects.filter(relay=relay, state=GateState.WAITING).values_list("pk", flat=True):
            gates.shown_anew(pk)
        bump(topic(relay_id), RELAYS, INBOX)
    return decision


def check_member(actor: Actor, relay: Relay, what: str) -> None:
    """Raise NotPermitted where the relay names a group that the actor is not in."""
    group = relay.reviewers
    if group is None or group.members.filter(pk=actor.user.pk).exists():
        return
    names = ", ".join(reviewers.names_of(group)[:5]) or _("nobody who may review: an admin adds somebody")
    raise NotPermitted(
        _(
            "%(what)s: only the reviewer group %(group)s decides on %(relay)s, and user %(user)s is not in "
            "it; in it: %(names)s"
        )
        % {"what": what, "group": group.name, "relay": relay.pk, "user": actor.user.get_username(), "names": names}
    )

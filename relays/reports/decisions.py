"""What the page Decisions reads: the audit, newest first, filtered, page by page; and what verifications found.

Interface, page 10: "Decisions (the audit: append-only, hash-chained, exportable, verifiable by a command)".
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.models import AuditRun, Decision
from relays.reports.audit import content_of

PAGE = 50
RUNS = 5
MOST_CHOICES = 500
#: of a comment before the rest folds away, in characters
SHORT = 240

#: how an export is named for a spreadsheet
COLUMNS = (
    "seq", "at", "act", "actor", "os_user", "relay", "gate", "comment", "seen", "detail", "previous", "digest",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Query:
    """What the page was asked for. `since` and `until` are days of the fleet's zone, both of them included.

    `before` and `after`: a number of a decision that this page stands behind or in front of; 0 = none.
    """

    relay: str = ""
    actor: str = ""
    act: str = ""
    since: str = ""
    until: str = ""
    before: int = 0
    after: int = 0
    problems: tuple[str, ...] = ()

    @property
    def filtered(self) -> bool:
        return any((self.relay, self.actor, self.act, self.since, self.until))


@dataclass(frozen=True, slots=True)
class Row:
    """One decision. `said`: its record in words, (name, value); `record`: all that its digest is made of, as JSON."""

    seq: int
    at: datetime
    act: str
    actor: str
    os_user: str
    relay: str
    gate: int | None
    comment: str
    more: str  # of a comment that is longer than SHORT: the rest
    said: tuple[tuple[str, str], ...]
    note: str  # what the act itself remarked: that four eyes did not bind
    of: int | None  # the decision that carried this change
    seen: str
    record: str
    previous: str
    digest: str


@dataclass(frozen=True, slots=True)
class Choices:
    actors: tuple[str, ...]
    acts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DecisionsPage:
    """`newer` and `older`: the numbers that the neighbouring pages stand behind or in front of, None at an end."""

    rows: tuple[Row, ...]
    query: Query
    choices: Choices
    total: int  # that match
    any: bool
    newer: int | None
    older: int | None


@dataclass(frozen=True, slots=True)
class RunRow:
    """A verification. `percent` is None once it has ended."""

    pk: int
    by: str
    asked_at: datetime
    ended_at: datetime | None
    rows: int
    ok: bool | None
    cancelled: bool
    first_bad: int | None
    why: tuple[str, ...]
    head: str
    done: int
    total: int
    percent: int | None
    quiet: bool  # nobody reads for it just now


def clean_query(values: dict[str, str]) -> Query:
    """A query from untrusted text. What is no day is said, not dropped: a filter that does nothing misleads."""

    def word(name: str, most: int) -> str:
        return "".join(char for char in values.get(name, "") if char.isprintable()).strip()[:most]

    def number(name: str) -> int:
        text = word(name, 18)
        return int(text) if text.isascii() and text.isdecimal() else 0

    problems = []
    days: dict[str, str] = {}
    for name in ("since", "until"):
        text = word(name, 24)
        try:
            found = date.fromisoformat(text) if text else None
            # the ends of the calendar have no midnight in every zone
            if found is not None and not 1 < found.year < 9999:
                raise ValueError
            days[name] = found.isoformat() if found else ""
        except ValueError:
            days[name] = ""
            problems.append(_("%(name)s %(text)r is no day; write it as 2026-11-30") % {"name": name, "text": text})
    if days["since"] and days["until"] and days["since"] > days["until"]:
        problems.append(_("since is after until, so nothing can match; swap them"))
    return Query(
        relay=word("relay", 40), actor=word("actor", 150), act=word("act", 24), since=days["since"],
        until=days["until"], before=number("before"), after=number("after"), problems=tuple(problems),
    )  # fmt: skip


def matching(query: Query) -> QuerySet[Decision]:
    """The decisions that match, newest first."""
    rows = Decision.objects.order_by("-seq")
    if query.relay:
        rows = rows.filter(relay__id__icontains=query.relay)
    if query.actor:
        rows = rows.filter(actor__username=query.actor)
    if query.act:
        rows = rows.filter(act=query.act)
    if query.since:
        rows = rows.filter(at__gte=_midnight(query.since))
    if query.until:
        rows = rows.filter(at__lt=_midnight(query.until, 1))
    return rows


def _midnight(day: str, later: int = 0) -> datetime:
    return datetime.combine(
        date.fromisoformat(day) + timedelta(days=later), time(), tzinfo=timezone.get_default_timezone()
    )


def decisions_page(query: Query) -> DecisionsPage:
    """One page; a constant number of queries, whatever the length of the chain or the place in it."""
    found = matching(query)
    some = found.select_related("actor")
    if query.after:
        near = list(some.filter(seq__gt=query.after).order_by("seq")[: PAGE + 1])
        more_newer, more_older = len(near) > PAGE, True
        near = near[:PAGE][::-1]
    else:
        near = list((some.filter(seq__lt=query.before) if query.before else some)[: PAGE + 1])
        more_newer, more_older = bool(query.before), len(near) > PAGE
        near = near[:PAGE]
    if query.after and len(near) < PAGE:
        return decisions_page(replace(query, after=0, before=0))  # the newest page, whole
    total = found.count()
    return DecisionsPage(
        rows=tuple(row_of(one) for one in near),
        query=query,
        choices=_choices(),
        total=total,
        any=bool(total) or Decision.objects.exists(),
        newer=near[0].seq if near and more_newer else None,
        older=near[-1].seq if near and more_older and near[-1].seq > 1 else None,
    )


def _choices() -> Choices:
    rows = Decision.objects.order_by()
    acts = sorted(rows.values_list("act", flat=True).distinct()[:MOST_CHOICES])
    actors = sorted(rows.values_list("actor__username", flat=True).distinct()[:MOST_CHOICES])
    return Choices(tuple(actors), tuple(acts))


def row_of(one: Decision) -> Row:
    """A decision as the page shows it; `one` was loaded with its actor."""
    detail = one.detail if isinstance(one.detail, dict) else {}
    of = detail.get("of")
    return Row(
        seq=one.seq, at=one.at, act=one.act, actor=one.actor.get_username(), os_user=one.os_user,
        relay=one.relay_id or "", gate=one.gate_id, comment=one.comment[:SHORT], more=one.comment[SHORT:],
        said=said(one.detail), note=str(detail.get("note") or ""), of=of if isinstance(of, int) else None,
        seen=one.seen,
        record=json.dumps(content_of(one), indent=1, sort_keys=True, ensure_ascii=False),
        previous=one.previous, digest=one.digest,
    )  # fmt: skip


def said(detail: Any) -> tuple[tuple[str, str], ...]:
    """The record of a decision in words: what it says and is not empty; a whole policy stands in the record only."""
    if not isinstance(detail, dict):
        return ()
    found = []
    for name, value in detail.items():
        if name in ("of", "policy", "statements", "form") or value in ("", None, [], {}, False):
            continue
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            words = " ".join(value)
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            words = str(value)
        elif isinstance(value, dict) and all(isinstance(one, str | int | float) for one in value.values()):
            words = " ".join(f"{key}={json.dumps(one) if isinstance(one, bool) else one}" for key, one in value.items())
        else:
            words = json.dumps(value, ensure_ascii=False, sort_keys=True)
        found.append((name.replace("_", " "), words[:300]))
    return tuple(found[:12])


def table(query: Query) -> Iterator[tuple[object, ...]]:
    """The export as rows of a table, oldest first, behind their heads."""
    yield COLUMNS
    for one in _all(query):
        values = content_of(one)
        detail = json.dumps(one.detail, sort_keys=True, ensure_ascii=False)
        yield (
            one.seq, values["at"], one.act, one.actor.get_username(), one.os_user, one.relay_id, one.gate_id,
            one.comment, one.seen, detail, one.previous, one.digest,
        )  # fmt: skip


def lines(query: Query) -> Iterator[str]:
    """The export as JSON lines, oldest first: all that each digest is made of, the digest, and the actor's name."""
    for one in _all(query):
        values = {**content_of(one), "digest": one.digest, "actor_name": one.actor.get_username()}
        yield json.dumps(values, sort_keys=True, ensure_ascii=False) + "\n"


def _all(query: Query) -> Iterator[Decision]:
    return matching(query).order_by("seq").select_related("actor").iterator(chunk_size=500)


def runs(now: datetime) -> tuple[RunRow, ...]:
    """The verification that goes on, if one does, and the last ones that ended; newest first. One query."""
    rows = []
    for one in AuditRun.objects.select_related("asked_by")[: RUNS + 1]:
        percent = min(99, 100 * one.done // max(one.total, 1)) if one.ended_at is None else None
        quiet = one.ended_at is None and (one.beat_at is None or now - one.beat_at > timedelta(seconds=30))
        rows.append(
            RunRow(
                one.pk, one.asked_by.get_username(), one.asked_at, one.ended_at, one.rows, one.ok, one.cancelled,
                one.first_bad, tuple(str(line) for line in one.why), one.head, one.done, one.total, percent, quiet,
            )
        )  # fmt: skip
    return tuple(rows)

"""What the pages of policies read: names with their versions, what one says and over what, and who uses it.

Interface, page 10: Policy; issue: "policy editor (validated, diff of versions, which relays use which)". Every figure
with a constant number of queries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import unified_diff
from typing import Any

from django.conf import settings
from django.db.models import Count, Q

from relays.core import policy, policytable
from relays.core.policy import Tighter
from relays.core.policytable import GROUPS, Change
from relays.models import FINAL_STATUSES, Decision, PolicyVersion, Relay
from relays.reports.sentences import refused

MOST_NAMES = 500
MOST_VERSIONS = 200
MOST_RELAYS = 50
MOST_CHANGES = 50

#: where a value comes from, the lowest layer first
SOURCES = ("default", "site", "repository", "policy", "start", "decision")
#: what a repository's own table may do to a key, in words
TIGHTEN: Mapping[Tighter, str] = {
    Tighter.NEVER: "a repository may not set it",
    Tighter.LOWER: "a repository may only lower it",
    Tighter.LOWER_OR_ON: "a repository may only lower it or switch it on",
    Tighter.HIGHER: "a repository may only raise it",
    Tighter.PARK: "a repository may only set it to park",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One value of a policy: as one writes it, where it comes from, and what the built-in default is."""

    key: str
    meaning: str
    value: str
    source: str  # one of SOURCES
    default: str
    may: str  # what a repository may do
    never: bool  # a repository may not set it

    @property
    def own(self) -> bool:
        return self.source != "default"


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    rows: tuple[Row, ...]

    @property
    def own(self) -> int:
        """How many of its values are no defaults."""
        return sum(row.own for row in self.rows)


@dataclass(frozen=True, slots=True)
class Name:
    """One named policy: its newest version, and the relays that started with any of its versions."""

    newest: PolicyVersion
    versions: int
    relays: int
    living: int


@dataclass(frozen=True, slots=True)
class VersionRow:
    version: PolicyVersion
    relays: int
    living: int


@dataclass(frozen=True, slots=True)
class Used:
    relay_id: str
    objective: str
    status: str
    number: int  # of the version
    at: datetime


@dataclass(frozen=True, slots=True)
class ListPage:
    names: tuple[Name, ...]
    site: tuple[Row, ...]
    unnamed: int  # living relays that no stored policy was named for


@dataclass(frozen=True, slots=True)
class VersionPage:
    version: PolicyVersion
    newest: PolicyVersion
    versions: tuple[VersionRow, ...]
    groups: tuple[Group, ...]
    problem: str  # why it cannot stand over the site's table of today
    used: tuple[Used, ...]
    used_total: int


@dataclass(frozen=True, slots=True)
class DiffPage:
    before: PolicyVersion
    after: PolicyVersion
    versions: tuple[PolicyVersion, ...]
    changes: tuple[tuple[Change, str], ...]  # with what the key means
    lines: tuple[tuple[str, str], ...]  # kind ("add", "del", "at", ""), text


@dataclass(frozen=True, slots=True)
class Changed:
    """One recorded decision on a relay's policy."""

    at: datetime
    actor: str
    sets: tuple[str, ...]
    comment: str
    policy: str


@dataclass(frozen=True, slots=True)
class RelayPolicy:
    relay: Relay
    groups: tuple[Group, ...]
    problem: str
    changed: tuple[Changed, ...]  # newest first
    names: tuple[PolicyVersion, ...]  # what it can be given: the newest of each name


def _living() -> Q:
    return ~Q(relays__status__in=FINAL_STATUSES)


def list_page() -> ListPage:
    """Three queries."""
    rows = PolicyVersion.objects.select_related("made_by").annotate(
        used=Count("relays"), living=Count("relays", filter=_living())
    )
    names: dict[str, Name] = {}
    for row in rows.order_by("name", "-number")[: MOST_NAMES * 20]:
        before = names.get(row.name)
        names[row.name] = (
            Name(row, 1, row.used, row.living)
            if before is None
            else replace(
                before,
                versions=before.versions + 1,
                relays=before.relays + row.used,
                living=before.living + row.living,
            )
        )
    unnamed = Relay.objects.filter(policy_version=None).exclude(status__in=FINAL_STATUSES).count()
    return ListPage(tuple(names.values())[:MOST_NAMES], site_rows(), unnamed)


def site_rows() -> tuple[Row, ...]:
    """What the site's own table says, if anything."""
    try:
        found, named = policy.build(settings.SITE_POLICY, None, {}), policy.flatten(settings.SITE_POLICY)
    except policy.PolicyError:
        return ()
    return tuple(_row(found, key, "site") for key in named)


def newest_of_each() -> tuple[PolicyVersion, ...]:
    """The newest version of each name. One query."""
    found: dict[str, PolicyVersion] = {}
    for row in PolicyVersion.objects.select_related("made_by").order_by("name", "-number")[: MOST_NAMES * 20]:
        found.setdefault(row.name, row)
    return tuple(found.values())[:MOST_NAMES]


def version_page(version: PolicyVersion) -> VersionPage:
    """Four queries."""
    counted = PolicyVersion.objects.filter(name=version.name).select_related("made_by")
    counted = counted.annotate(used=Count("relays"), living=Count("relays", filter=_living()))
    rows = [VersionRow(row, row.used, row.living) for row in counted.order_by("-number")[:MOST_VERSIONS]]
    using = Relay.objects.filter(policy_version__name=version.name)
    used = using.order_by("-created_at", "-pk").values_list(
        "pk", "objective", "status", "policy_version__number", "created_at"
    )
    groups, problem = effective([("site", settings.SITE_POLICY), ("policy", version.table)])
    return VersionPage(
        version=version,
        newest=rows[0].version if rows else version,
        versions=tuple(rows),
        groups=groups,
        problem=problem,
        used=tuple(Used(*row) for row in used[:MOST_RELAYS]),
        used_total=using.count(),
    )


def effective(layers: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[tuple[Group, ...], str]:
    """Every value with the layer that it comes from, in groups; and why they cannot stand, "" where they can.

    Layers as in `policy.build`, the lowest first; one named "repository" may only tighten. Where they cannot stand,
    the groups are those of the layers below the one that is refused.
    """
    tables = dict(layers)
    site = tables.pop("site", {})
    repository = tables.pop("repository", None)
    over: dict[str, object] = {}
    try:
        for table in tables.values():
            over = policytable.merged(over, table)
        return grouped(policy.build(site, repository, over), policytable.sources(layers)), ""
    except policy.PolicyError as error:
        return (), refused(error)


def grouped(found: policy.Policy, sources: Mapping[str, str]) -> tuple[Group, ...]:
    """All values of a policy under the editor's headings; those of `baseline` last, where there are any."""
    groups = [
        Group(title, tuple(_row(found, key, sources.get(key, "default")) for key in keys))
        for title, keys in GROUPS.items()
    ]
    figures = sorted(found.baseline)
    if figures:
        rows = tuple(_row(found, f"baseline.{name}", sources.get(f"baseline.{name}", "default")) for name in figures)
        groups.append(Group("Figures of the cost baseline", rows))
    return tuple(groups)


_DEFAULTS = policy.Policy()


def _row(found: policy.Policy, key: str, source: str) -> Row:
    may = policy.tighter(key)
    default = policy.value_of(_DEFAULTS, key)
    return Row(
        key=key,
        meaning=meaning(key),
        value=policy.shown(policy.value_of(found, key)),
        source=source,
        default=policy.shown(default),
        may=TIGHTEN[may],
        never=may is Tighter.NEVER,
    )


def meaning(key: str) -> str:
    """What a key means, "" for a figure of the baseline."""
    return next((keys[key] for keys in GROUPS.values() if key in keys), "")


def diff_page(before: PolicyVersion, after: PolicyVersion) -> DiffPage:
    """One query."""
    lines = unified_diff(
        before.text.splitlines(), after.text.splitlines(), str(before), str(after), lineterm="", n=1_000
    )
    kinds = {"+": "add", "-": "del", "@": "at"}
    shown = tuple(("at" if line.startswith(("+++", "---")) else kinds.get(line[:1], ""), line[:400]) for line in lines)
    return DiffPage(
        before=before,
        after=after,
        versions=tuple(PolicyVersion.objects.filter(name=after.name).order_by("-number")[:MOST_VERSIONS]),
        changes=tuple((one, meaning(one.key)) for one in policytable.changes(before.table, after.table)),
        lines=shown,
    )


def relay_policy(relay: Relay) -> RelayPolicy:
    """One relay's policy as it holds now, and each decision that changed it. Four queries."""
    rows = Decision.objects.filter(relay=relay, act__in=("limit", "relay_policy")).select_related("actor")
    decisions = list(rows.order_by("-seq")[: MOST_CHANGES * 2])
    parents = {row.seq: row for row in decisions if row.act == "relay_policy"}
    changed = tuple(_changed(row, parents) for row in decisions if row.act == "limit")[:MOST_CHANGES]
    named = {text.partition("=")[0] for one in changed for text in one.sets}
    problem, groups = "", tuple[Group, ...]()
    try:
        found = policy.from_snapshot(relay.policy)
        start = _started_from(relay, found)
        groups = grouped(found, start | dict.fromkeys(named, "decision"))
    except policy.PolicyError as error:
        problem = refused(error)
    return RelayPolicy(relay, groups, problem, changed, newest_of_each())


def _started_from(relay: Relay, found: policy.Policy) -> dict[str, str]:
    """Key -> where its value came from when the relay started, as its start recorded it; one that is no default and of

    which no record says so came with the start.
    """
    row = Decision.objects.filter(relay=relay, act="start").order_by("seq").values_list("detail", flat=True).first()
    kept = row.get("policy_from") if isinstance(row, dict) else None
    told = {str(key): str(source) for key, source in kept.items()} if isinstance(kept, dict) else {}
    own = {key: "start" for key in _keys(found) if policy.value_of(found, key) != policy.value_of(_DEFAULTS, key)}
    return own | told


def _keys(found: policy.Policy) -> list[str]:
    return [*(key for key in policy.KEYS if key != "baseline"), *(f"baseline.{name}" for name in found.baseline)]


def _changed(row: Decision, parents: Mapping[int, Decision]) -> Changed:
    detail: Mapping[str, Any] = row.detail if isinstance(row.detail, dict) else {}
    parent = parents.get(detail.get("of", 0))
    given = parent.detail.get("policy", "") if parent is not None else ""
    comment = parent.comment if parent is not None else row.comment
    sets = tuple(str(one) for one in detail.get("sets", ()))
    return Changed(row.at, row.actor.get_username(), sets, comment, str(given))


def as_mapping(version: PolicyVersion) -> dict[str, Any]:
    """For `--json`."""
    return {
        "policy": version.name,
        "number": version.number,
        "digest": version.digest,
        "table": version.table,
        "by": version.made_by.get_username(),
        "at": version.at,
        "comment": version.comment,
    }

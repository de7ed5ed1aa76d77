"""Parameters of the engine as the data at hand give them, per agent and version; the rules are `relays.core.learning`.

Issue: they "are learned per agent and version, with n, and used as defaults when n suffices".
"""

import hashlib
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Final

from django.db.models import Count, Max
from django.utils import timezone

from relays.core import learning
from relays.core.baselines import AGENTS, Setting, defaults
from relays.core.learning import PUBLIC, Learned, MeasuredCut
from relays.core.lines import recorded
from relays.costs import measured, rollups
from relays.models import Comparison, CostDue, CostState, LearnedParameter

NAME: Final = "learned"
#: legs whose orientation is looked at: the newest of an agent
MOST_LEGS: Final = 500
#: comparisons of an agent that are made anew when what was learned of it changes
MOST_STALE: Final = 200


def bring_up() -> bool:
    """Learn anew where a compaction or a leg came since; True."""
    now = timezone.now()
    sign = _sign()
    if mark() == sign:
        return True
    rows = measured.rows()
    wanted = {(row.agent, row.version) for row in rows} | {(row.agent, "") for row in PUBLIC}
    found: list[LearnedParameter] = []
    for agent, version in sorted(wanted):
        learned = _learn(rows, agent, version, defaults(agent))
        orientation = _orientation(agent)
        if orientation is not None:
            learned["orientation"] = orientation
        for one in learned.values():
            part = isinstance(one.value, Decimal)
            found.append(
                LearnedParameter(
                    agent=agent, version=version, name=one.name, unit="part" if part else "tokens",
                    value=float(one.value), low=float(one.low), high=float(one.high), n=one.n, used=True,
                    source=one.parameter().source[:200], at=now,
                )
            )  # fmt: skip
    with rollups.serialised():
        changed = _values(LearnedParameter.objects.all()) ^ _values(found)
        LearnedParameter.objects.all().delete()
        LearnedParameter.objects.bulk_create(found, batch_size=500)
        CostState.objects.update_or_create(name=NAME, defaults={"value": {"mark": sign, "cuts": len(rows)}, "at": now})
        for agent in {one[0] for one in changed}:
            _stale(agent, now)
    return True


def _values(rows: Iterable[LearnedParameter]) -> set[tuple[str, str, str, float, float, float]]:
    """What makes figures others. Orientation moves a little with every leg that ends: only its first digits count."""
    found = set()
    for row in rows:
        if row.name == "orientation":
            found.add((row.agent, row.version, row.name, float(f"{row.value:.1g}"), 0.0, 0.0))
        else:
            found.add((row.agent, row.version, row.name, row.value, row.low, row.high))
    return found


def _stale(agent: str, now: datetime) -> None:
    """Other parameters give other figures: the newest comparisons of that agent are asked for anew."""
    for newest in (
        Comparison.objects.filter(session__agent=agent).order_by("-session__last_at"),
        Comparison.objects.filter(relay__agent=agent).order_by("-relay__last_data_at"),
    ):
        keys = list(newest.values_list("pk", flat=True)[:MOST_STALE])
        Comparison.objects.filter(pk__in=keys, wanted_at__isnull=True).update(wanted_at=now)


def mark() -> str:
    """Changes when what is learned from does; "" before anything was learned."""
    row = CostState.objects.filter(name=NAME).first()
    return str(row.value.get("mark", "")) if row else ""


def _sign() -> str:
    cuts = CostDue.objects.filter(compactions__gt=0).aggregate(n=Count("pk"), last=Max("seen"))
    legs = CostDue.objects.filter(orientation__isnull=False, leg__scripted=False).aggregate(n=Count("pk"))
    return hashlib.sha256(repr((cuts["n"], cuts["last"], legs["n"])).encode()).hexdigest()[:32]


def apply(setting: Setting, agent: str, version: str, *, without: str | None = None) -> Setting:
    """The setting with what was learned of that agent in it; `without`: leave one session out. At most three queries.

    An agent that the engine has no figures of is treated as it stands: nothing of another one is learned for it.
    """
    if agent in AGENTS:
        setting = learning.apply(setting, _learn(measured.rows(agent), agent, version, setting, without=without))
    orientation = _orientation(agent)
    return learning.apply(setting, {"orientation": orientation}) if orientation else setting


def _learn(
    rows: Iterable[MeasuredCut], agent: str, version: str, setting: Setting, *, without: str | None = None
) -> dict[str, Learned]:
    """What the site measured, and where that is too little what others published; a compaction in both counts once."""
    site = list(rows)
    # published before or after the last call's output was counted in
    known = {(row.before + came, after) for row in site for came in (0, row.came) for after in (row.after, None)}
    others = [row for row in PUBLIC if (row.before, row.after) not in known]
    return learning.learn([*site, *others], agent, version, setting, without=without)


def _orientation(agent: str) -> Learned | None:
    """What fresh legs of that agent read again; the scripted worker's figures teach nothing."""
    kept = CostDue.objects.filter(
        orientation__isnull=False, leg__relay__agent=agent, leg__scripted=False, leg__number__gt=0
    )
    values = list(kept.order_by("-leg_id").values_list("orientation", flat=True)[:MOST_LEGS])
    return learning.orientation(
        [value for value in values if value is not None], recorded("%(agent)s on this site", agent=agent)
    )

"""A tool on the policy's list is an effectful step: it runs only while the assumptions that it leans on may be used.

rules.md, Assumptions: "An effectful step ([…] a tool on the policy's list, denied by the adapter's hook where it has
one) needs all `use`, else the ask opens". An agent that asks before it runs a tool (`tool_asked`) is told `allow` or
`deny`; of one that only says what it started, a person is asked all the same.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from relays.core import assumptions
from relays.core.assumptions import EffectVerdict
from relays.core.lines import recorded
from relays.core.pointers import one_line
from relays.core.policy import Policy
from relays.core.vocabulary import Ask
from relays.driver import effects, settled
from relays.models import NEXT_LEG, Assumption, Leg

ALLOW, DENY = "allow", "deny"


def judge(leg: Leg, policy: Policy, payload: Mapping[str, Any]) -> EffectVerdict:
    """Of one `tool_asked` or `tool_started`, with the leg's assumptions recorded up to here; writes nothing."""
    name = str(payload["name"])
    rows = Assumption.objects.filter(leg=leg).order_by("key") if listed(policy, name) else []
    assessed = {row.key: assumptions.assess(row.source, row.confidence) for row in rows}
    assessed |= settled.confirmed(leg.relay_id, list(assessed))
    return assumptions.tool(name, policy.effectful_tools, assessed)


def listed(policy: Policy, name: object) -> bool:
    """Whether a tool is one that the policy names."""
    return bool(policy.effectful_tools) and assumptions.listed(str(name), policy.effectful_tools)


def admitted(leg: Leg, policy: Policy, payload: Mapping[str, Any], now: datetime) -> bool:
    """Whether the tool may run; else a person is asked, in the caller's transaction."""
    verdict = judge(leg, policy, payload)
    for key, action, reason in verdict.blocking:
        step = repr(one_line(str(payload["name"]), 120))
        line = recorded(
            "tool %(step)s leans on %(key)s: %(action_word)s, %(reason)s",
            step=step,
            key=repr(one_line(key, 120)),
            action_word=action,
            reason=reason,
        )
        effects.ask(leg, Ask.LOW_CONFIDENCE_ASSUMPTION, line, NEXT_LEG, now)
    return verdict.admit


def answer(leg: Leg, policy: Policy, payload: Mapping[str, Any]) -> str:
    """The line that an agent which asked is told."""
    blocking = judge(leg, policy, payload).blocking
    if not blocking:
        return ALLOW
    key, action, reason = blocking[0]
    more = f", and {len(blocking) - 1} more" if len(blocking) > 1 else ""
    return one_line(f"{DENY} assumption {one_line(key, 120)!r}: {action}, {reason}{more}", 400)

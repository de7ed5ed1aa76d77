"""What the verbs about relays share: the actor, key=value options, the policy file and the words for a person."""

import argparse
from pathlib import Path
from typing import Any

from relays.actions import policies, userfacts
from relays.actions.base import Actor, Outcome, relay_or_refuse
from relays.actions.people import actor
from relays.core import policy, policyfile
from relays.management.cli import emit, refuse
from relays.models import PolicyVersion
from relays.reports import userfacts as facts_report


def add_actor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--as", dest="as_user", default=None, metavar="USER", help="the user who acts (default: local)")


def acting(options: argparse.Namespace) -> Actor:
    if options.as_user == "":
        refuse("--as '' names nobody; name a user, or leave --as out to act as local")
    return actor(options.as_user or "")


def pairs(values: list[str], flag: str) -> dict[str, str]:
    """`K=V …` as a mapping; one that has no `=` is refused."""
    found: dict[str, str] = {}
    for value in values:
        name, sign, rest = value.partition("=")
        if not sign or not name.strip():
            refuse(f"{flag} {value!r}: write it as name=value")
        found[name.strip()] = rest
    return found


def stored_policy(named: str) -> PolicyVersion | None:
    """The stored policy that `--policy` names; None where it names a file that is there, or nothing."""
    if not named or "/" in named or named.endswith(".toml") or Path(named).exists():
        return None
    return policies.version_or_refuse(named)


def policy_table(path: str) -> dict[str, object]:
    """The `[relay]` table of the file that `--policy` names, {} where it names none; another file is refused."""
    if not path:
        return {}
    try:
        with Path(path).open(encoding="utf-8") as file:
            return policyfile.parse_toml_relay_table(file.read(policyfile.LARGEST_FILE + 1), alone=True)
    except policy.PolicyError as error:
        refuse(f"--policy {path}: {error}; mend it at that place")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8"
        refuse(f"--policy {path} cannot be read ({reason}): name a readable TOML file with a [relay] table")


def add_change(parser: argparse.ArgumentParser, what: str, added: str) -> None:
    """`ID [--add … | --remove …]` of what a person states for every leg."""
    parser.add_argument("id", metavar="ID")
    change = parser.add_mutually_exclusive_group()
    change.add_argument("--add", metavar=what, help=added)
    change.add_argument("--remove", metavar=what, help="take it back; its pointer names it too")
    parser.add_argument("--comment", default="", metavar="T")


def emit_facts(stated: userfacts.Stated | None, options: argparse.Namespace) -> int:
    """What stands after the act, or (None) as it is."""
    relay = options.id if stated else relay_or_refuse(options.id).pk
    facts = stated.facts if stated else facts_report.standing(relay)
    decision = stated.decision if stated else None
    data = {"relay": relay, "decision": decision, "facts": facts_report.as_mapping(facts)}
    lines = [f"{one.kind} {one.pointer} {one.text}".rstrip() for one in facts] or ["no pin and no fact stands"]
    said = [] if stated is None else [f"decision {decision}" if decision else "nothing changed: it stands so already"]
    emit(data, options.json, "\n".join([*said, *lines]))
    return 0


def emit_outcome(outcome: Outcome, options: argparse.Namespace) -> int:
    data = {"relay": outcome.relay, "status": outcome.status, "leg": outcome.leg, "will": outcome.will}
    words = {
        "drain": "its leg ends at the next safe point",
        "now": "its leg ends now",
        "start": "it is checked first; a leg starts unless it is done or may rest",
        "none": "nothing more happens",
    }
    emit(data, options.json, f"{outcome.relay} {outcome.status}: {words[outcome.will]}")
    return 0


def gate_data(outcome: Any) -> dict[str, Any]:
    return {
        "gate": outcome.gate,
        "state": outcome.state,
        "decision": outcome.decision,
        "approvals": {"have": outcome.have, "need": outcome.need},
        **({"note": outcome.note} if outcome.note else {}),
    }

"""One `[relay]` table as people write it, lay it over another, compare it and read where each value came from.

Rules, Policy is data: "A `[relay]` table (TOML), validated, versioned, snapshotted into each relay when it starts.
Precedence: defaults < site < the repository's `[relay]` in `dos.toml` < start. A repository may only tighten".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from relays.core import policy
from relays.core.policy import KEYS, Policy, PolicyError
from relays.core.sentences import Sentence
from relays.core.vocabulary import Mode

#: heading -> the keys that stand under it in the editor, each with what it means; every key of a policy but `baseline`
GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "Mode and stops": {
        "mode": "shadow and advise record what enforce would do and stop nobody",
        "on_crash": "a leg whose supervisor died: continue counts a clean end, park asks a person",
        "resume": "what an approval does: on_approve starts at once, by_operator waits for an operator",
        "workspace": "worktree: a tree and branch of its own; in_place: the work tree itself",
        "green": "a command that must pass at a safe point; empty = none",
        "effectful_tools": "tools that wait while an assumption is weak; names with commas, * for any letters",
    },
    "When a leg ends": {
        "mark.context": "part of the window at which a leg is told to wind down",
        "mark.context_tokens": "the same in tokens; the lower of the two arms",
        "ceiling": "part of the window that no model call may pass",
        "window_tokens": "the window in tokens; none = what the model is known for, else 200,000",
        "leg.turns": "turns of one leg",
        "leg.wall": "running time of one leg",
        "leg.spend": "dollars of one leg",
        "leg.output_tokens": "output tokens of one leg",
        "mark.turns": "part of leg.turns at which a leg is told to wind down",
        "mark.wall": "part of leg.wall at which a leg is told to wind down",
        "mark.spend": "part of leg.spend at which a leg is told to wind down",
        "mark.output_tokens": "part of leg.output_tokens at which a leg is told to wind down",
    },
    "Envelope of the whole relay": {
        "envelope.legs": "legs in all; never reset",
        "envelope.spend": "dollars in all",
        "envelope.wall": "running time in all, pauses and waiting not counted",
        "envelope.turns": "turns in all",
        "envelope.output_tokens": "output tokens in all",
        "envelope.queries": "questions to a person in all",
    },
    "Progress and pace": {
        "min_progress": "verified units that a leg must make before a later one may arm",
        "no_progress_legs": "legs without verified progress in a row until a person is asked; 0 = never",
        "rotations_per_hour": "rotations in a sliding hour; 0 = no cap",
        "drain_turns": "turns that are left once an envelope is spent",
    },
    "Times": {
        "tool_limit": "how long a running tool is waited for at the ceiling",
        "silence_limit": "no event and nothing in flight for so long is a crash",
        "host_patience": "a host without a heartbeat for so long is lost",
        "unknown_patience": "a store that gives no answer for so long is asked about",
        "done_check_every": "how often a command of done_when is run beside a leg, at most",
        "every": "how often a watch looks by itself; none = only when the tip or an issue changes",
        "gate_expiry": "a gate that nobody decides for so long expires; none = never",
        "retention": "how long logs and worktrees of an ended relay are kept",
    },
    "People": {
        "approvals": "approvals that a gate needs",
        "four_eyes": "nobody approves what they started; true or false",
    },
    "Sizes of the baton": {
        "baton.total": "bytes of a whole baton",
        "baton.objective": "bytes of the objective",
        "baton.next_action": "bytes of the next action",
        "baton.line": "bytes of any other line",
        "baton.label": "bytes of a label",
        "baton.open_questions": "open questions that are carried",
        "baton.artifacts": "artifacts that are carried",
        "baton.do_not_rederive": "dead ends that are carried",
        "baton.held_region": "globs of the region",
        "baton.factor": "how many times baton.total the text may be long as it is written",
    },
    "When the relay is done": {
        "push_to": "address that a person may have the branch pushed to; empty = nowhere",
        "pull_request": "whether a pull request is offered after that; true or false",
    },
    "Memory": {"memory_root": "folder of memory files inside the repository"},
}

#: key -> the words that it takes, where it takes no others
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "mode": tuple(str(mode) for mode in Mode),
    "on_crash": ("continue", "park"),
    "resume": ("on_approve", "by_operator"),
    "workspace": ("worktree", "in_place"),
    "four_eyes": ("true", "false"),
    "pull_request": ("true", "false"),
}


@dataclass(frozen=True, slots=True)
class Change:
    """One key whose value is another: `before` and `after` as written, None = not set there."""

    key: str
    before: str | None
    after: str | None


def merged(under: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """One table laid over another, as dotted keys; PolicyError for an unknown key."""
    return policy.flatten(under) | policy.flatten(over)


def problems(table: Mapping[str, object]) -> dict[str, Sentence]:
    """Key -> why it is unknown or does not take its value, of every key and not of the first alone."""
    found: dict[str, Sentence] = {}
    for name, value in table.items():
        try:
            flat = policy.flatten({name: value})
        except PolicyError as error:
            found[error.key] = error.why
            continue
        for key, one in flat.items():
            try:
                policy.only(key, one)
            except PolicyError as error:
                found[error.key] = error.why
    return found


def sources(layers: Sequence[tuple[str, Mapping[str, object]]]) -> dict[str, str]:
    """Key -> the name of the last layer that says it; a key that none says is not in it. Layers: the lowest first."""
    found: dict[str, str] = {}
    for name, table in layers:
        found |= dict.fromkeys(policy.flatten(table), name)
    return found


def sets_table(sets: Sequence[str]) -> dict[str, object]:
    """`key=value …` as a table; PolicyError for one of another form."""
    return dict(policy.parse_set(text) for text in sets)


def canonical(table: Mapping[str, object]) -> dict[str, object]:
    """The table as dotted keys in the order of the policy, each value as JSON keeps it; PolicyError where one is bad.

    Two tables that say the same have equal canonical forms.
    """
    flat = policy.flatten(table)
    ordered = [key for key in KEYS if key in flat] + sorted(key for key in flat if key not in KEYS)
    return {key: _plain(policy.only(key, flat[key]), key) for key in ordered}


def _plain(found: Policy, key: str) -> object:
    group, dot, name = key.partition(".")
    value = policy.to_snapshot(found)[group]
    return value[name] if dot else value


def changes(before: Mapping[str, object], after: Mapping[str, object]) -> tuple[Change, ...]:
    """What differs between two tables, key by key; a key that says the same in other words does not."""
    old, new = canonical(before), canonical(after)
    return tuple(
        Change(key, word(old[key]) if key in old else None, word(new[key]) if key in new else None)
        for key in dict.fromkeys([*old, *new])
        if old.get(key, ...) != new.get(key, ...)
    )


def word(value: object) -> str:
    """A canonical value as one writes it behind `key=`."""
    return policy.shown(tuple(value) if isinstance(value, list) else value)


def write(table: Mapping[str, object]) -> str:
    """The table as a policy file; `policyfile.parse_toml_relay_table` reads an equal one."""
    flat = canonical(table)
    lines = ["[relay]", *(f"{key} = {_toml(value)}" for key, value in flat.items() if "." not in key)]
    groups = dict.fromkeys(key.partition(".")[0] for key in flat if "." in key)
    for group in groups:
        lines += ["", f"[relay.{group}]"]
        for key, value in flat.items():
            before, dot, name = key.partition(".")
            if dot and before == group:
                lines.append(f"{json.dumps(name) if '.' in name else name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, list):
        return f"[{', '.join(_toml(one) for one in value)}]"
    return json.dumps(value, ensure_ascii=False)

"""Each kind of anomaly in plain words: what it is, what was done with it, what it means for the figures.

sessions.md: "unknown types and keys are accepted, counted and shown, never a crash and never silence". These sentences
stand here alone; pages, command line and calls show the same ones.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from relays.core.meter import AnomalyKind

#: `figures`: what is shown may be wrong or too small because of it; `note`: every figure is as right as without it
Weight = Literal["figures", "note"]


@dataclass(frozen=True, slots=True)
class Plain:
    """One kind: its name for people, and one sentence."""

    title: str
    sentence: str
    weight: Weight


KINDS: Final[Mapping[AnomalyKind, Plain]] = {
    AnomalyKind.BROKEN_LINE: Plain(
        gettext_noop("broken line"),
        gettext_noop(
            "A line is no whole record (two were glued together, one was cut, or it is too large to "
            "take apart); it was left out, so a call that stood only there is missing from the totals."
        ),
        "figures",
    ),
    AnomalyKind.PARTIAL_TAIL: Plain(
        gettext_noop("unfinished last line"),
        gettext_noop(
            "The last line has no end yet; it is kept back and read as soon as it has, so the newest "
            "call may still be missing."
        ),
        "note",
    ),
    AnomalyKind.HUGE_LINE: Plain(
        gettext_noop("line over the size limit"),
        gettext_noop(
            "A line is larger than one record may be; it was counted but not read, so a call that stood"
            " only there is missing from the totals."
        ),
        "figures",
    ),
    AnomalyKind.UNKNOWN_TYPE: Plain(
        gettext_noop("unrecognised record"),
        gettext_noop(
            "Records of a type that no reader knows were counted and passed over; the figures are right"
            " as long as they hold no usage."
        ),
        "note",
    ),
    AnomalyKind.UNKNOWN_KEY: Plain(
        gettext_noop("unrecognised key"),
        gettext_noop(
            "Known records have a key that no reader knows; it was counted and passed over, and no "
            "figure depends on it."
        ),
        "note",
    ),
    AnomalyKind.TIME_BACKWARDS: Plain(
        gettext_noop("time runs backwards"),
        gettext_noop(
            "Records are stamped earlier than the ones before them; they are kept in the order of the "
            "file, so no figure changes."
        ),
        "note",
    ),
    AnomalyKind.CHAIN_BREAK: Plain(
        gettext_noop("broken chain"),
        gettext_noop(
            "A record names a predecessor that the file does not have; records are shown in the order "
            "of the file, so no figure changes."
        ),
        "note",
    ),
    AnomalyKind.UNEXPLAINED_DROP: Plain(
        gettext_noop("unexplained drop"),
        gettext_noop(
            "The window shrank without a compaction record (a cleared, rewound or switched session "
            "looks like that); it is drawn as measured and is not counted as a compaction."
        ),
        "note",
    ),
    AnomalyKind.INHERITED_COPY: Plain(
        gettext_noop("inherited calls"),
        gettext_noop(
            "A fork or resumed session repeats calls that an earlier session made; they are drawn "
            "lighter here and are counted there, once."
        ),
        "note",
    ),
    AnomalyKind.REPEATED_RECORD: Plain(
        gettext_noop("repeated record"),
        gettext_noop("Records stand in the file again under the same id; each was counted once."),
        "note",
    ),
    AnomalyKind.REPLAY_ESTIMATED: Plain(
        gettext_noop("estimated replay"),
        gettext_noop(
            "This file replays its parent's history and the parent's file is missing; where its own "
            "calls begin is estimated, so its totals are too. Import the parent's file to settle it."
        ),
        "figures",
    ),
    AnomalyKind.NO_RESULT: Plain(
        gettext_noop("no result line"),
        gettext_noop(
            "The stream ended without its result; the figures come from its messages alone, so output "
            "is a lower bound and the agent's own cost is unknown."
        ),
        "figures",
    ),
    AnomalyKind.IMPLAUSIBLE_USAGE: Plain(
        gettext_noop("implausible usage"),
        gettext_noop(
            "A call claims more than its window holds (declared by the agent, else assumed for its "
            "model: it may have run with a longer one): it is shown as the agent wrote it, and nothing "
            "was cut. Or a count cannot be one (below zero, no number, absurd): it is taken as 0, so "
            "the sums may be too low."
        ),
        "figures",
    ),
    AnomalyKind.IDENTITY_MISMATCH: Plain(
        gettext_noop("parts do not add up"),
        gettext_noop(
            "The parts of a call do not add up to the total that the agent wrote; the parts are "
            "counted, so the two differ by what the agent left out."
        ),
        "figures",
    ),
    AnomalyKind.REPLACED: Plain(
        gettext_noop("replaced file"),
        gettext_noop(
            "The file shrank or became another one; it was read again from its start, and what it held "
            "before stays counted once."
        ),
        "note",
    ),
    AnomalyKind.GONE: Plain(
        gettext_noop("file is gone"),
        gettext_noop("The file is no longer there; what was read of it stays, and nothing can be read anew."),
        "note",
    ),
}


def on_figures(counts: Mapping[str, object]) -> int:
    """How many of a session's anomalies may make a figure wrong or too small."""
    return sum(n for kind, n in counts.items() if isinstance(n, int) and plain(kind).weight == "figures")


@dataclass(frozen=True, slots=True)
class Found:
    """A kind that was met: how often, and in what (an unknown type's name, with the line of its first)."""

    kind: str
    title: str
    sentence: str
    weight: Weight
    count: int
    details: tuple[tuple[str, int, int, str], ...]  # (detail, count, first line, its file where there are several)


def plain(kind: str) -> Plain:
    """The words of a kind; one that is not known here (a newer version wrote it) is shown by its own name."""
    try:
        words = KINDS[AnomalyKind(kind)]
        return Plain(_(words.title), _(words.sentence), words.weight)
    except ValueError:
        name = "".join(char for char in kind if char.isprintable())[:20].replace("_", " ")
        return Plain(name, _("This version has no words for it; it was counted."), "figures")


def found(counts: Mapping[str, int], rows: Iterable[tuple[str, str, int, int, str]]) -> tuple[Found, ...]:
    """What was met, what bears on the figures first, then the most frequent.

    `counts`: kind -> count as the session's roll-up has it; `rows`: (kind, detail, first line, count, file).
    A kind of the rows that the roll-up lacks is a file's own, and is shown too.
    """
    details: dict[str, list[tuple[str, int, int, str]]] = {}
    sums: dict[str, int] = {}
    for kind, detail, line, count, file in rows:
        details.setdefault(kind, []).append((detail, count, line, file))
        sums[kind] = sums.get(kind, 0) + count
    kinds = {**sums, **{kind: count for kind, count in counts.items() if count}}
    out = []
    for kind, count in kinds.items():
        words = plain(kind)
        own = sorted(details.get(kind, ()), key=lambda one: (-one[1], one[0]))
        out.append(Found(kind, words.title, words.sentence, words.weight, count, tuple(own)))
    return tuple(sorted(out, key=lambda one: (one.weight != "figures", -one.count, one.kind)))

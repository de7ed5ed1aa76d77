"""What the driver counted of a leg, by kind, as lines: what is verified progress, what is not, and what is a finding.

rules.md, Verified progress: "Commits by others are shown as foreign; a commit outside the region is a finding, not
progress."
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, ngettext_lazy

FACTS = 200  # of one kind that a page shows

# words for a number of each kind; the number itself stands before them
PROGRESS_GROUPS = (
    ("commits", ngettext_lazy("commit in the region", "commits in the region")),
    ("issues", ngettext_lazy("issue closed", "issues closed")),
    ("ledger", ngettext_lazy("ledger row that resolves", "ledger rows that resolve")),
    (
        "foreign",
        ngettext_lazy(
            "foreign commit, by others: a finding, not progress",
            "foreign commits, by others: a finding, not progress",
        ),
    ),
    (
        "outside",
        ngettext_lazy(
            "commit outside the region: a finding, not progress",
            "commits outside the region: a finding, not progress",
        ),
    ),
    (
        "lost",
        ngettext_lazy(
            "earlier commit that the branch lost: a finding",
            "earlier commits that the branch lost: a finding",
        ),
    ),
    (
        "copied",
        ngettext_lazy(
            "earlier commit that the branch holds as a copy",
            "earlier commits that the branch holds as copies",
        ),
    ),
    ("empty", ngettext_lazy("empty commit", "empty commits")),
    ("repeated", ngettext_lazy("thing seen before", "things seen before")),
    (
        "undone",
        ngettext_lazy(
            "commit that undoes itself together with others",
            "commits that together undo themselves",
        ),
    ),
    ("merges", ngettext_lazy("merge", "merges")),
)

FINDINGS = frozenset({"foreign", "outside", "lost"})


def _entry(item: Any) -> tuple[str, str]:
    """A recorded thing as (reference, one line about it), whatever form the record has."""
    if isinstance(item, Mapping):
        ref = next(
            (str(item[key]) for key in ("sha", "ref", "id", "number", "path") if item.get(key) not in (None, "")), ""
        )
        if "patch_id" in item:
            paths = ngettext("%(n)s path", "%(n)s paths", item["paths"]) % {"n": item["paths"]}
            return ref, f"{item['subject']} (+{item['added']} −{item['deleted']}, {paths})"
        rest = {key: value for key, value in item.items() if str(value) != ref and value not in (None, "", [], {})}
        return ref, "; ".join(f"{key} {words(value)}" for key, value in rest.items())
    if isinstance(item, list | tuple):
        return (str(item[0]) if item else "", ", ".join(str(part) for part in item[1:]))
    return str(item), ""


def words(value: Any) -> str:
    """A list as its first five parts and how many more there are; anything else as text."""
    if isinstance(value, list | tuple):
        said = ", ".join(str(part) for part in value[:5])
        return _("%(first)s and %(n)s more") % {"first": said, "n": len(value) - 5} if len(value) > 5 else said
    return str(value)


@dataclass(frozen=True, slots=True)
class ProgressGroup:
    """All things of one kind that the driver counted of a leg; `items` holds at most FACTS of the `count`."""

    kind: str
    count: int
    words: str  # follow the number, in the reader's language
    finding: bool  # a fact to look at, and no progress
    items: tuple[tuple[str, str], ...]  # (reference, a line about it)


def progress_groups(detail: Mapping[str, Any]) -> tuple[ProgressGroup, ...]:
    """What the driver counted, by kind; kinds without a record are left out."""
    groups = []
    for kind, words in PROGRESS_GROUPS:
        items = detail.get(kind)
        if isinstance(items, list) and items:
            lines = tuple(_entry(item) for item in items[:FACTS])
            groups.append(ProgressGroup(kind, len(items), str(words % len(items)), kind in FINDINGS, lines))
    return tuple(groups)

"""What the driver counted of a leg, by kind, as lines: what is verified progress, what is not, and what is a finding.

rules.md, Verified progress: "Commits by others are shown as foreign; a commit outside the region is a finding, not
progress."
"""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

FACTS = 200  # of one kind that a page shows

PROGRESS_GROUPS = (
    ("commits", gettext_noop("commits in the region")),
    ("issues", gettext_noop("issues closed")),
    ("ledger", gettext_noop("ledger rows that resolve")),
    ("foreign", gettext_noop("foreign commits, by others: a finding, not progress")),
    ("outside", gettext_noop("outside the region: a finding, not progress")),
    ("lost", gettext_noop("earlier commits that the branch lost: a finding")),
    ("copied", gettext_noop("earlier commits that the branch holds as copies")),
    ("empty", gettext_noop("empty commits")),
    ("repeated", gettext_noop("seen before")),
    ("undone", gettext_noop("commits that together undo themselves")),
    ("merges", gettext_noop("merges")),
)


def _entry(item: Any) -> tuple[str, str]:
    """A recorded thing as (reference, one line about it), whatever form the record has."""
    if isinstance(item, Mapping):
        ref = next(
            (str(item[key]) for key in ("sha", "ref", "id", "number", "path") if item.get(key) not in (None, "")), ""
        )
        if "patch_id" in item:
            paths = item["paths"]
            size = f"+{item['added']} −{item['deleted']}, {paths} path{'' if paths == 1 else 's'}"
            return ref, f"{item['subject']} ({size})"
        rest = {key: value for key, value in item.items() if str(value) != ref and value not in (None, "", [], {})}
        return ref, "; ".join(f"{key} {words(value)}" for key, value in rest.items())
    if isinstance(item, list | tuple):
        return (str(item[0]) if item else "", ", ".join(str(part) for part in item[1:]))
    return str(item), ""


def words(value: Any) -> str:
    """A list as its first five parts and how many more there are; anything else as text."""
    if isinstance(value, list | tuple):
        more = f" and {len(value) - 5} more" if len(value) > 5 else ""
        return ", ".join(str(part) for part in value[:5]) + more
    return str(value)


def progress_groups(detail: Mapping[str, Any]) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
    """What the driver counted, by kind: (words, ((reference, line), …)); kinds without a record are left out."""
    groups = []
    for key, words in PROGRESS_GROUPS:
        items = detail.get(key)
        if isinstance(items, list) and items:
            groups.append((_(words), tuple(_entry(item) for item in items[:FACTS])))
    return tuple(groups)

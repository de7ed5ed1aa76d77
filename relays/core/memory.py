"""What a memory file holds, which memories are a standing profile, and how an operation on memories is called.

Mission: "a delete, reset, namespace wipe, or standing-profile rewrite requires a capability beyond ordinary recall";
and: "Durable promotion requires its own evidence; an unclassified observation defaults to expiring".
"""

from datetime import datetime, timedelta
from typing import Final

from relays.core.lines import recorded
from relays.core.pointers import one_line

#: a bounded memory for which nothing else was said
BOUNDED_DAYS: Final = 30
PROFILE: Final = "profile"
#: the step that waits for a destructive operation; no leg does, because nothing was done
STEP: Final = "memory operation"


def expiry(durability: str, days: int | None, now: datetime) -> datetime | None:
    """When a memory is gone: bounded after `days` (else BOUNDED_DAYS), durable only where days were named."""
    if days is None and durability == "durable":
        return None
    return now + timedelta(days=BOUNDED_DAYS if days is None else days)


def is_profile(slug: str, *, pinned: bool, earned: bool | None) -> bool:
    """Whether a memory is a person's to rewrite: named as a profile, pinned by a person, or there without an agent
    having earned it. `earned`: whether an agent's promotion stands behind the file; None: there is no file."""
    slug = slug.casefold()
    named = slug == PROFILE or slug.startswith((f"{PROFILE}-", f"{PROFILE}.", f"{PROFILE}_"))
    return earned is not None and (named or pinned or not earned)


def slug_of(path: str, root: str) -> str:
    """The memory whose file a path of the repository is; "" of any other path. `root`: without slashes at its ends."""
    name = path.removeprefix(f"{root}/") if root else path
    return "" if name == path or "/" in name or not name.endswith(".md") else name.removesuffix(".md")


def page(
    slug: str, text: str, *, durability: str, evidence: str, by: str, at: datetime, until: datetime | None
) -> bytes:
    """The memory file: where it comes from, then its text as it was said."""
    lines = [f"slug: {slug}", f"class: {durability}", f"evidence: {evidence}", f"remembered: {by}, {_utc(at)}"]
    if until is not None:
        lines.append(f"expires: {_utc(until)}")
    head = "\n".join(one_line(line, 600) for line in lines)
    return f"---\n{head}\n---\n\n{text.strip()}\n".encode("utf-8", "replace")


def item(act: str, slug: str, leg: int | None = None) -> str:
    """The operation as one line of the episode that asks; `leg`: the one that did it already."""
    words = {
        "delete": f"delete memory:{slug}",
        "wipe": recorded("wipe every memory that begins with %(slug)s", slug=repr(slug)),
        "reset": recorded("reset: remove every memory"),
        "rewrite": f"rewrite memory:{slug}",
        "write": f"write memory:{slug}",
        "found": recorded("memory:%(slug)s was removed or rewritten in commits of leg %(leg)s", slug=slug, leg=leg),
    }
    return words[act]


def matches(act: str, slug: str, there: list[str]) -> list[str]:
    """Which of the slugs that are there an allowed operation removes."""
    if act == "reset":
        return list(there)
    if act == "wipe":
        return [one for one in there if one.startswith(slug)]
    return [one for one in there if one == slug]


def _utc(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")

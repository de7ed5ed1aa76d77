"""Memories of a relay's repository: what an agent earns is written, and what needs more than that is asked for.

Mission: "Memory promotion is separate from context survival", and of what stays with the user: "any approval to promote
or delete durable memory". What was allowed is carried out by `memory_ops`.
"""

import hashlib
from datetime import datetime
from typing import Any

from relays.core import memory
from relays.core.pointers import Kind, Pointer
from relays.core.vocabulary import Ask
from relays.driver import effects, gates, recalling, userfacts
from relays.driver.changes import INBOX, bump
from relays.models import NEXT_LEG, Leg, MemoryOperation, Promotion, Relay
from relays.stores import memorywrite, records
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.gitrun import text


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def present(stores: Stores, slug: str) -> bytes | None:
    """The bytes of a memory file, None where there is none that is a plain file. Raises StoreUnavailable."""
    if slug not in records.memory_slugs(stores, 10_000):
        return None
    return records.memory(stores, slug)


def is_profile(relay: Relay, stores: Stores, slug: str) -> bool:
    """Whether an agent may not write over this memory. Raises StoreUnavailable."""
    content = present(stores, slug)
    earned = None if content is None else recalling.standing(relay, slug) is not None
    pinned = str(Pointer(Kind.MEMORY, slug)) in userfacts.pointers(relay.pk)
    return memory.is_profile(slug, pinned=pinned, earned=earned)


def write(stores: Stores, slug: str, content: bytes) -> str:
    """Write a memory file into the work tree (or the folder that an operator named); where, as a person calls it.

    Raises StoreUnavailable.
    """
    root = memorywrite.folder(stores.memory_root(), stores.memory_within(), make=True)
    place = memorywrite.write(root, slug, content)
    within = stores.memory_within()
    return str(place.relative_to(memorywrite.folder(within, None))) if within is not None else place.name


def supersede(relay: Relay, slug: str, now: datetime, but: int | None = None) -> None:
    """A memory that is written again takes the place of the one before: its row stays as history."""
    rows = Promotion.objects.filter(
        leg__relay__git_dir=relay.git_dir, slug=slug, outcome="promoted", superseded_at=None
    )
    rows.exclude(pk=but or 0).update(superseded_at=now)


def ask_for(
    leg: Leg, act: str, slug: str, now: datetime, *, content: str = "", promotion: Promotion | None = None
) -> tuple[str, int]:
    """Ask a person to allow an operation, in the caller's transaction: (the line that asks, the episode's number)."""
    line = memory.item(act, slug, leg.number)
    asked = MemoryOperation.objects.filter(relay=leg.relay_id, item=line, state=MemoryOperation.State.ASKED)
    values: dict[str, Any] = {"text": content, "promotion": promotion}
    before = asked.values_list("text", flat=True).first()
    if not asked.update(**values):
        MemoryOperation.objects.create(
            relay_id=leg.relay_id, leg=leg, act=act, slug=slug[:200], item=line[:500], at=now, **values
        )
    gate = effects.ask(leg, Ask.DESTRUCTIVE_MEMORY_OPERATION, line, memory.STEP, now)
    if before is not None and before != content:
        gates.shown_anew(gate)
    bump(INBOX)
    return line, gate


def found(relay: Relay, leg: Leg, stores: Stores) -> list[str]:
    """Slugs that the leg's commits removed, or rewrote though they are a standing profile; asks git, writes nothing.

    What a person had allowed is carried out in a commit of ours, and is not found. Raises StoreUnavailable.
    """
    root = relay.memory_root.strip("/")
    cursor = leg.cursor_sha or relay.start_sha
    if not root or relay.memory_root.startswith("/") or cursor == stores.tip:
        return []
    look = ["diff-tree", "-r", "-z", "--name-status", "--no-renames", cursor, stores.tip, "--", root]
    parts = stores.git.objects(["--literal-pathspecs", *look]).out.split(b"\0")
    changed = [(text(what), text(path)) for what, path in zip(parts[::2], parts[1::2], strict=False) if path]
    names = {
        path: path[len(root) + 1 : -3] for _, path in changed if path.endswith(".md") and path.startswith(f"{root}/")
    }
    ours = {
        slug
        for slugs in MemoryOperation.objects.filter(relay=relay, commit__in=stores.git.shas_between(cursor, stores.tip))
        .exclude(commit="")
        .values_list("slugs", flat=True)
        for slug in slugs
    }
    # allowed to be gone, and not earned again since: a cursor that was rebuilt lies before it
    allowed = set(
        MemoryOperation.objects.filter(relay=relay, act="found", state="done", commit="").values_list("slug", flat=True)
    )
    lost: list[str] = []
    for what, path in changed:
        slug = names.get(path, "")
        if not slug or "/" in slug or slug in ours or (slug in allowed and recalling.standing(relay, slug) is None):
            continue
        if what == "D" or (what != "A" and _rewritten(relay, stores, slug, path, cursor)):
            lost.append(slug)
    return lost


def _rewritten(relay: Relay, stores: Stores, slug: str, path: str, cursor: str) -> bool:
    now = stores.git.read_file(stores.tip, path, records.RECORD_BYTES)
    if now is not None and Promotion.objects.filter(slug=slug, digest=digest(now), outcome="promoted").exists():
        return False
    before = stores.git.read_file(cursor, path, records.RECORD_BYTES)
    earned = before is not None and recalling.standing(relay, slug) is not None
    pinned = str(Pointer(Kind.MEMORY, slug)) in userfacts.pointers(relay.pk)
    return memory.is_profile(slug, pinned=pinned, earned=earned)


def ask_about_found(leg: Leg, slugs: list[str], now: datetime) -> None:
    """One line a slug; the next leg, which would work without it, waits. In the caller's transaction."""
    for slug in slugs:
        line = memory.item("found", slug, leg.number)
        MemoryOperation.objects.get_or_create(
            relay_id=leg.relay_id,
            leg=leg,
            act=MemoryOperation.Act.FOUND,
            slug=slug[:200],
            defaults={"item": line[:500], "at": now, "base_sha": leg.cursor_sha or leg.relay.start_sha},
        )
        effects.ask(leg, Ask.DESTRUCTIVE_MEMORY_OPERATION, line, NEXT_LEG, now)


def found_or_none(relay: Relay, leg: Leg, stores: Stores | None) -> list[str]:
    """As `found`; none where the stores do not answer: the next leg's end looks from its own cursor on."""
    if stores is None:
        return []
    try:
        return found(relay, leg, stores)
    except StoreUnavailable:
        return []

"""Memories of a relay's repository: what an agent earns is written, and what needs more than that is asked for.

Mission: "Memory promotion is separate from context survival", and of what stays with the user: "any approval to promote
or delete durable memory". What was allowed is carried out by `memory_ops`.
"""

import hashlib
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from relays.core import memory
from relays.core.pointers import Kind, Pointer
from relays.core.vocabulary import Ask
from relays.driver import effects, gates, git, recalling, userfacts
from relays.driver.changes import INBOX, bump
from relays.models import NEXT_LEG, Leg, MemoryOperation, Promotion, Relay
from relays.stores import memorywrite, records
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.gitrun import text
from relays.stores.reflog import ReflogEntry


@dataclass(frozen=True, slots=True)
class Found:
    """Slugs that a leg lost in its commits; `base`: the commit that still had them."""

    base: str
    slugs: tuple[str, ...] = ()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def is_profile(leg: Leg, stores: Stores, slug: str) -> bool:
    """Whether an agent may not write over this memory. Raises StoreUnavailable.

    A memory that the leg took away itself is still there for this, and so is one whose name differs in its case alone:
    neither is a way around a person's word.
    """
    relay = leg.relay
    fold = slug.casefold()
    names = {one for one in records.memory_slugs(stores, 10_000) if one.casefold() == fold}
    names |= {one for one in _at_base(leg, stores) if one.casefold() == fold}
    pins = userfacts.pointers(relay.pk)
    return any(
        memory.is_profile(
            one,
            pinned=str(Pointer(Kind.MEMORY, one)) in pins,
            earned=recalling.standing(relay, one) is not None,
        )
        for one in names
    )


def _at_base(leg: Leg, stores: Stores) -> set[str]:
    """The memories that were tracked when the leg began to work."""
    root = leg.relay.memory_root.strip("/")
    if not root or leg.relay.memory_root.startswith("/"):
        return set()
    return {slug for path in stores.git.paths(_base(leg, stores)[0]) if (slug := memory.slug_of(path, root))}


def _base(leg: Leg, stores: Stores) -> tuple[str, tuple[str, ...]]:
    """(The commit that a leg's own commits stand on, they): its cursor, or what came behind that before it began: the
    last commit in which we carried out a person's decision, and where the work tree's HEAD was."""
    cursor = leg.cursor_sha or leg.relay.start_sha
    behind = stores.git.shas_between(cursor, stores.tip)
    rows = MemoryOperation.objects.filter(relay=leg.relay_id).exclude(commit="").order_by("-pk")
    before = set(rows.values_list("commit", flat=True)) if behind else set()
    entries: list[ReflogEntry] = []
    if behind:
        with suppress(StoreUnavailable):  # a work tree that is gone: what came before the leg counts as its own then
            entries = git.tree(leg.relay).reflog()
    if 0 < leg.reflog_lines <= len(entries):
        before.add(entries[leg.reflog_lines - 1].new)
    for place in range(len(behind) - 1, -1, -1):
        if behind[place] in before:
            return behind[place], behind[place + 1 :]
    return cursor, behind


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


def found(relay: Relay, leg: Leg, stores: Stores) -> Found:
    """What the leg's commits removed, or rewrote though it is a standing profile; asks git, writes nothing.

    What a person had allowed is carried out in a commit of ours, before those of a leg. Raises StoreUnavailable.
    """
    root = relay.memory_root.strip("/")
    base, behind = _base(leg, stores)
    if not root or relay.memory_root.startswith("/") or not behind:
        return Found(base)
    look = ["diff-tree", "-r", "-z", "--name-status", "--no-renames", base, stores.tip, "--", root]
    parts = stores.git.objects(["--literal-pathspecs", *look]).out.split(b"\0")
    changed = [(text(what), text(path)) for what, path in zip(parts[::2], parts[1::2], strict=False) if path]
    # a removal that was allowed lies behind a cursor which was rebuilt: that one was allowed, and no later one
    done = MemoryOperation.objects.filter(relay=relay, act="found", state="done", commit="").exclude(leg=leg)
    allowed = {slug for slug, end in done.values_list("slug", "leg__end_sha") if end in behind}
    lost: list[str] = []
    for what, path in changed:
        slug = memory.slug_of(path, root)
        if not memorywrite.is_slug(slug) or (slug in allowed and recalling.standing(relay, slug) is None):
            continue
        if what == "D" or (what != "A" and _rewritten(relay, stores, slug, path, base)):
            lost.append(slug)
    return Found(base, tuple(lost))


def _rewritten(relay: Relay, stores: Stores, slug: str, path: str, base: str) -> bool:
    now = stores.git.read_file(stores.tip, path, records.RECORD_BYTES)
    earned_now = recalling.standing(relay, slug)
    if now is not None and earned_now is not None and earned_now.digest == digest(now):
        return False  # what stands, not what a later one has replaced
    before = stores.git.read_file(base, path, records.RECORD_BYTES)
    earned = before is not None and earned_now is not None
    pinned = str(Pointer(Kind.MEMORY, slug)) in userfacts.pointers(relay.pk)
    return memory.is_profile(slug, pinned=pinned, earned=earned)


def ask_about_found(leg: Leg, lost: Found, now: datetime) -> None:
    """One line a slug; the next leg, which would work without it, waits. In the caller's transaction."""
    for slug in lost.slugs:
        line = memory.item("found", slug, leg.number)
        MemoryOperation.objects.get_or_create(
            relay_id=leg.relay_id,
            leg=leg,
            act=MemoryOperation.Act.FOUND,
            slug=slug[:200],
            defaults={"item": line[:500], "at": now, "base_sha": lost.base},
        )
        effects.ask(leg, Ask.DESTRUCTIVE_MEMORY_OPERATION, line, NEXT_LEG, now)


def found_or_none(relay: Relay, leg: Leg, stores: Stores | None) -> Found:
    """As `found`; none where the stores do not answer: the next leg's end looks from its own cursor on."""
    if stores is None:
        return Found("")
    try:
        return found(relay, leg, stores)
    except StoreUnavailable:
        return Found("")

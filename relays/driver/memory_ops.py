"""Operations on memories that a person decided: settled in the decision's transaction, carried out in a commit of ours.

architecture.md: "A decision of a person goes the same way: recorded first, carried out after, confirmed by what is then
observed." It waits for a moment without a running leg: nothing is pulled away under an agent.
"""

import logging
from datetime import datetime

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from relays.core import memory
from relays.core.lines import recorded
from relays.core.promotion import Outcome
from relays.core.vocabulary import Ask
from relays.driver import git, memories, reload
from relays.driver.changes import RELAYS, bump, topic
from relays.driver.claim import AlreadyDriven, kernel_lock
from relays.models import LIVE_STATES, Decision, GateEpisode, Leg, MemoryOperation, Promotion, Relay
from relays.stores import memorywrite, records
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.gitwrite import IDENTITY
from relays.stores.worktree import WorkTree

log = logging.getLogger(__name__)

State = MemoryOperation.State
Act = MemoryOperation.Act


def decide(gate: GateEpisode, *, consents: bool, now: datetime | None = None) -> None:
    """A person's word about what the episode asked: allowed, it is carried out; refused, it is left (or, where a leg
    did it already, taken back). In the caller's transaction."""
    moment = now or timezone.now()
    if gate.token == Ask.AMBIGUOUS_MEMORY_PROMOTION:
        _promotions(gate, consents, moment)
    if gate.token == Ask.DESTRUCTIVE_MEMORY_OPERATION:
        # what an episode had no room to show is not decided by it: it is asked again when it is wanted again
        open_ones = Q(state=State.ASKED)
        if gate.reopened_from_id is not None:
            open_ones |= Q(state=State.REFUSED) & ~Q(act=Act.FOUND)
        for one in MemoryOperation.objects.filter(open_ones, relay=gate.relay_id, item__in=gate.items):
            _settle(one, gate, consents, moment)
    transaction.on_commit(lambda: when_idle(gate.relay_id))


def _promotions(gate: GateEpisode, consents: bool, now: datetime) -> None:
    """What was ambiguous (or refused before, where that refusal was reopened) is settled; a text is written."""
    slugs = [item.removeprefix("memory:") for item in gate.items if item.startswith("memory:")]
    open_ones = Q(outcome=Outcome.AMBIGUOUS)
    if gate.reopened_from_id is not None:
        open_ones |= Q(outcome=Outcome.REFUSED) & ~Q(decided_by="")
    asked = Promotion.objects.filter(open_ones, leg__relay=gate.relay_id, slug__in=slugs)
    for row in asked.select_related("leg").order_by("pk"):
        if consents and row.text:
            _write_later(row, now)
        Promotion.objects.filter(pk=row.pk).update(
            outcome=Outcome.PROMOTED if consents else Outcome.REFUSED,
            decided_by=decider(gate),
        )


def _write_later(row: Promotion, now: datetime) -> None:
    MemoryOperation.objects.create(
        relay_id=row.leg.relay_id,
        leg=row.leg,
        promotion=row,
        act=Act.WRITE,
        slug=row.slug,
        text=row.text,
        item=memory.item("write", row.slug),
        state=State.ALLOWED,
        at=now,
        decided_at=now,
    )


def _settle(one: MemoryOperation, gate: GateEpisode, consents: bool, now: datetime) -> None:
    undo = one.act == Act.FOUND and not consents
    state = State.ALLOWED if consents else State.REFUSED
    values: dict[str, object] = {"state": state, "decided_at": now, "done_at": None}
    if not consents and not undo:
        values["done_at"] = now  # nothing was done, and nothing is to do
    if consents and one.act == Act.FOUND:
        values |= {"state": State.DONE, "done_at": now, "slugs": [one.slug]}
        memories.supersede(one.relay, one.slug, now)
    MemoryOperation.objects.filter(pk=one.pk).update(**values)
    if one.promotion_id is not None:
        Promotion.objects.filter(pk=one.promotion_id).update(
            outcome="promoted" if consents else "refused", decided_by=decider(gate), reason=recorded("a person said")
        )


def decider(gate: GateEpisode) -> str:
    """Who decided last on this episode."""
    found = Decision.objects.filter(gate=gate).order_by("-seq").values_list("actor__username", flat=True).first()
    return str(found or "")


def owed(relay_id: str) -> list[MemoryOperation]:
    """What was decided and not carried out, oldest first."""
    undo = Q(state=State.REFUSED, act=Act.FOUND)
    rows = MemoryOperation.objects.filter(Q(state=State.ALLOWED) | undo, relay=relay_id, done_at=None)
    return list(rows.select_related("promotion", "leg").order_by("pk"))


def when_idle(relay_id: str) -> None:
    """Carry out what is owed, if nobody drives this relay now; else whoever does will. Never raises."""
    if not owed(relay_id):
        return
    try:
        with kernel_lock(relay_id):
            carry_out(Relay.objects.get(pk=relay_id))
    except (AlreadyDriven, OSError):
        return


def carry_out(relay: Relay) -> None:
    """Carry out what is owed, in one commit each; what cannot be done now stays owed, as all does while a leg runs.
    The caller drives the relay.

    Each may be repeated: what is gone already is removed, and what stands already is written.
    """
    rows = owed(relay.pk)
    if not rows or Leg.objects.filter(relay=relay, state__in=LIVE_STATES).exists():
        return
    tree = git.tree(relay)
    try:
        if tree.branch() != relay.branch or tree.operation():
            return
    except StoreUnavailable as error:
        log.warning("%s: what was decided of memories waits: %s", relay.pk, error.evidence)
        return
    for one in rows:
        try:
            _carry_out(relay, tree, one)
        except StoreUnavailable as error:  # one that cannot be done keeps no other
            log.warning("%s: %s waits: %s", relay.pk, one.item, error.evidence)


def _carry_out(relay: Relay, tree: WorkTree, one: MemoryOperation) -> None:
    stores = reload.stores_for(relay)
    root = memorywrite.folder(stores.memory_root(), stores.memory_within(), make=True, itself=True)
    now = timezone.now()
    slugs = [one.slug]
    content = b""
    if one.act in (Act.WRITE, Act.REWRITE):
        content = _content(one, now)
        memorywrite.write(root, one.slug, content)
    elif one.act == Act.FOUND:
        before = stores.git.read_file(one.base_sha, f"{relay.memory_root.strip('/')}/{one.slug}.md")
        if before is not None:
            memorywrite.write(root, one.slug, before)
    else:
        slugs = memory.matches(one.act, one.slug, records.memory_slugs(stores, 10_000))
        for slug in slugs:
            memorywrite.remove(root, slug)
    said = "Restore" if one.act == Act.FOUND else "Allowed by a person"
    sha = _commit(tree, stores, slugs, f"{said}: {one.item}")
    with transaction.atomic():
        MemoryOperation.objects.filter(pk=one.pk).update(
            state=State.DONE, done_at=now, slugs=slugs, commit=sha, text=""
        )
        for slug in slugs if one.act != Act.FOUND else ():
            memories.supersede(relay, slug, now, but=one.promotion_id)
        if one.promotion_id is not None:
            Promotion.objects.filter(pk=one.promotion_id).update(digest=memories.digest(content), text="")
        bump(topic(relay.pk), RELAYS)


def _content(one: MemoryOperation, now: datetime) -> bytes:
    row = one.promotion
    durability, evidence = (row.durability, row.evidence) if row is not None else ("bounded", "")
    until = row.expires_at if row is not None else memory.expiry("bounded", None, now)
    return memory.page(
        one.slug,
        one.text,
        durability=durability,
        evidence=evidence or recorded("a person's approval"),
        by=f"{one.relay_id} leg {one.leg.number}, allowed by a person",
        at=now,
        until=until,
    )


def _commit(tree: WorkTree, stores: Stores, slugs: list[str], message: str) -> str:
    """Commit these memory files alone, with our name and no hook; "" where nothing differs or they are not tracked."""
    within = stores.memory_within()
    if within is None or not slugs:
        return ""
    top = memorywrite.folder(within, None)
    root = memorywrite.folder(stores.memory_root(), within)
    paths = [str((root / memorywrite.name(slug)).relative_to(top)) for slug in slugs]
    known = tree.git(["--literal-pathspecs", "ls-files", "-z", "--", *paths]).out.decode("utf-8", "replace").split("\0")
    changed = [path for path in paths if path in known or (top / path).exists()]
    if not changed:
        return ""
    quiet = ["-c", "commit.gpgSign=false", "-c", "core.hooksPath=/dev/null", "--literal-pathspecs"]
    tree.git([*quiet, "add", "--all", "--force", "--", *changed])
    before = tree.head()
    line = message.replace("\n", " ")[:500]
    tree.git([*quiet, "commit", "-q", "--no-verify", "--only", "-m", line, "--", *changed], env=IDENTITY, ok=(0, 1))
    after = tree.head()
    return after if after != before else ""

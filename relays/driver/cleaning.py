"""What relays leave behind and nobody needs any more: looked at first, each thing with why it stays, removed after.

Interface, Pages: "clean up worktrees and refs of ended relays". Whatever is the only place of some work stays, and says
so: uncommitted files, commits and parked work that no branch holds. What cannot be read stays too.
"""

import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from django.conf import settings

from relays.core.lines import recorded
from relays.core.policy import PolicyError
from relays.driver import budgets, git, places
from relays.driver.claim import AlreadyDriven, kernel_lock
from relays.models import FINAL_STATUSES, Leg, LegState, Relay
from relays.stores import checkout
from relays.stores.base import StoreUnavailable
from relays.stores.git import GitStore
from relays.stores.gitrun import plain, text

WIP = "refs/relay/wip"
SHOWN = 3  # paths that a line names


@dataclass(frozen=True, slots=True)
class Left:
    """One thing that was left behind: `path` of a file or folder, or `<repository>:<ref>`.

    `why`: what keeps it, "" where it can go; then `remove` takes it away, and raises where it cannot.
    """

    path: str
    why: str
    remove: Callable[[], None] | None = None
    relay: str = ""


def look(now: datetime) -> Iterator[Left]:
    """Everything that is there, in the order in which it would be removed. Nothing is changed."""
    for _name, unit in units(now):
        yield from unit()


def units(now: datetime) -> Iterator[tuple[str, Callable[[], Iterator[Left]]]]:
    """The same in pieces that are each judged as a whole: what of one goes depends on nothing of another.

    The branches of one repository are such a piece: two that hold each other's work must not both go.
    """
    for folder in _folders(Path(settings.RELAY_VAR) / "worktrees"):
        yield f"worktree {folder.name}", partial(_worktrees, folder)
    ended = Relay.objects.filter(status__in=FINAL_STATUSES).order_by("git_dir").values_list("git_dir", flat=True)
    for place in list(ended.distinct()):
        yield f"refs {place}", partial(_refs_of, place)
    for folder in _folders(Path(settings.RELAY_VAR) / "legs"):
        yield f"legs {folder.name}", partial(_legs, folder, now)


def _worktrees(folder: Path) -> Iterator[Left]:
    yield _worktree(folder)


def _refs_of(place: str) -> Iterator[Left]:
    """Of every relay that has ended in one repository."""
    store, problem, opened = None, "", False
    going: set[str] = set()  # branches that hold nothing for the others any more: they go too
    ended = Relay.objects.filter(status__in=FINAL_STATUSES, git_dir=place).order_by("pk")
    for relay in ended.iterator(chunk_size=500):
        if not opened:
            store, problem = _open(relay)
            opened = True
        name = f"{relay.repo}:refs of {relay.pk}"
        if store is None:
            yield Left(name, recorded("its repository does not answer: %(problem)s", problem=problem), relay=relay.pk)
            continue
        try:
            yield from _refs(relay, store, going)
        except StoreUnavailable as error:
            yield Left(name, recorded("it cannot be judged: %(evidence)s", evidence=error.evidence), relay=relay.pk)


def carry_out(one: Left) -> str:
    """Remove one thing, under its relay's lock; "" when it is gone, else one line that says why it stays."""
    if one.remove is None:
        return one.why or recorded("nothing can remove it")
    try:
        with kernel_lock(one.relay):
            one.remove()
    except AlreadyDriven:
        return recorded("a driver is at work on it")
    except StoreUnavailable as error:
        return error.evidence
    except OSError as error:
        return error.strerror or type(error).__name__
    return ""


def _folders(place: Path) -> list[Path]:
    try:
        return sorted(entry for entry in place.iterdir() if entry.is_dir() and not entry.is_symlink())
    except FileNotFoundError:
        return []


def _open(relay: Relay) -> tuple[GitStore | None, str]:
    store = git.store(relay)
    try:
        store.refs("refs/heads")
    except StoreUnavailable as error:
        return None, error.evidence
    return store, ""


# --- worktrees


def _worktree(folder: Path) -> Left:
    relay = Relay.objects.filter(pk=folder.name).first()
    if relay is None:
        return Left(str(folder), recorded("no relay of this house has that name"))
    if not relay.final:
        return Left(
            str(folder), recorded("relay %(relay)s is %(status_word)s", relay=relay.pk, status_word=relay.status)
        )
    why = _work_in(relay, folder)
    return Left(str(folder), why, partial(_drop_worktree, relay, folder), relay.pk)


def _work_in(relay: Relay, folder: Path) -> str:
    """What of a worktree stands nowhere else, one line; "" when nothing does."""
    if relay.worktree != str(folder):
        return recorded("%(relay)s works in another folder", relay=relay.pk)
    tree = git.tree(relay)
    try:
        state = tree.state(False)
        if not state.known:
            return recorded("it cannot be read: %(why)s", why="; ".join(state.dirty))
        if state.operation:
            return recorded("git is in the middle of: %(operation)s", operation=state.operation)
        if state.dirty:
            return recorded("uncommitted work: %(dirty)s", dirty=_named(state.dirty))
        if (folder / ".gitmodules").exists():
            return recorded("it holds submodules, whose commits may stand nowhere else")
        store, head = git.store(relay), tree.head()
        if not _held(store, head, but=()):
            return recorded("its HEAD %(head)s is on no branch", head=head[:12])
        own = text(tree.git(["for-each-ref", "--format=%(objectname)", "refs/worktree"]).out).split()
        for sha in (*tree.off_branch(store, head), *own):
            if not _held(store, sha, but=()):
                return recorded("commit %(sha)s was made in it and is on no branch", sha=sha[:12])
        listed = tree.git(["ls-files", "--others", "--ignored", "--exclude-standard", "-z", "--", relay.memory_root])
        memories = [name for name in text(listed.out).split("\0") if name]
        if memories:
            return recorded("memory files that git ignores: %(memories)s", memories=_named(memories))
        listed = tree.git(["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"])
        if inner := _repository_in(folder, [name for name in text(listed.out).split("\0") if name.endswith("/")]):
            return recorded("a repository that git ignores: %(inner)s", inner=plain(inner)[:100])
    except StoreUnavailable as error:
        return recorded("it cannot be read: %(why)s", why=error.evidence)
    return ""


def _repository_in(folder: Path, ignored: list[str]) -> str:
    """The first folder with a repository of its own in the ignored ones, whose commits may stand nowhere else."""
    for name in ignored:
        for place, folders, files in os.walk(folder / name):
            if ".git" in folders or ".git" in files:
                return str(Path(place).relative_to(folder))
    return ""


def _drop_worktree(relay: Relay, folder: Path) -> None:
    if why := _work_in(relay, folder):
        raise StoreUnavailable(why)  # somebody worked in it since it was looked at
    if not checkout.remove_worktree(git.store(relay), folder):
        raise StoreUnavailable(recorded("its repository knows no such worktree"), where=str(folder))


def _named(paths: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(plain(path)[:100] for path in paths[:SHOWN])
    return recorded("%(shown)s and %(n)d more", shown=shown, n=len(paths) - SHOWN) if len(paths) > SHOWN else shown


# --- legs: sockets, logs, checkouts


def _legs(folder: Path, now: datetime) -> Iterator[Left]:
    relay = Relay.objects.filter(pk=folder.name).first()
    if relay is None:
        yield Left(str(folder), recorded("no relay of this house has that name"))
        return
    legs = {str(leg.number): leg for leg in Leg.objects.filter(relay=relay).only("number", "state", "ended_at")}
    found = [one for place in _folders(folder) for one in _inside(relay, place, legs.get(place.name), now)]
    yield from found
    if relay.final and not any(one.why for one in found) and not _retained(relay, relay.ended_at, now):
        yield Left(str(folder), "", partial(_drop_folder, folder), relay.pk)


def _inside(relay: Relay, place: Path, leg: Leg | None, now: datetime) -> Iterator[Left]:
    """One folder of a relay: a leg's with its socket, or the checkouts of commands."""
    if place == places.checkouts(relay.pk):
        # beside a relay that goes on, a command may be at work in one
        why = (
            ""
            if relay.final
            else recorded("relay %(relay)s is %(status_word)s", relay=relay.pk, status_word=relay.status)
        )
    elif leg is None:
        why = recorded("%(relay)s has no leg of that number", relay=relay.pk)
    elif leg.state not in (LegState.ENDED, LegState.VOID):
        why = recorded("leg %(n)d is %(state_word)s", n=leg.number, state_word=leg.state)
    else:
        why = _retained(relay, leg.ended_at, now)
        for socket in _sockets(place) if why else []:
            yield Left(str(socket), "", partial(socket.unlink, missing_ok=True), relay.pk)
    yield Left(str(place), why, partial(_drop_folder, place), relay.pk)


def _retained(relay: Relay, since: datetime | None, now: datetime) -> str:
    """Until when logs are kept, in words; "" when that is over."""
    try:
        keep = budgets.policy_of(relay).retention
    except PolicyError as error:
        return recorded("its policy does not read: %(error)s", error=error)
    until = (since or relay.created_at) + keep
    return "" if until <= now else recorded("logs are kept until %(until)s", until=until.isoformat(timespec="seconds"))


def _sockets(folder: Path) -> list[Path]:
    found = []
    for entry in os.scandir(folder):
        if stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
            found.append(Path(entry.path))
    return sorted(found)


def _drop_folder(folder: Path) -> None:
    if folder.is_symlink():
        raise StoreUnavailable(recorded("it is a link"), where=str(folder))
    shutil.rmtree(folder)


# --- refs


def _refs(relay: Relay, store: GitStore, going: set[str]) -> Iterator[Left]:
    """`going`: the branches of this repository that were judged to go; one that goes is put to them."""
    branch = f"refs/heads/{relay.branch}"
    names = [*store.refs(f"{WIP}/{relay.pk}").items()]
    for name, sha in sorted(names):
        why = _parked(relay, store, name, sha)
        yield Left(f"{relay.repo}:{name}", why, partial(_drop_ref, store, name, sha), relay.pk)
    tip = store.ref(branch)
    if tip is not None and relay.branch == f"relay/{relay.pk}":
        if not _held(store, tip, but={branch, *going}):
            why = recorded("its work is on no other branch: git merge %(branch)s", branch=relay.branch)
        elif Path(relay.worktree).exists() and _work_in(relay, Path(relay.worktree)):
            why = recorded("its worktree stays")
        elif elsewhere := checkout.stands_on(store, relay.branch, Path(relay.worktree)):
            why = recorded("it is checked out in %(elsewhere)s", elsewhere=elsewhere)
        else:
            why = ""
            going.add(branch)
        yield Left(f"{relay.repo}:{branch}", why, partial(_drop_branch, relay, store, branch, tip), relay.pk)
    for name, why in (
        (f"refs/relay/ledger/{relay.pk}", recorded("pointers of its batons are looked up there, in every clone")),
        (f"refs/relay/state/{relay.pk}", recorded("the record of its limits and of what it spent, for every clone")),
    ):
        if store.ref(name) is not None:
            yield Left(f"{relay.repo}:{name}", why, relay=relay.pk)


def _drop_branch(relay: Relay, store: GitStore, name: str, sha: str) -> None:
    """Only after its worktree, which would stand on a branch that is gone."""
    if os.path.lexists(relay.worktree):
        raise StoreUnavailable(recorded("its worktree stays"))
    _drop_ref(store, name, sha)


def _drop_ref(store: GitStore, name: str, sha: str) -> None:
    """Only while it still stands where it was judged."""
    store.target(["update-ref", "-d", name, sha])


def _others(store: GitStore, but: Collection[str]) -> set[str]:
    """The commits of all branches and tags, here and of remotes, without those named."""
    found = {**store.refs("refs/heads"), **store.refs("refs/tags"), **store.refs("refs/remotes")}
    return {sha for ref, sha in found.items() if ref not in but}


def _held(store: GitStore, sha: str, but: Collection[str]) -> bool:
    """Whether a branch or tag that stays reaches the commit."""
    wanted = "".join(f"{line}\n" for line in [sha, *(f"^{tip}" for tip in sorted(_others(store, but)))])
    # empty when everything that the commit reaches, itself first, is reached by one of the others too
    return not store.objects(["rev-list", "-n1", "--stdin"], stdin=wanted.encode()).out.strip()


def _parked(relay: Relay, store: GitStore, name: str, sha: str) -> str:
    """Why parked work stays: some content of it is in no commit of a branch. "" when every bit of it is."""
    tips = sorted(_others(store, ()))
    if name.endswith(".head"):
        return "" if _held(store, sha, ()) else recorded("commit %(sha)s is on no branch", sha=sha[:12])
    if store.types([sha])[sha] != "commit":
        return recorded("it is no commit of ours")
    parents = text(store.objects(["rev-list", "--parents", "-n1", sha, "--"]).out).split()[1:]
    if not parents or not _held(store, parents[0], ()):
        return recorded("what it stands on is on no branch")
    blobs: set[str] = set()
    for new in (sha, *parents[1:]):
        out = store.objects(
            ["diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", parents[0], new, "--"]
        ).out
        for entry in text(out).split("\0"):
            words = entry.split(" ")
            if entry.startswith(":") and len(words) == 5 and set(words[3]) != {"0"}:
                blobs.add(words[3])
    if not blobs:
        return ""
    start = relay.start_sha if store.types([relay.start_sha])[relay.start_sha] == "commit" else ""
    wanted = "".join(f"{line}\n" for line in [*tips, *([f"^{start}"] if start else [])])
    args = ["rev-list", "--objects", "--no-object-names", "--stdin"]
    reached = store.objects(args, stdin=wanted.encode()).out
    lost = blobs - set(text(reached).split())
    return (
        recorded("%(n)d files of it are in no commit of a branch: git show %(name)s", n=len(lost), name=name)
        if lost
        else ""
    )

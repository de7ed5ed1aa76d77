"""A relay that has closed two legs without any agent, so that a test can change the world under its baton and reload.

The worktree, its commits, the stores and the baton are real; what is left out is only the program that would have made
them. `World.reload()` is what a supervisor does before it starts the next leg.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.utils import timezone

from relays.core import baton as batons
from relays.core.baton import Artifact, Cursor, TombstoneRecord
from relays.core.pointers import Kind
from relays.core.vocabulary import Reason
from relays.driver import budgets, claim, gates, rebaton, successor
from relays.driver.commands import Commands
from relays.driver.prepare import NotNow, Prepare, Ready
from relays.models import Baton, Check, GateEpisode, LedgerRow, Leg, LegState, Relay, RelayStatus, Verification
from relays.stores.worktree import WorkTree
from tests.builders import commit, git, head, make_repo
from tests.driver.course import start_relay

MEMORY = ".relay/memory/tip.md"
FILES = {"README.md": "A repository of a test.\n", "src/a.py": "a\n", MEMORY: "Remember.\n", "rows.jsonl": "{}\n"}
NEXT = "Go on with the next part."


@dataclass
class World:
    """`start`: where the relay began; `cursors`: where its legs ended, the current baton's last."""

    repo: Path
    pk: str
    start: str
    cursors: list[str]

    @property
    def relay(self) -> Relay:
        return Relay.objects.get(pk=self.pk)

    @property
    def worktree(self) -> Path:
        return Path(self.relay.worktree)

    @property
    def branch(self) -> str:
        return self.relay.branch

    @property
    def row(self) -> Baton:
        return Baton.objects.select_related("leg", "relay").get(relay=self.pk, current=True)

    @property
    def baton(self) -> batons.Baton:
        return rebaton.read(self.row)

    @property
    def climb(self) -> Verification:
        """The newest climb of the ladder."""
        found = Verification.objects.filter(relay=self.pk, purpose="reload").order_by("-pk").first()
        assert found is not None
        return found

    @property
    def checks(self) -> dict[str, tuple[str, str]]:
        """Path -> verdict and evidence of every pointer at the newest climb."""
        rows = Check.objects.filter(verification=self.climb, pointer=True)
        return {row.path: (row.verdict, row.evidence) for row in rows}

    @property
    def asked(self) -> list[str]:
        return list(GateEpisode.objects.filter(relay=self.pk).order_by("pk").values_list("token", flat=True))

    def reload(self) -> Ready | str:
        """Take the pending leg to `starting`; why not, where it does not start."""
        relay = self.relay
        leg = Leg.objects.get(relay=relay, state=LegState.PENDING)
        policy = budgets.policy_of(relay)
        held = claim.take(relay.pk, policy.host_patience)
        try:
            return Prepare(relay, leg, held, policy, Commands(relay, policy)).run()
        except NotNow as why:
            return str(why)
        finally:
            held.release()

    def again(self, *, later: timedelta = timedelta()) -> Ready | str:
        """A wait or an approved ask is over; `later`: how much longer ago the first silence was."""
        changed: dict[str, Any] = {"status": RelayStatus.READY, "next_at": None}
        since = self.relay.unknown_since
        if since is not None:
            changed["unknown_since"] = since - later
        Relay.objects.filter(pk=self.pk).update(**changed)
        return self.reload()

    def play(self, files: dict[str, str | None], *, wip: bool = False, **changed: Any) -> str:
        """One leg's work, and its end: a commit, a ledger row, parked work where wanted, and the baton of it."""
        assert isinstance(self.reload(), Ready), self.relay.status_why
        leg = Leg.objects.get(relay=self.pk, state=LegState.STARTING)
        tip = commit(self.worktree, files, f"Work of leg {leg.number}")
        row = LedgerRow.objects.create(
            id=f"{self.pk}.{leg.number}.c1",
            relay_id=self.pk,
            leg=leg,
            refs=[f"commit:{tip}"],
            by="person",
            at=timezone.now(),
        )
        parked = ""
        if wip:
            (self.worktree / "half.txt").write_text("half\n")
            tree = WorkTree(self.worktree)
            parked = tree.store_wip(f"refs/relay/wip/{self.pk}/{leg.number}", "Parked") or ""
            tree.clean_to_head()
        self.close(leg, tip, row, parked, **changed)
        self.cursors.append(tip)
        return tip

    def close(self, leg: Leg, tip: str, row: LedgerRow, wip: str, **changed: Any) -> None:
        """The leg's end with a baton that points into every store; `changed`: other fields of its cursor."""
        now: datetime = timezone.now()
        Leg.objects.filter(pk=leg.pk).update(
            state=LegState.ENDED, ended_at=now, started_at=now, reason=Reason.ROTATED, end_sha=tip, progress=1
        )
        leg.refresh_from_db()
        relay = self.relay
        cursor = {"start_sha": tip, "ledger_ref": row.pk, "wip_tree": wip, "held_region": tuple(relay.region)}
        baton = batons.Baton(
            relay_id=relay.pk,
            leg=leg.number,
            parent_trace=leg.trace,
            objective=relay.pin,
            done_when=relay.done_when,
            cursor=Cursor(**{**cursor, **changed}),
            next_action=NEXT,
            open_questions=("file:README.md Who reads it?", "#2 which way?"),
            artifacts=(
                Artifact(Kind.COMMIT, tip),
                Artifact(Kind.ISSUE, "#1"),
                Artifact(Kind.MEMORY, "tip"),
                Artifact(Kind.LEDGER, row.pk),
                Artifact(Kind.LEDGER, "rows.jsonl#L1"),
                Artifact(Kind.FILE, "src/*.py"),
            ),
            do_not_rederive=("memory:tip it was tried",),
            tombstone=TombstoneRecord(Reason.ROTATED, tip, "closed by a test"),
        )
        batons.check_new(baton)
        stored = rebaton.store(relay, leg, baton, "rotation", now)
        successor.make(relay, leg, stored, now)
        gates.confirm(relay.pk, now)
        Relay.objects.filter(pk=relay.pk).update(status=RelayStatus.READY)


def make_world(folder: Path, *, object_format: str = "sha1", repo: Path | None = None, **start: Any) -> World:
    """Two legs played on a fresh repository (or on `repo`); the second one parked some work."""
    if repo is None:
        repo = make_repo(folder / "repo", FILES, issues=2, object_format=object_format)
    relay = start_relay(repo, **start)
    world = World(repo, relay.pk, head(repo), [])
    world.play({"one.txt": "1\n"})
    world.play({"two.txt": "2\n"}, wip=True)
    return world


def forget(repo: Path) -> None:
    """Everything that no ref reaches is gone."""
    git(repo, "reflog", "expire", "--expire=now", "--all")
    git(repo, "gc", "-q", "--prune=now")


def object_file(repo: Path, sha: str) -> Path:
    """Where a loose object lies."""
    return Path(git(repo, "rev-parse", "--path-format=absolute", "--git-common-dir"), "objects", sha[:2], sha[2:])

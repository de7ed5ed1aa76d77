"""baton.md, Bounds ("this is what makes it O(1)"): after 1,000 legs a baton is as small as after 10 and loses nothing.

No agent runs here: a real repository of 1,000 commits, real stores, the maker, the ledger and the notes as a rotation
uses them.
"""

import json
import subprocess
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from relays.core import baton as batons
from relays.core import pointers
from relays.core.baton import Baton as CoreBaton
from relays.core.lifecycle import EndDecision
from relays.core.objective import make_pin
from relays.core.pointers import Kind, Pointer
from relays.core.reload import pointers_of
from relays.core.vocabulary import Reason
from relays.driver import baton_maker, git, rebaton
from relays.models import Baton, Fact, LedgerRow, Leg, LegState, Relay
from relays.stores.bundle import Stores
from tests.builders import git as run_git
from tests.builders import issue_lines, make_repo
from tests.web_builders import make_relay

LEGS = 1000
ISSUES = 120
WILD = {9: 0, 400: 300, 401: 0, 700: 90}  # legs that declare so many more artifacts than the others


def asked_at(leg: int) -> int | None:
    """The issue that a leg files its open question under; every fifth leg asks one."""
    return leg // 5 % ISSUES + 1 if leg % 5 == 0 else None


def closed_at(leg: int) -> set[int]:
    """Issues that are closed at the tip of a leg: a question is answered 15 legs after it was asked."""
    return {number for asked in range(0, leg - 14, 5) if (number := asked_at(asked)) and asked < 5 * ISSUES}


def history(repo: Path, legs: int) -> list[str]:
    """One commit for each leg on `main`: its file, and the issue file as it stands then. Their SHAs in order."""
    stream = bytearray()
    for leg in range(legs):
        states = {number: "closed" if number in closed_at(leg) else "open" for number in range(1, ISSUES + 1)}
        files = {f"work/{leg}.md": f"Leg {leg}.\n", ".relay/issues.jsonl": issue_lines(states)}
        stream += b"commit refs/heads/main\ncommitter T <t@example.org> %d +0000\ndata 4\nWork" % (1_700_000_000 + leg)
        stream += b"\nfrom refs/heads/main^0\n" if leg == 0 else b"\n"
        for path, text in files.items():
            stream += b"M 644 inline %s\ndata %d\n%s\n" % (path.encode(), len(text.encode()), text.encode())
    subprocess.run(["git", "-C", str(repo), "fast-import", "--quiet"], input=bytes(stream), check=True)
    return run_git(repo, "rev-list", "--reverse", f"HEAD~{legs}..HEAD").split()


class Simulation:
    """A relay whose legs are only their records: each made one commit, one ledger row, and learnt something."""

    def __init__(self, folder: Path, legs: int, words: str = "") -> None:
        self.words = words  # what a dead end's label says beside its number
        repo = make_repo(folder / "repo", issues=ISSUES)
        start = run_git(repo, "rev-parse", "HEAD")
        self.shas = history(repo, legs)
        self.memories = folder / "memories"
        self.memories.mkdir()
        pin = make_pin("pin-parts", "Work through every part of it.")
        self.relay: Relay = make_relay(
            pin_id=pin.pin_id,
            objective=pin.text,
            objective_digest=pin.digest,
            repo=str(repo),
            git_dir=str(repo / ".git"),
            worktree=str(repo),
            branch="main",
            start_sha=start,
        )
        self.store = git.store(self.relay)
        self.clock = timezone.now() - timedelta(days=40)
        self.handed: list[CoreBaton] = []
        self.answered: set[Pointer] = set()

    def leg(self, number: int) -> None:
        now = self.clock = self.clock + timedelta(minutes=50)
        leg = Leg.objects.create(
            relay=self.relay, number=number, state=LegState.ENDED, trace=f"tr-{number}", turns=20, ended_at=now,
            started_at=now, reason=Reason.ROTATED, end_sha=self.shas[number],
        )  # fmt: skip
        (self.memories / f"tried-{number}.md").write_text("It deadlocks.\n")
        row = LedgerRow.objects.create(
            id=f"{self.relay.pk}.{number}.e7", relay=self.relay, leg=leg, refs=[f"file:work/{number}.md"], by="agent",
            at=now,
        )  # fmt: skip
        said = [
            ("artifact", f"file:work/{number}.md", ""),
            ("dead_end", f"memory:tried-{number}", f"way {number} of it{self.words}"),
        ]
        if (question := asked_at(number)) is not None:
            said.append(("open_question", f"issue:#{question}", f"who reads part {number} of it"))
        more = WILD.get(number, 0)
        said += [("artifact", f"file:work/{one}.md", "") for one in range(max(number - more, 0), number)]
        Fact.objects.bulk_create(
            Fact(leg=leg, seq=seq, kind=kind, backing=backing, label=label or backing, at=now)
            for seq, (kind, backing, label) in enumerate(said)
        )
        stores = Stores(self.store, self.shas[number], self.memories, self.relay.pk)
        measured: Any = SimpleNamespace(tip=self.shas[number], stores=stores, candidates=("Go on with the next part.",))
        made: Any = SimpleNamespace(commits=(self.shas[number],), issues=(), rows=(row.pk,))
        parts = self.parts = baton_maker.gather(leg, measured, made)
        self.answered |= {at for entry in parts.answered if (at := pointers.parse_entry(entry)[0])}
        decision = EndDecision(Reason.ROTATED)
        with transaction.atomic():
            # the rotation transaction dies at its end: whoever repeats it hands over the same
            undone = baton_maker.make(self.relay, leg, measured, parts, decision, "", now)
            transaction.set_rollback(True)
        with transaction.atomic():
            baton = baton_maker.make(self.relay, leg, measured, parts, decision, "", now)
            rebaton.store(self.relay, leg, baton, "rotation", now)
        assert baton == undone
        self.handed.append(baton)

    def notes(self) -> None:
        """Each baton as a git note at the SHA of its tombstone, as the outbox writes it."""
        for row in Baton.objects.filter(relay=self.relay).order_by("pk"):
            baton = batons.read(row.text).baton
            assert baton is not None
            self.store.add_note(baton.tombstone.at_sha, row.text)


def held(baton: CoreBaton) -> set[Pointer]:
    return {at.pointer for at in pointers_of(baton) if at.pointer is not None}


def chain(relay: Relay, baton: CoreBaton) -> tuple[list[str], set[Pointer]]:
    """The rows of moved entries that the baton reaches, newest first, and all that they list."""
    rows = dict(LedgerRow.objects.filter(relay=relay, note__startswith="overflow").values_list("pk", "refs"))
    todo = [one.ref for one in baton.artifacts if one.kind is Kind.LEDGER and one.ref in rows]
    walked: list[str] = []
    found: set[Pointer] = set()
    while todo:
        row = todo.pop()
        walked.append(row)
        for text in rows[row]:
            pointer, _ = pointers.parse_entry(text)
            assert pointer is not None, text
            found.add(pointer)
            if pointer.kind is Kind.LEDGER and pointer.ref in rows and pointer.ref not in walked:
                todo.append(pointer.ref)
    return walked, found


def by_the_cursor(repo: str, baton: CoreBaton) -> set[Pointer]:
    """Commits below `start_sha`, and what the batons say that stand as notes at them."""
    below = set(run_git(Path(repo), "rev-list", baton.cursor.start_sha).split())
    noted = [line.split() for line in run_git(Path(repo), "notes", "--ref", "refs/notes/relay", "list").splitlines()]
    asked = "".join(f"{blob}\n" for blob, commit in noted if commit in below).encode()
    done = subprocess.run(
        ["git", "-C", repo, "cat-file", "--batch=%(objectsize)"], input=asked, capture_output=True, check=True
    )
    found = {Pointer(Kind.COMMIT, sha) for sha in below}
    for line in done.stdout.splitlines():
        if line.startswith(b"{"):
            one = batons.read(line).baton
            assert one is not None and json.loads(line)["relay_id"] == baton.relay_id
            found |= held(one)
    return found


def check(simulation: Simulation, legs: int) -> None:
    """Flat, within every bound, and each pointer that any baton ever held is reached from the last one."""
    handed, relay = simulation.handed, simulation.relay
    sizes = [len(batons.canonical(one)) for one in handed]
    assert sizes[-1] <= sizes[9] + 2048, f"{sizes[-1]} after {legs} legs, {sizes[9]} after 10"
    assert max(sizes) <= 12 * 1024
    for one in handed:
        batons.check_new(one)

    last = handed[-1]
    walked, listed = chain(relay, last)
    rows = LedgerRow.objects.filter(relay=relay, by="driver")
    assert sorted(walked) == sorted(rows.values_list("pk", flat=True)) and walked, "one chain, whole"
    assert len(walked) < legs / 4, "no row for every leg"
    # every later baton points at the newest row there was
    newest = ""
    first = {row.leg.number: row.pk for row in rows.select_related("leg")}
    for one in handed:
        newest = first.get(one.leg, newest)
        assert not newest or one.artifacts[0].ref == newest, f"leg {one.leg}"

    # questions and dead ends are carried: those that left are in the chain, or answered
    for name in ("open_questions", "do_not_rederive"):
        ever = {pointers.parse_entry(entry)[0] for one in handed for entry in getattr(one, name)}
        now = {pointers.parse_entry(entry)[0] for entry in getattr(last, name)}
        assert ever - now - listed - simulation.answered == set(), name
    # of a leg that made more than a baton holds, the rest stands in the row
    everything = set().union(*(held(one) for one in handed)) | listed
    assert everything - held(last) - listed - by_the_cursor(relay.repo, last) == set()


@pytest.mark.django_db
def test_what_was_handed_over_and_is_gone_leaves_instead_of_making_the_baton_stale(tmp_path: Path) -> None:
    """baton.md, ladder step 7: the pointers of dead ends resolve; the tombstone names those that do not any more."""
    simulation = Simulation(tmp_path, 3)
    simulation.leg(0)
    simulation.leg(1)
    assert [entry.split()[0] for entry in simulation.handed[1].do_not_rederive] == ["memory:tried-0", "memory:tried-1"]
    (simulation.memories / "tried-0.md").unlink()
    simulation.leg(2)
    assert [entry.split()[0] for entry in simulation.handed[2].do_not_rederive] == ["memory:tried-1", "memory:tried-2"]
    leg = Leg.objects.get(number=2)
    said = baton_maker.assessment(leg, None, simulation.parts, EndDecision(Reason.ROTATED), "", "")
    assert said["gone"] == ["memory:tried-0"], "by its pointer: agent text never enters it"


@pytest.mark.django_db
def test_a_store_that_does_not_answer_takes_nothing_from_the_baton(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, 2)
    simulation.leg(0)
    leg = Leg.objects.create(relay=simulation.relay, number=1, trace="tr-1")
    silent: Any = SimpleNamespace(tip=simulation.shas[1], stores=None, candidates=("Go on.",))
    parts = baton_maker.gather(leg, silent, None)
    baton = baton_maker.make(simulation.relay, leg, silent, parts, EndDecision(Reason.ROTATED), "", simulation.clock)
    assert baton.do_not_rederive == simulation.handed[0].do_not_rederive
    assert baton.open_questions == simulation.handed[0].open_questions and parts.gone == ()


@pytest.mark.django_db
def test_thirty_legs_hand_over_no_more_than_ten_and_lose_nothing(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, 30, " would have been shorter, but it waits for itself when two of them run")
    for number in range(30):
        simulation.leg(number)
    simulation.notes()
    check(simulation, 30)
    assert simulation.answered, "questions whose issue was closed left"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.django_db
def test_a_thousand_legs_hand_over_no_more_than_ten_and_lose_nothing(tmp_path: Path) -> None:
    simulation = Simulation(tmp_path, LEGS)
    for number in range(LEGS):
        simulation.leg(number)
    simulation.notes()
    check(simulation, LEGS)
    assert simulation.answered, "questions whose issue was closed left"

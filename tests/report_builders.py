"""A relay with legs, batons, checks, boundaries and a gate over a real git repository, for the pages of one relay."""

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from relays.core import baton as batons
from relays.core import reset
from relays.core.objective import make_pin
from relays.core.pointers import Kind
from relays.driver import progress
from relays.models import (
    Baton,
    Boundary,
    Call,
    Check,
    Fact,
    GateEpisode,
    LedgerRow,
    Leg,
    LegState,
    RegionLease,
    Relay,
    RelayStatus,
    Repository,
    ResetTransaction,
    Tombstone,
    Verification,
)
from tests import builders
from tests.web_builders import make_relay, make_user

WINDOW, MARK, CEILING = 200_000, 120_000, 180_000


class Story:
    """A relay that is told leg by leg. Each leg makes one commit that closes an issue and hands over a baton."""

    def __init__(self, repo: Path, *, owner: User | None = None, issues: int = 40, **values: Any) -> None:
        self.repo = builders.make_repo(repo, issues=issues)
        self.issues = issues
        self.pin = make_pin("pin-orders", values.pop("objective", "Close the open issues of acme/orders"))
        self.clock = timezone.now() - timedelta(hours=12)
        start = builders.head(self.repo)
        self.relay: Relay = make_relay(
            owner=owner or make_user("", "operator"),
            pin_id=self.pin.pin_id,
            objective=self.pin.text,
            objective_digest=self.pin.digest,
            repo=str(self.repo),
            git_dir=str(self.repo / ".git"),
            worktree=str(self.repo),
            start_sha=start,
            created_at=self.clock,
            **values,
        )
        Relay.objects.filter(pk=self.relay.pk).update(branch=f"relay/{self.relay.pk}")
        self.relay.refresh_from_db()
        builders.git(self.repo, "checkout", "-q", "-b", self.relay.branch)
        place, _ = Repository.objects.get_or_create(git_dir=self.relay.git_dir)
        RegionLease.objects.create(relay=self.relay, repository=place, region=["**"], since=self.clock)
        self.legs: list[Leg] = []
        self.cursor = start

    def tick(self, minutes: float) -> datetime:
        self.clock += timedelta(minutes=minutes)
        return self.clock

    def leg(
        self,
        *,
        turns: int = 24,
        peak: int = 126_000,
        reason: str = "RELAY_ROTATED",
        holds: tuple[str, ...] = (),
        cause: str = "",
        hold: str = "",
        made: bool = True,
        priced: bool = False,
        **values: Any,
    ) -> Leg:
        """One more leg: it runs where `reason` is "", else it ends, writes its tombstone and hands over a baton."""
        number = len(self.legs)
        began = self.tick(1)
        first, growth = 24_400, max(1, (peak - 24_400) // max(1, turns - 1))
        resident = [min(peak, first + growth * turn) for turn in range(turns - 1)] + [peak] if turns else []
        ended = self.tick(turns) if reason else None
        subject = f"Close issue {number + 1}"
        made = made and bool(reason)
        sha = builders.commit(self.repo, self._work(number), subject) if made else self.cursor
        detail = {
            "made": [sha],
            "commits": [{"sha": sha, "subject": subject, "patch_id": "", "added": 2, "deleted": 1, "paths": 2}],
            "issues": [f"issue:#{number + 1}"],
        }
        leg = Leg.objects.create(
            relay=self.relay, number=number, state=LegState.ENDED if reason else LegState.RUNNING,
            trace=f"tr-{self.relay.pk[-4:]}-{number:04d}", parent_trace=self.legs[-1].trace if self.legs else "",
            model="scripted-1", window_tokens=WINDOW, mark_tokens=MARK, ceiling_tokens=CEILING, cursor_sha=self.cursor,
            end_sha=sha if reason else "", turns_digest="1" * 64 if reason and turns else "",
            armed=peak >= MARK, armed_axis="context" if peak >= MARK else "",
            reason=reason, cause=cause, hold=hold, started_at=began, ended_at=ended, turns=turns,
            resident_tokens=resident[-1] if resident else 0, peak_tokens=max(resident, default=0), peak_turn=turns,
            largest_result=6_000, output_tokens=900 * turns, spend=Decimal("0.07") * turns if priced else Decimal(0),
            unpriced_calls=0 if priced else turns, calls=turns, tool_calls=2 * turns, scripted=not priced,
            progress=(2 if made else 0) if reason else None, progress_detail=detail if made else {}, **values,
        )  # fmt: skip
        Call.objects.bulk_create(
            Call(
                leg=leg, key=f"{leg.trace}:{turn}", turn=turn, model=leg.model, input_tokens=400,
                cache_read=max(0, tokens - 6_400), cache_write_5m=6_000, output_tokens=900, resident_tokens=tokens,
                cost=Decimal("0.07") if priced else None, scripted=leg.scripted, at=began + timedelta(minutes=turn),
            )
            for turn, tokens in enumerate(resident, start=1)
        )  # fmt: skip
        progress.keep(leg, leg.progress_detail)
        self._boundaries(leg, resident, holds)
        self._roll_up(leg)
        self.legs.append(leg)
        if reason:
            self._hand_over(leg, sha)
        return leg

    def _work(self, number: int) -> dict[str, str | None]:
        states = {n: "closed" if n <= number + 1 else "open" for n in range(1, self.issues + 1)}
        return {f"work/{number + 1}.md": f"Item {number + 1}\n", ".relay/issues.jsonl": builders.issue_lines(states)}

    def _boundaries(self, leg: Leg, resident: list[int], holds: tuple[str, ...]) -> None:
        rows = []
        for turn, tokens in enumerate(resident, start=1):
            last = len(resident) - turn
            hold = holds[last] if last < len(holds) else ""
            rows.append(
                Boundary(
                    leg=leg, number=turn - 1, seq=turn * 4, turn=turn, at=self.clock - timedelta(minutes=last),
                    resident_tokens=tokens, axes={"context": [tokens, WINDOW, 0.6]}, armed=tokens >= MARK, hold=hold,
                    hold_detail=["src/orders.py", "notes.txt"] if hold == "TREE_DIRTY_UNPARKED" else [],
                    next_actions=["Close the next issue."], answer="go" if not hold else f"wind_down {hold}",
                )
            )  # fmt: skip
        Boundary.objects.bulk_create(rows)

    def _roll_up(self, leg: Leg) -> None:
        relay = self.relay
        relay.turns_used += leg.turns
        relay.output_used += leg.output_tokens
        relay.spend_used += leg.spend
        relay.unpriced_calls += leg.unpriced_calls
        relay.legs_used += 1
        relay.wall_used = (relay.wall_used or timedelta(0)) + timedelta(minutes=leg.turns)
        relay.progress_total += leg.progress or 0
        relay.progress_at = leg.ended_at if leg.progress else relay.progress_at
        relay.last_data_at = leg.ended_at or self.clock
        relay.save()

    def _hand_over(self, leg: Leg, sha: str) -> None:
        Tombstone.objects.create(
            leg=leg, reason=leg.reason, cause=leg.cause, hold=leg.hold, at_sha=sha, note=f"leg {leg.number} ended",
            assessment={"turns": leg.turns, "commits": 1, "wip": "", "wip_error": "", "detail": []}, at=leg.ended_at,
        )  # fmt: skip
        LedgerRow.objects.create(
            id=f"{self.relay.pk}.{leg.number}.e9", relay=self.relay, leg=leg, refs=[f"commit:{sha}"], by="agent",
            note="what was done", at=leg.ended_at,
        )  # fmt: skip
        Fact.objects.create(
            leg=leg, seq=3, kind="fact", label="The stub is deterministic", durability="durable",
            backing=f"commit:{sha}", verdict="verified", evidence="a commit on the branch", at=leg.ended_at,
        )  # fmt: skip
        baton = batons.Baton(
            relay_id=self.relay.pk, leg=leg.number, parent_trace=leg.trace, objective=self.pin,
            done_when=self.relay.done_when, cursor=batons.Cursor(start_sha=sha, held_region=("**",)),
            next_action=f"Close issue {leg.number + 2}.",
            open_questions=("issue:#40 may the dump be replaced?",) if self.issues >= 40 else (),
            artifacts=(
                batons.Artifact(Kind.COMMIT, sha), batons.Artifact(Kind.ISSUE, f"#{leg.number + 1}"),
                batons.Artifact(Kind.LEDGER, f"{self.relay.pk}.{leg.number}.e9"),
            ),
            do_not_rederive=(), tombstone=batons.TombstoneRecord(leg.reason, sha),
        )  # fmt: skip
        self.write(leg, baton)
        self.cursor = sha

    def write(self, leg: Leg, baton: batons.Baton) -> Baton:
        """Make `baton` the current one, with the reload that the one before it went through."""
        before = Baton.objects.filter(relay=self.relay, current=True).select_related("leg").first()
        if before is not None and before.leg.number < leg.number:
            self.reloaded(before, leg)
        Baton.objects.filter(relay=self.relay, current=True).update(current=False)
        text = batons.canonical(baton)
        return Baton.objects.create(
            relay=self.relay, leg=leg, text=text.decode(), digest=batons.digest(baton), size=len(text),
            pin_digest=baton.objective.digest,
            at=leg.ended_at or self.clock,
        )  # fmt: skip

    def reloaded(
        self, row: Baton, successor: Leg, *, dangling: tuple[str, ...] = (), unknown: tuple[str, ...] = ()
    ) -> Verification:
        """The ladder over `row` at the reload of `successor`, with the verdicts of the named paths."""
        reading = batons.read(row.text)
        assert reading.baton is not None
        from relays.core.reload import pointers_of

        checks = [(step.step, step.path, step.verdict, step.evidence, False) for step in reading.steps]
        for at in pointers_of(reading.baton):
            verdict = "dangling" if at.path in dangling else "unknown" if at.path in unknown else "verified"
            evidence = {"dangling": "exists, not on the branch", "unknown": "no answer"}.get(verdict, "there")
            checks.append((at.step, at.path, verdict, evidence, True))
        outcome = "stale" if dangling else "unknown" if unknown else "fresh"
        if outcome == "fresh":
            checks += [(8, "", "passed", "not done yet", False), (9, "", "passed", "held by this relay", False)]
        at = successor.started_at or self.clock
        culprit = next(iter((*dangling, *unknown)), "")
        made = Verification.objects.create(
            relay=self.relay, baton=row, leg=successor, purpose="reload", outcome=outcome, path=culprit,
            step=next((step for step, path, *_ in checks if path == culprit and culprit), None),
            evidence="exists, not on the branch" if dangling else "",
            branch=self.relay.branch, tip=self.cursor, cursor_sha=self.cursor, rebuilt=bool(dangling), at=at,
            plan={"reread": {"commits": [], "issues": [], "ledger": []}, "next_action": reading.baton.next_action},
        )  # fmt: skip
        Check.objects.bulk_create(
            Check(
                verification=made,
                number=n,
                step=step,
                path=path,
                verdict=verdict,
                pointer=pointer,
                evidence=evidence,
                at=at,
            )
            for n, (step, path, verdict, evidence, pointer) in enumerate(checks)
        )
        counts = {
            name: sum(1 for check in checks if check[4] and check[2] == name)
            for name in ("verified", "dangling", "unknown")
        }
        Leg.objects.filter(pk=row.leg_id).update(**{f"fidelity_{name}": count for name, count in counts.items()})
        if successor.pk != row.leg_id:
            self._reset(row, successor, at)
        return made

    def _reset(self, row: Baton, successor: Leg, at: datetime) -> None:
        ResetTransaction.objects.get_or_create(
            old_leg=row.leg, new_leg=successor,
            defaults={
                "old_trace": row.leg.trace, "new_trace": successor.trace, "seed_digest": row.digest,
                "contributors": [
                    {"kind": "preamble"}, {"kind": "objective_pin"}, {"kind": "baton", "digest": row.digest}
                ],
                "omitted": [span.as_mapping() for span in reset.omitted_spans(["0" * 64] * row.leg.turns)],
                "rearm": {}, "at": at,
            },
        )  # fmt: skip

    def park(self, token: str = "RELAY_PARKED_UNSAFE", **values: Any) -> GateEpisode:
        """The relay is parked and a gate waits, opened by its newest leg."""
        Relay.objects.filter(pk=self.relay.pk).update(
            status=RelayStatus.PARKED, status_at=self.clock, status_why=f"{token} at leg {len(self.legs) - 1}"
        )
        self.relay.refresh_from_db()
        opened = timezone.now() - timedelta(minutes=43)
        made = {"items": ["2 dirty paths: src/orders.py, notes.txt"], "opened_at": opened, "state_at": opened, **values}
        return GateEpisode.objects.create(
            relay=self.relay, leg=self.legs[-1] if self.legs else None, token=token, **made
        )

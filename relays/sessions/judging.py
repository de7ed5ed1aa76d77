"""The fidelity of would-be batons: what they point at, asked of the session's own repository.

Mission, phase 0: "score baton fidelity for weeks before any auto-fire". A module of its own, because who only reads
sessions needs no repository's store, and those take a tenth of a second to load.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import Count, QuerySet
from django.utils import timezone

from relays.core import shadow
from relays.core.fidelity import score
from relays.core.lines import recorded
from relays.core.pointers import Answer, Kind, Pointer, Verdict, is_sha
from relays.models import Session, SessionLeg
from relays.sessions import rows, topics
from relays.sessions.shadow import JUDGED
from relays.stores.base import BadName, StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.git import GitStore, discover
from relays.stores.made import made_between, whole_names

#: commits of a repository that one session's times may add
MOST_SEEN: Final = 2_000
#: repositories that are asked before anybody is asked whether to stop
AT_A_TIME: Final = 20
#: legs of sessions that are judged together
LEGS_AT_A_TIME: Final = 500


def judge_waiting(sessions: Iterable[int] | QuerySet[Any, Any], stop: Callable[[], bool]) -> bool:
    """Judge what is not judged yet of these sessions (keys, or a query of them), some at a time; pages are told.

    `stop` is asked after some; False when it ended this before all were judged.
    """
    waiting = SessionLeg.objects.filter(judged_at__isnull=True, session__in=sessions).order_by()
    counted = waiting.values_list("session__cwd", "session__branch", "session").annotate(n=Count("pk"))
    for some in _some(sorted(counted)):
        whose = Session.objects.in_bulk(some)
        found: dict[int, list[SessionLeg]] = defaultdict(list)
        for leg in SessionLeg.objects.filter(session__in=some).order_by("number"):
            found[leg.session_id].append(leg)
        groups: dict[tuple[str, str], list[_Judged]] = defaultdict(list)
        for session in whose.values():
            groups[session.cwd, session.branch].append((session, found[session.pk]))
        for (cwd, branch), group in groups.items():
            _judge(cwd, branch, group)
        # a row that was projected anew meanwhile has another key: it is left unjudged
        with transaction.atomic():
            rows.write([leg for legs in found.values() for leg in legs], JUDGED)
        topics.tell_changed(whose)
        # after the first ones: whatever the rest of a step took, it comes to an end
        if stop():
            return False
    return True


#: a session with its legs in their order
_Judged = tuple[Session, Sequence[SessionLeg]]


def _some(counted: Sequence[tuple[str, str, int, int]]) -> Iterator[list[int]]:
    """Keys of sessions to judge together, those of one repository beside one another; `counted`: (cwd, branch, key,

    legs that wait). What asking costs is a repository's, what is held in memory the legs'.
    """
    some: list[int] = []
    places: set[tuple[str, str]] = set()
    legs = 0
    for cwd, branch, session, count in counted:
        if some and (legs + count > LEGS_AT_A_TIME or len(places | {(cwd, branch)}) > AT_A_TIME):
            yield some
            some, places, legs = [], set(), 0
        some.append(session)
        places.add((cwd, branch))
        legs += count
    if some:
        yield some


def judge(session: Session) -> Mapping[str, int]:
    """Judge the would-be batons of all legs against the repository at `session.cwd`, and keep the verdicts.

    Commits that the session's branch got between its times are added as pointers (`baton["seen"]`; `seen_more`: how
    many were over the bound). Where the
    repository is gone or may not be read every pointer is unknown, with the reason in each check and in `baton["why"]`.
    Returns the sums of `verified`, `dangling` and `unknown`; never raises for what the repository is or says.
    """
    legs = list(SessionLeg.objects.filter(session=session).order_by("number"))
    _judge(session.cwd, session.branch, [(session, legs)])
    # a row that was projected anew meanwhile has another key: it is left unjudged
    SessionLeg.objects.bulk_update(legs, JUDGED, batch_size=200)
    return {name: sum(getattr(leg, name) for leg in legs) for name in ("verified", "dangling", "unknown")}


def _judge(cwd: str, branch: str, group: Sequence[_Judged]) -> None:
    """The same of all sessions that ran in one folder on one branch, in the rows, which are not saved."""
    every = [leg for _, legs in group for leg in legs]
    try:
        answers = _Repository(cwd, branch).answers(group)
        why = ""
    except StoreUnavailable as error:
        why = recorded("the repository cannot be asked: %(evidence)s", evidence=error.evidence)
        unknown = Answer(Verdict.UNKNOWN, why)
        answers = {pointer: unknown for leg in every for pointer in leg.baton["pointers"]}
    now = timezone.now()
    for leg in every:
        _keep(leg, answers, why)
        leg.judged_at = now


def _keep(leg: SessionLeg, answers: Mapping[str, Answer], why: str) -> None:
    pointers: list[str] = leg.baton["pointers"]
    found = [answers[pointer] for pointer in pointers]
    result = score(answer.verdict for answer in found)
    leg.verified, leg.dangling, leg.unknown = result.verified, result.dangling, result.unknown
    leg.checks = [
        {"pointer": pointer, "verdict": str(answer.verdict), "evidence": answer.evidence}
        for pointer, answer in zip(pointers, found, strict=True)
    ]
    commits = (
        pointer.removeprefix("commit:")
        for pointer in reversed(pointers)
        if pointer.startswith("commit:") and answers[pointer].verdict is Verdict.VERIFIED
    )
    head = next(commits, None)
    missing = set(leg.baton.get("missing", ())) - set(shadow.NEEDS_COMMIT)
    if head is None:
        missing |= set(shadow.NEEDS_COMMIT)
    seen = [one for one in leg.baton.get("seen", ()) if one in set(pointers)]
    leg.baton = {**leg.baton, "seen": seen, "start_sha": head, "missing": sorted(missing), "why": why}


class _Repository:
    """The repository of sessions of one folder and branch, hostile as any: asked only through the stores, which run

    nothing of its config.

    Raises StoreUnavailable where it cannot answer.
    """

    def __init__(self, cwd: str, branch: str) -> None:
        if not os.path.isabs(cwd):
            raise StoreUnavailable(recorded("the session names no folder"))
        self.cwd = cwd
        place = discover(Path(cwd))
        self.git = GitStore(place.git_dir, Path(settings.RELAY_VAR) / "shield")
        self.prefix = os.path.relpath(os.path.realpath(cwd), place.top) if place.top else ""
        tip = self._own_tip(branch)
        self.own = tip is not None
        if tip is None:
            head = place.head_branch or "HEAD"
            tip = place.head_sha
            branch = (
                recorded("%(head)s (%(branch)s is gone)", head=head, branch=branch)
                if branch not in ("", "HEAD", head)
                else head
            )
        if tip is None:
            raise StoreUnavailable(recorded("it has no commit yet"))
        self.tip = tip
        self.stores = Stores(self.git, tip, None, "", work_tree=place.top, branch=branch)

    def _own_tip(self, branch: str) -> str | None:
        """The tip of the sessions' own branch; None where they name none, or that one is gone."""
        try:
            return self.git.tip(branch) if branch not in ("", "HEAD") else None
        except BadName:
            return None

    def answers(self, group: Sequence[_Judged]) -> dict[str, Answer]:
        """The verdict of every pointer of the legs, whose batons get full names and what the repository adds."""
        legs = [leg for _, own in group for leg in own]
        printed = {one for leg in legs for one in leg.baton["pointers"] if one.startswith("commit:")}
        named = whole_names(self.git, [one.removeprefix("commit:") for one in sorted(printed)])
        made = self._made([session for session, _ in group])
        for session, own in group:
            for leg in own:
                self._complete(leg, named, made[session.pk])
        asked = dict.fromkeys(one for leg in legs for one in leg.baton["pointers"])
        answers: dict[str, Answer] = {}
        pointers: dict[str, Pointer] = {}
        for text in asked:
            kind, _, ref = text.partition(":")
            inside = self._inside(ref) if kind == "file" else ref
            if inside is None:
                answers[text] = Answer(Verdict.UNKNOWN, recorded("outside the repository"))
            elif kind == "commit" and not is_sha(ref):
                answers[text] = self._no_object()
            else:
                pointers[text] = Pointer(Kind(kind), inside)
        found = self.stores.resolve(pointers.values())
        return answers | {text: found[pointer] for text, pointer in pointers.items()}

    def _no_object(self) -> Answer:
        if self.git.shallow:
            return Answer(Verdict.UNKNOWN, recorded("not in this clone, which is shallow"))
        return Answer(Verdict.DANGLING, recorded("no object, or more than one, has a name that begins so"))

    def _made(self, sessions: Sequence[Session]) -> dict[int, list[tuple[datetime, str]]]:
        """Session -> the commits between its times: asked for all at once, unless those are more than one may have."""
        found: dict[int, list[tuple[datetime, str]]] = {session.pk: [] for session in sessions}
        spans = [(one.pk, one.first_at, one.last_at) for one in sessions if one.first_at and one.last_at]
        if not self.own or not spans:
            return found
        span = min(first for _, first, _ in spans), max(last for _, _, last in spans)
        every = made_between(self.git, self.tip, *span, MOST_SEEN)
        for session, first, last in spans:
            if len(every) < MOST_SEEN or len(spans) == 1:
                since, until = first.replace(microsecond=0), last.replace(microsecond=0)
                found[session] = [one for one in every if since <= one[0] <= until]
            else:
                found[session] = made_between(self.git, self.tip, first, last, MOST_SEEN)
        return found

    def _complete(self, leg: SessionLeg, named: Mapping[str, str | None], made: Sequence[tuple[datetime, str]]) -> None:
        def full(pointer: str) -> str:
            kind, _, ref = pointer.partition(":")
            return f"commit:{named[ref] or ref}" if kind == "commit" else pointer

        was = set(leg.baton.get("seen", ()))
        own = list(dict.fromkeys(full(one) for one in leg.baton["pointers"] if one not in was))
        until = datetime.fromisoformat(leg.baton["until"]) if leg.baton.get("until") else None
        added = [f"commit:{sha}" for at, sha in made if until is not None and at <= until]
        added = [one for one in added if one not in set(own)]
        room = max(shadow.MOST_POINTERS - len(own), 0)
        kept = added[-room:] if room else []
        leg.baton = {**leg.baton, "pointers": [*own, *kept], "seen": kept, "seen_more": len(added) - len(kept)}

    def _inside(self, ref: str) -> str | None:
        """A file as the repository names it; None for one outside."""
        if os.path.isabs(ref):
            ref = os.path.relpath(os.path.normpath(ref), os.path.normpath(self.cwd))
        path = os.path.normpath(os.path.join(self.prefix, ref))
        return None if path == ".." or path.startswith("../") else path

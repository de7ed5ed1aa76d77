"""`handoff --from FACTS.json [--repo DIR] [--out FILE]`: a baton from facts, through the gate of a leg's end.

Mission: "If a fact lives only in the transcript, rotation is refused rather than laundered into prose."
"""

import argparse
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from relays.core import baton as batons
from relays.core import externalize, pointers, safepoint
from relays.core.externalize import LoadBearing
from relays.management import facts as facts_file
from relays.management import outside
from relays.management.cli import Exit, emit, read_input, refuse, say, write_bytes
from relays.models import Relay
from relays.stores.base import StoreUnavailable

#: so many culprits are named in the one line of a refusal
NAMED = 8


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--from", dest="source", metavar="FACTS.json", required=True, help="facts, or - for stdin")
    parser.add_argument("--repo", metavar="DIR", default="", help="where pointers are judged and SHAs come from")
    parser.add_argument("--branch", metavar="B", default="", help="default: relay/<id> where it exists, else HEAD")
    parser.add_argument("--out", metavar="FILE", default="", help="write it there instead of on stdout")
    parser.add_argument("--force", action="store_true", help="let --out replace a file that is there")


def run(options: argparse.Namespace) -> int:
    try:
        facts = facts_file.read(read_input(options.source, facts_file.MAX_BYTES), _own)
        pin = facts_file.pin(facts)
    except facts_file.FactsError as error:
        refuse(f"relay handoff: {options.source}: {error}")
    place = _place(options, facts.relay_id)
    culprits = [*_next_action_culprits(facts), *_gate_culprits(facts, place)]
    if culprits:
        more = f" and {len(culprits) - NAMED} more" if len(culprits) > NAMED else ""
        refuse(f"relay handoff: not safe to hand over: {'; '.join(culprits[:NAMED])}{more}", Exit.NOT_SAFE)
    if facts.note:
        say("relay handoff: tombstone.note is left out: a note is filled from records, never taken over as text")
    start_sha = facts.start_sha or (place.tip if place else "") or ""
    at_sha = facts.at_sha or (place.tip if place else "") or ""
    if not start_sha or not at_sha:
        missing = "progress_cursor.start_sha" if not start_sha else "tombstone.at_sha"
        refuse(
            f"relay handoff: {missing} is not known: name the repository with --repo DIR (a branch with a commit), "
            f"or state the SHA in {options.source}"
        )
    baton = batons.Baton(
        relay_id=facts.relay_id,
        leg=facts.leg,
        parent_trace=facts.parent_trace,
        objective=pin,
        done_when=facts.done_when,
        cursor=batons.Cursor(start_sha, facts.ledger_ref, facts.wip_tree, facts.session_image, facts.region),
        next_action=safepoint.choose_next_action(facts.next_actions).text or "",
        open_questions=facts.open_questions,
        artifacts=tuple(batons.Artifact(kind, ref) for kind, ref in facts.artifacts),
        do_not_rederive=facts.do_not_rederive,
        tombstone=batons.TombstoneRecord(facts.reason, at_sha),
    )
    try:
        batons.check_new(baton)
    except batons.BatonError as error:
        refuse(f"relay handoff: no legal baton: {error}; correct it in {options.source}", Exit.INVALID)
    content = batons.canonical(baton)
    if not options.out:
        write_bytes(content)
        return Exit.FINE
    _write(Path(options.out), content, options.force)
    made = {"out": options.out, "digest": batons.digest(baton), "size": len(content)}
    emit(made, options.json, f"{options.out}: {len(content)} bytes, {made['digest']}")
    return Exit.FINE


def _own(relay_id: str) -> Mapping[str, Any]:
    relay = Relay.objects.filter(pk=relay_id).first() if "\0" not in relay_id else None
    if relay is None:
        return {}
    return {
        "pin_id": relay.pin_id,
        "objective": relay.objective,
        "done_when": relay.done_when,
        "region": relay.region,
    }


def _place(options: argparse.Namespace, relay_id: str) -> outside.Place | None:
    if not options.repo:
        if options.branch:
            refuse("relay handoff: --branch needs --repo DIR: a branch lives in a repository")
        return None
    try:
        return outside.locate(options.repo, relay_id, options.branch)
    except StoreUnavailable as error:
        refuse(f"relay handoff: --repo {options.repo}: {error}", Exit.UNKNOWN)
    except outside.NoBranch:
        refuse(f"relay handoff: branch {options.branch!r} does not exist in {options.repo}", Exit.NOT_FOUND)


def _next_action_culprits(facts: facts_file.Facts) -> Iterator[str]:
    chosen = safepoint.choose_next_action(facts.next_actions)
    if chosen.hold is not None:
        named = " | ".join(chosen.candidates) or "none that is one line of at most 200 bytes"
        yield f"{chosen.hold} ({named}): state exactly one in next_actions"


def _gate_culprits(facts: facts_file.Facts, place: outside.Place | None) -> Iterator[str]:
    """Stated facts always need a verified pointer; what the baton carries is judged where there is a repository."""
    carried = [
        *_entries("open_question", facts.open_questions, place is not None),
        *_entries("dead_end", facts.do_not_rederive, place is not None),
    ]
    if place is not None:
        carried += [LoadBearing(f"artifact {kind}:{ref}", "fact", "", f"{kind}:{ref}") for kind, ref in facts.artifacts]
        if facts.ledger_ref:
            carried.append(LoadBearing("progress_cursor.ledger_ref", "fact", "", f"ledger:{facts.ledger_ref}"))
    asked = [*facts.facts, *carried]
    verdict = externalize.gate(
        asked, _answers(asked, facts.relay_id, place), statement_required=False, statement_holds=False
    )
    for culprit in verdict.culprits:
        backing = f" ({culprit.backing}: {culprit.verdict or 'no pointer'})" if culprit.backing else " (no pointer)"
        yield f"{verdict.reason}: {culprit.label!r}{backing}: {culprit.fix}"


def _entries(kind: str, entries: tuple[str, ...], all_of_them: bool) -> Iterator[LoadBearing]:
    for entry in batons.unique(entries):
        pointer, label = pointers.parse_entry(entry)
        if pointer is None or all_of_them:
            yield LoadBearing(label or entry, kind, "", str(pointer) if pointer else "")


def _answers(asked: list[LoadBearing], relay_id: str, place: outside.Place | None) -> dict[str, pointers.Answer]:
    if place is None:
        return {}
    found: list[pointers.Pointer] = []
    for fact in asked:
        try:
            found.append(pointers.parse_pointer(fact.backing))
        except pointers.PointerError:
            continue  # the gate names it
    return {str(pointer): answer for pointer, answer in outside.stores(place, relay_id).resolve(found).items()}


def _write(path: Path, content: bytes, force: bool) -> None:
    """Whole or not at all; without --force a file that is there stays, also when it appears meanwhile."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:80]}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.chmod(0o644)
            if force:
                os.replace(temporary, path)
            else:
                os.link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError:
        refuse(f"relay handoff: --out {path} is there already: name another file, or add --force to replace it")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        refuse(f"relay handoff: --out {path} cannot be written ({reason}): name a file in a folder that can be")

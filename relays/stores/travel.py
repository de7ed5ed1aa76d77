"""What travels with a repository: every relay's batons as notes, and its record under `refs/relay/state/<relay>`.

architecture.md: "a clone with `refs/notes/relay` and `refs/relay/*` fetched can be taken up on another host"; "two legs
that end at one SHA append to its note". Notes come from anywhere: they are bounded, and read strictly by whoever asks.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from relays.core import travel
from relays.core.lines import recorded
from relays.core.travel import Record, TravelError
from relays.stores import gitwrite
from relays.stores.git import GitStore
from relays.stores.gitrun import is_sha, need_sha, text

STATE: Final = "refs/relay/state"
STATE_FILE: Final = "relay.json"
NOTE_BYTES: Final = 1024 * 1024  # of one note; the largest baton that is read is an eighth of it
ALL_BYTES: Final = 64 * 1024 * 1024  # of all notes that are read in one go
PARAGRAPHS: Final = 256  # of one note, the newest; a note with more was not written by us


@dataclass(frozen=True, slots=True)
class Note:
    """The note of one commit: its paragraphs, oldest first; `why` in one line where it was not read."""

    sha: str
    paragraphs: tuple[bytes, ...] = ()
    why: str = ""


def noted(git: GitStore, ref: str = gitwrite.NOTES) -> dict[str, tuple[str, int]]:
    """Every object that has a note -> where its note lies and how large it is; empty where there are no notes."""
    commit = git.ref(ref)
    if commit is None:
        return {}
    found: dict[str, tuple[str, int]] = {}
    for entry in git.objects(["ls-tree", "-r", "-l", "-z", need_sha(commit)]).out.split(b"\0"):
        head, _, path = entry.partition(b"\t")
        words = head.split()
        name = text(path)
        sha = name.replace("/", "")
        # git spreads many notes over folders of two digits; whatever else lies there is no note
        if len(words) == 4 and words[1] == b"blob" and words[3].isdigit() and is_sha(sha):
            found.setdefault(sha, (name, int(words[3])))
    return found


def notes(git: GitStore, shas: Iterable[str], ref: str = gitwrite.NOTES) -> Iterator[Note]:
    """The notes of those commits that have one, in their order, few processes. Raises StoreUnavailable."""
    commit = git.ref(ref)
    there = noted(git, ref)
    room = ALL_BYTES
    batch: list[str] = []
    for sha in shas:
        if commit is None or sha not in there:
            continue
        size = there[sha][1]
        if size > NOTE_BYTES:
            yield Note(
                sha,
                why=recorded(
                    "the note of %(sha)s has %(size)d bytes, more than %(note_bytes)d",
                    sha=sha[:12],
                    size=size,
                    note_bytes=NOTE_BYTES,
                ),
            )
        elif size > room:
            yield Note(
                sha,
                why=recorded(
                    "the notes have more than %(all_bytes)d bytes in all; those of older commits are left",
                    all_bytes=ALL_BYTES,
                ),
            )
            break
        else:
            room -= size
            batch.append(sha)
        if len(batch) == 200:
            yield from _read(git, commit, batch, there)
            batch = []
    if commit is not None and batch:
        yield from _read(git, commit, batch, there)


def _read(git: GitStore, commit: str, shas: list[str], there: Mapping[str, tuple[str, int]]) -> Iterator[Note]:
    texts = git.read_files(commit, [there[sha][0] for sha in shas], limit=ALL_BYTES)
    for sha in shas:
        raw = texts[there[sha][0]] or b""
        yield Note(sha, tuple(part for part in raw.strip(b"\n").split(b"\n\n") if part)[-PARAGRAPHS:])


def write_record(git: GitStore, record: Record) -> str:
    """Keep a relay's record beside its ledger; the commit that holds it. The same record changes nothing."""
    name = record.relay
    return gitwrite.write_files_ref(git, f"{STATE}/{name}", {STATE_FILE: travel.write(record)}, f"State of {name}")


def read_record(git: GitStore, relay_id: str) -> Record | None:
    """The record that travels with the repository, None where there is none.

    Raises TravelError for one that does not read, or that speaks of another relay; StoreUnavailable.
    """
    commit = git.ref(f"{STATE}/{relay_id}")
    raw = git.read_file(commit, STATE_FILE, limit=travel.LARGEST + 1) if commit else None
    if raw is None:
        return None
    record = travel.read(raw)
    if record.relay != relay_id:
        raise TravelError(recorded("it speaks of another relay"))
    return record

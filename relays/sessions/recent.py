"""The records of a file that were read last, by uuid: to know one that stands in it again, and a parent that is gone.

sessions.md, 1: "every other uuid-bearing record: dedupe by `uuid`", and T10: by (type, uuid), for a snapshot may bear
the uuid of a message. Bounded however long the file is: the last KEPT records at least (twice as many at most) are
known; what was written before them is not found again here. Calls and boundaries do not depend on it: they are
counted once by their own names, over all files.
"""

from base64 import b85decode, b85encode
from hashlib import blake2b
from typing import Any, Final
from zlib import crc32

KEPT: Final = 2048
#: bytes of a digest, and one more for the type
_DIGEST: Final = 5


class Recent:
    """Two generations of uuids with the types that bear them; the older one is dropped when the newer one is full."""

    def __init__(self, state: list[Any] | None = None) -> None:
        #: uuid -> type, or types joined by NUL; of this run, and (as digests) of runs before
        self._new: dict[str, str] = {}
        self._old: dict[str, str] = {}
        self._kept_new: dict[bytes, bytes] = {}
        self._kept_old: dict[bytes, bytes] = {}
        if state:
            self._kept_old, self._kept_new = _unpacked(state[0]), _unpacked(state[1])

    def add(self, kind: str, uuid: str) -> bool:
        """Whether a record of this type and uuid is known already; from now on it is."""
        known = self._new.get(uuid)
        if known is None:
            known = self._old.get(uuid)
            if known is None and not ((self._kept_new or self._kept_old) and self._kept(uuid)):
                self._new[uuid] = kind
                if len(self._new) + len(self._kept_new) >= KEPT:
                    self._turn()
                return False
        return self._again(kind, uuid, known)

    def knows(self, uuid: str) -> bool:
        """Whether a record bears this uuid, of whatever type."""
        if uuid in self._new or uuid in self._old:
            return True
        return bool(self._kept_new or self._kept_old) and bool(self._kept(uuid))

    def state(self) -> list[str]:
        """JSON-able: the older and the newer generation as digests."""
        return [_packed(self._kept_old, self._old), _packed(self._kept_new, self._new)]

    def _again(self, kind: str, uuid: str, known: str | None) -> bool:
        """A uuid that is known: by this type or by another one. It keeps its place, and so its generation."""
        if known is not None:
            if kind in known.split("\0"):
                return True
            generation = self._new if uuid in self._new else self._old
            generation[uuid] = f"{known}\0{kind}"
            return False
        digest = _digest(uuid)
        kept = self._kept_new if digest in self._kept_new else self._kept_old
        if _mark(kind) in kept[digest]:
            return True
        kept[digest] += bytes((_mark(kind),))
        return False

    def _kept(self, uuid: str) -> bytes:
        digest = _digest(uuid)
        return self._kept_new.get(digest) or self._kept_old.get(digest) or b""

    def _turn(self) -> None:
        self._old, self._new = self._new, {}
        self._kept_old, self._kept_new = self._kept_new, {}


def _digest(uuid: str) -> bytes:
    return blake2b(uuid.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


def _mark(kind: str) -> int:
    return crc32(kind.encode("utf-8", "surrogatepass")) & 0xFF


def _packed(kept: dict[bytes, bytes], read: dict[str, str]) -> str:
    pieces = [digest + bytes((mark,)) for digest, marks in kept.items() for mark in marks]
    pieces += [_digest(uuid) + bytes((_mark(kind),)) for uuid, kinds in read.items() for kind in kinds.split("\0")]
    return b85encode(b"".join(pieces)).decode("ascii")


def _unpacked(packed: str) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    raw = b85decode(packed)
    for at in range(0, len(raw), _DIGEST + 1):
        digest, mark = raw[at : at + _DIGEST], raw[at + _DIGEST : at + _DIGEST + 1]
        found[digest] = found.get(digest, b"") + mark
    return found

"""The records of a file that were read last, by uuid: to know one that stands in it again, and a parent that is gone.

sessions.md, 1: "every other uuid-bearing record: dedupe by `uuid`", and T10: by (type, uuid), for a snapshot may bear
the uuid of a message. Bounded however long the file is: the last KEPT records at least (twice as many at most) are
known; what was written before them is not found again here. Calls and boundaries do not depend on it: they are
counted once by their own names, over all files.
"""

from base64 import b64decode, b64encode, b85decode, b85encode
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final
from zlib import crc32

KEPT: Final = 2048
#: begins digests of the quick kind, in base 64; no letter of base 85, in which the others were spelled before
_QUICK: Final = ":"
#: bytes of a digest, and one more for the type
_DIGEST: Final = 5


class Recent:
    """Two generations of uuids with the types that bear them; the older one is dropped when the newer one is full."""

    def __init__(self, state: list[Any] | None = None) -> None:
        #: uuid -> type, or types joined by NUL; of this run, and (as digests) of runs before
        self.new: dict[str, str] = {}
        self.old: dict[str, str] = {}
        self._kept_new: dict[bytes, bytes] = {}
        self._kept_old: dict[bytes, bytes] = {}
        if state:
            self._kept_old, self._kept_new = _unpacked(state[0]), _unpacked(state[1])
        #: what was packed before stays as it was packed
        self._digest: _Digest = _slow if state and not state[0].startswith(_QUICK) else _quick
        #: whether runs before this one left something: a uuid that is not in `new` or `old` may be known all the same
        self.kept = bool(self._kept_new or self._kept_old)
        #: uuids that `new` takes before it is turned
        self.room = max(KEPT - len(self._kept_new), 1)

    def add(self, kind: str, uuid: str) -> bool:
        """Whether a record of this type and uuid is known already; from now on it is."""
        known = self.new.get(uuid)
        if known is None:
            known = self.old.get(uuid)
            if known is None and not (self.kept and self._kept(uuid)):
                self.new[uuid] = kind
                if len(self.new) >= self.room:
                    self.turn()
                return False
        return self._again(kind, uuid, known)

    def knows(self, uuid: str) -> bool:
        """Whether a record bears this uuid, of whatever type."""
        if uuid in self.new or uuid in self.old:
            return True
        return self.kept and bool(self._kept(uuid))

    def state(self) -> list[str]:
        """JSON-able: the older and the newer generation as digests."""
        return [self._packed(self._kept_old, self.old), self._packed(self._kept_new, self.new)]

    def _again(self, kind: str, uuid: str, known: str | None) -> bool:
        """A uuid that is known: by this type or by another one. It keeps its place, and so its generation."""
        if known is not None:
            if kind in known.split("\0"):
                return True
            generation = self.new if uuid in self.new else self.old
            generation[uuid] = f"{known}\0{kind}"
            return False
        digest = self._digest(uuid)
        kept = self._kept_new if digest in self._kept_new else self._kept_old
        if _mark(kind) in kept[digest]:
            return True
        kept[digest] += bytes((_mark(kind),))
        return False

    def _kept(self, uuid: str) -> bytes:
        digest = self._digest(uuid)
        return self._kept_new.get(digest) or self._kept_old.get(digest) or b""

    def _packed(self, kept: dict[bytes, bytes], read: dict[str, str]) -> str:
        quick = self._digest is _quick
        pieces = [digest + bytes((mark,)) for digest, marks in kept.items() for mark in marks]
        marked = {kind: bytes((_mark(kind),)) for kind in set(read.values())}
        for uuid, kinds in read.items():
            digest = self._digest(uuid)
            if "\0" in kinds:
                pieces += [digest + bytes((_mark(kind),)) for kind in kinds.split("\0")]
            else:
                pieces.append(digest + marked[kinds])
        raw = b"".join(pieces)
        return _QUICK + b64encode(raw).decode("ascii") if quick else b85encode(raw).decode("ascii")

    def turn(self) -> None:
        """The newer generation is full."""
        self.old, self.new = self.new, {}
        self._kept_old, self._kept_new = self._kept_new, {}
        self.kept, self.room = bool(self._kept_old), KEPT


_Digest = Callable[[str], bytes]


def _slow(uuid: str) -> bytes:
    return blake2b(uuid.encode("utf-8", "surrogatepass"), digest_size=_DIGEST).digest()


def _quick(uuid: str) -> bytes:
    """Two different uuids are alike once in 2**40: enough to tell the records of a file apart."""
    raw = uuid.encode("utf-8", "surrogatepass")
    return (crc32(raw) << 8 | crc32(raw[::-1]) & 0xFF).to_bytes(_DIGEST, "big")


def _mark(kind: str) -> int:
    return crc32(kind.encode("utf-8", "surrogatepass")) & 0xFF


def _unpacked(packed: str) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    raw = b64decode(packed[1:]) if packed.startswith(_QUICK) else b85decode(packed)
    for at in range(0, len(raw), _DIGEST + 1):
        digest, mark = raw[at : at + _DIGEST], raw[at + _DIGEST : at + _DIGEST + 1]
        found[digest] = found.get(digest, b"") + mark
    return found

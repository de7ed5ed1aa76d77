"""Which records of a file were read before, however the reading is cut, and whoever wrote what was kept."""

import json
from base64 import b85encode
from hashlib import blake2b
from zlib import crc32

from hypothesis import given
from hypothesis import strategies as st

from relays.sessions import recent
from relays.sessions.recent import Recent

RECORDS = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=3)), max_size=30)


@given(RECORDS, st.sets(st.integers(0, 30)))
def test_a_run_that_is_cut_knows_what_one_that_is_not_knows(records: list[tuple[str, str]], cuts: set[int]) -> None:
    whole, cut = Recent(), Recent()
    for at, (kind, uuid) in enumerate(records):
        if at in cuts:
            cut = Recent(json.loads(json.dumps(cut.state())))
        assert cut.knows(uuid) == whole.knows(uuid)
        assert cut.add(kind, uuid) == whole.add(kind, uuid)


def test_what_an_earlier_version_kept_is_still_known() -> None:
    def packed(*records: tuple[str, str]) -> str:
        digests = (blake2b(uuid.encode(), digest_size=5).digest() + bytes([crc32(kind.encode()) & 255])
                   for kind, uuid in records)  # fmt: skip
        return b85encode(b"".join(digests)).decode()

    found = Recent(["", packed(("user", "a"), ("assistant", "b"))])
    for _ in range(3):
        assert found.knows("a") and found.knows("b") and not found.knows("c")
        assert found.add("user", "a") and not found.add("user", "b" * 2)
        found = Recent(json.loads(json.dumps(found.state())))
        assert found.add("user", "bb")
        found = Recent(["", packed(("user", "a"), ("assistant", "b"))])


def test_no_more_than_two_generations_are_kept() -> None:
    found = Recent()
    for number in range(5 * recent.KEPT):
        assert not found.add("user", f"{number:08x}-0000-4000-8000-{number * 7919:012x}")
    assert found.knows(f"{number:08x}-0000-4000-8000-{number * 7919:012x}")
    assert not found.knows(f"{0:08x}-0000-4000-8000-{0:012x}")
    assert sum(map(len, found.state())) < 2 * recent.KEPT * 9

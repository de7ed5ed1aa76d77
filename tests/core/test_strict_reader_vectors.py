"""Every text of the strict reader's vectors: accepted, or refused at the step and with the path that they state."""

import pytest

from relays.core.baton import canonical, read
from tests.vectors.load import strict

ROWS = strict()


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_vector(row):
    for text in (row["text"], row["text"].encode()):
        reading = read(text)
        if row["valid"]:
            assert reading.refusal is None
            assert reading.baton is not None
            assert [step.step for step in reading.steps] == [1, 2, 3, 4, 5]
            again = read(canonical(reading.baton))
            assert again.baton is not None
            assert canonical(again.baton) == canonical(reading.baton)
        else:
            assert reading.baton is None
            assert reading.refusal is not None
            assert reading.refusal.step == row["step"]
            assert reading.refusal.evidence
            if row["path"] is not None:
                assert reading.refusal.path == row["path"]


def test_all_vectors_are_here():
    assert len(ROWS) == 62
    assert sum(row["valid"] for row in ROWS) == 5

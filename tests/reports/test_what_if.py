"""Parameters out of an address: what can be read is read exactly, what cannot is answered with what to write."""

from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relays.costs.against import CHOICES
from relays.reports import what_if


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("trigger", "1.4", "1.4 is more than all of it: write a share up to 1"),
        ("trigger", "0", "at 0 nothing could be done before it"),
        ("mark", "0.0", "at 0 nothing could be done before it"),
        ("reread", "abc", "'abc' is no number: write a whole number of tokens"),
        ("reread", "1.5", "1.5 is no whole number"),
        ("reread", "9999999999", "too many"),
        ("reread", "-4", "is no number"),
        ("residue", "\0\u202e", "is no number"),
        ("residue", "9" * 5_000, "is no number"),
        ("reread", "\u0661", "is no number"),
        ("trigger", "1e3", "is no number"),
        ("trigger", "nan", "is no number"),
    ],
)
def test_what_cannot_be_read_says_what_to_write(name: str, text: str, words: str) -> None:
    told = what_if.asked({name: text})
    assert words in told.errors[name] and name not in told.values and name in told.texts


def test_shares_and_tokens_are_told_apart_by_their_point() -> None:
    told = what_if.asked(
        {"trigger": "0.6", "mark": "120,000", "reread": " 20_000 ", "residue": "0", "base": "", "x": "1"}
    )
    assert told.values == {"trigger": Decimal("0.6"), "mark": 120_000, "reread": 20_000, "residue": 0}
    assert not told.errors and told.query == "mark=120000&reread=20000&residue=0&trigger=0.6"
    assert what_if.asked({}).query == ""


@example({"kept": "0" * 39 + " 0"})
@given(st.dictionaries(st.sampled_from([*CHOICES, "unknown"]), st.text(max_size=60)))
def test_any_address_is_read_or_answered(values: dict[str, str]) -> None:
    told = what_if.asked(values)
    assert set(told.values) | set(told.errors) == set(told.texts) <= set(CHOICES)
    assert not set(told.values) & set(told.errors)
    again = what_if.asked(told.texts)
    assert (again.values, again.query) == (told.values, told.query), "a link to it says the same"

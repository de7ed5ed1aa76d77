import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.objective import (
    ObjectiveError,
    Pin,
    Reconciliation,
    make_pin,
    pin_digest,
    reconcile,
    trim,
    verifies,
)
from tests.core.batons import CHARACTERS


def test_the_known_good_digest():
    text = "Ship the relay baton schema and close #1863."
    assert pin_digest("pin-relay-schema", text) == "42e5a2de4275c715f5464585d135b13aa426e34e9829c22dd8f0eb72bf45a348"


def test_making_trims_and_reading_never_does():
    made = make_pin("  pin-1 ", "\n Ship it. \t\u3000")
    assert (made.pin_id, made.text) == ("pin-1", "Ship it.")
    assert verifies(made)
    untrimmed = Pin("pin-1", " Ship it. ", hashlib.sha256(b"pin-1\0 Ship it. ").hexdigest())
    assert verifies(untrimmed)
    assert not verifies(Pin("pin-1", " Ship it. ", made.digest))


@pytest.mark.parametrize(
    ("pin_id", "text"),
    [
        ("", "Ship it."),
        (" ", "Ship it."),
        ("p", ""),
        ("p", " \n "),
        ("p\0q", "Ship it."),
        ("p\nq", "Ship it."),
        ("p\x1fq", "Ship it."),
        ("p", "a\0b"),
        ("p", "x" * 4097),
        ("p", "é" * 2049),
        ("p" * 501, "Ship it."),
        ("p", "\ud800"),
        ("\ud800", "x"),
    ],
)
def test_pins_that_cannot_be_made(pin_id, text):
    with pytest.raises(ObjectiveError) as refused:
        make_pin(pin_id, text)
    assert "\n" not in refused.value.why


def test_the_bound_is_inclusive_and_in_bytes():
    assert make_pin("p", "é" * 2048).text == "é" * 2048
    assert make_pin("p", "two\nlines").text == "two\nlines"


def test_a_nul_in_the_pin_id_would_collide_and_is_why_it_is_refused():
    assert pin_digest("a\0b", "c") == pin_digest("a", "b\0c")


def test_upper_case_does_not_verify():
    pin = make_pin("pin-1", "Ship it.")
    assert not verifies(Pin("pin-1", "Ship it.", pin.digest.upper()))
    assert not verifies(Pin("pin-1", "Ship it.", pin.digest + "\n"))


def test_a_lone_surrogate_has_no_digest():
    assert not verifies(Pin("p", "\ud800", "0" * 64))
    with pytest.raises(ObjectiveError):
        pin_digest("p", "\ud800")


@given(st.text(CHARACTERS), st.text(CHARACTERS))
def test_step_and_span_are_not_hashed(pin_id, text):
    value = pin_digest(pin_id, text)
    assert verifies(Pin(pin_id, text, value, step=9, source_span_id="span:user:3"))


@given(st.text())
def test_trimming_is_idempotent(text):
    assert trim(trim(text)) == trim(text)


A = make_pin("a", "Ship it.")
B = make_pin("b", "Ship it.")
A2 = make_pin("a", "Ship half of it.")
BROKEN = Pin("a", "Ship it.", "0" * 64)
EMPTY = Pin("", "", "")


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (None, None, Reconciliation.PRESERVED),
        (None, EMPTY, Reconciliation.PRESERVED),
        (EMPTY, A, Reconciliation.ESTABLISHED),
        (None, A, Reconciliation.ESTABLISHED),
        (None, BROKEN, Reconciliation.QUERY_USER),
        (A, None, Reconciliation.DROPPED),
        (A, EMPTY, Reconciliation.DROPPED),
        (A, BROKEN, Reconciliation.QUERY_USER),
        (B, BROKEN, Reconciliation.QUERY_USER),  # before the other pin is looked at
        (A, B, Reconciliation.DROPPED),
        (A, A, Reconciliation.PRESERVED),
        (A, A2, Reconciliation.DRIFTED),
    ],
)
def test_reconciliation(before, after, outcome):
    assert reconcile(before, after) is outcome


@pytest.mark.parametrize("outcome", list(Reconciliation))
def test_only_drift_asks(outcome):
    assert outcome.asks is (str(outcome) in {"drifted", "dropped", "query_user"})

"""The closed vocabulary: one row for every word, each with its fix; a foreign word is shown and drives nothing."""

import pytest

from relays.core.vocabulary import (
    GATE_TOKENS,
    TOKENS,
    TOMBSTONE_REASONS,
    TONES,
    Ask,
    Category,
    Extra,
    Hold,
    Reason,
    StopReason,
    strongest,
    token,
)

#: rules.md, Reason tokens
CATEGORIES = {
    "RELAY_ARMED": Category.ADVISORY,
    "RELAY_ROTATED": Category.TRUE_DRAIN,
    "RELAY_GOAL_DONE": Category.TRUE_DRAIN,
    "RELAY_NOT_EXTERNALIZED": Category.STALE_CLAIM,
    "RELAY_PARKED_UNSAFE": Category.OPERATOR_GATE,
    "RELAY_BATON_STALE": Category.STALE_CLAIM,
    "RELAY_NO_PROGRESS": Category.OPERATOR_GATE,
    "RELAY_IDLE_PARKED": Category.TRUE_DRAIN,
}
#: rules.md, Hold reasons, strongest first
HOLDS = (
    "IN_FLIGHT_TOOL_CALL",
    "TREE_DIRTY_UNPARKED",
    "NO_NEXT_ACTION",
    "AMBIGUOUS_NEXT_ACTION",
    "RELAY_NOT_EXTERNALIZED",
    "HYSTERESIS",
    "ROTATION_CAPPED",
    "NOT_AT_SAFE_POINT",
)


@pytest.mark.parametrize("word", [*Reason, *Hold, *Ask, *StopReason, *Extra])
def test_every_word_has_a_row_that_says_what_to_do(word: str) -> None:
    row = TOKENS[word]
    assert row.value == str(word)
    assert row.known and row.label and row.meaning and row.fix
    assert (row.tone, row.shape) == TONES[row.category]


def test_the_table_has_no_word_beside_the_closed_sets() -> None:
    assert set(TOKENS) == {str(word) for word in (*Reason, *Hold, *Ask, *StopReason, *Extra)}


def test_the_reasons_have_the_categories_of_the_rules() -> None:
    assert {str(reason): TOKENS[reason].category for reason in Reason} == CATEGORIES
    assert TOMBSTONE_REASONS == set(CATEGORIES)


def test_a_boundary_records_the_strongest_hold() -> None:
    assert tuple(Hold) == HOLDS
    for place, hold in enumerate(HOLDS):
        assert strongest(frozenset(map(Hold, HOLDS[place:]))) == hold
    assert strongest(frozenset()) is None


def test_a_gate_opens_for_a_stop_and_for_every_ask() -> None:
    assert GATE_TOKENS == {"RELAY_PARKED_UNSAFE", "RELAY_NO_PROGRESS", *map(str, Ask)}


@pytest.mark.parametrize("word", ["RELAY_MADE_UP", "relay_rotated", "", "<b>"])
def test_a_word_from_elsewhere_is_kept_as_text_and_is_no_token(word: str) -> None:
    row = token(word)
    assert (row.value, row.label, row.category, row.known) == (word, "unknown token", Category.UNKNOWN, False)

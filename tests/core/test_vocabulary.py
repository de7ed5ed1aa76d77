"""The closed vocabulary: one row for every word, each with its fix; a foreign word is shown and drives nothing."""

import ast
from pathlib import Path

import pytest

import relays
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


#: where words are checked: the rules, those who carry them out, and what people may do
CHECKS = [
    path
    for layer in ("core", "driver", "actions")
    for path in sorted((Path(relays.__file__).parent / layer).glob("*.py"))
    if path.name != "vocabulary.py"
]
#: in the table and in no check: it blocks nothing
UNCHECKED = {"DESTRUCTIVE_MEMORY_OPERATION"}


def test_a_word_blocks_only_where_a_check_names_it() -> None:
    """rules.md, Advisory before enforcement: "A new token or rule blocks nothing until a named check consumes it."

    No check takes the words of the table wholesale, or asks of what category one is: a row that is added is a label
    and a fix, and nothing else, until somebody names it. So each word that does block is named somewhere.
    """
    wholesale: list[str] = []
    named: set[str] = set()
    for path in CHECKS:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            taken: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module == "relays.core.vocabulary":
                taken = [one.name for one in node.names if one.name in ("TOKENS", "Category", "HOLD_ORDER")]
            elif isinstance(node, ast.For | ast.comprehension | ast.Starred):
                inside = node.value if isinstance(node, ast.Starred) else node.iter
                taken = [ast.unparse(inside)] if ast.unparse(inside) in ("Hold", "Ask", "Reason", "Extra") else []
            elif isinstance(node, ast.Attribute):
                named.add(ast.unparse(node))
            wholesale += [f"{path.name}: {one}" for one in taken]
    assert wholesale == []
    blocking = {str(word): f"{type(word).__name__}.{word.name}" for word in (*Hold, *Ask)}
    assert {word for word, name in blocking.items() if name not in named} <= UNCHECKED

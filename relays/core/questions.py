"""Questions of an agent to a person: which ask one opens, and when the query budget refuses it.

Mission: "When fak Asks Instead Of Guessing"; rules.md, Budgets: "`BUDGET_QUERIES_EXHAUSTED` (refuses the question and
asks)". What an agent may ask about is its own uncertainty: the other asks are the driver's to open.
"""

from typing import Final

from relays.core.lines import recorded
from relays.core.pointers import one_line
from relays.core.vocabulary import Ask

#: what the question is about, as the event `ask` says it -> the ask that it opens
ABOUT: Final[dict[str, Ask]] = {
    "assumption": Ask.LOW_CONFIDENCE_ASSUMPTION,
    "promotion": Ask.AMBIGUOUS_MEMORY_PROMOTION,
    "memory": Ask.DESTRUCTIVE_MEMORY_OPERATION,
}
#: the step that waits where the query budget is spent: no leg is kept from starting
FURTHER: Final = "further questions"

QUESTION_BYTES: Final = 480
#: lines of one open episode; what is asked beyond them stands in the ledger and in the baton
ITEMS: Final = 64
MORE: Final = recorded("more questions were asked: the baton's open questions and the ledger have them")


def line(question: str) -> str:
    """The question as one line of an episode."""
    return one_line(question, QUESTION_BYTES)


def joins(items: list[str], question: str) -> str:
    """The line that a further question adds to an episode which has these items."""
    return question if question in items or len(items) < ITEMS else MORE

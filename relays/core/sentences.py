"""A sentence that the rules compose: English for programs and records, and what a page needs to say it in a language.

Interface: "all texts translatable (English first)". The rules know no language: `str()` of a sentence is its English
text, and stays it in JSON, on the command line and in records. `make messages` finds each text by the name `phrase`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Places:
    """A number that is told with so many decimals."""

    value: float
    digits: int

    def __str__(self) -> str:
        return f"{self.value:.{self.digits}f}"


@dataclass(frozen=True, slots=True)
class Sentence:
    """`text`, its `%(name)s` filled by `values`: whole numbers are counts, text is told as it is, sentences nest."""

    text: str
    values: Mapping[str, "str | int | Places | Sentence"] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text % self.values if self.values else self.text


def phrase(text: str, **values: str | int | Places | Sentence) -> Sentence:
    """The sentence. `text` is written out where it is said: translators get every text that stands in such a call."""
    return Sentence(text, values)

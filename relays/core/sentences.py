"""A sentence that the rules compose: English for programs and records, and what a page needs to say it in a language.

Interface: "all texts translatable (English first)". The rules know no language: a sentence is its English text, and
stays it in JSON, on the command line and in records. `make messages` finds each text by the name `phrase`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Places:
    """A number that is told with so many decimals."""

    value: float
    digits: int

    def __str__(self) -> str:
        return f"{self.value:.{self.digits}f}"


class Sentence(str):
    """`text`, its `%(name)s` filled by `values`: whole numbers are counts, text is told as it is, sentences nest.

    As a `str` it is the English sentence, so that whoever knows nothing of languages reads, compares and keeps that.
    """

    __slots__ = ("text", "values")

    text: str
    values: Mapping[str, "str | int | Places"]

    def __new__(cls, text: str, values: Mapping[str, "str | int | Places"] | None = None) -> Self:
        said = super().__new__(cls, text % values if values else text)
        said.text, said.values = text, values or {}
        return said


def phrase(text: str, /, **values: str | int | Places) -> Sentence:
    """The sentence. `text` is written out where it is said: translators get every text that stands in such a call."""
    return Sentence(text, values)


def quoted(text: str) -> Sentence:
    """What comes from elsewhere, word for word; a sentence stays the one that it is."""
    return text if isinstance(text, Sentence) else Sentence(text)


class RuleError(ValueError):
    """An error of the rules that a page may show: `said` is all of it, `str()` the same in English."""

    def __init__(self, said: Sentence) -> None:
        super().__init__(str(said))
        self.said = said

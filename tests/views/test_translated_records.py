"""Texts that the product itself stored are told in the reader's language, and stay English for programs.

Issue: "all texts translatable (English first)". The language is the one of `test_translated`: each text in ⟦ ⟧, numbers
as German writes them. A line of a record that is shown as it was stored shows as English outside the brackets.
"""

import re
import shutil
from pathlib import Path

import pytest
from django.utils import translation

from relays.core.lines import Pattern, pattern, recorded
from relays.management.commands.makemessages import lines
from relays.reports.sentences import LEAST, told
from tests.views.test_translated import MADE_UP, catalog

__all__ = ["catalog"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.django_db,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("xgettext") is None, reason="left out: gettext was not found; install it"),
]


def _sample(one: Pattern) -> str:
    values: dict[str, object] = {name: f"<{name}>" for name in one.names}
    values |= dict.fromkeys(one.counts, 12345)
    values |= {name: "waiting" for name in one.names if name.endswith("_word")}
    return one.text % values if values else one.text.replace("%%", "%")


def test_each_line_of_a_record_is_collected_and_known_again_in_its_text(catalog: Path) -> None:
    every = [pattern(text) for text in dict.fromkeys(lines())]
    assert len(every) >= 300
    assert len({(one.literals, one.counts) for one in every if one.names}) == sum(bool(one.names) for one in every)
    with translation.override(MADE_UP):
        for one in every:
            assert one.text == one.text.strip() and "{" not in one.text, one.text
            assert all(one.literals[1:-1]), f"{one.text}: where one value ends cannot be told"
            assert one.own >= LEAST or not one.names or any(name.endswith("_word") for name in one.names), one.text
            english = _sample(one)
            said = told(english)
            assert said.startswith("⟦") and said.endswith("⟧"), f"{english} is told as {said}"
            assert said.count("12.345") == len(re.findall(r"%\(\w+\)d", one.text)), said
            if any(name.endswith("_word") for name in one.names):
                assert "⟦waiting⟧" in said, said
    for one in every:
        assert told(_sample(one)) == _sample(one), "programs read what was stored"


def test_a_line_is_told_with_what_it_was_made_of_and_text_of_others_as_it_is(catalog: Path) -> None:
    with translation.override(MADE_UP):
        for english, said in (
            ("the start failed: no such repository", "⟦the start failed: ⟦no such repository⟧⟧"),
            ("gate 12 is approved, and nobody decided it", "⟦gate 12 is ⟦approved⟧, and nobody decided it⟧"),
            ("decision 12345 is missing: 12347 stands in its place",
             "⟦decision 12.345 is missing: 12.347 stands in its place⟧"),
            ("the relay saves $1,234.50 to $2.10 against compaction",
             "⟦the relay saves $1.234,50 to $2,10 against ⟦compaction⟧⟧"),
            ("/a/repo: no such folder; name a folder inside a git repository",
             "/a/repo: ⟦no such folder⟧; ⟦name a folder inside a git repository⟧"),
            ("RELAY_BATON_STALE: no such object", "RELAY_BATON_STALE: ⟦no such object⟧"),
            ("what an agent wrote, of its own", "what an agent wrote, of its own"),
            ("it is what it is", "it is what it is"),
            ("", ""),
        ):  # fmt: skip
            assert told(english) == said
            assert told(english) == said, "the second time as the first"


def test_reading_a_line_again_takes_no_more_than_its_length() -> None:
    one = pattern("%(a)s: %(b)s, and %(c)s; %(d)s of %(e)s lines")
    assert one.read("x: " * 400_000) is None
    assert one.read(recorded(one.text, a="a: b", b="c", c="d", d="e", e="f")) == {
        "a": "a", "b": "b: c", "c": "d", "d": "e", "e": "f",
    }  # fmt: skip

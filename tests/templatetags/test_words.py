"""Tokens, verdicts, numbers, money, ages and drawings: one form for each, and nothing trusted as markup."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine

from relays.core.vocabulary import TOKENS
from relays.templatetags import words

HOSTILE = '"><script>alert(1)</script>'


@pytest.mark.parametrize(
    ("value", "text"), [(178612, "178,612"), (0, "0"), (-1520, "−1,520"), (None, "—"), ("", "—"), (81.44, "81.4")]
)
def test_grouped(value: object, text: str) -> None:
    assert words.grouped(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("27.934"), "$27.93"),
        (Decimal("-1.52"), "−$1.52"),
        (Decimal("1234.5"), "$1,234.50"),
        (Decimal("0.005"), "<$0.01"),
        (Decimal(0), "$0.00"),
        (None, "unpriced"),
    ],
)
def test_money(value: object, text: str) -> None:
    assert words.money(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (43 * 60, "43 min"),
        (3600, "1.0 h"),
        (11520, "3.2 h"),
        (172800, "2 d"),
    ],
)
def test_duration_has_one_unit(seconds: float, text: str) -> None:
    assert words.duration(timedelta(seconds=seconds)) == words.duration(seconds) == text


def test_ages_and_exact_times() -> None:
    at = datetime(2026, 11, 30, 10, 14, 3, tzinfo=UTC)
    with time_machine.travel(at + timedelta(minutes=6), tick=False):
        assert words.age(at) == "6 min" and words.age(at + timedelta(hours=1)) == "0 s" and words.age(None) == "—"
        assert 'title="2026-11-30 10:14:03 UTC"' in words.when(at) and ">6 min<" in words.when(at)
        assert ">10:14:03<" in words.clock(at) and ">2026-11-28 10:14<" in words.clock(at - timedelta(days=2))
    assert words.when(None) == words.clock(None) == "—"


@pytest.mark.parametrize(
    ("share", "text"), [(1, "100 %"), (0.9999, "99.9 %"), (0.968, "96.8 %"), (0, "0 %"), (None, "—")]
)
def test_a_share_below_one_is_never_all(share: object, text: str) -> None:
    assert words.percent(share) == text


def test_money_that_misses_prices_says_so() -> None:
    assert ">unpriced<" in words.cost(Decimal(0), 3)
    assert words.cost(Decimal(2), 3) == '$2.00 <span class="u">partial: 3 calls unpriced</span>'
    assert words.cost(Decimal(2), 0) == "$2.00" and words.cost(None, 0) == "$0.00"


@pytest.mark.parametrize("word", sorted(TOKENS))
def test_a_token_is_shape_colour_and_word_with_its_fix(word: str) -> None:
    mark = words.tok(word)
    assert f"#sh-{TOKENS[word].shape}" in mark and f"tok-{TOKENS[word].tone}" in mark and f">{word}</a>" in mark
    assert f'href="/vocabulary/#{word}"' in mark and TOKENS[word].fix.replace("'", "&#x27;") in mark


def test_an_unknown_token_is_text() -> None:
    mark = words.tok(HOSTILE)
    assert "tok-unknown" in mark and "#sh-dashed" in mark and "<a" not in mark and "<script" not in mark
    assert words.tok("") == ""


@pytest.mark.parametrize(
    ("verdict", "mark"),
    [
        ("holds", "check"),
        ("dangling", "cross"),
        ("not yet", "notyet"),
        ("left_out", "notyet"),
        ("unknown", "query"),
        (HOSTILE, "query"),
        (None, "notyet"),
    ],
)
def test_verdicts(verdict: object, mark: str) -> None:
    drawn = words.ver(verdict)
    assert f"#sh-{mark}" in drawn and "<script" not in drawn


def test_a_sha_is_short_and_copies_whole() -> None:
    full = "41f9d02" + "a" * 33
    assert f'data-copy="{full}"' in words.sha(full) and ">41f9d02a<" in words.sha(full)
    assert words.sha("") == "—" and "<script" not in words.sha(HOSTILE)


def test_the_drawings_stay_inside_their_frame() -> None:
    assert 'width="100.0"' in words.meter(500_000, 120_000, 180_000, 200_000).replace('rect class="bg" width="100"', "")
    assert 'class="over"' in words.meter(180_000, 120_000, 180_000, 200_000)
    assert "0 of" in words.meter(0, 0, 0) or "0 tokens" in words.meter(0, 0, 0)
    path = words.spark([0, 250_000, 10], 180_000).split(' d="')[1].split('"')[0]
    heights = [float(point.split()[1]) for point in path.replace("M", "").split("L")]
    assert all(0 <= height <= 32 for height in heights)
    assert "no calls yet" in words.spark([]) and "one call yet" in words.spark([5])


@pytest.mark.parametrize(("name", "sign"), [("mara.keller", "MK"), ("jonas", "JO"), ("", "?"), ("x", "X")])
def test_initials(name: str, sign: str) -> None:
    assert words.initials(name) == sign


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.04179, "4.2 %"), (0.0509, "5.1 %"), (Decimal("0.9999"), "99.9 %"), (1.0001, "100 %"), (-0.0208, "−2.1 %")],
)
def test_a_share_is_rounded_and_not_cut_off(share: float | Decimal, text: str) -> None:
    assert words.percent(share) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("run `relay clean` <b>", 'run <code class="mono">relay clean</code> &lt;b&gt;'),
        ("`<i>` first", '<code class="mono">&lt;i&gt;</code> first'),
        ("one ` alone", "one ` alone"),
    ],
)
def test_what_stands_in_backticks_is_code_and_all_of_it_is_escaped(text: str, shown: str) -> None:
    assert words.codes(text) == shown

"""`relay prices`: the row that would be used with its source, and the models that were seen, priced or not."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from relays.core import pricefile
from relays.management.cli import Exit
from relays.management.commands.relay import run
from relays.models import Session, SessionCall, SourceFile

T = datetime(2026, 3, 12, tzinfo=UTC)
SITE = """
[[price]]
model = "in-house"
provider = "our rack"
since = 2026-01-01
input = 1
output = 2
cache_write_5m = 3
"""


def answer(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    assert run(["prices", *words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.mark.django_db
def test_the_row_that_holds_at_a_time_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    before = answer(capsys, "claude-opus-4-6", "--agent", "claude-code", "--at", "2026-03-12")
    after = answer(capsys, "claude-opus-4-6", "--agent", "claude-code", "--at", "2026-03-13T00:00:00Z")
    assert before["price"]["rates"]["input"] == {"base": "5", "tiers": [{"above": 200000, "price": "10"}]}
    assert after["price"]["rates"]["input"] == {"base": "5", "tiers": []}
    assert (before["price"]["since"], after["price"]["since"]) == (None, "2026-03-13T00:00:00Z")
    assert after["price"]["source"].startswith("genai-prices ") and after["price"]["provider"] == "anthropic"


@pytest.mark.django_db
def test_the_sites_row_and_what_falls_back_is_named(capsys: pytest.CaptureFixture[str], settings: Any) -> None:
    settings.SITE_PRICES = pricefile.parse(SITE)
    found = answer(capsys, "in-house")["price"]
    assert (found["source"], found["provider"], found["own"]) == (
        "site",
        "our rack",
        ["input", "cache_write_5m", "output"],
    )
    assert found["rates"]["cache_write_1h"]["base"] == "2" and "cache_read" not in found["rates"]
    assert run(["prices", "in-house"]) == 0
    text = capsys.readouterr().out
    assert "no rate of its own: from input" in text and "no price" in text and "our rack in-house" in text


@pytest.mark.django_db
def test_an_unknown_model_is_unpriced_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prices", "nobody\x1b[31m"]) == Exit.NOT_FOUND
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert "unpriced" in said.err and "SITE_PRICES" in said.err and "\x1b" not in said.err
    assert answer(capsys, "nobody", code=Exit.NOT_FOUND)["price"] is None


@pytest.mark.django_db
@pytest.mark.parametrize("time", ["yesterday", "2026-13-01", "0001-01-01T00:00:00+23:00", ""])
def test_a_time_that_is_none_is_refused(time: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prices", "claude-opus-5", "--at", time]) == Exit.USAGE
    said = capsys.readouterr().err
    assert "--at" in said and said.count("\n") == 1


@pytest.mark.django_db
def test_the_models_that_were_seen_with_their_calls(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["prices"]) == 0
    assert "no call was read yet" in capsys.readouterr().out
    source = SourceFile.objects.create(path="/s", agent="claude-code", form="x", read_at=T)
    session = Session.objects.create(agent="claude-code", sid="s")
    rows = [("claude-opus-5", Decimal("0.5"), True)] * 3 + [("no-such-model", None, True)] * 2
    rows += [("<synthetic>", None, True), ("claude-opus-5", None, False)]
    for line, (model, cost, counts) in enumerate(rows):
        SessionCall.objects.create(
            source=source, session=session, key=f"k{line}", line=line, chain="main", model=model, at=T, cost=cost,
            counts=counts,
        )  # fmt: skip
    found = answer(capsys)["models"]
    assert [(one["model"], one["calls"], one["calls_unpriced"]) for one in found] == [
        ("claude-opus-5", 3, 0),
        ("no-such-model", 2, 2),
        ("<synthetic>", 1, 1),
    ]
    assert [one["price"] is None for one in found] == [False, True, True]
    assert run(["prices"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "unpriced" in lines[2] and "no-such-model" in lines[2]
    assert "<synthetic> (no model)" in lines[3]

"""The index of the rules: each sentence of a page can be found from its tests, and each test in it exists.

`rules.toml`, `states.toml`, `baton.toml` and `cost.toml` list, for every heading of the page of that name, its claims
in our own words, each with the ids of the tests that hold it. Whoever adds a rule adds its line; a test that is renamed
or removed is missed here at once.
"""

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

#: the headings of each page, all of them
HEADINGS = {
    "rules": [
        "Words",
        "Reason tokens",
        "Advisory before enforcement",
        "Policy is data",
        "Arm and fire",
        "Safe point",
        "Externalize gate",
        "Reload, stale, re-derivation",
        "Verified progress",
        "No progress and watch",
        "done_when",
        "The driver",
        "Region lease and driver claim",
        "Budgets never reset by accident",
        "Reset transaction",
        "Objective",
        "Resident view, assumptions, page faults, promotions, cache",
        "Operator readout",
        "Computed verdicts",
    ],
    "states": ["How a leg ends", "Relay", "Gate episode", "Leg"],
    "baton": ["Shape", "Canonical bytes", "Bounds", "The reader's ladder", "Verdict of one pointer"],
    "cost": [
        "Usage",
        "Prices",
        "The engine: one work stream, several ways to carry it",
        "Back-test",
        "More faithful?",
        "Charts",
    ],
}


def index(page: str) -> dict[str, dict[str, list[str]]]:
    """Heading -> claim -> ids of tests, below `tests/`. TOML refuses a heading or a claim that stands twice."""
    return tomllib.loads((TESTS / "rules" / f"{page}.toml").read_text(encoding="utf-8"))


CLAIMS = [
    pytest.param(claim, ids, id=f"{page}-{heading}-{claim}"[:100])
    for page in HEADINGS
    for heading, claims in index(page).items()
    for claim, ids in claims.items()
]


@cache
def found_in(path: str) -> dict[str, ast.FunctionDef]:
    """`name` or `Class::name` -> the test, as pytest collects them from one file; none for a file that is not there."""
    place = TESTS / path
    if not place.is_file():
        return {}
    found: dict[str, ast.FunctionDef] = {}
    for node in ast.parse(place.read_text(encoding="utf-8")).body:
        inside = node.body if isinstance(node, ast.ClassDef) and node.name.startswith("Test") else [node]
        before = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {
            before + one.name: one for one in inside if isinstance(one, ast.FunctionDef) and one.name.startswith("test")
        }
    return found


@pytest.mark.parametrize("page", HEADINGS)
def test_every_heading_has_its_claims_and_no_other_stands_there(page):
    found = index(page)
    assert list(found) == HEADINGS[page]
    assert all(found.values()), "a heading without a claim"


@pytest.mark.parametrize(("claim", "ids"), CLAIMS)
def test_each_claim_is_held_by_tests_that_exist(claim, ids):
    assert ids, "no test holds it"
    assert len(set(ids)) == len(ids)
    for name in ids:
        path, _, test = name.partition("::")
        found = found_in(path).get(test)
        assert found is not None, f"there is no test {name}"
        marks = {ast.unparse(mark.func if isinstance(mark, ast.Call) else mark) for mark in found.decorator_list}
        assert not marks & {"pytest.mark.skip", "pytest.mark.xfail"}, f"{name} never runs"

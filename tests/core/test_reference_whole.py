"""The public reference, whole: every pair that is owed has a named test.

`exact`: "a test must give this outcome"; `spec wins`: "a named test shows our outcome". No area is left out.
"""

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vectors.load import areas, vectors

FOLDERS = ("core", "driver")
OWED = [row for area in areas() for row in vectors(area) if row["use"] == "exact" or row["use"].startswith("spec wins")]


def reference_tests() -> Iterator[tuple[str, object]]:
    for folder in FOLDERS:
        for path in sorted((Path(__file__).parents[1] / folder).glob("test_reference_*.py")):
            if path == Path(__file__):
                continue
            module = importlib.import_module(f"tests.{folder}.{path.stem}")
            for name, test in vars(module).items():
                if name.startswith("test_") and callable(test):
                    yield f"{path.name}::{name}", test


def met() -> dict[str, set[str]]:
    """Vector id -> the tests that take it: as a parameter, or by its name in their own lines."""
    known = {row["id"] for area in areas() for row in vectors(area)}
    found: dict[str, set[str]] = {}
    for name, test in reference_tests():
        named = {node.value for node in ast.walk(ast.parse(inspect.getsource(test))) if isinstance(node, ast.Constant)}
        for mark in getattr(test, "pytestmark", []):
            if mark.name == "parametrize":
                named |= set(_ids(mark.args[1]))
        for identifier in known & {one for one in named if isinstance(one, str)}:
            found.setdefault(identifier, set()).add(name)
    return found


def _ids(values: object) -> Iterator[str]:
    if isinstance(values, dict):
        if isinstance(values.get("id"), str):
            yield values["id"]
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _ids(value)
    elif isinstance(values, str):
        yield values


MET = met()


@pytest.mark.parametrize("row", OWED, ids=[row["id"] for row in OWED])
def test_each_pair_that_is_owed_has_a_named_test(row):
    assert MET.get(row["id"]), f"no test takes {row['id']} of {row['area']}"


def test_nothing_owed_is_left_out_in_silence():
    assert len(OWED) > 105
    assert len({row["id"] for row in OWED}) == len(OWED)

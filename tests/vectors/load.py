"""The vectors of the specification: input and outcome pairs that tests must meet."""

import json
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def strict() -> list[dict[str, Any]]:
    """Every text for the strict reader: id, text, valid, step, path."""
    return json.loads((_HERE / "baton_strict.json").read_text(encoding="utf-8"))["vectors"]


def vectors(area: str) -> list[dict[str, Any]]:
    """Every pair of one area of the public reference: id, input, expected, use, note."""
    rows = json.loads((_HERE / "reference.json").read_text(encoding="utf-8"))["vectors"]
    return [row for row in rows if row["area"] == area]


def exact(area: str) -> list[dict[str, Any]]:
    """Those whose outcome must be ours."""
    return [row for row in vectors(area) if row["use"] == "exact"]


def vector(identifier: str) -> dict[str, Any]:
    """One pair by its id; KeyError when there is none."""
    rows = json.loads((_HERE / "reference.json").read_text(encoding="utf-8"))["vectors"]
    return {row["id"]: row for row in rows}[identifier]


def areas() -> list[str]:
    """The areas of the public reference, in its order."""
    rows = json.loads((_HERE / "reference.json").read_text(encoding="utf-8"))["vectors"]
    return list(dict.fromkeys(row["area"] for row in rows))

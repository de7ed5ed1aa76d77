"""Legs of the driver's tests, whose agent is the official MCP client."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.driver.conftest import course, killed, meanwhile  # noqa: F401 - the same relays

CLIENT = Path(__file__).parent / "agents" / "client.py"


@pytest.fixture
def asked(course: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:  # noqa: F811
    """`asked([steps of leg 0], [of leg 1], …, **course)`: the relay, and what each leg was answered.

    `between`: called before each later leg; what it returns are names that texts of the steps may hold.
    """
    out = tmp_path / "out"
    out.mkdir()

    def play(
        *legs: list[Any], between: Callable[[Any], dict[str, str] | None] | None = None, **values: Any
    ) -> tuple[Any, list[Any]]:
        script = {str(number): steps for number, steps in enumerate(legs)}
        args = {"argv": json.dumps([sys.executable, str(CLIENT), str(out), json.dumps(script)])}
        relay = course(agent="command", args=args, **values)
        said = []
        for number in range(len(legs)):
            if number and between is not None:
                (out / "known.json").write_text(json.dumps(between(relay) or {}))
            told = relay.step()
            place = out / f"{number}.json"
            assert place.exists(), told
            said.append(json.loads(place.read_text()))
        return relay, said

    return play

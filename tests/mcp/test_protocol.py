"""The MCP server of the query tool with the official client of the protocol's package, outside any leg.

Each tool is documented with its schema in the present and in the older protocol; without a leg every use is refused in
words, and nothing of the site is read or written.
"""

import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client

from relays.core.querytool import VERBS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def server(folder: Path) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=[str(ROOT / "manage.py"), "relay", "mcp"],
        env={"PATH": "/usr/bin:/bin", "RELAY_VAR": str(folder / "var")},
        cwd=folder,
    )


def check(tools: list[Any], refused: Any) -> None:
    assert {tool.name: tool.input_schema for tool in tools} == {name: verb.schema for name, verb in VERBS.items()}
    assert all(tool.description == VERBS[tool.name].what for tool in tools)
    assert refused.is_error and "only inside a leg" in refused.content[0].text


def test_the_present_protocol(tmp_path: Path) -> None:
    async def drive() -> None:
        async with Client(stdio_client(server(tmp_path))) as client:
            check((await client.list_tools()).tools, await client.call_tool("orient", {}))

    anyio.run(drive)
    assert list(tmp_path.iterdir()) == [], "nothing of the site was made"


def test_the_older_protocol_which_begins_with_a_handshake(tmp_path: Path) -> None:
    async def drive() -> None:
        async with stdio_client(server(tmp_path)) as (reading, writing), ClientSession(reading, writing) as client:
            said = await client.initialize()
            assert said.instructions and "orient first" in said.instructions
            check((await client.list_tools()).tools, await client.call_tool("safe_point", {}))

    anyio.run(drive)
    assert list(tmp_path.iterdir()) == []

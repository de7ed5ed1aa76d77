"""`relay mcp`: the agents' query tool as an MCP server over stdio, for the leg in whose environment it is started."""

import argparse

from relays.management.cli import Exit


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "It uses RELAY_SOCKET and RELAY_TOKEN of the leg's environment, and nothing else."


def run(options: argparse.Namespace) -> int:
    from relays.mcp import server  # the only verb that pays for the protocol's package

    server.run()
    return Exit.FINE

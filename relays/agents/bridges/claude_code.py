"""Claude Code, driven over stream-json both ways and its hooks.

spec/agents.md 1, and measured with 2.1.332: the PostToolBatch hook comes once all tools of a message have ended, after
their results were written and before the next model call; a Stop hook at each end of a turn, also before a background
command wakes the agent. So between two model calls of the main chain there is always one hook, and it is the boundary.
"""

from collections.abc import Mapping

from relays.agents.bridges.bridge import Bridge


class ClaudeCode(Bridge):
    pass


def main(args: Mapping[str, str]) -> int:
    return ClaudeCode(args).run()

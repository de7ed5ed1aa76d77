"""Starts one bridge: `python -I -S run.py BRIDGE name=value…`. Nothing but the standard library and our own files."""

import importlib
import signal
import sys
from pathlib import Path


def hear_interrupts() -> None:
    """A shell that starts the house in the background has SIGINT and SIGQUIT ignored by all that follow; a program
    that cannot be interrupted cannot be held where that is its only way to stop."""
    for number in (signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def main(args: list[str]) -> int:
    hear_interrupts()
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    # S and I leave no other way for a module of the repository that the agent works in
    module = importlib.import_module(f"relays.agents.bridges.{args[0]}")
    return int(module.main(dict(arg.partition("=")[::2] for arg in args[1:])))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

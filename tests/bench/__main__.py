"""One run, one table. Goals are printed, not asserted; the exit code is 1 only where something cannot be measured."""

import argparse
import logging
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.bench import backtest, batons, carryover, legs, live, pointers, sessions
from tests.bench.table import Row, as_json, text
from tests.bench.world import git, house


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that everything can be measured")
    parser.add_argument("--json", type=Path, help="where the values go (default: a file in the temporary folder)")
    parser.add_argument(
        "--only",
        choices=("pointers", "batons", "carryover", "backtest", "legs", "sessions", "live"),
        help="one kind of measurement",
    )
    options = parser.parse_args(arguments)
    quick = options.quick
    logging.disable(logging.ERROR)
    begun, load = time.time(), os.getloadavg()[0]
    found: list[Row] = []
    failed = False
    with house() as folder:
        kinds: dict[str, Callable[[], list[Row]]] = {
            "pointers": lambda: pointers.rows(folder, (100, 200) if quick else (1_000, 10_000), 3 if quick else 15),
            "batons": lambda: batons.rows(0.05 if quick else 1.0),
            "carryover": lambda: carryover.rows(100_000, 1 if quick else 5),
            "backtest": backtest.rows,
            "legs": lambda: legs.rows(folder, 3 if quick else 20, 2 if quick else 6),
            "live": lambda: live.rows(folder, *((20, 4, 15) if quick else (300, 20, 200))),
            "sessions": lambda: sessions.rows(folder, *((4, 8, 1, 30, 300) if quick else (200, 1_000, 3))),
        }
        for name, measure in kinds.items():
            if options.only in (None, name):
                try:
                    found += measure()
                except Exception as error:  # noqa: BLE001 - the other measurements are still worth their line
                    print(f"{name} could not be measured: {type(error).__name__}: {error}", file=sys.stderr)
                    failed = True
        machine: dict[str, Any] = {
            "cpus": os.cpu_count(),
            "load_before": load,
            "load": os.getloadavg()[0],
            "python": platform.python_version(),
            "git": git(folder, "--version").decode().strip().removeprefix("git version "),
            "quick": quick,
            "seconds": round(time.time() - begun, 1),
        }
    place = options.json or Path(tempfile.gettempdir()) / f"relaysite-bench-{int(begun)}.json"
    place.write_text(as_json(found, machine))
    print(text(found))
    print(
        f"\n{machine['cpus']} processors, load {load:.1f} before and {machine['load']:.1f} after, "
        f"Python {machine['python']}, git {machine['git']}, {machine['seconds']:.0f} s; the same as JSON: {place}"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

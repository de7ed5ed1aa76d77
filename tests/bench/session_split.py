"""Where the processor time of a cold import of sessions goes: `python -m tests.bench.session_split [megabytes]`."""

import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench import session_tree
from tests.bench.world import house


def main(megabytes: int) -> None:
    """A table of seconds, each of its own; those of the readers are of two processes together."""
    with house() as folder:
        tree = session_tree.write(folder / "tree", megabytes * 1_000_000)
        print(f"{tree.size / 1e6:,.0f} MB, {tree.calls:,} calls, {tree.said()}")
        paths = sorted(str(path) for path in tree.root.rglob("*.jsonl"))
        for name, seconds in (*_import(tree.root), *_read(paths)):
            print(f"{seconds:7.3f} s  {name}")


def _import(root: Path) -> list[tuple[str, float]]:
    from relays.sessions import project, rows, run
    from relays.stores import prices

    spent: dict[str, float] = {}

    def timed(where: Any, name: str, label: str) -> None:
        plain: Callable[..., Any] = getattr(where, name)

        def counted(*args: Any, **more: Any) -> Any:
            began = time.thread_time()
            try:
                return plain(*args, **more)
            finally:
                spent[label] = spent.get(label, 0.0) + time.thread_time() - began

        setattr(where, name, counted)

    timed(rows, "insert_new", "  storing, of it pricing and inserting the calls")
    timed(run, "store", "storing (one process)")
    timed(project, "project", "projecting (the same process)")
    timed(prices, "ready", "loading the price library (the same process)")
    wall, own, others = time.perf_counter(), time.process_time(), _children()
    run.import_paths([root], processes=2)
    wall, own, others = time.perf_counter() - wall, time.process_time() - own, _children() - others
    told = sum(seconds for label, seconds in spent.items() if not label.startswith(" "))
    return [
        ("wall of the import, without the start of Python and Django", wall),
        ("processor time of all its processes", own + others),
        ("reading (two processes), of which see below", others),
        *sorted(spent.items(), key=lambda one: one[0].strip()),
        ("the rest of the storing process: listing, taking in what was read", own - told),
    ]


def _read(paths: list[str]) -> list[tuple[str, float]]:
    import orjson

    from relays.sessions.files import blocks, open_for_reading
    from relays.sessions.reading import Task, read_part

    def lines(take: Callable[[bytes], object]) -> None:
        for path in paths:
            with open_for_reading(path) as stream:
                for _, some in blocks(stream, 0, os.path.getsize(path)):
                    for line in some:
                        take(line)

    def whole() -> None:
        for path in paths:
            read_part(Task(path))

    def seconds(work: Callable[[], None]) -> float:
        began = time.process_time()
        work()
        return time.process_time() - began

    bare, decoded, all_of_it = seconds(lambda: lines(len)), seconds(lambda: lines(orjson.loads)), seconds(whole)
    return [
        ("  reading here: bytes into lines", bare),
        ("  reading here: lines into JSON objects", decoded - bare),
        ("  reading here: objects into calls, fill, acts and counts", all_of_it - decoded),
    ]


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)

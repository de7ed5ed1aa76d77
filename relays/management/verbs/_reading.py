"""What the verbs that read session files share: the paths that were named, and the bar on a terminal."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from relays.management.cli import Exit, refuse
from relays.sessions import jobs, run


def real_paths(verb: str, names: Sequence[str]) -> list[str]:
    """The named paths with links followed; one that is not there is refused."""
    for name in names:
        if not jobs.exists(Path(name)):
            refuse(f"{verb}: {name} is not there; name a file or folder that is", Exit.NOT_FOUND)
    return [os.path.realpath(name) for name in names]


@contextmanager
def bar() -> Iterator[Callable[[run.Progress], None] | None]:
    """A bar on stderr, only where that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    with tqdm(unit="B", unit_scale=True, unit_divisor=1024, leave=False, file=sys.stderr) as shown:

        def show(progress: run.Progress) -> None:
            shown.total = progress.bytes_total
            shown.set_postfix_str(f"{progress.files_done}/{progress.files_total} files", refresh=False)
            shown.update(progress.bytes_done - shown.n)

        yield show

"""Parts of files, read in this process or in forked ones: parsing is most of the work and needs no database.

A forked process only reads files and answers with plain values; it never touches the connections it inherited.
"""

import gc
import multiprocessing
import os
import pickle
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from queue import Empty, Queue
from typing import Final

from django.db import connections

from relays.sessions.reading import CallRow, Part, Task, read_part

#: tasks that a forked process is given ahead, so that it never waits for the next one
AHEAD: Final = 2
#: parts that may wait to be stored: what is held in memory is bounded
QUEUED: Final = 32
#: first byte of a message: whether its file goes on in the next one
GOES_ON: Final = b"\1"
ENDS: Final = b"\0"


class Parts:
    """The parts of files as they come. `waits`: whether the next one is there, or read only when it is asked for."""

    def __init__(self, parts: Iterator[Part], arrived: "Queue[bytes | None] | None" = None) -> None:
        self._parts = parts
        self._arrived = arrived

    def __iter__(self) -> Iterator[Part]:
        return self._parts

    def waits(self) -> bool:
        """False: whoever asks for the next part would wait for another process."""
        return self._arrived is None or not self._arrived.empty()


@contextmanager
def parts_of(tasks: Iterable[Task], processes: int) -> Iterator[Parts]:
    """The parts of the files, those of one file in order; a file that goes on is gone on with.

    `processes` > 1: parsed by so many forked processes, which end with the context.
    """
    if processes <= 1:
        yield Parts(_here(deque(tasks)))
        return
    # listed before anything is forked: where to read on stands in the database
    listed = deque(tasks)
    with _forked(processes) as workers:
        arrived: Queue[bytes | None] = Queue(QUEUED)
        over = threading.Event()
        thread = threading.Thread(target=_take_in, args=(listed, workers, arrived, over), daemon=True)
        thread.start()
        parts = _there(listed, workers, arrived)
        try:
            yield Parts(parts, arrived)
        finally:
            parts.close()
            over.set()
            while thread.is_alive():
                with suppress(Empty):
                    arrived.get(timeout=0.05)
            thread.join()


def _next(task: Task, part: Part) -> Task:
    return replace(task, cursor=part.cursor, form=part.form, state=part.state, part=task.part + 1)


def _here(tasks: deque[Task]) -> Iterator[Part]:
    while tasks:
        task = tasks.popleft()
        part = read_part(task)
        if part.more:
            tasks.appendleft(_next(task, part))
        yield part


@dataclass(slots=True)
class _Worker:
    link: Connection
    given: deque[Task] = field(default_factory=deque)


@contextmanager
def _forked(count: int) -> Iterator[list[_Worker]]:
    context = multiprocessing.get_context("fork")
    for one in connections.all(initialized_only=True):
        if not one.in_atomic_block:
            one.close()
    ours: list[Connection] = []
    processes = []
    try:
        for _ in range(count):
            mine, theirs = context.Pipe()
            ours.append(mine)
            process = context.Process(target=_work, args=(theirs, list(ours)), daemon=True)
            process.start()
            theirs.close()
            processes.append(process)
        yield [_Worker(link) for link in ours]
    finally:
        for process in processes:
            process.terminate()  # nothing is lost: what it had not sent is read again
            process.join()
        for link in ours:
            link.close()


def _work(link: Connection, not_ours: Iterable[Connection]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever started this
    for other in not_ours:
        other.close()  # so that the end of the parent is the end of the link
    os.nice(3)  # whoever stores what is read goes first: it is one for all
    gc.disable()  # what is read holds no circles: to look for them takes a tenth of the time
    try:
        while True:
            for part in _here(deque([link.recv()])):
                part.calls = list(map(tuple, part.calls))  # type: ignore[arg-type]  # as rows again on the other side
                link.send_bytes((GOES_ON if part.more else ENDS) + pickle.dumps(part, pickle.HIGHEST_PROTOCOL))
    except (EOFError, OSError):
        return


def _there(tasks: deque[Task], workers: list[_Worker], arrived: "Queue[bytes | None]") -> Generator[Part, None, None]:
    """What a thread took in from the processes, so that none of them waits while this one stores.

    Whatever a process was given and did not finish before it was killed is read here.
    """
    while (message := arrived.get()) is not None:
        # from a process that this one forked, over its own pipe
        part: Part = pickle.loads(memoryview(message)[1:])  # noqa: S301
        part.calls = list(map(CallRow._make, part.calls))
        yield part
    for worker in workers:
        tasks.extend(worker.given)
    yield from _here(tasks)


def _take_in(tasks: deque[Task], workers: list[_Worker], arrived: "Queue[bytes | None]", over: threading.Event) -> None:
    alive = [worker for worker in workers if all(_give(worker, tasks) for _ in range(AHEAD))]
    while not over.is_set() and (busy := [worker for worker in alive if worker.given]):
        ready = wait([worker.link for worker in busy], 0.2)
        for worker in busy:
            if worker.link not in ready:
                continue
            try:
                message = worker.link.recv_bytes()
            except (EOFError, OSError):
                alive.remove(worker)
                continue
            if message[:1] == ENDS:
                worker.given.popleft()
                if not _give(worker, tasks):
                    alive.remove(worker)
            arrived.put(message)
    arrived.put(None)


def _give(worker: _Worker, tasks: deque[Task]) -> bool:
    """Give a task ahead, where there is one; False when the process is gone."""
    if not tasks:
        return True
    task = tasks.popleft()
    try:
        worker.link.send(task)
    except OSError:
        tasks.appendleft(task)
        return False
    worker.given.append(task)
    return True

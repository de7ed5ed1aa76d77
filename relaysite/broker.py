"""The embedded broker: Kombu's SQLAlchemy transport on one SQLite file of its own, with four things made right.

* The polling interval is a matter of the transport; Kombu hands it on to SQLAlchemy, which refuses it.
* The file is in WAL mode with `synchronous=NORMAL`: a doorbell that is lost in a power cut costs time, never work.
* A connection is never carried over a fork: a pool process opens its own.
* Processes that name a new queue at the same moment all get its row; whoever comes second reads the first one's.
"""

import os
import time
from typing import Any

from kombu.transport import sqlalchemy
from kombu.transport.sqlalchemy.models import metadata
from sqlalchemy import Engine, event, inspect
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.orm import sessionmaker

POLLING_SECONDS = 0.1
TRIES = 6
_PRAGMAS = ("PRAGMA busy_timeout=20000", "PRAGMA journal_mode=WAL", "PRAGMA synchronous=NORMAL")


def _prepare(connection: Any, _record: object) -> None:
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _make_tables(engine: Engine) -> None:
    """Several processes may meet a fresh file at once: whoever comes second finds the tables at its next try.

    An error here would close the channel for good, and with it the bells of this process.
    """
    for attempt in range(TRIES):
        try:
            metadata.create_all(engine)
        except OperationalError:
            if attempt == TRIES - 1:
                raise
            time.sleep(0.05 * 2**attempt)
        else:
            return


class Channel(sqlalchemy.Channel):
    """A channel whose engine belongs to this process alone."""

    _by_process: dict[tuple[int, str], tuple[Engine, Any]] = {}

    def _open(self) -> tuple[Engine, Any]:
        key = (os.getpid(), self.connection.client.hostname)
        if key not in self._by_process:
            engine = self._engine_from_config()
            event.listen(engine, "connect", _prepare)
            _make_tables(engine)
            self._by_process[key] = (engine, sessionmaker(bind=engine))
        return self._by_process[key]

    def _get_or_create(self, queue: str) -> Any:
        """The row of a queue, made once however many processes name it first.

        Kombu's own look-up and insert are two steps: the second of two writers gets an IntegrityError, or, when the
        file stayed busy, a row that was rolled back. Either way the next look finds what the other one wrote.
        """
        for attempt in range(TRIES):
            try:
                row = super()._get_or_create(queue)
            except IntegrityError:
                self.session.rollback()
            else:
                if inspect(row).persistent:
                    return row
            time.sleep(0.05 * 2**attempt)
        raise TimeoutError(f"the queue {queue!r} could not be made in the broker's file: it stays busy")


class Transport(sqlalchemy.Transport):
    """Registered in `relaysite.celery` for the addresses `sqla+sqlite:///…`."""

    Channel = Channel
    polling_interval = POLLING_SECONDS

"""Beat that says it is alive (the doctor and the Health page read the row `beat:<host>`) and that comes back.

Celery's own keeps one channel for ever: once the broker closed it, every later bell fails until beat is restarted.
"""

import logging
import socket
import time
from typing import Any

from celery.beat import PersistentScheduler, SchedulingError
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

BEAT_EVERY = 5.0

log = logging.getLogger(__name__)


class Scheduler(PersistentScheduler):
    """The persistent scheduler with a heartbeat row, written at most every `BEAT_EVERY` seconds."""

    _beaten = 0.0

    def tick(self, *arguments: Any, **options: Any) -> float:
        if time.monotonic() - self._beaten >= BEAT_EVERY:
            self._beaten = time.monotonic()
            self._heartbeat()
        # a longer sleep would let the row grow old
        return min(float(super().tick(*arguments, **options)), BEAT_EVERY)

    def apply_async(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().apply_async(*arguments, **options)
        except SchedulingError:
            self._forget_connection()  # the next tick opens another one
            raise

    def _forget_connection(self) -> None:
        self.__dict__.pop("producer", None)
        connection = self.__dict__.pop("connection", None)
        if connection is not None:
            connection.release()

    def _heartbeat(self) -> None:
        from relays.models import Heartbeat

        try:
            close_old_connections()
            name = f"beat:{socket.gethostname()}"
            Heartbeat.objects.update_or_create(name=name, defaults={"at": timezone.now()})
        except DatabaseError as error:
            log.warning("no heartbeat of beat written (%s); the next one is tried in %s s", error, BEAT_EVERY)

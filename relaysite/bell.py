"""Ringing a doorbell: one short message that names a task and what it is for. The database holds the truth."""

import logging
import time

from django.db import transaction

log = logging.getLogger(__name__)

PATIENCE = 1.0  # seconds that a broker has to take a connection
SILENCE = 10.0  # seconds that a broker which did not is left alone: nobody waits for each of a row of bells

SERVERS = ("amqp", "pyamqp", "redis")

_silent_until = 0.0


def ring(task: str, what: str | int) -> None:
    """Ring `task` for `what` after the commit. A lost bell costs time only: `reconcile` rings again.

    A broker that is down keeps whoever rings for PATIENCE at most, once in SILENCE.
    """

    def send() -> None:
        global _silent_until
        # a second's worth of modules that most commands and every supervisor do without
        from kombu.exceptions import OperationalError as BrokerError

        if time.monotonic() < _silent_until:
            log.info("bell %s for %s not rung: the broker did not answer a moment ago", task, what)
            return
        try:
            _send(task, what)
        except (BrokerError, OSError) as error:
            _silent_until = time.monotonic() + SILENCE
            log.warning("bell %s for %s not rung (%s); reconcile will find it", task, what, error)

    transaction.on_commit(send)


def _send(task: str, what: str | int) -> None:
    """To a server over connections of its own: those of workers and beat wait for one that comes back."""
    from kombu.pools import producers

    from relaysite.celery import app

    url = str(app.conf.broker_url)
    if not url.startswith(SERVERS):
        app.send_task(task, args=[what], ignore_result=True, retry=False)
        return
    options = {**(app.conf.broker_transport_options or {}), "max_retries": 0, "connect_retries_timeout": PATIENCE}
    if url.startswith("redis"):
        options |= {"socket_connect_timeout": PATIENCE, "socket_timeout": PATIENCE}
    connection = app.connection_for_write(connect_timeout=PATIENCE, transport_options=options)
    with producers[connection].acquire(block=True, timeout=PATIENCE) as producer:
        app.send_task(task, args=[what], ignore_result=True, retry=False, producer=producer)

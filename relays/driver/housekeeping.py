"""Small periodic upkeep."""

import contextlib
import sqlite3
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings

from relays.models import HookEvent, HookTally

KEPT_HOOKS = timedelta(days=30)
AT_ONCE = 5000  # rows that one pass deletes, so that no writer waits long


def purge_doorbells() -> int:
    """Delete heard bells of the embedded broker, which keeps every row; other brokers keep none."""
    url = str(settings.CELERY_BROKER_URL)
    if not url.startswith("sqla+sqlite:///"):
        return 0
    path = Path(url.removeprefix("sqla+sqlite:///"))
    if not path.exists():
        return 0
    with contextlib.closing(sqlite3.connect(path, timeout=20)) as connection, connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "kombu_message" not in tables:
            return 0
        return connection.execute("DELETE FROM kombu_message WHERE visible = 0").rowcount


def prune_hooks(now: datetime) -> int:
    """Delete what hooks said more than 30 days ago, the oldest first; how many rows went. What is left goes later."""
    before = now - KEPT_HOOKS
    calls = HookEvent.objects.filter(at__lt=before).order_by("pk").values_list("pk", flat=True)[:AT_ONCE]
    minutes = HookTally.objects.filter(minute__lt=before).order_by("pk").values_list("pk", flat=True)[:AT_ONCE]
    gone, _ = HookEvent.objects.filter(pk__in=list(calls)).delete()
    counted, _ = HookTally.objects.filter(pk__in=list(minutes)).delete()
    return gone + counted

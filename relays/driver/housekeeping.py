"""Small periodic upkeep."""

import contextlib
import sqlite3
from pathlib import Path

from django.conf import settings


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

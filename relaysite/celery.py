"""Celery: doorbells only. The database is the truth; a lost message costs time, never work."""

import os

from celery import Celery
from kombu.transport import TRANSPORT_ALIASES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relaysite.settings")

TRANSPORT_ALIASES["sqla"] = "relaysite.broker:Transport"  # ours polls faster, uses WAL and survives a fork

app = Celery("relaysite")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["relays"])

import os

from django.conf import settings
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "relaysite.settings")
application = get_asgi_application()
# each request has a thread of its own here: a connection that is kept for the next one would never be used again, and
# a busy minute would take all that a PostgreSQL server gives
settings.DATABASES["default"]["CONN_MAX_AGE"] = 0

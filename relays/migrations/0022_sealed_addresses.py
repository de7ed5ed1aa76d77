"""Addresses of channels lie sealed in the database from now on, and are known again by a keyed digest."""

from typing import Any

from django.conf import settings
from django.db import migrations

from relays.core import notify
from relays.notices import sealed


def seal_all(apps: Any, schema_editor: Any) -> None:
    channels = apps.get_model("relays", "Channel").objects
    for row in channels.filter(site=False).exclude(url=""):
        if not row.url.startswith(sealed.MARK):
            row.key, row.url = notify.digest(settings.SECRET_KEY, row.url), sealed.seal(row.url)
            row.save(update_fields=["key", "url"])
    # those of the setting are made anew under their new digests; what was sent on the old rows stays with them
    channels.filter(site=True).update(active=False)


class Migration(migrations.Migration):
    dependencies = [
        ("relays", "0021_keys"),
    ]

    operations = [
        migrations.RunPython(seal_all, migrations.RunPython.noop),
    ]

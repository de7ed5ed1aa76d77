"""Addresses of channels lie sealed in the database from now on, and are known again by a keyed digest."""

import hashlib
from typing import Any

from django.conf import settings
from django.db import migrations

from relays.core import notify
from relays.notices import sealed


def seal_all(apps: Any, schema_editor: Any) -> None:
    """Every channel keeps its row, what waits on it and the secret that was shown for it; none keeps a bare digest."""
    known = {_bare(f"site {url}"): f"site {url}" for url in settings.NOTIFY_URLS}
    for row in apps.get_model("relays", "Channel").objects.all():
        if row.url.startswith(sealed.MARK):
            continue
        before = row.key
        # of what is forgotten, removed or in the setting no more, the digest itself is what is digested
        row.key = notify.digest(settings.SECRET_KEY, known.get(before, before) if row.site else row.url or before)
        if row.salt == before:  # of the setting: its secret was never shown
            row.salt = row.key
        if row.url:
            row.url = sealed.seal(row.url)
        row.save(update_fields=["key", "url", "salt"])


def open_all(apps: Any, schema_editor: Any) -> None:
    """The other way; what was sealed under another SECRET_KEY stays so, and its channel says that it cannot be read."""
    site = {notify.digest(settings.SECRET_KEY, f"site {url}"): _bare(f"site {url}") for url in settings.NOTIFY_URLS}
    for row in apps.get_model("relays", "Channel").objects.all():
        url = sealed.opened(row.url) if row.url else None
        if url is not None:
            row.key, row.url = _bare(url), url
        elif row.site:
            row.key = site.get(row.key, row.key)
        row.save(update_fields=["key", "url"])


def _bare(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Migration(migrations.Migration):
    dependencies = [
        ("relays", "0021_keys"),
    ]

    operations = [
        migrations.RunPython(seal_all, open_all),
    ]

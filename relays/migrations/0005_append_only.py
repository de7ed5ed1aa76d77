"""Append-only tables refuse UPDATE and DELETE in the database itself (architecture.md, Tables that matter)."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from relays.models import append_only


def install(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    append_only.install(schema_editor.connection)


def remove(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    append_only.remove(schema_editor.connection)


class Migration(migrations.Migration):
    dependencies = [("relays", "0004_rules")]

    operations = [migrations.RunPython(install, remove)]

"""The four roles as groups (interface.md, Roles). What each may do is decided in `relays.reports.roles`."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

ROLES = ("operator", "reviewer", "manager", "admin")


def make(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    group = apps.get_model("auth", "Group")
    for name in ROLES:
        group.objects.using(schema_editor.connection.alias).get_or_create(name=name)


class Migration(migrations.Migration):
    dependencies = [("relays", "0001_initial"), ("auth", "0012_alter_user_first_name_max_length")]

    # going back keeps the groups: people are in them
    operations = [migrations.RunPython(make, migrations.RunPython.noop)]

"""The window of a relay's baseline is kept with its comparison; those that stand are made again with it."""

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.utils import timezone


def again(apps: Apps, _editor: BaseDatabaseSchemaEditor) -> None:
    apps.get_model("relays", "Comparison").objects.filter(relay__isnull=False).update(wanted_at=timezone.now())


class Migration(migrations.Migration):
    dependencies = [("relays", "0016_policies")]

    operations = [
        migrations.AddField(model_name="comparison", name="residency", field=models.JSONField(default=dict)),
        migrations.RunPython(again, migrations.RunPython.noop),
    ]

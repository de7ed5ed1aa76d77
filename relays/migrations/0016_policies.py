"""Named policies and their versions; a park that comes when the present leg has ended; what SHAs are searched by."""

import django.db.models.deletion
from django.apps.registry import Apps
from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

from relays.models import append_only

REQUESTS = [("", "None"), ("drain", "Drain"), ("now", "Now"), ("leg", "Leg")]


def install(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    append_only.install(schema_editor.connection)


class Migration(migrations.Migration):
    dependencies = [
        ("relays", "0015_preferences"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="PolicyVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60)),
                ("number", models.PositiveIntegerField()),
                ("text", models.TextField()),
                ("table", models.JSONField()),
                ("digest", models.CharField(max_length=64)),
                ("comment", models.TextField(blank=True, default="")),
                ("at", models.DateTimeField()),
                (
                    "made_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["name", "-number"],
                "constraints": [models.UniqueConstraint(fields=("name", "number"), name="policy_version_once")],
            },
        ),
        migrations.AlterField(
            model_name="relay",
            name="park",
            field=models.CharField(blank=True, choices=REQUESTS, default="", max_length=5),
        ),
        migrations.AlterField(
            model_name="relay",
            name="stop",
            field=models.CharField(blank=True, choices=REQUESTS, default="", max_length=5),
        ),
        migrations.AddField(
            model_name="relay",
            name="policy_version",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="relays",
                to="relays.policyversion",
            ),
        ),
        migrations.AddIndex(
            model_name="counted", index=models.Index(fields=["kind", "value"], name="counted_anywhere")
        ),
        migrations.AddIndex(model_name="leg", index=models.Index(fields=["end_sha"], name="leg_end_sha")),
        migrations.RunPython(install, migrations.RunPython.noop),
    ]

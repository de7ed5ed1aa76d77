"""What each leg made, one row a thing: a later leg looks up its own candidates and reads no history."""

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

#: kind of row -> where it stands in a leg's `progress_detail`
KEPT = (("patch", "patch_ids"), ("issue", "issues"), ("ref", "refs"), ("tree", "trees"), ("foreign", "foreign"))


def fill(apps: Apps, _schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Legs that have ended keep what they made: it must not count again."""
    legs, counted = apps.get_model("relays", "Leg"), apps.get_model("relays", "Counted")
    relay, seen = "", set[str]()
    for leg in legs.objects.filter(progress__isnull=False).order_by("relay_id", "number").iterator(chunk_size=200):
        if leg.relay_id != relay:
            relay, seen = leg.relay_id, set()
        detail = leg.progress_detail or {}
        counts = {commit["sha"] for commit in detail.get("commits", [])}
        made = list(dict.fromkeys([*detail.get("made", []), *counts]))
        rows = [("commit", sha, sha in counts, sha in seen) for sha in made]
        for kind, key in KEPT:
            rows += [(kind, value[:600], False, False) for value in dict.fromkeys(detail.get(key, []))]
        seen.update(made)
        counted.objects.bulk_create(
            (
                counted(relay_id=leg.relay_id, leg_id=leg.pk, kind=kind, value=value, counts=counts, shared=shared)
                for kind, value, counts, shared in rows
            ),
            batch_size=500,
        )


class Migration(migrations.Migration):
    dependencies = [("relays", "0005_append_only")]

    operations = [
        migrations.CreateModel(
            name="Counted",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("commit", "Commit"),
                            ("patch", "Patch"),
                            ("issue", "Issue"),
                            ("ref", "Ref"),
                            ("tree", "Tree"),
                            ("foreign", "Foreign"),
                        ],
                        max_length=8,
                    ),
                ),
                ("value", models.CharField(max_length=600)),
                ("counts", models.BooleanField(default=False)),
                ("shared", models.BooleanField(default=False)),
                (
                    "leg",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="counted", to="relays.leg"
                    ),
                ),
                (
                    "relay",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="counted", to="relays.relay"
                    ),
                ),
            ],
            options={
                "ordering": ["leg_id", "id"],
                "indexes": [
                    models.Index(fields=["relay", "kind", "value"], name="counted_by_value"),
                    models.Index(condition=models.Q(("shared", True)), fields=["relay"], name="counted_shared"),
                ],
                "constraints": [models.UniqueConstraint(fields=("leg", "kind", "value"), name="counted_once")],
            },
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]

"""Uses of the query tool, operations on memories that a person has to allow, and what a promotion rested on."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("relays", "0011_session_parent")]

    operations = [
        migrations.AddField("pagefault", "reason", models.CharField(blank=True, default="", max_length=200)),
        migrations.AddField("promotion", "decided_by", models.CharField(blank=True, default="", max_length=150)),
        migrations.AddField("promotion", "digest", models.CharField(blank=True, default="", max_length=64)),
        migrations.AddField("promotion", "evidence", models.CharField(blank=True, default="", max_length=500)),
        migrations.AddField("promotion", "expires_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField("promotion", "reason", models.CharField(blank=True, default="", max_length=200)),
        migrations.AddField("promotion", "superseded_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField("promotion", "text", models.TextField(blank=True, default="")),
        migrations.CreateModel(
            name="MemoryOperation",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "act",
                    models.CharField(
                        choices=[
                            ("write", "Write"),
                            ("rewrite", "Rewrite"),
                            ("delete", "Delete"),
                            ("wipe", "Wipe"),
                            ("reset", "Reset"),
                            ("found", "Found"),
                        ],
                        max_length=10,
                    ),
                ),
                ("slug", models.CharField(blank=True, default="", max_length=200)),
                ("text", models.TextField(blank=True, default="")),
                ("base_sha", models.CharField(blank=True, default="", max_length=64)),
                ("item", models.CharField(max_length=500)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("asked", "Asked"),
                            ("allowed", "Allowed"),
                            ("refused", "Refused"),
                            ("done", "Done"),
                        ],
                        default="asked",
                        max_length=8,
                    ),
                ),
                ("slugs", models.JSONField(default=list)),
                ("commit", models.CharField(blank=True, default="", max_length=64)),
                ("at", models.DateTimeField()),
                ("decided_at", models.DateTimeField(blank=True, null=True)),
                ("done_at", models.DateTimeField(blank=True, null=True)),
                (
                    "leg",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memory_operations",
                        to="relays.leg",
                    ),
                ),
                (
                    "promotion",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="relays.promotion",
                    ),
                ),
                (
                    "relay",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memory_operations",
                        to="relays.relay",
                    ),
                ),
            ],
            options={
                "ordering": ["relay_id", "id"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("state__in", ["asked", "allowed", "refused", "done"])),
                        name="memory_operation_state",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("act__in", ["write", "rewrite", "delete", "wipe", "reset", "found"])),
                        name="memory_operation_act",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ToolUse",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("verb", models.CharField(max_length=20)),
                ("about", models.CharField(blank=True, default="", max_length=200)),
                ("refused", models.BooleanField(default=False)),
                ("words", models.CharField(blank=True, default="", max_length=300)),
                ("answer_bytes", models.PositiveIntegerField(default=0)),
                ("at", models.DateTimeField()),
                (
                    "leg",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="tool_uses", to="relays.leg"
                    ),
                ),
            ],
            options={
                "ordering": ["leg_id", "number"],
                "constraints": [models.UniqueConstraint(fields=("leg", "number"), name="tooluse_number_once")],
            },
        ),
    ]

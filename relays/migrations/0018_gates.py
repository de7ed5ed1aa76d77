"""Who brought a gate where and when, groups of reviewers, and verifications of the chain of decisions."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("relays", "0017_residency"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditRun",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("asked_at", models.DateTimeField()),
                (
                    "phase",
                    models.CharField(
                        choices=[("decisions", "Decisions"), ("batons", "Batons")], default="decisions", max_length=9
                    ),
                ),
                ("place", models.PositiveBigIntegerField(default=0)),
                ("total", models.PositiveBigIntegerField(default=0)),
                ("done", models.PositiveBigIntegerField(default=0)),
                ("rows", models.PositiveBigIntegerField(default=0)),
                ("head", models.CharField(blank=True, default="", max_length=64)),
                ("first_bad", models.PositiveBigIntegerField(blank=True, null=True)),
                ("why", models.JSONField(default=list)),
                ("ok", models.BooleanField(blank=True, null=True)),
                ("cancelled", models.BooleanField(default=False)),
                ("beat_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("running", models.BooleanField(default=True, null=True, unique=True)),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="GateChange",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("approved", "Approved"),
                            ("requested", "Requested"),
                            ("dispatched", "Dispatched"),
                            ("confirmed", "Confirmed"),
                            ("refused", "Refused"),
                            ("expired", "Expired"),
                            ("superseded", "Superseded"),
                        ],
                        max_length=10,
                    ),
                ),
                ("at", models.DateTimeField()),
                ("why", models.CharField(blank=True, default="", max_length=500)),
            ],
            options={
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="ReviewerGroup",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=60, unique=True)),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(fields=["act", "seq"], name="decision_act"),
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(fields=["at"], name="decision_at"),
        ),
        migrations.AddField(
            model_name="auditrun",
            name="asked_by",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="gatechange",
            name="by",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to=settings.AUTH_USER_MODEL,
            ),
        ),
        migrations.AddField(
            model_name="gatechange",
            name="gate",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="changes", to="relays.gateepisode"
            ),
        ),
        migrations.AddField(
            model_name="reviewergroup",
            name="members",
            field=models.ManyToManyField(blank=True, related_name="reviewer_groups", to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name="relay",
            name="reviewers",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="relays",
                to="relays.reviewergroup",
            ),
        ),
        migrations.AddConstraint(
            model_name="auditrun",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ended_at__isnull", True), ("running", True)),
                    models.Q(("ended_at__isnull", False), ("running__isnull", True)),
                    _connector="OR",
                ),
                name="audit_runs_until_its_end",
            ),
        ),
    ]

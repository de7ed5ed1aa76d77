"""What programs that nobody drives said through their hooks; by what a closed leg's turns are known."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("relays", "0013_api_tokens"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name="leg",
            name="turns_digest",
            field=models.CharField(blank=True, default="", max_length=64),
        ),
        migrations.CreateModel(
            name="HookEvent",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("agent", models.CharField(max_length=20)),
                ("sid", models.CharField(max_length=200)),
                ("event", models.CharField(max_length=40)),
                ("known", models.BooleanField(default=True)),
                (
                    "signal",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "None"),
                            ("would_rotate", "Would Rotate"),
                            ("compacted", "Compacted"),
                            ("failed", "Failed"),
                            ("ended", "Ended"),
                        ],
                        default="",
                        max_length=12,
                    ),
                ),
                ("blocked", models.BooleanField(default=False)),
                ("said", models.JSONField(default=dict)),
                ("size", models.PositiveIntegerField()),
                ("at", models.DateTimeField()),
                (
                    "token",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="relays.apitoken"
                    ),
                ),
            ],
            options={
                "ordering": ["-at", "-id"],
                "indexes": [
                    models.Index(fields=["agent", "sid", "-at"], name="hookevent_of_session"),
                    models.Index(fields=["at"], name="hookevent_age"),
                ],
            },
        ),
        migrations.CreateModel(
            name="HookFollow",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("agent", models.CharField(max_length=20)),
                ("sid", models.CharField(max_length=200)),
                ("path", models.CharField(max_length=4096)),
                ("at", models.DateTimeField()),
                (
                    "job",
                    models.ForeignKey(
                        null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="relays.import"
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("agent", "sid"), name="hookfollow_once")],
            },
        ),
        migrations.CreateModel(
            name="HookTally",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("minute", models.DateTimeField()),
                ("kept", models.PositiveIntegerField(default=0)),
                ("dropped", models.PositiveIntegerField(default=0)),
                ("torn", models.PositiveIntegerField(default=0)),
                ("refused", models.PositiveIntegerField(default=0)),
                (
                    "token",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="hook_tallies",
                        to="relays.apitoken",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("token", "minute"), name="hooktally_once"),
                    models.UniqueConstraint(
                        condition=models.Q(("token__isnull", True)), fields=("minute",), name="hooktally_once_without"
                    ),
                ],
            },
        ),
    ]

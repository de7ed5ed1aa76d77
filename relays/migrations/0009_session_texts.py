"""Lines of session files as text, kept only where the site asks for it."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("relays", "0008_cause_gone")]

    operations = [
        migrations.CreateModel(
            name="SessionText",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("line", models.PositiveBigIntegerField()),
                ("text", models.TextField()),
                (
                    "source",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="text_rows",
                        to="relays.sourcefile",
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("source", "line"), name="sessiontext_once")],
            },
        ),
    ]

"""Gates that lost their cause: why, and when a waiting one was last looked at."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("relays", "0007_sessions_in")]

    operations = [
        migrations.AddField(
            model_name="gateepisode",
            name="closed_why",
            field=models.TextField(blank=True, default=""),
        ),
        migrations.AddField(
            model_name="gateepisode",
            name="looked_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]

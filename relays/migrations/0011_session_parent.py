"""Sessions that came from one are found by an index: a projection asks for them, and so does each session's page."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("relays", "0010_costs")]

    operations = [
        migrations.AddIndex(
            model_name="session", index=models.Index(fields=["agent", "parent"], name="session_parent")
        ),
    ]

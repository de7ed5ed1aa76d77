from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("relays", "0002_roles")]

    operations = [
        migrations.AddField(
            model_name="call",
            name="cache_reported",
            field=models.BooleanField(default=True),
        ),
    ]

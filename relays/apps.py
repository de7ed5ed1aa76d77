from django.apps import AppConfig


class RelaysConfig(AppConfig):
    name = "relays"
    verbose_name = "Relays"

    def ready(self) -> None:
        from relays import checks  # noqa: F401 - registers the system checks

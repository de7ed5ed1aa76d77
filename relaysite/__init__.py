"""The Django project. Celery is imported only where a bell is rung or heard: it doubles what a command loads."""

"""The Django project. Celery is imported only where a bell is rung or heard: it would double what each command loads."""

"""The Celery application of the reference project: ``celery -A config worker -Q memory_repair,celery``."""

import os

from celery import Celery

from memory_app.schedule import BEAT_SCHEDULE, TASK_ROUTES, WORKER_SETTINGS

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
app = Celery("config")
app.conf.update(WORKER_SETTINGS, task_routes=TASK_ROUTES, beat_schedule=BEAT_SCHEDULE)
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

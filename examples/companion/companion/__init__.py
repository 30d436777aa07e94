"""A chat with a companion that remembers: the smallest Django project around memory_app."""

from companion.celery import app as celery_app

__all__ = ["celery_app"]

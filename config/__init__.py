"""The reference project: how a host wires memory_app into Django."""

# So that every process of the project, the web's too, sends its messages by this application.
from config.celery import app as celery_app

__all__ = ["celery_app"]

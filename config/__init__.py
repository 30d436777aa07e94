"""The reference project: how a host wires memory_app into Django."""

import gc

# So that every process of the project, the web's too, sends its messages by this application.
from config.celery import app as celery_app

__all__ = ["COLLECTOR_THRESHOLDS", "celery_app"]

COLLECTOR_THRESHOLDS = (10_000, 10, 10)
"""How seldom Python's collector looks for garbage in every process of the project; the default is 700, 10, 10.

A process keeps what it has read, and looking through it again and again costs recalls a fifth of their time on
average and makes pauses of 0.3 s (docs/deployment.md).
"""

gc.set_threshold(*COLLECTOR_THRESHOLDS)

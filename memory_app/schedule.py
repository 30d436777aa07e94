"""What a host adds to its Celery settings; importing it imports neither Celery nor Django.

A host without Celery settings of its own, with `namespace="CELERY"`, takes all of it into its settings module,
and overrides below what it wants otherwise:

    globals().update(CELERY_SETTINGS)

A host with settings of its own merges the routes and the schedule into them:

    CELERY_TASK_ROUTES = {**TASK_ROUTES, ...}
    CELERY_BEAT_SCHEDULE = {**BEAT_SCHEDULE, ...}
"""

from __future__ import annotations

from typing import Any

QUEUE = "memory_repair"
"""Repairs have a queue of their own, so that they hold up no user traffic."""

TASK_ROUTES: dict[str, dict[str, str]] = {
    "memory_app.repair.*": {"queue": QUEUE},
    "memory_app.index.*": {"queue": QUEUE},
    "memory_app.verify": {"queue": QUEUE},
}

SWEEP_SECONDS = 30.0

BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    "memory_app.repair.sweep": {
        "task": "memory_app.repair.sweep",
        "schedule": SWEEP_SECONDS,
        # A sweep nobody fetched in time is not worth more than the next one.
        "options": {"expires": SWEEP_SECONDS - 5},
    },
    "memory_app.repair.prune": {"task": "memory_app.repair.prune", "schedule": 24 * 3600.0},
}

WORKER_SETTINGS: dict[str, Any] = {
    "task_acks_late": True,
    # A worker that was killed gives its rows back when their lease ends; redelivery would double the work.
    "task_reject_on_worker_lost": False,
    "worker_prefetch_multiplier": 1,
    "task_time_limit": 300,
    "task_soft_time_limit": 240,
    "broker_transport_options": {"visibility_timeout": 3600},
    "broker_connection_retry_on_startup": True,
    # Cancelling acknowledges on the connection that was lost, and in Celery 5.7 that ends the worker.
    # A task that runs on is doubled at worst, which does no harm here.
    "worker_cancel_long_running_tasks_on_connection_loss": False,
    "worker_soft_shutdown_timeout": 30,
    "worker_max_tasks_per_child": 1000,
    "task_publish_retry_policy": {"max_retries": 3, "interval_start": 0, "interval_step": 0.2},
    "task_serializer": "json",
    "accept_content": ["json"],
    "worker_hijack_root_logger": False,
    "timezone": "UTC",
}
"""For a worker of its own (django-practice §5.4); the limits stand below the claim's lease of 360 s."""

CELERY_SETTINGS: dict[str, Any] = {
    f"CELERY_{name.upper()}": value
    for name, value in {**WORKER_SETTINGS, "task_routes": TASK_ROUTES, "beat_schedule": BEAT_SCHEDULE}.items()
}
"""All of the above under the names that Django's settings have for it."""

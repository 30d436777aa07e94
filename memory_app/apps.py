"""How Django knows the app."""

from __future__ import annotations

import sys
from typing import Any

from django.apps import AppConfig
from django.core.signals import setting_changed
from django.utils.translation import gettext_lazy as _


class MemoryAppConfig(AppConfig):
    """The app's permanent names. Loading it opens no store, reads no database and starts no thread."""

    name = "memory_app"
    # Part of table, permission and content type names: it never changes.
    label = "memory_app"
    verbose_name = _("Character memory")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the checks and listen for changed settings and ending workers."""
        from memory_app import checks

        checks.register_all()
        setting_changed.connect(_follow_settings, dispatch_uid="memory_app.settings")
        if "celery" in sys.modules:  # a worker has loaded it before Django; nobody else needs it for this
            close_with_workers()


def close_with_workers() -> None:
    """Close the memories of a Celery worker's process when it ends, for it leaves without running `atexit`."""
    from celery.signals import worker_process_shutdown

    worker_process_shutdown.connect(_close, dispatch_uid="memory_app.close", weak=False)


def _follow_settings(*, setting: str, **others: Any) -> None:
    if setting == "CHARACTER_MEMORY":
        from memory_app import conf

        conf.reload()
        _close()


def _close(**others: Any) -> None:
    """Close what the process has open; only if it can have anything open."""
    if "memory_app.runtime" in sys.modules:
        from memory_app.runtime import close_memories

        close_memories()

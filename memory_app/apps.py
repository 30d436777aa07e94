"""How Django knows the app."""

from django.apps import AppConfig


class MemoryAppConfig(AppConfig):
    """The app's permanent names. Loading it opens no store, reads no database and starts no thread."""

    name = "memory_app"
    # Part of table, permission and content type names: it never changes.
    label = "memory_app"
    verbose_name = "Character memory"
    default_auto_field = "django.db.models.BigAutoField"

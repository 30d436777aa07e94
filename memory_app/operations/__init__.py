"""What commands, tasks, admin and API have in common: every operator's deed, once. Callers only parse and show."""

from memory_app.operations import (
    backup,
    collections,
    exporting,
    importing,
    opening,
    rebuild,
    repair,
    verify,
)

__all__ = ["backup", "collections", "exporting", "importing", "opening", "rebuild", "repair", "verify"]

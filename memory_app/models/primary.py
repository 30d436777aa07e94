"""Reading where one writes."""

from __future__ import annotations

from typing import TypeVar

from django.db import models, router

M = TypeVar("M", bound=models.Model)


class PrimaryManager(models.Manager[M]):
    """Reads rows from the database that they are written to, whatever the host's routers say of reading.

    Processes agree with each other by these rows. A replica that lags would give back what was claimed, or say
    that nobody is there.
    """

    def get_queryset(self) -> models.QuerySet[M]:
        """Return all rows, where they are written."""
        rows = super().get_queryset()
        return rows if self._db else rows.using(router.db_for_write(self.model))

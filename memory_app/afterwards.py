"""Database writes that must not be part of a host's transaction."""

from __future__ import annotations

from collections.abc import Callable

from django.db import router, transaction
from django.db.models import Model

from memory_app.transactions import in_host_transaction


def outside_transactions(model: type[Model], call: Callable[[], None]) -> None:
    """Call now, or once the host's transaction on `model`'s database is committed; never if it is rolled back.

    A connection of our own would wait for the host's locks (consistency.md §2), and a failure inside the host's
    transaction would spoil it. What is lost by a rollback must be something that a sweep finds again.
    """
    alias = router.db_for_write(model)
    if in_host_transaction(alias):
        transaction.on_commit(call, using=alias, robust=True)
    else:
        call()

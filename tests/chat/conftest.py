"""The message store in the host's databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from charactermemory.history import HistoryManager
from memory_app.chat.storage import DjangoStorage

START = datetime(2026, 3, 1, 9, tzinfo=UTC)


@pytest.fixture
def storage(database: str, closing_threads: None) -> DjangoStorage:
    """On each database in turn."""
    return DjangoStorage(using=database)


@pytest.fixture
def manager(storage: DjangoStorage) -> HistoryManager:
    ticks = count()
    return HistoryManager(storage, clock=lambda: START + timedelta(seconds=next(ticks)))

"""For hosts' and our own tests: memories that leave nothing behind, and repairs made as in production."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from django.test import override_settings

from charactermemory import CharacterMemory
from memory_app import conf, runtime
from memory_app.models import RepairLease, RepairMarker
from memory_app.repairs.clock import database_now
from memory_app.repairs.worker import RunReport, Worker

__all__ = ["drain_repairs", "temporary_memories"]

_LONGEST = timedelta(days=1)
_STORES = (
    "GRAPH_STORE_MODE", "OXIGRAPH_PATH", "OXIGRAPH_URL", "VECTOR_STORE_MODE", "VECTOR_STORE_PATH",
    "QDRANT_CONNECTION_STRING", "RETRIEVAL_STATS_STORE_MODE", "RETRIEVAL_STATS_PATH", "WRITER_LOCK_PATH",
    "EMBEDDING_PROVIDER", "EMBEDDING_PROVIDER_FACTORY", "EMBEDDING_MODEL", "EMBEDDING_MODEL_PATH",
    "OPENAI_API_KEY", "OPENAI_BASE_URL", "DISPATCH",
)  # fmt: skip
"""Settings that say where memories are and who helps to keep them: the host's hold for none of a test's."""


@contextmanager
def temporary_memories(**settings: object) -> Iterator[None]:
    """Keep every memory opened inside in memory and in a temporary folder, and forget all of it at the end.

    The host's other settings hold. Texts are embedded by the bundled WordLlama model, and repairs are left to
    `drain_repairs`. The statistics are rows of the test's database.

    Args:
        settings: entries of `CHARACTER_MEMORY` for the test, such as `EMBEDDING_PROVIDER="hashing"`, which is
            quicker and knows words only.
    """
    kept = {key: value for key, value in conf.given_mapping().items() if key not in _STORES}
    with TemporaryDirectory() as folder:
        stores = {"GRAPH_STORE_MODE": "in_memory", "VECTOR_STORE_PATH": str(Path(folder, "vectors"))}
        quiet = {"EMBEDDING_PROVIDER": "wordllama", "DISPATCH": "none"}
        with override_settings(**{conf.NAME: {**kept, **stores, **quiet, **settings}}):
            try:
                yield
            finally:
                runtime.close_memories()


def drain_repairs(
    *,
    now: datetime | None = None,
    ignore_backoff: bool = False,
    collection: str | None = None,
    memories: Callable[[str], CharacterMemory] | None = None,
) -> RunReport:
    """Claim, reconcile and settle every due row, as a worker does.

    Args:
        now: the instant the worker takes for the present; the database's if not given.
        ignore_backoff: also rows whose time has not come, and stores whose circuit breaker is open. Each is
            tried once.
        collection: only this collection's rows.
        memories: opens the memories; `runtime.get_memory` if not given.
    """
    instant = now or database_now()
    if ignore_backoff:
        RepairLease.objects.filter(name__startswith="breaker:").delete()
        waiting = RepairMarker.objects.filter(status=RepairMarker.Status.PENDING)
        waiting.filter(available_at__lt=instant + _LONGEST).update(available_at=instant)
    worker = Worker(
        memories or runtime.get_memory,
        clock=database_now if now is None else lambda: instant,
        collection=collection,
    )
    return worker.run()

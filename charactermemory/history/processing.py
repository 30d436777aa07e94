"""Calling an algorithm's `process_thread` while a message is stored."""

from __future__ import annotations

import copy
import inspect
import logging
from typing import TYPE_CHECKING

from charactermemory.errors import AlgorithmError
from charactermemory.history import validation
from charactermemory.history.bridge import settle
from charactermemory.history.models import Message, Thread
from charactermemory.history.sequence import ThreadMessages
from charactermemory.history.signals import processing_failed

if TYPE_CHECKING:
    from charactermemory.history.manager import HistoryManager

logger = logging.getLogger(__name__)


class Processing:
    """The hook calls of one write; failures are kept until the transaction has ended."""

    def __init__(self, manager: HistoryManager, thread_id: str) -> None:
        self._manager = manager
        self._algorithm = manager.algorithm if manager.algorithm and manager.algorithm.processes else None
        self._thread_id = thread_id
        self._failures: list[tuple[Message, Exception]] = []

    def take_note(self, thread: Thread, message: Message) -> None:
        """Let the algorithm note a message just stored; when it fails, the metadata stays as it was."""
        if self._algorithm is None:
            return
        before = copy.deepcopy(thread.metadata)
        if inspect.iscoroutinefunction(self._algorithm.process_thread) and isinstance(
            thread.messages, ThreadMessages
        ):
            thread.messages.load()  # it runs on the caller's loop while this thread holds the store
        try:
            settle(self._algorithm.process_thread(thread, message.copy()))
            validation.json_object("metadata", thread.metadata)
        except Exception as error:
            thread.metadata = before
            self._failures.append((message, error))

    def report(self) -> None:
        """Log and signal every failure; raise the first when the manager is told to."""
        if not self._failures or self._algorithm is None:
            return
        name = type(self._algorithm).__name__
        for message, error in self._failures:
            logger.error("%s.process_thread failed", name, exc_info=error)
            processing_failed.send(self._manager, thread_id=self._thread_id, message=message, error=error)
        if self._manager.raise_algorithm_errors:
            first = self._failures[0][1]
            raise AlgorithmError(algorithm=name, problem=f"process_thread raised {first!r}") from first

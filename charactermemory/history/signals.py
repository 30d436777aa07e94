"""Announcements of failures that were logged instead of raised."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

logger = logging.getLogger(__name__)


class Signal:
    """A list of receivers; each is called with the sender and keyword arguments."""

    def __init__(self) -> None:
        self._receivers: list[Callable[..., Any]] = []

    def connect(self, receiver: Callable[..., Any]) -> None:
        """Call `receiver(sender=…, **values)` on every later `send`; connecting twice counts once."""
        if receiver not in self._receivers:
            self._receivers.append(receiver)

    def disconnect(self, receiver: Callable[..., Any]) -> None:
        """Stop calling `receiver`; unknown receivers are ignored."""
        if receiver in self._receivers:
            self._receivers.remove(receiver)

    def send(self, sender: object, **values: Any) -> None:
        """Call every receiver; one that raises is logged and does not stop the others."""
        for receiver in tuple(self._receivers):
            try:
                receiver(sender=sender, **values)
            except Exception:
                logger.exception("a signal receiver failed")


processing_failed = Signal()
"""process_thread raised; values: thread_id, message, error. The message is stored all the same."""

saving_failed = Signal()
"""A paid answer could not be stored; values: thread_id, messages, error. The caller got the answer."""

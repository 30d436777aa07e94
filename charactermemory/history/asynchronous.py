"""The async face of the history manager."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from charactermemory.history.manager import HistoryManager
from charactermemory.history.models import Message, Thread


class AsyncHistoryManager:
    """The methods of a `HistoryManager` for async callers, with the same arguments, results and errors.

    Storage work runs off the event loop; an async algorithm runs on it.
    """

    def __init__(self, manager: HistoryManager) -> None:
        self.manager = manager

    def scoped(self, owner: str) -> AsyncHistoryManager:
        """Return a manager that sees and writes the threads of `owner` alone."""
        return AsyncHistoryManager(self.manager.scoped(owner))

    async def create_thread(
        self, metadata: dict[str, Any] | None = None, thread_id: str | None = None
    ) -> Thread:
        """See `HistoryManager.create_thread`."""
        return await self.manager.storage.run(self.manager.create_thread, metadata, thread_id)

    async def get_or_create_thread(
        self, thread_id: str, metadata: dict[str, Any] | None = None
    ) -> tuple[Thread, bool]:
        """See `HistoryManager.get_or_create_thread`."""
        return await self.manager.storage.run(self.manager.get_or_create_thread, thread_id, metadata)

    async def get_thread(self, thread_id: str) -> Thread:
        """See `HistoryManager.get_thread`."""
        return await self.manager.storage.run(self.manager.get_thread, thread_id)

    async def list_threads(self, limit: int = 100, offset: int = 0) -> list[Thread]:
        """See `HistoryManager.list_threads`."""
        return await self.manager.storage.run(self.manager.list_threads, limit, offset)

    async def search_threads(self, query: dict[str, Any], limit: int = 100, offset: int = 0) -> list[Thread]:
        """See `HistoryManager.search_threads`."""
        return await self.manager.storage.run(self.manager.search_threads, query, limit, offset)

    async def update_thread_metadata(
        self, thread_id: str, changes: Mapping[str, Any] | Callable[[dict[str, Any]], None]
    ) -> Thread:
        """See `HistoryManager.update_thread_metadata`."""
        return await self.manager.storage.run(self.manager.update_thread_metadata, thread_id, changes)

    async def delete_thread(self, thread_id: str) -> bool:
        """See `HistoryManager.delete_thread`."""
        return await self.manager.storage.run(self.manager.delete_thread, thread_id)

    async def add_message(
        self, thread_id: str, content: str | list[dict[str, Any]] | None, role: str, **fields: Any
    ) -> Message:
        """See `HistoryManager.add_message`; `fields` are its optional arguments by name."""
        return await self.manager.storage.run(self.manager.add_message, thread_id, content, role, **fields)

    async def add_messages(self, thread_id: str, messages: Iterable[Message]) -> list[Message]:
        """See `HistoryManager.add_messages`."""
        return await self.manager.storage.run(self.manager.add_messages, thread_id, messages)

    async def get_messages(
        self,
        thread_id: str,
        limit: int | None = None,
        offset: int = 0,
        *,
        after: int | None = None,
        before: int | None = None,
    ) -> list[Message]:
        """See `HistoryManager.get_messages`."""
        return await self.manager.storage.run(
            self.manager.get_messages, thread_id, limit, offset, after=after, before=before
        )

    async def message_count(self, thread_id: str) -> int:
        """See `HistoryManager.message_count`."""
        return await self.manager.storage.run(self.manager.message_count, thread_id)

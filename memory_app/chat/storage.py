"""Threads and messages as rows of the host's database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from typing import Any, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from django.db import DatabaseError, IntegrityError, connections, router, transaction
from django.db.models import BooleanField, Exists, F, OuterRef, QuerySet
from django.db.models.expressions import RawSQL

from charactermemory.errors import StorageError
from charactermemory.history import (
    BaseStorage,
    Message,
    SearchQuery,
    Selection,
    Thread,
    ThreadMessages,
    Writing,
)
from charactermemory.history.bridge import caller_loop
from charactermemory.history.models import INSTRUCTION_ROLES
from charactermemory.history.storage.base import check_page, duplicate_message, missing
from charactermemory.history.storage.search import matches
from memory_app.chat import rows
from memory_app.models import ChatMessage, ChatThread
from memory_app.transactions import reconnect_where_lost

_INSTRUCTS = RawSQL(  # noqa: S611 - constants
    f'"{ChatMessage._meta.db_table}"."role" IN ({", ".join(f"{role!r}" for role in INSTRUCTION_ROLES)})',
    (),
    output_field=BooleanField(),
)
"""The condition of the index of instructions."""

P = ParamSpec("P")
T = TypeVar("T")
Place = tuple[str, int]
"""Where a thread stands in its owner's list: its last activity in RFC 3339, and its key among equal ones."""


class DjangoStorage(BaseStorage):
    """Keeps threads in `ChatThread` and `ChatMessage`; appending costs the same at any length.

    `using` names the database, otherwise the router decides. Inside the host's own transaction a thread that
    was written stays locked until that transaction ends. Async callers reach the database through Django's
    thread for it; an async algorithm must therefore not use the ORM, which would wait for that same thread.
    """

    def __init__(
        self,
        max_messages: int | None = None,
        *,
        keep_system: bool = False,
        owner: str = "",
        using: str | None = None,
    ) -> None:
        super().__init__(max_messages, keep_system=keep_system, owner=owner)
        self.using = using

    @property
    def database(self) -> str:
        """The alias of the database in use."""
        return self.using or router.db_for_write(ChatThread)

    def create_thread(self, thread: Thread) -> bool:
        """Store the empty thread; False when the id is taken."""
        values = {
            "metadata": thread.metadata,
            "created_at": rows.to_database(thread.created_at),
            "updated_at": rows.to_database(thread.updated_at),
        }
        rows.check_key("thread_id", thread.id)
        rows.check_json("metadata", thread.metadata)
        with self._errors():
            made = self._threads().get_or_create(owner=self.owner, thread_id=thread.id, defaults=values)
        return made[1]

    def get_thread(self, thread_id: str) -> Thread | None:
        """Return the thread with all its messages as a lazy sequence, or None."""
        with self._errors():
            found = self._called(thread_id).first()
        return None if found is None else self._thread(found)

    def list_threads(self, limit: int = 100, offset: int = 0) -> list[Thread]:
        """Return threads, newest activity first, their messages not loaded."""
        check_page(limit, offset)
        with self._errors():
            return [self._thread(found) for found in self._own()[offset : offset + limit]]

    def search_threads(self, query: dict[str, Any], limit: int = 100, offset: int = 0) -> list[Thread]:
        """Return the threads that match `query`, newest activity first."""
        check_page(limit, offset)
        with self._errors():
            hits = self._matching(SearchQuery.parse(query), self._own())
            return [self._thread(row) for row in islice(hits, offset, offset + limit)]

    def page(
        self, limit: int, query: dict[str, Any] | None = None, behind: Place | None = None
    ) -> tuple[list[Thread], Place | None]:
        """Return the threads behind a place, newest activity first, and the last one's place if there are more.

        Without a query these are all threads. One that is written to meanwhile moves to the front: it may be
        passed over, and none comes twice.
        """
        check_page(limit, 0)
        with self._errors():
            found = self._own()
            if behind is not None:
                at = rows.to_database(datetime.fromisoformat(behind[0]))
                found = found.filter(updated_at__lte=at).exclude(updated_at=at, pk__gte=behind[1])
            hits = found[: limit + 1] if query is None else self._matching(SearchQuery.parse(query), found)
            read = list(islice(hits, limit + 1))
            shown = read[:limit]
            more = len(read) > limit
            return [self._thread(row) for row in shown], _place(shown[-1]) if more else None

    def _matching(self, wanted: SearchQuery, found: QuerySet[ChatThread]) -> Iterator[ChatThread]:
        """Yield those of `found` that match.

        The database narrows by content, and by metadata where it can; that keys are literal and types exact
        is judged here, because databases differ in both.
        """
        if not rows.storable(wanted.metadata):
            return
        if wanted.content is not None:
            said = self._messages().filter(
                thread=OuterRef("pk"), folded__contains=rows.folded(wanted.content)
            )
            found = found.filter(Exists(said))
        if wanted.metadata and connections[self.database].features.supports_json_field_contains:
            found = found.filter(metadata__contains=wanted.metadata)
        yield from (row for row in found.iterator() if matches(row.metadata, wanted.metadata))

    def delete_thread(self, thread_id: str) -> bool:
        """Remove a thread with its messages; False when there is none."""
        with self._errors():
            return bool(self._called(thread_id).delete()[0])

    def read(self, thread_id: str, selection: Selection) -> list[Message]:
        """Return the selected messages in stored order."""
        return self._select(self._messages_of(thread_id), selection)

    def message(self, thread_id: str, message_id: str) -> Message | None:
        """Return one message by its id, or None."""
        if not rows.storable(message_id):
            return None
        found = self._select(self._messages_of(thread_id).filter(message_id=message_id), Selection())
        return found[0] if found else None

    def hidden_count(self, thread_id: str, before: int | None) -> int:
        """Return how many hidden messages lie before sequence number `before`."""
        found = self._messages_of(thread_id).filter(hidden=True)
        with self._errors():
            return (found if before is None else found.filter(seq__lt=before)).count()

    @contextmanager
    def writing(self, thread_id: str) -> Iterator[Writing]:
        """Hold the thread's row while it is written; an error inside undoes everything."""
        with self._errors(), transaction.atomic(using=self.database):
            held = _DjangoWriting(self, self._locked(thread_id))
            yield held
            held.finish()

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work in Django's thread for the database."""
        loop = asyncio.get_running_loop()

        def serve() -> T:
            token = caller_loop.set(loop)
            try:
                return function(*args, **kwargs)
            finally:
                caller_loop.reset(token)  # what is set there comes back to the caller otherwise

        return await sync_to_async(serve, thread_sensitive=True)()

    def _locked(self, thread_id: str) -> ChatThread:
        own = self._called(thread_id)
        if connections[self.database].features.has_select_for_update:
            found = own.select_for_update().first()
        else:
            # SQLite has one writer. Writing first makes a transaction wait for its turn; one that read
            # before would be refused at once.
            found = own.first() if own.update(next_seq=F("next_seq")) else None
        if found is None:
            raise missing(thread_id)
        return found

    def _threads(self) -> QuerySet[ChatThread]:
        return ChatThread.objects.using(self.database)

    def _own(self) -> QuerySet[ChatThread]:
        return self._threads().filter(owner=self.owner)

    def _called(self, thread_id: str) -> QuerySet[ChatThread]:
        found = self._own().filter(thread_id=thread_id)
        return found if rows.storable(thread_id) else found.none()

    def _messages(self) -> QuerySet[ChatMessage]:
        return ChatMessage.objects.using(self.database)

    def _messages_of(self, thread_id: str) -> QuerySet[ChatMessage]:
        found = self._messages().filter(thread__owner=self.owner, thread__thread_id=thread_id)
        return found if rows.storable(thread_id) else found.none()

    def _thread(self, row: ChatThread) -> Thread:
        return Thread(
            id=row.thread_id,
            messages=self._lazy(row.pk, row.message_count, row.next_seq),
            metadata=row.metadata,
            created_at=rows.from_database(row.created_at),
            updated_at=rows.from_database(row.updated_at),
            owner=row.owner,
            token_total=row.token_total,
        )

    def _lazy(self, key: int, count: int, next_seq: int) -> ThreadMessages:
        of_thread = self._messages().filter(thread=key)
        return ThreadMessages(
            lambda selection: self._select(of_thread, selection), count, Selection(before=next_seq)
        )

    def _select(self, messages: QuerySet[ChatMessage], wanted: Selection) -> list[Message]:
        found = messages.filter(**rows.conditions(wanted))
        place: Any = F("seq")
        if wanted.roles is not None and set(wanted.roles) <= set(INSTRUCTION_ROLES):
            # Few messages of a long thread. SQLite finds them by their index only if the query has the index's
            # own condition in literals, and no order that the thread's index would serve.
            found, place = found.filter(_INSTRUCTS), place + 0
        found = found.order_by(place.desc() if wanted.newest else place.asc())
        end = None if wanted.limit is None else wanted.offset + wanted.limit
        with self._errors():
            read = [rows.from_row(row) for row in found.values_list(*rows.COLUMNS)[wanted.offset : end]]
        return read[::-1] if wanted.newest else read

    @contextmanager
    def _errors(self) -> Iterator[None]:
        reconnect_where_lost()
        try:
            yield
        except DatabaseError as error:
            raise StorageError(storage=f"message store {self.database}", detail=str(error)) from error


class _DjangoWriting(Writing):
    """One transaction on one thread, whose row is locked."""

    def __init__(self, storage: DjangoStorage, row: ChatThread) -> None:
        self._storage = storage
        self._row = row
        self.thread = storage._thread(row)

    def has(self, message_id: str) -> bool:
        """Say whether the thread has a message of that id."""
        return self._messages().filter(message_id=message_id).exists()

    def append(self, message: Message) -> None:
        """Insert `message` as the thread's last row."""
        row, storage = self._row, self._storage
        made = rows.to_row(row, row.next_seq, message)
        try:
            made.save(force_insert=True, using=storage.database)
        except IntegrityError as error:
            raise duplicate_message(message) from error
        message.seq = row.next_seq
        row.next_seq += 1
        row.message_count += 1
        self._cap()
        self.thread.updated_at = max(self.thread.updated_at, message.created_at)
        self.thread.token_total += message.token_count or 0
        self.thread.messages = storage._lazy(row.pk, row.message_count, row.next_seq)

    def finish(self) -> None:
        """Write the thread's own row."""
        row = self._row
        rows.check_json("metadata", self.thread.metadata)
        row.metadata = self.thread.metadata
        row.updated_at = rows.to_database(self.thread.updated_at)
        row.token_total = self.thread.token_total
        row.save(
            using=self._storage.database,
            update_fields=("metadata", "updated_at", "next_seq", "message_count", "token_total"),
        )

    def _messages(self) -> QuerySet[ChatMessage]:
        return self._storage._messages().filter(thread=self._row.pk)

    def _cap(self) -> None:
        cap = self._storage.max_messages
        if cap is None or self._row.message_count <= cap:
            return
        counted = self._messages()
        if self._storage.keep_system:
            counted = counted.exclude(role__in=INSTRUCTION_ROLES)
        beyond = counted.order_by("-seq").values_list("seq", flat=True)[cap : cap + 1].first()
        if beyond is not None:
            self._row.message_count -= counted.filter(seq__lte=beyond).delete()[0]


def _place(row: ChatThread) -> Place:
    return rows.from_database(row.updated_at).isoformat(), row.pk


__all__ = ["DjangoStorage"]

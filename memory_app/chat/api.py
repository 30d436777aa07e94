"""The API's operations on threads and messages; a collection is the owner of its threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, JsonValue, model_validator

from charactermemory.domain.model import Instant, Listed, Model, Text
from charactermemory.errors import MessageIdTaken, StorageError, ThreadNotFoundError, ValidationError
from charactermemory.history import (
    BaseAlgorithm,
    HistoryManager,
    KeepSystem,
    Message,
    Selection,
    Thread,
    TokenBudget,
    approximate_tokens,
)
from charactermemory.ids import derive_id
from charactermemory.integrations.openai.chat import to_wire
from charactermemory.integrations.openai.request import prepare
from memory_app.api.actions import Action
from memory_app.api.base import MemoryView
from memory_app.api.bodies import WHOLE, Flag
from memory_app.api.cursors import seal, unseal
from memory_app.api.idempotency import seed_of
from memory_app.api.operation import Answer, Call, operation
from memory_app.api.options import ApiOptions
from memory_app.api.problems import ApiProblem, BadRequest, Conflict, NotFound, ProblemItem, Unprocessable
from memory_app.api.queries import Cursor, Limit, PageQuery
from memory_app.chat.rows import KEY_LIMIT
from memory_app.chat.storage import DjangoStorage
from memory_app.errors import CollectionArchived
from memory_app.models import IdempotencyRecord

TAG = "Chat"
Metadata = dict[str, JsonValue]
Id = Annotated[str, Field(min_length=1, max_length=KEY_LIMIT, pattern=r"^[^/\x00]+$")]
ADDRESSES = frozenset({".", "..", "search"})
"""Ids that no thread is made with: its address would be another one, where nobody could read or delete it."""
Role = Literal["user", "assistant", "system", "tool", "function", "developer"]
Parts = Annotated[tuple[dict[str, JsonValue], ...], Listed]


class NewThread(Model):
    """A thread to be created; without an id it gets one."""

    id: Id | None = None
    metadata: Metadata = Field(default_factory=dict)


class ThreadChange(Model):
    """What to change of a thread's metadata: a key is set, one given as null is removed, others stay."""

    metadata: Metadata


class ThreadAnswer(Model):
    """A thread without its messages. `token_total` sums the tokens of every message it ever had."""

    id: str
    metadata: Metadata
    created_at: Instant
    updated_at: Instant
    message_count: int
    token_total: int

    @classmethod
    def of(cls, thread: Thread) -> Self:
        """Make the answer of a stored thread."""
        return cls(
            id=thread.id,
            metadata=thread.metadata,
            created_at=thread.created_at,
            updated_at=thread.updated_at,
            message_count=thread.message_count,
            token_total=thread.token_total,
        )


class ThreadPage(Model):
    """Threads, the newest activity first."""

    results: tuple[ThreadAnswer, ...]
    next: str | None = None


class ThreadSearch(Model):
    """What threads must have: a text in some message, whatever the case, and metadata of equal value and type."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [
                {"required": ["content"], "properties": {"content": {"type": "string"}}},
                {"required": ["metadata"], "properties": {"metadata": {"minProperties": 1}}},
            ]
        }
    )

    content: Annotated[Text, Field(min_length=1)] | None = None
    metadata: Metadata = Field(default_factory=dict)

    @model_validator(mode="after")
    def _asks_for_something(self) -> Self:
        if self.content is None and not self.metadata:
            raise ValueError("name a content or metadata to search for")
        return self


class NewMessage(Model):
    """A message to be stored as the thread's last; an `id` of its own is taken once."""

    role: Role
    content: str | Parts | None = None
    id: Id | None = None
    metadata: Metadata = Field(default_factory=dict)
    tool_calls: Annotated[Parts, Field(min_length=1)] | None = None
    tool_call_id: str | None = None
    name: str | None = None


class MessageAnswer(Model):
    """A stored message; `seq` is its place in the thread. A hidden one is never offered to a window."""

    seq: int
    id: str
    role: str
    content: JsonValue = None
    created_at: Instant
    metadata: Metadata
    token_count: int | None = None
    hidden: bool
    tool_calls: JsonValue = None
    tool_call_id: str | None = None
    name: str | None = None

    @classmethod
    def of(cls, message: Message) -> Self:
        """Make the answer of a stored message."""
        assert message.seq is not None
        return cls(
            seq=message.seq,
            id=message.id,
            role=message.role,
            content=None if message.null_content else message.content,
            created_at=message.created_at,
            metadata=message.metadata,
            token_count=message.token_count,
            hidden=message.hidden,
            tool_calls=message.tool_calls,  # type: ignore[arg-type]
            tool_call_id=message.tool_call_id,
            name=message.name,
        )


class MessagePage(Model):
    """Messages in the order in which they were stored."""

    results: tuple[MessageAnswer, ...]
    next: str | None = None


class WindowAnswer(Model):
    """What a call would send before its own messages, and an estimate of what that costs in tokens."""

    messages: tuple[dict[str, JsonValue], ...]
    tokens: int


class MessagesQuery(PageQuery):
    """Which page; `newest` begins at the end, and `next` then leads back."""

    newest: Flag = False


class WindowQuery(Model):
    """How the window is chosen, by one of these; by none, it holds everything."""

    max_messages: (
        Annotated[int, Field(ge=1, le=1_000, description="Instructions, and the newest others."), WHOLE]
        | None
    ) = None
    max_tokens: (
        Annotated[
            int, Field(ge=1, le=1_000_000, description="Instructions, and the newest others that fit."), WHOLE
        ]
        | None
    ) = None
    algorithm: (
        Annotated[
            Text,
            Field(min_length=1, description="A name that the server's `WINDOW_ALGORITHMS` setting knows."),
        ]
        | None
    ) = None


class SearchQuery(Model):
    """Which page of a search."""

    limit: Limit = 50
    cursor: Cursor | None = None


class _Unavailable(ApiProblem):
    status_code = 503


@contextmanager
def _problems() -> Iterator[None]:
    """Turn the chat window's errors into the API's."""
    try:
        yield
    except ThreadNotFoundError:
        raise NotFound("There is no such thread in this collection.", "thread_not_found") from None
    except MessageIdTaken:
        raise Conflict("The thread has a message with this id.", "message_id_taken") from None
    except ValidationError as error:
        item = ProblemItem(pointer="/" + error.field.replace(".", "/"), detail=error.problem)
        raise BadRequest("The request cannot be carried out.", error.code, [item]) from None
    except StorageError as error:
        raise _Unavailable("The message store cannot be used now.", error.code) from error


def _storage(call: Call) -> DjangoStorage:
    if call.collection.archived:
        raise CollectionArchived(call.collection.name)
    return DjangoStorage(owner=call.collection.name)


def _manager(call: Call) -> HistoryManager:
    return HistoryManager(_storage(call))


class ThreadsView(MemoryView):
    """A collection's threads."""

    @operation(id="list_threads", tag=TAG, action=Action.READ, query=PageQuery, answers={200: ThreadPage})
    def get(self, call: Call) -> ThreadPage:
        """List the threads, the newest activity first.

        A thread that is written to between two pages moves to the front; it may be passed over.
        """
        return _page(call, f"threads:{call.collection.name}")

    @operation(
        id="create_thread",
        tag=TAG,
        action=Action.WRITE,
        body=NewThread,
        answers={201: ThreadAnswer},
        errors=(409,),
        keyed=True,
    )
    def post(self, call: Call) -> Answer:
        """Create a thread."""
        wanted: NewThread = call.body
        if wanted.id in ADDRESSES:
            detail = f"{wanted.id!r} is an address of its own; name the thread otherwise."
            raise Unprocessable(detail, "thread_id_reserved", [ProblemItem(pointer="/id", detail=detail)])
        manager, id_ = _manager(call), _id(call)
        with _problems():
            found = manager.storage.get_thread(id_) if id_ is not None else None
            if found is not None and not _made_by(call, found.created_at):
                raise Conflict("There is a thread with this id.", "thread_id_taken")
            thread = found or manager.create_thread(dict(wanted.metadata), id_)
        return Answer(ThreadAnswer.of(thread), 201)


class ThreadSearchView(MemoryView):
    """Searching a collection's threads."""

    @operation(
        id="search_threads",
        tag=TAG,
        action=Action.READ,
        body=ThreadSearch,
        query=SearchQuery,
        answers={200: ThreadPage},
    )
    def post(self, call: Call) -> ThreadPage:
        """Find threads by what was said in them, and by their metadata; both must hold.

        Metadata keys are taken literally; an object asks for its own keys, any other value must be equal and of
        the same type.
        """
        wanted = {"content": call.body.content, "metadata": call.body.metadata}
        return _page(call, f"threads-search:{call.collection.name}", wanted)


class ThreadView(MemoryView):
    """One thread."""

    @operation(id="get_thread", tag=TAG, action=Action.READ, answers={200: ThreadAnswer})
    def get(self, call: Call, thread: str) -> ThreadAnswer:
        """Return a thread without its messages."""
        with _problems():
            found = _manager(call).storage.get_thread(thread)
            if found is None:
                raise ThreadNotFoundError(thread_id=thread)
        return ThreadAnswer.of(found)

    @operation(
        id="change_thread", tag=TAG, action=Action.WRITE, body=ThreadChange, answers={200: ThreadAnswer}
    )
    def patch(self, call: Call, thread: str) -> ThreadAnswer:
        """Change a thread's metadata; what others write at the same time is not lost."""
        given: dict[str, Any] = call.body.model_dump(mode="json")["metadata"]
        removed = [name for name, value in given.items() if value is None]

        def change(metadata: dict[str, Any]) -> None:
            metadata.update(given)
            for name in removed:
                del metadata[name]

        with _problems():
            return ThreadAnswer.of(_manager(call).update_thread_metadata(thread, change))

    @operation(id="delete_thread", tag=TAG, action=Action.REVIEW, answers={204: None})
    def delete(self, call: Call, thread: str) -> Answer:
        """Delete a thread with its messages. What was remembered of it stays; forgetting that is another call."""
        with _problems():
            if not _manager(call).delete_thread(thread):
                raise ThreadNotFoundError(thread_id=thread)
        return Answer(None, 204)


class MessagesView(MemoryView):
    """One thread's messages."""

    @operation(
        id="list_messages", tag=TAG, action=Action.READ, query=MessagesQuery, answers={200: MessagePage}
    )
    def get(self, call: Call, thread: str) -> MessagePage:
        """List a thread's messages in order, hidden ones included."""
        query: MessagesQuery = call.query
        place, filters = f"messages:{call.collection.name}:{thread}", [query.newest]
        last = unseal(place, filters, query.cursor)
        edge = {"before": last} if query.newest else {"after": last}
        wanted = Selection(limit=query.limit + 1, newest=query.newest, **edge)
        with _problems():
            manager = _manager(call)
            manager.message_count(thread)
            found = manager.storage.read(thread, wanted)
        more = len(found) > query.limit
        shown = found[more:] if query.newest else found[: query.limit]
        end = (shown[0] if query.newest else shown[-1]).seq if more else None
        return MessagePage(
            results=tuple(map(MessageAnswer.of, shown)),
            next=None if end is None else seal(place, filters, end),
        )

    @operation(
        id="post_message",
        tag=TAG,
        action=Action.WRITE,
        body=NewMessage,
        answers={201: MessageAnswer},
        errors=(409,),
        keyed=True,
        kept=False,  # the answer is what was said, which goes with its thread
    )
    def post(self, call: Call, thread: str) -> Answer:
        """Store a message as the thread's last. It is not remembered by that alone."""
        wanted: NewMessage = call.body
        id_ = _id(call)
        with _problems():
            if call.record is not None and (stored := _said_before(call, thread, str(id_))):
                return Answer(MessageAnswer.of(stored), 201)
            values: dict[str, Any] = wanted.model_dump(mode="json", exclude_none=True)
            values |= {"content": values.get("content")} | ({"id": id_} if id_ else {})
            message = Message(**values)
            message.token_count = approximate_tokens(message)
            (stored,) = _manager(call).add_messages(thread, [message])
        return Answer(MessageAnswer.of(stored), 201)


class WindowView(MemoryView):
    """What a call would send."""

    @operation(
        id="preview_window",
        tag=TAG,
        action=Action.READ,
        query=WindowQuery,
        answers={200: WindowAnswer},
        errors=(422,),
    )
    def get(self, call: Call, thread: str) -> WindowAnswer:
        """Show the window as a call would send it: in order, and with no tool call without its result."""
        manager = _manager(call)
        manager.algorithm = _algorithm(call.query)
        with _problems():
            sent = [item.message for item in prepare(manager, thread, [], create_missing=False).request]
        return WindowAnswer(messages=tuple(map(to_wire, sent)), tokens=sum(map(approximate_tokens, sent)))


def _id(call: Call) -> str | None:
    """Return the id of what a request makes: its own, or for a keyed one the same in every run of it."""
    given: str | None = call.body.id
    return given or (str(derive_id(seed_of(call.record))) if call.record else None)


def _made_by(call: Call, created_at: datetime) -> bool:
    """Whether what is there under the id of a request was made by an earlier run of the same keyed request."""
    return call.record is not None and created_at >= call.record.created_at


def _said_before(call: Call, thread: str, id_: str) -> Message | None:
    """Return the message that an earlier run of a keyed request stored.

    Raises:
        ThreadNotFoundError: one was stored, and has gone since, with the thread it was in.
    """
    found = _storage(call).message(thread, id_)
    if found is None and call.record is not None and call.record.state == IdempotencyRecord.State.DONE:
        raise ThreadNotFoundError(thread_id=thread)
    return found if found and _made_by(call, found.created_at) else None


def _algorithm(query: WindowQuery) -> BaseAlgorithm | None:
    """Return what chooses the window; None chooses everything.

    Raises:
        Unprocessable: several are asked for, or one that the host has not named.
    """
    given = [name for name, value in query if value is not None]
    if len(given) > 1:
        items = [ProblemItem(parameter=name, detail="give one of these") for name in given]
        raise Unprocessable("These parameters do not go together.", "contradicting_query", items)
    if query.max_messages is not None:
        return KeepSystem(query.max_messages)
    if query.max_tokens is not None:
        return TokenBudget(query.max_tokens)
    if query.algorithm is None:
        return None
    options = ApiOptions.current()
    known = options.window_algorithms
    if query.algorithm not in known:
        listed = f"it knows {', '.join(sorted(known))}" if known else "it knows none"
        item = ProblemItem(
            parameter="algorithm", detail=f"this server has no window algorithm of that name; {listed}"
        )
        raise Unprocessable("There is no such window algorithm.", "unknown_algorithm", [item])
    made: BaseAlgorithm = options.load(known[query.algorithm])()
    return made


def _page(call: Call, place: str, wanted: dict[str, Any] | None = None) -> ThreadPage:
    storage = _storage(call)
    filters = [] if wanted is None else [wanted]
    behind = unseal(place, filters, call.query.cursor)
    with _problems():
        found, last = storage.page(call.query.limit, wanted, behind)
    return ThreadPage(
        results=tuple(map(ThreadAnswer.of, found)),
        next=None if last is None else seal(place, filters, last),
    )

"""One operation of the API: what a request to it is made of, and who may make it.

Declared once, on the method that serves it: the base view reads it to check a request, the schema to describe
it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, wraps
from typing import Any

from pydantic import BaseModel
from rest_framework.request import Request

from charactermemory import CharacterMemory
from charactermemory.errors import ConfigParseError, ConfigValidationError
from memory_app.api.actions import Action, Principal
from memory_app.api.problems import Misconfigured
from memory_app.models import IdempotencyRecord, MemoryCollection
from memory_app.runtime import get_memory

_SCOPES = {
    Action.READ: "memory_read",
    Action.WRITE: "memory_write",
    Action.REVIEW: "memory_write",
    Action.OPERATE: "memory_operate",
}


@dataclass(frozen=True)
class Operation:
    """What the base view and the schema need to know.

    Attributes:
        id: the name of the operation; generated clients call it so.
        tag: the chapter of the documentation.
        answers: the model that is answered, by status; a tuple stands for any of several.
        action: what it does to a collection; None for one that is about no collection.
        body: the model of the body.
        query: the model of the query string.
        errors: the statuses it may fail with, besides those of every operation.
        keyed: whether it honours `Idempotency-Key`.
        kept: whether the outcome of a keyed request is kept; otherwise it is made again, which changes nothing.
        public: whether nobody in particular may make it.
        throttle: the scope it counts in, if not that of its action.
    """

    id: str
    tag: str
    answers: Mapping[int, type[BaseModel] | tuple[type[BaseModel], ...] | None]
    action: Action | None = None
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    errors: tuple[int, ...] = ()
    keyed: bool = False
    kept: bool = True
    public: bool = False
    throttle: str | None = None

    @property
    def scope(self) -> str:
        """The throttle scope it counts in."""
        return self.throttle or _SCOPES[self.action or Action.READ]


@dataclass
class Answer:
    """What an operation returns; a bare model is answered with 200."""

    body: BaseModel | dict[str, Any] | None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Call:
    """A request that passed every check.

    Attributes:
        principal: who makes it; None where nobody in particular may.
        collection: the collection it is about; None for an operation about none.
        body, query: as the operation's models.
        record: the row of its `Idempotency-Key`; None without one.
    """

    request: Request
    principal: Any
    collection: Any
    body: Any
    query: Any
    record: IdempotencyRecord | None = None

    @cached_property
    def memory(self) -> CharacterMemory:
        """The collection's memory, opened on first use.

        Raises:
            Misconfigured: the settings do not allow it.
        """
        assert isinstance(self.collection, MemoryCollection)
        try:
            return get_memory(self.collection.name, row=self.collection)
        except (ConfigParseError, ConfigValidationError) as error:
            raise Misconfigured(str(error)) from error

    @property
    def who(self) -> Principal:
        """Who makes it, where somebody must."""
        assert isinstance(self.principal, Principal)
        return self.principal


def operation(**given: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the method of a view as an operation; it is then called with a `Call` and its path parameters."""
    declared = Operation(**given)

    def declare(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def serve(view: Any, request: Request, **path: str) -> Any:
            return view.serve(declared, method, request, path)

        serve.operation = declared  # type: ignore[attr-defined]
        return serve

    return declare

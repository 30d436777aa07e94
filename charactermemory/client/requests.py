"""The requests of the facade's methods: what is sent, and how the answer is read. Nothing is sent here."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, RootModel, TypeAdapter

from charactermemory.client.models import Prompt
from charactermemory.domain.lifecycle import Stored
from charactermemory.domain.model import Model, of_text
from charactermemory.errors import InvalidInput
from charactermemory.ids import MemoryObjectRef
from charactermemory.recall.context import RetrievalContext
from charactermemory.recall.outcome import RetrievalOutcome
from charactermemory.recall.render import Style
from charactermemory.remember.drafts import MemoryLinkDraft
from charactermemory.remember.outcome import CommitOptions, LinkOutcome, RememberOutcome
from charactermemory.remember.plan import CandidateValidation, RememberWritePlan
from charactermemory.remember.prepare import PrepareOptions, RememberInput, RememberPlanDefaults
from charactermemory.revise.drafts import CorrectMemoryDraft, ForgetMemoryDraft
from charactermemory.revise.outcome import LifecycleMutationOutcome

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

_KEY = re.compile("[!-~]{1,255}")
"""Of idempotency, as the server takes it."""


@dataclass(frozen=True)
class Request(Generic[T]):
    """One request below a collection.

    Attributes:
        method, path, params, body: as HTTP has them.
        read: makes the result of an answer's body.
        absent: the result where the server knows no such thing; None makes it an error.
        idempotency_key: a name for it, under which the server does it once.

    Raises:
        InvalidInput: the server knows no such idempotency key.
    """

    method: str
    path: str
    read: Callable[[bytes], T]
    params: Mapping[str, str] = field(default_factory=dict)
    body: BaseModel | None = None
    absent: Callable[[], T] | None = None
    idempotency_key: str | None = None

    def __post_init__(self) -> None:
        if self.idempotency_key is not None and not _KEY.fullmatch(self.idempotency_key):
            raise InvalidInput((("idempotency_key", "expected 1 to 255 visible ASCII characters"),))

    @property
    def content(self) -> bytes | None:
        """The body as it is sent."""
        return None if self.body is None else self.body.model_dump_json(exclude_none=True).encode()

    @property
    def headers(self) -> dict[str, str]:
        """What this request sends besides what every one does."""
        headers = {} if self.body is None else {"Content-Type": "application/json"}
        return headers | ({"Idempotency-Key": self.idempotency_key} if self.idempotency_key else {})


class _Verdict(Model):
    validations: tuple[CandidateValidation, ...]


class _Key(Model):
    object: MemoryObjectRef


class _Chain(Model):
    results: tuple[Stored, ...]
    next: str | None = None


def prepare(
    data: RememberInput, options: PrepareOptions, defaults: RememberPlanDefaults | None
) -> Request[RememberWritePlan]:
    """Make a plan."""
    params = _flags(options)
    if defaults is not None:
        written = json.loads(defaults.model_dump_json())
        params |= {name: written[name] for name in ("operation_seed", "created_at")}
    return Request("POST", "plans", _reader(RememberWritePlan), params, data)


def validate_plan(plan: RememberWritePlan) -> Request[tuple[CandidateValidation, ...]]:
    """Judge a plan."""
    read = _reader(_Verdict)
    return Request("POST", "plans/validate", lambda content: read(content).validations, body=plan)


def commit(plan: RememberWritePlan, options: CommitOptions, key: str | None) -> Request[RememberOutcome]:
    """Store a plan."""
    read = _reader(RememberOutcome)
    return Request("POST", "plans/commit", read, _flags(options), plan, idempotency_key=key)


def remember(data: RememberInput | str, options: CommitOptions, key: str | None) -> Request[RememberOutcome]:
    """Plan and store."""
    given = of_text(RememberInput.new, data) if isinstance(data, str) else data
    read = _reader(RememberOutcome)
    return Request("POST", "remember", read, _flags(options), given, idempotency_key=key)


def link(draft: MemoryLinkDraft, key: str | None) -> Request[LinkOutcome]:
    """Relate two objects."""
    return Request("POST", "link", _reader(LinkOutcome), body=draft, idempotency_key=key)


def correct(
    draft: CorrectMemoryDraft, preview: bool, key: str | None = None
) -> Request[LifecycleMutationOutcome]:
    """Supersede what is wrong."""
    return _revise("correct", draft, preview, key)


def forget(
    draft: ForgetMemoryDraft, preview: bool, key: str | None = None
) -> Request[LifecycleMutationOutcome]:
    """Take influence from memories."""
    return _revise("forget", draft, preview, key)


def retrieve(context: RetrievalContext | str) -> Request[RetrievalOutcome]:
    """Recall."""
    return Request("POST", "retrieve", _reader(RetrievalOutcome), body=_context(context))


def prompt(context: RetrievalContext | str, budget: int | None, style: Style) -> Request[Prompt]:
    """Recall, as text."""
    params = {"format": "prompt", "style": style} | ({} if budget is None else {"budget": str(budget)})
    return Request("POST", "retrieve", _reader(Prompt), params, _context(context))


def get_object(ref: MemoryObjectRef) -> Request[Stored | None]:
    """Read one object."""
    read = _reader(Stored)
    return Request("GET", _place(ref), read, absent=lambda: None)


def history(ref: MemoryObjectRef) -> Request[list[Stored]]:
    """Read a chain."""
    read = _reader(_Chain)
    return Request("GET", f"{_place(ref)}/history", lambda content: list(read(content).results), absent=list)


def list_objects(after: str | None, limit: int) -> Request[tuple[list[Stored], str | None]]:
    """Read one page of everything."""
    read = _reader(_Chain)

    def page(content: bytes) -> tuple[list[Stored], str | None]:
        chain = read(content)
        return list(chain.results), chain.next

    params = {"limit": str(limit)} | ({} if after is None else {"cursor": after})
    return Request("GET", "objects", page, params)


def get_external_key(key: str) -> Request[MemoryObjectRef | None]:
    """Read what a key of the host's stands for."""
    read = _reader(_Key)
    return Request("GET", _key(key), lambda content: read(content).object, absent=lambda: None)


def put_external_key(key: str, ref: MemoryObjectRef) -> Request[MemoryObjectRef]:
    """Let a key of the host's stand for an object."""
    read = _reader(_Key)
    return Request(
        "PUT", _key(key), lambda content: read(content).object, body=RootModel[MemoryObjectRef](ref)
    )


def statistics() -> Request[dict[str, Any]]:
    """Read where everything stands."""
    return Request("GET", "statistics", TypeAdapter(dict[str, Any]).validate_json)


def _revise(path: str, draft: BaseModel, preview: bool, key: str | None) -> Request[LifecycleMutationOutcome]:
    params = {"dry_run": "true"} if preview else {}
    return Request("POST", path, _reader(LifecycleMutationOutcome), params, draft, idempotency_key=key)


def _reader(model: type[M]) -> Callable[[bytes], M]:
    """Return what reads an answer as `model`; what a newer server says besides is passed over."""
    return lambda content: model.model_validate_json(content, extra="ignore")


def _context(context: RetrievalContext | str) -> RetrievalContext:
    return of_text(RetrievalContext.new, context) if isinstance(context, str) else context


def _flags(options: BaseModel) -> dict[str, str]:
    return {name: str(value).lower() for name, value in options}


def _place(ref: MemoryObjectRef) -> str:
    return f"objects/{ref.object_type.value}/{ref.id}"


def _key(key: str) -> str:
    return f"external-keys/{quote(key, safe='')}"

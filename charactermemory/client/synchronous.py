"""The synchronous client."""

from __future__ import annotations

from typing import Any, Self, TypeVar

import httpx

from charactermemory.client import requests
from charactermemory.client.failures import read, unreachable
from charactermemory.client.models import Prompt
from charactermemory.client.requests import Request
from charactermemory.config import validate_collection_name
from charactermemory.domain.lifecycle import Stored
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


class MemoryClient:
    """One character's memory on a server, with the facade's methods. Closes as a context manager.

    The memory writes a pack for a prompt itself (`prompt`), since its fence is a secret of the server.
    A write may be given an `idempotency_key`: repeated under it, it is done once.
    """

    def __init__(
        self,
        base_url: str,
        collection: str,
        api_key: str | None = None,
        *,
        timeout: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Connect to nothing yet.

        Args:
            base_url: where the API is mounted, such as `https://host/api/v1`.
            collection: the collection's name.
            api_key: the key that is sent; None where the transport signs in.
            timeout: seconds that each step of a request may take.
            transport: carries the requests instead of the network.

        Raises:
            OutOfDomain: no collection can have this name.
        """
        validate_collection_name(collection)  # it becomes part of addresses
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self.collection = collection
        self._http = httpx.Client(
            base_url=f"{base_url.rstrip('/')}/collections/{collection}/",
            headers=headers,
            timeout=timeout,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, request: Request[T]) -> T:
        """Send a request and read its answer.

        Raises:
            CharacterMemoryError: the server refused or failed; it cannot be reached (StoreUnavailable).
        """
        try:
            answer = self._http.request(
                request.method,
                request.path,
                params=request.params,
                content=request.content,
                headers=request.headers,
            )
        except httpx.RequestError as error:
            raise unreachable(error) from error
        return read(request, answer)

    # --- remember --------------------------------------------------------------------------------

    def prepare(
        self,
        data: RememberInput,
        options: PrepareOptions = PrepareOptions(),  # noqa: B008 - frozen
        defaults: RememberPlanDefaults | None = None,
    ) -> RememberWritePlan:
        """Make a plan of `data`. See `CharacterMemory.prepare`."""
        return self.send(requests.prepare(data, options, defaults))

    def validate_plan(self, plan: RememberWritePlan) -> tuple[CandidateValidation, ...]:
        """Judge the plan. See `CharacterMemory.validate_plan`."""
        return self.send(requests.validate_plan(plan))

    def commit(
        self,
        plan: RememberWritePlan,
        options: CommitOptions = CommitOptions(),  # noqa: B008 - frozen
        *,
        idempotency_key: str | None = None,
    ) -> RememberOutcome:
        """Store a valid plan whole. See `CharacterMemory.commit`."""
        return self.send(requests.commit(plan, options, idempotency_key))

    def remember(
        self,
        data: RememberInput | str,
        options: CommitOptions = CommitOptions(),  # noqa: B008 - frozen
        *,
        idempotency_key: str | None = None,
    ) -> RememberOutcome:
        """Prepare and commit in one call. See `CharacterMemory.remember`."""
        return self.send(requests.remember(data, options, idempotency_key))

    # --- revise ----------------------------------------------------------------------------------

    def link(self, draft: MemoryLinkDraft, *, idempotency_key: str | None = None) -> LinkOutcome:
        """Relate two stored objects. See `CharacterMemory.link`."""
        return self.send(requests.link(draft, idempotency_key))

    def plan_correction(self, draft: CorrectMemoryDraft) -> LifecycleMutationOutcome:
        """Return what `correct` would do."""
        return self.send(requests.correct(draft, preview=True))

    def correct(
        self, draft: CorrectMemoryDraft, *, idempotency_key: str | None = None
    ) -> LifecycleMutationOutcome:
        """Supersede wrong memories by new ones. See `CharacterMemory.correct`."""
        return self.send(requests.correct(draft, preview=False, key=idempotency_key))

    def plan_forget(self, draft: ForgetMemoryDraft) -> LifecycleMutationOutcome:
        """Return what `forget` would do."""
        return self.send(requests.forget(draft, preview=True))

    def forget(
        self, draft: ForgetMemoryDraft, *, idempotency_key: str | None = None
    ) -> LifecycleMutationOutcome:
        """Take influence from memories. See `CharacterMemory.forget`."""
        return self.send(requests.forget(draft, preview=False, key=idempotency_key))

    # --- recall ----------------------------------------------------------------------------------

    def retrieve(self, context: RetrievalContext | str) -> RetrievalOutcome:
        """Return what the character has in mind. See `CharacterMemory.retrieve`."""
        return self.send(requests.retrieve(context))

    def prompt(
        self, context: RetrievalContext | str, *, budget: int | None = None, style: Style = "markdown"
    ) -> Prompt:
        """Return what the character has in mind as prompt text within `budget` tokens."""
        return self.send(requests.prompt(context, budget, style))

    # --- beside the facade -----------------------------------------------------------------------

    @property
    def browse(self) -> RemoteBrowse:
        """Reading without recall. The list of everything is for operators."""
        return RemoteBrowse(self)

    def external_key(self, key: str) -> MemoryObjectRef | None:
        """Return the object that a key of the host's stands for; None if it stands for none."""
        return self.send(requests.get_external_key(key))

    def set_external_key(self, key: str, ref: MemoryObjectRef) -> MemoryObjectRef:
        """Let a key of the host's stand for a stored object, once and for all."""
        return self.send(requests.put_external_key(key, ref))

    def statistics(self) -> dict[str, Any]:
        """Return where the memory and what is derived from it stand."""
        return self.send(requests.statistics())


class RemoteBrowse:
    """Objects by reference, their history, and pages of everything. See `charactermemory.memory.Browse`."""

    def __init__(self, client: MemoryClient) -> None:
        """Take the client to read by."""
        self._client = client

    def get(self, *refs: MemoryObjectRef) -> dict[MemoryObjectRef, Stored]:
        """Return the stored objects among `refs`; one request for each."""
        found = {ref: self._client.send(requests.get_object(ref)) for ref in refs}
        return {ref: stored for ref, stored in found.items() if stored is not None}

    def history(self, ref: MemoryObjectRef) -> list[Stored]:
        """Return the supersession chain around a memory, oldest first; empty if it is not stored."""
        return self._client.send(requests.history(ref))

    def list(self, after: str | None = None, limit: int = 100) -> tuple[list[Stored], str | None]:
        """Return one page of stored objects, and what continues it."""
        return self._client.send(requests.list_objects(after, limit))

"""What a server answered: the result that was asked for, or an error of the core."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import httpx

from charactermemory.client.requests import Request
from charactermemory.domain.lifecycle import References
from charactermemory.domain.model import Model
from charactermemory.errors import (
    CharacterMemoryError,
    DeterministicIdCollision,
    GraphExpansionRootNotFound,
    InvalidInput,
    StoreUnavailable,
    WritePlanValidationRejected,
)
from charactermemory.remember.plan import Validations

T = TypeVar("T")

_SERVER = "memory server"
_BETWEEN = (502, 503, 504)
"""What a proxy says where the server behind it does not answer."""
_STRANGE = "the answer is not one of the memory's API; the client wants its address, as https://host/api/v1"


@dataclass(eq=False)
class RequestFailed(CharacterMemoryError):
    """The server refused or failed; `problem` is the code it gave, `request_id` names it in its log.

    `retry_after_seconds` is how long it asks to wait, where it does: after too many requests (status 429).
    """

    code: ClassVar[str] = "request_failed"
    status: int
    problem: str
    detail: str
    request_id: str
    retry_after_seconds: float | None = None

    def describe(self) -> str:
        """Name status, code, detail and the request."""
        return f"{self.status} {self.problem}: {self.detail} (request {self.request_id})"


class _Particulars(Model):
    candidates: Validations = ()
    objects: References = ()


def read(request: Request[T], answer: httpx.Response) -> T:
    """Return what the answer to a request holds.

    Raises:
        CharacterMemoryError: the server refused or failed, or this is no answer of the memory's API.
    """
    if answer.is_success:
        try:
            return request.read(answer.content)
        except ValueError:  # a page, or nothing, in the place of an answer; pydantic's error would quote it
            raise _strange(answer) from None
    problem = _failure(answer)
    if request.absent is not None and says_absent(problem):
        return request.absent()
    raise problem


def unreachable(error: httpx.RequestError) -> StoreUnavailable:
    """Make the error of a request that got no answer."""
    return StoreUnavailable(_SERVER, f"{type(error).__name__}: {error}")


def _failure(answer: httpx.Response) -> CharacterMemoryError:
    """Make the error of an answer: the core's own where the problem holds its fields."""
    try:
        problem = json.loads(answer.content)
        code, detail = str(problem["code"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        if answer.status_code in _BETWEEN:
            return StoreUnavailable(_SERVER, f"a proxy answered {answer.status_code} in its place")
        return _strange(answer)
    request_id = _request_id(answer)
    if answer.status_code == 503:
        return StoreUnavailable(_SERVER, f"{detail} (request {request_id})")
    known = _Particulars.model_validate_json(answer.content, extra="ignore")
    match code:
        case "write_plan_validation_rejected":
            return WritePlanValidationRejected(known.candidates)
        case "invalid_input" | "invalid_body":
            return InvalidInput(_problems(problem))
        case "deterministic_id_collision" if known.objects:
            return DeterministicIdCollision(known.objects[0])
        case "object_not_found" if known.objects:
            ref = known.objects[0]
            return GraphExpansionRootNotFound(ref.object_type, ref.id)
    wait = answer.headers.get("Retry-After", "")
    return RequestFailed(
        answer.status_code, code, detail, request_id, float(wait) if wait.isdecimal() else None
    )


def _strange(answer: httpx.Response) -> RequestFailed:
    return RequestFailed(answer.status_code, "no_problem", _STRANGE, _request_id(answer))


def _request_id(answer: httpx.Response) -> str:
    return str(answer.headers.get("X-Request-ID", "unknown"))


def says_absent(error: CharacterMemoryError) -> bool:
    """Tell whether the server knows the collection, and not what was asked of it."""
    return isinstance(error, RequestFailed) and error.problem in (
        "object_not_found",
        "external_key_not_found",
    )


def _problems(problem: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((str(item.get("pointer", "")), str(item["detail"])) for item in problem.get("errors", ()))

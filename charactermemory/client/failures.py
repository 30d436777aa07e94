"""A failed request as an error of the core."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar

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


@dataclass(eq=False)
class RequestFailed(CharacterMemoryError):
    """The server refused or failed; `problem` is the code it gave, `request_id` names it in its log."""

    code: ClassVar[str] = "request_failed"
    status: int
    problem: str
    detail: str
    request_id: str

    def describe(self) -> str:
        """Name status, code, detail and the request."""
        return f"{self.status} {self.problem}: {self.detail} (request {self.request_id})"


class _Particulars(Model):
    candidates: Validations = ()
    objects: References = ()


def failure(status: int, content: bytes, request_id: str) -> CharacterMemoryError:
    """Make the error of an answer: the core's own where the problem holds its fields."""
    try:
        problem = json.loads(content)
        code, detail = str(problem["code"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        strange = (
            "the answer is not one of the memory's API; the client wants its address, as https://host/api/v1"
        )
        return RequestFailed(status, "no_problem", strange, request_id)
    if status == 503:
        return StoreUnavailable("memory server", f"{detail} (request {request_id})")
    known = _Particulars.model_validate_json(content, extra="ignore")
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
    return RequestFailed(status, code, detail, request_id)


def says_absent(error: CharacterMemoryError) -> bool:
    """Tell whether the server knows the collection, and not what was asked of it."""
    return isinstance(error, RequestFailed) and error.problem in (
        "object_not_found",
        "external_key_not_found",
    )


def _problems(problem: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple((str(item.get("pointer", "")), str(item["detail"])) for item in problem.get("errors", ()))

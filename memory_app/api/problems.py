"""What an error looks like: RFC 9457 problem details, one form for all (django-practice §7.2)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig
from django.core.signals import got_request_exception
from django.db import InterfaceError, OperationalError
from django.http import Http404
from pydantic import Field
from rest_framework import exceptions
from rest_framework.exceptions import APIException
from rest_framework.response import Response

from charactermemory import errors
from charactermemory.domain.lifecycle import References
from charactermemory.domain.model import Model
from charactermemory.ids import MemoryObjectRef
from charactermemory.remember.plan import Validations
from memory_app.errors import CollectionArchived

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 5
"""What `Retry-After` says when stores are unavailable and nothing better is known."""


class ProblemItem(Model):
    """One thing wrong with a request: `pointer` into its body (RFC 6901), or the query `parameter`."""

    pointer: str | None = None
    parameter: str | None = None
    detail: str


class Problem(Model):
    """Why a request failed.

    Attributes:
        type: what kind of problem, as a stable name.
        title: the meaning of the status.
        status: the HTTP status.
        detail: what happened, for people.
        instance: the path that was asked for.
        code: what kind of problem, for programs; stable.
        request_id: the request's name in the server's log; also in `X-Request-ID`.
        errors: what is wrong, item by item.
        candidates: for a refused plan, the verdict on every candidate.
        objects: the objects it is about.
    """

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    request_id: str
    errors: tuple[ProblemItem, ...] = ()
    candidates: Validations = ()
    objects: References = Field(default=())


class ApiProblem(APIException):
    """A problem that the API itself finds; subclasses fix the status."""

    status_code = 400

    def __init__(self, detail: str, code: str, items: Iterable[ProblemItem] = ()) -> None:
        """Say what happened and name it."""
        super().__init__(detail, code)
        self.code = code
        self.items = tuple(items)


class BadRequest(ApiProblem):
    """The request does not fit the schema."""


class NotFound(ApiProblem):
    """It is not there, or not for this caller."""

    status_code = 404


class Conflict(ApiProblem):
    """It contradicts what is there."""

    status_code = 409


class TooLarge(ApiProblem):
    """The body is larger than the limit."""

    status_code = 413


class Unprocessable(ApiProblem):
    """It fits the schema and means nothing that can be done."""

    status_code = 422


class Misconfigured(Exception):
    """The deployment's settings do not allow to open the memory; the cause is chained."""


# The first row that fits counts, so a subclass stands before its base.
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (errors.PlanTooLarge, 413),
    (CollectionArchived, 409),
    (errors.DeterministicIdCollision, 409),
    (errors.DuplicatePosition, 409),
    (errors.ReplacementIdentityConflict, 409),
    (errors.GraphExpansionRootNotFound, 404),
    (errors.UnknownObjectRef, 404),
    (errors.InvalidInput, 422),
    (errors.CascadeTooLarge, 422),
    (errors.OutOfDomain, 422),
    (errors.DomainValidationError, 422),
    (errors.WritePlanValidationRejected, 422),
    (errors.LifecycleDraftInvalid, 422),
    (errors.MissingOriginalSourceReference, 422),
    (errors.OriginalSourceReferenceMismatch, 422),
    (errors.UnsupportedSchemaVersion, 422),
    (errors.EmbeddingError, 502),
    (errors.GraphQueryError, 500),
    (errors.StoredConflict, 500),
    (errors.StoreError, 503),
)

_SERVER_SIDE = {
    500: "Something is wrong on the server; it was logged under the request id.",
    502: "The provider of embeddings failed; the same request may succeed later.",
    503: "The memory's stores cannot be used now; the same request may succeed later.",
}
"""What clients are told of the server's troubles: paths, addresses and process ids stay in the log."""


def reason(status: int) -> str:
    """Return the meaning of a status as RFC 9110 has it; older Pythons know two by other names."""
    return {413: "Content Too Large", 422: "Unprocessable Content"}.get(status) or HTTPStatus(status).phrase


def handle(error: Exception, context: dict[str, Any]) -> Response | None:
    """Answer an exception of a view; DRF calls it. None lets Django show its traceback (DEBUG only)."""
    view, request = context["view"], context["request"]
    status, code, detail, extra = _judge(error)
    if status >= 500:
        logger.error("%s %s: request %s", request.method, request.path, view.request_id, exc_info=error)
        if code == "internal_error":
            if settings.DEBUG:
                return None
            got_request_exception.send(sender=type(view), request=request._request)
    problem = Problem(
        type=f"urn:charactermemory:problem:{code}",
        title=reason(status),
        status=status,
        detail=detail,
        instance=request.path,
        code=code,
        request_id=view.request_id,
        **extra,
    )
    return Response(problem, status=status, headers=_headers(error, status), content_type=MEDIA_TYPE)


def _judge(error: Exception) -> tuple[int, str, str, dict[str, Any]]:
    """Return status, code, detail and what else the problem holds."""
    if isinstance(error, ApiProblem):
        return error.status_code, error.code, str(error.detail), {"errors": error.items}
    if isinstance(error, APIException):
        code = error.get_codes()
        return error.status_code, code if isinstance(code, str) else "invalid", str(error.detail), {}
    if isinstance(error, Http404):
        return 404, "not_found", "There is nothing at this address.", {}
    if isinstance(error, DjangoPermissionDenied):
        return 403, "permission_denied", "This is not allowed.", {}
    if isinstance(error, RequestDataTooBig):
        return 413, "body_too_large", "The request body is larger than the server reads.", {}
    if isinstance(error, OperationalError | InterfaceError):  # it is out, or locked for too long
        return 503, errors.StoreUnavailable.code, _SERVER_SIDE[503], {}
    for kind, status in _STATUS:
        if isinstance(error, kind):
            code = getattr(error, "code", "internal_error")
            detail = _SERVER_SIDE[status] if status >= 500 else str(error)
            return status, code, detail, _particulars(error)
    return 500, "internal_error", _SERVER_SIDE[500], {}


def _particulars(error: Exception) -> dict[str, Any]:
    """Return what a program can use of one of the memory's own errors."""
    match error:
        case errors.InvalidInput():
            return {"errors": tuple(ProblemItem(pointer=at, detail=what) for at, what in error.problems)}
        case errors.OutOfDomain():
            return {"errors": tuple(ProblemItem(pointer=f"/{key}", detail=str(error)) for key in error.keys)}
        case errors.LifecycleDraftInvalid():
            return {"errors": (ProblemItem(detail=error.kind),)}
        case errors.WritePlanValidationRejected():
            return {"candidates": error.validations}
        case errors.DeterministicIdCollision():
            return {"objects": (error.object,)}
        case errors.UnknownObjectRef():
            return {"objects": tuple(ref for _, ref in error.references)}
        case errors.GraphExpansionRootNotFound():
            return {"objects": (MemoryObjectRef.of(error.object_type, error.object_id),)}
    return {}


def _headers(error: Exception, status: int) -> dict[str, str]:
    headers = {}
    if isinstance(error, APIException) and getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = error.auth_header
    wait = getattr(error, "wait", None)
    if wait is None and status == 503:
        wait = getattr(error, "retry_after_seconds", None) or RETRY_SECONDS
    if wait is not None:
        headers["Retry-After"] = str(max(1, round(wait)))
    return headers


def not_authenticated() -> exceptions.NotAuthenticated:
    """Return the error of a request that says of nobody's."""
    return exceptions.NotAuthenticated(
        "Sign in, or send an API key: Authorization: Bearer cm_...", code="not_authenticated"
    )

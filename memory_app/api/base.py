"""The base of every view. It takes nothing from the host's `REST_FRAMEWORK` settings (django-practice §7.1)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from django.db import connections, transaction
from django.http import HttpRequest
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from memory_app.api import idempotency
from memory_app.api.authentication import principal_of
from memory_app.api.bodies import parse_body, parse_query, read_body
from memory_app.api.operation import Answer, Call, Operation
from memory_app.api.options import ApiOptions
from memory_app.api.policy import AccessPolicy, admit
from memory_app.api.problems import handle, not_authenticated
from memory_app.api.renderers import ModelRenderer, OnlyJSON, Unread
from memory_app.api.schema import OperationSchema
from memory_app.api.throttles import ScopeThrottle

REQUEST_ID = "X-Request-ID"
_GIVEN_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


class MemoryView(APIView):
    """Checks a request in a fixed order, then hands it to the method that declares its operation.

    The order: who (401), how often (429), which collection (404, 403), the query (400), the body (413, 415,
    400), whether it was made before (409, 422).
    """

    renderer_classes = (ModelRenderer,)
    parser_classes = (Unread,)
    permission_classes = ()
    throttle_classes = (ScopeThrottle,)
    content_negotiation_class = OnlyJSON
    versioning_class = None
    metadata_class = None
    schema: OperationSchema | None = OperationSchema()
    http_method_names = ["get", "head", "post", "put", "patch", "delete"]  # noqa: RUF012
    request_id = ""

    @classmethod
    def as_view(cls, **initkwargs: Any) -> Callable[..., Any]:
        """Return the view; a transaction around each request would undo rows that must stay (idempotency).

        That goes for every database, for the host's routers may keep the app's rows in any.
        """
        view: Callable[..., Any] = super().as_view(**initkwargs)
        for alias in connections:
            view = transaction.non_atomic_requests(using=alias)(view)
        return view

    @property
    def operation(self) -> Operation | None:
        """The operation that the request asks for; None if there is none."""
        method = (self.request.method or "").lower()
        return getattr(getattr(self, method, None), "operation", None)

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        """Name the request before anything can go wrong with it."""
        given = request.headers.get(REQUEST_ID, "")
        self.request_id = given if _GIVEN_ID.fullmatch(given) else uuid4().hex
        return super().initialize_request(request, *args, **kwargs)

    def get_authenticators(self) -> list[BaseAuthentication]:
        """Return those of the options."""
        options = ApiOptions.current()
        return [options.load(path)() for path in options.authentication_classes]

    def perform_authentication(self, request: Request) -> None:
        """Find out who asks; a public operation asks nobody who they are, nor the database."""
        if not (self.operation and self.operation.public):
            super().perform_authentication(request)

    def check_permissions(self, request: Request) -> None:
        """Refuse nobody in particular, unless the operation is public."""
        operation = self.operation
        if not (operation and operation.public) and principal_of(request) is None:
            raise not_authenticated()

    def get_throttles(self) -> list[BaseThrottle]:
        """Return the throttle of the operation's scope."""
        return [throttle() for throttle in self.throttle_classes]

    def serve(
        self, operation: Operation, method: Callable[..., Any], request: Request, path: dict[str, str]
    ) -> Response:
        """Check the request, call the method, answer."""
        options = ApiOptions.current()
        principal = None if operation.public else principal_of(request)
        collection = None
        if operation.action is not None and principal is not None:
            collection = admit(self.policy(options), principal, path.pop("collection"), operation.action)
        query = parse_query(operation.query, request)
        body = None
        if operation.body is not None:
            body = parse_body(operation.body, read_body(request, options.max_body_bytes))
        call = Call(request, principal, collection, body, query)

        def run() -> Answer:
            result = method(self, call, **path)
            return result if isinstance(result, Answer) else Answer(result)

        answer = idempotency.once(call, operation, options, run) if operation.keyed else run()
        return Response(answer.body, status=answer.status, headers=answer.headers)

    @staticmethod
    def policy(options: ApiOptions) -> AccessPolicy:
        """Return the access policy of the options."""
        made: AccessPolicy = options.load(options.access_policy_class)()
        return made

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        """Refuse a method, and say why there is no DELETE."""
        detail = None
        if request.method == "DELETE":
            detail = (
                "Memory is not deleted: POST forget takes a memory's influence and keeps it as history, POST "
                "correct replaces what is wrong, POST archive closes a collection."
            )
        raise MethodNotAllowed(request.method, detail=detail)

    def get_exception_handler(self) -> Callable[..., Response | None]:
        """Return ours, whatever the host's is."""
        return handle

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Put on what every answer has."""
        final = super().finalize_response(request, response, *args, **kwargs)
        final[REQUEST_ID] = self.request_id
        if not final.has_header("Cache-Control"):
            final["Cache-Control"] = "no-store"
        return final

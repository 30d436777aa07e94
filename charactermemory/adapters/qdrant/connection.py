"""The connection to a Qdrant server: what a URL means, and what its errors mean (recall.md §11.12)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from weakref import WeakSet

from charactermemory.errors import CharacterMemoryError, VectorDatabaseError

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

BACKEND = "qdrant"

GRPC_PORT = 6334
REST_PORT = 6333

TIMEOUT_SECONDS = 30
"""Longest wait for one request (recall.md §11.11)."""

KEEPALIVE_MILLISECONDS = 30_000

_connections: WeakSet[Connection] = WeakSet()

_HTTP_STATUS = {
    400: "invalid_argument",
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    408: "deadline_exceeded",
    409: "aborted",
    412: "failed_precondition",
    416: "out_of_range",
    429: "resource_exhausted",
    499: "cancelled",
    500: "internal",
    501: "unimplemented",
    503: "unavailable",
    504: "deadline_exceeded",
}


def build_client(url: str, api_key: str | None = None) -> QdrantClient:
    """Make a client; nothing is sent yet.

    `grpc://host[:port]` and `http://host:6334` mean gRPC, any other http(s) URL REST.

    Raises:
        VectorDatabaseError: `invalid_uri`.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _invalid(url, str(error)) from error
    if parts.scheme not in ("http", "https", "grpc") or not parts.hostname:
        raise _invalid(url, "expected http://host[:port], https://host[:port] or grpc://host[:port]")
    from qdrant_client import QdrantClient

    if parts.scheme == "grpc" or (parts.scheme == "http" and port == GRPC_PORT):
        return QdrantClient(
            host=parts.hostname,
            grpc_port=port or GRPC_PORT,
            prefer_grpc=True,
            https=False,
            api_key=api_key,
            timeout=TIMEOUT_SECONDS,
            check_compatibility=False,
            grpc_options={
                "grpc.keepalive_time_ms": KEEPALIVE_MILLISECONDS,
                "grpc.keepalive_permit_without_calls": 1,
            },
        )
    default = 443 if parts.scheme == "https" else REST_PORT
    return QdrantClient(
        url=url, port=default, api_key=api_key, timeout=TIMEOUT_SECONDS, check_compatibility=False
    )


def _invalid(url: str, problem: str) -> VectorDatabaseError:
    # A URL may carry a password; only its host is shown.
    shown = url.rsplit("@", 1)[-1]
    return VectorDatabaseError(backend=BACKEND, kind="invalid_uri", message=f"{shown!r}: {problem}")


class Connection:
    """A client that is built on first use, by the process that uses it.

    Importing the client costs 0.6-0.9 s and 56-90 MB, and its gRPC channels do not survive a fork.
    """

    def __init__(self, source: str | QdrantClient, api_key: str | None = None) -> None:
        """Take a URL, or a client that stays the caller's to close."""
        self._source = source
        self._api_key = api_key
        self._lock = threading.Lock()
        self._built: QdrantClient | None = None
        _connections.add(self)

    def _reset(self) -> None:
        """In a forked child: the parent's client is left alone, and the lock is new."""
        self._lock = threading.Lock()
        self._built = None

    def client(self) -> QdrantClient:
        """Return this process's client."""
        if not isinstance(self._source, str):
            return self._source
        with self._lock:
            if self._built is None:
                self._built = build_client(self._source, self._api_key)
            return self._built

    def close(self) -> None:
        """Close the client that was built here, if there is one."""
        with self._lock:
            if self._built is not None:
                self._built.close()
            self._built = None


def _reset_connections() -> None:
    for connection in list(_connections):
        connection._reset()


os.register_at_fork(after_in_child=_reset_connections)


@contextmanager
def service_errors() -> Iterator[None]:
    """Turn what the client raises into `VectorDatabaseError`."""
    try:
        yield
    except CharacterMemoryError:
        raise
    except Exception as error:
        raise _translate(error) from error


def _translate(error: Exception) -> VectorDatabaseError:
    import grpc
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    if isinstance(error, ResourceExhaustedResponse):
        return VectorDatabaseError(
            backend=BACKEND,
            kind="resource_exhausted",
            message=str(error),
            status="resource_exhausted",
            retry_after_seconds=float(error.retry_after_s),
        )
    if isinstance(error, UnexpectedResponse):
        code = error.status_code
        status = _HTTP_STATUS.get(code or 0, f"unrecognized({code})")
        return VectorDatabaseError(backend=BACKEND, kind="http_status", message=str(error), status=status)
    if isinstance(error, grpc.RpcError):
        return _translate_grpc(error)
    if isinstance(error, ResponseHandlingException):
        return _translate_transport(error.source)
    if isinstance(error, OSError):
        return VectorDatabaseError(backend=BACKEND, kind="io", message=str(error), status=error.strerror)
    return VectorDatabaseError(backend=BACKEND, kind="response", message=f"{type(error).__name__}: {error}")


def _translate_grpc(error: Exception) -> VectorDatabaseError:
    code = getattr(error, "code", None)
    details = getattr(error, "details", None)
    name = code().name.lower() if callable(code) else "unknown"
    message = str(details()) if callable(details) else str(error)
    # Both spellings of "nobody listens there": tonic's, and grpc's own.
    unreachable = message.startswith(("Failed to connect to ", "failed to connect to "))
    if unreachable and name in ("internal", "unavailable"):
        kind = "http_connect"
    else:
        kind = "resource_exhausted" if name == "resource_exhausted" else "response"
    return VectorDatabaseError(backend=BACKEND, kind=kind, message=message, status=name)


def _translate_transport(source: Exception) -> VectorDatabaseError:
    import httpx
    from pydantic import ValidationError

    if isinstance(source, httpx.TimeoutException):
        kind = "http_timeout"
    elif isinstance(source, httpx.ConnectError):
        kind = "http_connect"
    elif isinstance(source, ValidationError | ValueError):
        kind = "json_to_payload"
    else:
        kind = "http"
    return VectorDatabaseError(backend=BACKEND, kind=kind, message=f"{type(source).__name__}: {source}")

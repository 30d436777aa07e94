"""A stub of the Qdrant server: the REST calls that our service adapter makes, over `QdrantClient(":memory:")`.

What is stored and found is qdrant-client's own local mode, so the answers have Qdrant's meaning; speed, durability
and concurrency of a real server it has not. It can be told to fail, stall, answer wrongly, or be away.

    python -m tests.support.qdrant_stub PORT     # serves until it is killed, for scripts and benchmarks
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, Self

from pydantic import BaseModel, TypeAdapter
from qdrant_client import QdrantClient, models

Kind = Literal["fail", "stall", "nonsense", "hang_up"]
Touching = Literal["all", "reads", "writes", "upserts", "deletes"]

_LOCAL_MODE = ("Payload indexes have no effect", "Local mode performs")
"""Local mode says by warnings what it does not do; a stub may do without."""

BIND_SECONDS = 30.0
"""How long a port that is taken is waited for."""


@dataclass(frozen=True)
class Trouble:
    """What happens instead of an answer.

    `fail` answers `status`; `stall` answers only when the trouble is over; `nonsense` answers 200 and what no
    Qdrant says; `hang_up` does what is asked and closes the connection without an answer. The first `after`
    requests of those that it touches are answered as ever.
    """

    kind: Kind
    touching: Touching = "all"
    status: int = 503
    after: int = 0


class QdrantStub:
    """Serves on loopback in threads of this process, from `with` on; what is stored outlives `stop`."""

    def __init__(self, port: int = 0) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._client = QdrantClient(":memory:")
        self._lock = threading.Lock()  # local mode is not thread-safe
        self._server: _Server | None = None
        self.port = port
        self.trouble: Trouble | None = None
        self._passed = itertools.count(1)
        self._over = threading.Event()
        self.requests: list[str] = []
        """Method and path of everything that was asked, in order."""

    @property
    def url(self) -> str:
        """Its address, for QDRANT_CONNECTION_STRING; known from the first start on."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._client.close()

    def start(self) -> None:
        """Listen, on the port that it had before; while it was away somebody's connection may have had that."""
        deadline = time.monotonic() + BIND_SECONDS
        while self._server is None:
            try:
                self._server = _Server(self.port, self)
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Go away: nobody listens, and connections that were open are closed."""
        server, self._server = self._server, None
        if server is not None:
            self._over.set()
            server.shutdown()
            server.hang_up()
            server.server_close()

    @contextlib.contextmanager
    def troubled(
        self, kind: Kind, touching: Touching = "all", *, status: int = 503, after: int = 0
    ) -> Iterator[None]:
        """Be in trouble during the block."""
        self._over.clear()
        self._passed = itertools.count(1)
        self.trouble = Trouble(kind, touching, status, after)
        try:
            yield
        finally:
            self.trouble = None
            self._over.set()

    def trouble_with(self, method: str, path: str, body: Any) -> Trouble | None:
        """Return what befalls this request."""
        trouble = self.trouble
        if trouble is None or not _touched(trouble.touching, method, path, body):
            return None
        return trouble if next(self._passed) > trouble.after else None

    def wait_until_over(self) -> None:
        """Wait for the end of a stall."""
        self._over.wait()

    def answer(self, method: str, path: str, body: Any) -> Any:
        """Return the `result` of one call.

        Raises:
            LookupError: no call of the adapter's; with what it was.
        """
        for (wanted, pattern), call in _CALLS.items():
            if wanted == method and (match := re.fullmatch(pattern, path)):
                with self._lock, warnings.catch_warnings():
                    for message in _LOCAL_MODE:
                        warnings.filterwarnings("ignore", message=message)
                    return call(self._client, *match.groups(), body)
        raise LookupError(f"the stub has no {method} {path}")


# --- the calls ------------------------------------------------------------------------------------


def _collections(client: QdrantClient, _: Any) -> Any:
    return client.get_collections()


def _aliases(client: QdrantClient, _: Any) -> Any:
    return client.get_aliases()


def _change_aliases(client: QdrantClient, body: Any) -> Any:
    changes = models.ChangeAliasesOperation.model_validate(body)
    return client.update_collection_aliases(changes.actions)


def _exists(client: QdrantClient, name: str, _: Any) -> Any:
    return {"exists": client.collection_exists(name)}


def _collection(client: QdrantClient, name: str, _: Any) -> Any:
    return client.get_collection(name)


def _create(client: QdrantClient, name: str, body: Any) -> Any:
    wanted = models.CreateCollection.model_validate(body)
    return client.create_collection(
        name,
        vectors_config=wanted.vectors,
        sparse_vectors_config=wanted.sparse_vectors,
        metadata=wanted.metadata,
    )


def _delete(client: QdrantClient, name: str, _: Any) -> Any:
    return client.delete_collection(name)


def _index_field(client: QdrantClient, name: str, body: Any) -> Any:
    return client.create_payload_index(name, body["field_name"], body["field_schema"])


def _upsert(client: QdrantClient, name: str, body: Any) -> Any:
    return client.upsert(name, models.PointsList.model_validate(body).points)


def _batch(client: QdrantClient, name: str, body: Any) -> Any:
    operations = models.UpdateOperations.model_validate(body).operations
    return client.batch_update_points(name, operations)


def _retrieve(client: QdrantClient, name: str, body: Any) -> Any:
    wanted = models.PointRequest.model_validate(body)
    return client.retrieve(name, wanted.ids, with_payload=wanted.with_payload or False)


def _scroll(client: QdrantClient, name: str, body: Any) -> Any:
    wanted = models.ScrollRequest.model_validate(body)
    points, following = client.scroll(
        name,
        scroll_filter=wanted.filter,
        limit=wanted.limit or 10,
        offset=wanted.offset,
        with_payload=wanted.with_payload or False,
    )
    return models.ScrollResult(points=points, next_page_offset=following)


def _count(client: QdrantClient, name: str, body: Any) -> Any:
    wanted = models.CountRequest.model_validate(body)
    return client.count(name, count_filter=wanted.filter, exact=True)


def _query(client: QdrantClient, name: str, body: Any) -> Any:
    return client.query_batch_points(name, models.QueryRequestBatch.model_validate(body).searches)


_NAMED = "/collections/([^/]+)"
_CALLS: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("GET", "/collections"): _collections,
    ("GET", "/aliases"): _aliases,
    ("POST", "/collections/aliases"): _change_aliases,
    ("GET", f"{_NAMED}/exists"): _exists,
    ("GET", _NAMED): _collection,
    ("PUT", _NAMED): _create,
    ("DELETE", _NAMED): _delete,
    ("PUT", f"{_NAMED}/index"): _index_field,
    ("PUT", f"{_NAMED}/points"): _upsert,
    ("POST", f"{_NAMED}/points/batch"): _batch,
    ("POST", f"{_NAMED}/points"): _retrieve,
    ("POST", f"{_NAMED}/points/scroll"): _scroll,
    ("POST", f"{_NAMED}/points/count"): _count,
    ("POST", f"{_NAMED}/points/query/batch"): _query,
}
_READS = re.compile(r".*/points(/scroll|/count|/query/batch)?")


def _touched(touching: Touching, method: str, path: str, body: Any) -> bool:
    if touching == "all":
        return True
    reads = method == "GET" or (method == "POST" and _READS.fullmatch(path) is not None)
    if touching in ("upserts", "deletes"):
        operations = body.get("operations", ()) if isinstance(body, dict) else ()
        return any(touching.removesuffix("s") in operation for operation in operations)
    return reads == (touching == "reads")


# --- HTTP -----------------------------------------------------------------------------------------


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, stub: QdrantStub) -> None:
        self.stub = stub
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self) -> None:
        with self._guard:
            left = list(self._open)
        for connection in left:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a caller that went away is no error here
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _serve(self) -> None:
        started = time.perf_counter()
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        path = self.path.partition("?")[0]
        stub = self.server.stub
        stub.requests.append(f"{self.command} {path}")
        body = json.loads(raw) if raw else None
        trouble = stub.trouble_with(self.command, path, body)
        if trouble is not None and trouble.kind == "stall":
            stub.wait_until_over()
        if trouble is not None and trouble.kind == "fail":
            self._send(trouble.status, {"status": {"error": "told to fail"}, "time": 0.0})
            return
        if trouble is not None and trouble.kind == "nonsense":
            self._send(200, {"result": {"points": "many"}, "status": "ok", "time": 0.0})
            return
        try:
            result = stub.answer(self.command, path, body)
        except (ValueError, LookupError) as error:
            missing = isinstance(error, LookupError) or "not found" in str(error)
            self._send(404 if missing else 400, {"status": {"error": str(error)}})
            return
        if trouble is not None and trouble.kind == "hang_up":
            self.close_connection = True
            return
        taken = time.perf_counter() - started
        self._send(200, {"result": _plain(result), "status": "ok", "time": taken})

    do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815

    def _send(self, status: int, value: Any) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


_any: TypeAdapter[Any] = TypeAdapter(Any)


def _plain(result: Any) -> Any:
    if isinstance(result, BaseModel):
        return result.model_dump(mode="json", exclude_none=True)
    return _any.dump_python(result, mode="json", exclude_none=True)


def main() -> None:
    """Serve until killed."""
    with QdrantStub(int(sys.argv[1])):
        threading.Event().wait()


if __name__ == "__main__":
    main()

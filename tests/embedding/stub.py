"""An embeddings endpoint on a free loopback port that answers as a test tells it to."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, bytes]


@dataclass
class Stub:
    """`answer` makes each response from the decoded request body; `requests` keeps what came in."""

    answer: Callable[[dict[str, Any]], Answer | None]
    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    retry_after: str | None = None


@contextmanager
def serving(stub: Stub) -> Iterator[Stub]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # noqa: N802
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            stub.paths.append(self.path)
            stub.headers.append({name.lower(): value for name, value in self.headers.items()})
            stub.requests.append(request)
            answer = stub.answer(request)
            if answer is None:  # hang up without a word
                return
            status, body = answer
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Retry-After-Ms", "1")
            if stub.retry_after is not None:
                self.send_header("Retry-After", stub.retry_after)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def vector(first: float, size: int = 1536) -> list[float]:
    return [first] + [0.0] * (size - 2) + [0.5]


def data(values: list[float], size: int = 1536) -> list[dict[str, Any]]:
    return [
        {"object": "embedding", "index": index, "embedding": vector(value, size)}
        for index, value in enumerate(values)
    ]


def ok(items: Any) -> Answer:
    body = {
        "object": "list",
        "data": items,
        "model": "stub",
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }
    return 200, json.dumps(body).encode()


def echo(request: dict[str, Any]) -> Answer:
    """Answer every text, a decimal number, with a vector that begins with it."""
    return ok(data([float(text) for text in request["input"]]))

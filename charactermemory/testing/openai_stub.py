"""A local stand-in for OpenAI's API, for tests and demonstrations: loopback only, no key, no model.

It answers `/chat/completions` and `/responses`, streamed or not, with the replies it was given, and refuses
with 400 what the API refuses: a tool call without its result, a result without its call.

    with OpenAIStub() as stub:
        client = OpenAI(base_url=stub.url, api_key="any")
        stub.say("Hello!")
        client.chat.completions.create(model="stub", messages=[{"role": "user", "content": "Hi"}])
        stub.bodies[0]["messages"]
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from charactermemory.testing import openai_frames
from charactermemory.testing.openai_rules import chat_problem, responses_problem


@dataclass
class Reply:
    """What the stub answers to one request.

    `message` holds extra fields of the assistant message; `more` the texts of further choices. A `status`
    of 400 or above is an error. `delay` is in seconds, before the answer or between stream events;
    `break_after` cuts a stream after so many events.
    """

    text: str | None = "ok"
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    more: list[str] = field(default_factory=list)
    message: dict[str, Any] = field(default_factory=dict)
    output: list[dict[str, Any]] | None = None
    status: int = 200
    delay: float = 0.0
    break_after: int | None = None


def tool_call(call_id: str, name: str, arguments: str = "{}") -> dict[str, Any]:
    """Return a function call as it stands in an assistant message."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


class OpenAIStub:
    """Serves in a thread of its own from `with` on; `requests` lists (path, body) of all it received.

    Replies are used up in the order they were queued; then `default` answers, a Reply or a function of the
    request's body that returns one. `aborted` counts streams whose reader went away.
    """

    def __init__(self, default: Reply | Callable[[dict[str, Any]], Reply] | None = None) -> None:
        self.default = default or Reply()
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.aborted = 0
        self._replies: deque[Reply] = deque()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """The base_url for a client."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The bodies of all requests received."""
        return [body for _, body in self.requests]

    def queue(self, *replies: Reply) -> None:
        """Answer the next requests with these."""
        self._replies.extend(replies)

    def say(self, *texts: str) -> None:
        """Answer the next requests with these texts."""
        self.queue(*(Reply(text=text) for text in texts))

    def call(self, *calls: dict[str, Any]) -> None:
        """Answer the next request with these tool calls and no text."""
        self.queue(Reply(text=None, tool_calls=list(calls)))

    def next_reply(self, body: dict[str, Any]) -> Reply:
        """Return the reply to a request."""
        if self._replies:
            return self._replies.popleft()
        return self.default(body) if callable(self.default) else self.default

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _handler(stub: OpenAIStub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:  # noqa: N802 - the base class looks for this name
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            stub.requests.append((self.path, body))
            chat = self.path.endswith("/chat/completions")
            if not chat and not self.path.endswith("/responses"):
                self._error(404, f"the stub has no {self.path}")
                return
            problem = chat_problem(body.get("messages")) if chat else responses_problem(body.get("input"))
            if problem:
                self._error(400, problem)
                return
            reply = stub.next_reply(body)
            if reply.status >= 400:
                time.sleep(reply.delay)
                self._error(reply.status, "the stub was told to fail")
            elif body.get("stream"):
                frames = openai_frames.chat_chunks if chat else openai_frames.response_events
                self._stream(reply, frames(reply, body))
            else:
                time.sleep(reply.delay)
                whole = openai_frames.completion if chat else openai_frames.response
                self._send(200, whole(reply, body))

        def _send(self, status: int, body: dict[str, Any]) -> None:
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            # A client that gave up waiting is no failure of the stub's.
            with contextlib.suppress(ConnectionError):
                self.wfile.write(raw)

        def _error(self, status: int, message: str) -> None:
            self._send(status, {"error": {"message": message, "type": "stub", "param": None, "code": None}})

        def _stream(self, reply: Reply, frames: Iterator[str]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.close_connection = True
            try:
                for index, frame in enumerate(frames):
                    if index == reply.break_after:
                        return
                    time.sleep(reply.delay)
                    raw = frame.encode()
                    self.wfile.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
                self.wfile.write(b"0\r\n\r\n")
            except ConnectionError:
                stub.aborted += 1

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's own name
            """Keep quiet."""

    return Handler

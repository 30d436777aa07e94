"""What the HTTP layer costs over the facade's call, and how many requests gunicorn answers in a second.

    python -m benchmarks.api [--moments 3333] [--calls 200] [--load 400] [--folder DIR] [--embedded-only]

Embedding is excluded: vectors come ready-made (`benchmarks.support.ReadyVectors`).

Layer: in one process and by turns, the same call on the facade and as a request to the WSGI application,
headers, key, body and answer included; the difference of the medians is the layer's own time. Its CPU time stands
beside it.

Embedded: `gunicorn` with one worker of four threads, asked by as many clients over kept connections.

Service: two such workers, PostgreSQL and `oxigraph serve` as real servers, and in the place of Qdrant this
project's stub, which runs in this process on qdrant-client's local mode: it says nothing about Qdrant's own speed.
Needs Debian's postgresql and redis-server, and the packages of requirements-dev.txt.
"""

from __future__ import annotations

import argparse
import gc
import io
import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from wsgiref.util import setup_testing_defaults

from benchmarks import latency, support
from charactermemory import RememberInput, RetrievalContext
from charactermemory.testing.servers import free_port

ROOT = Path(__file__).resolve().parents[1]
CLIENTS = 4
GOAL_MS = 5.0
"""What the HTTP layer may add; judged by CPU time, which other work on the machine does not lengthen much."""
READY_SECONDS = 60.0
SERVICE_MOMENTS = 300
"""Moments remembered in service mode before recall is asked for; the stub's search grows with them."""


@dataclass(frozen=True)
class Request:
    """One request below a collection."""

    path: str
    body: bytes
    key: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """What it sends besides the credential."""
        return {"Content-Type": "application/json"} | ({"Idempotency-Key": self.key} if self.key else {})


def retrieving(contexts: Iterator[RetrievalContext]) -> Iterator[Request]:
    """Yield requests that recall."""
    return (Request("retrieve", context.to_json().encode()) for context in contexts)


def remembering(moments: Iterator[RememberInput], keyed: bool = False) -> Iterator[Request]:
    """Yield requests that remember, `keyed` with an idempotency key of their own."""
    for number, moment in enumerate(moments):
        yield Request("remember", moment.to_json().encode(), f"turn-{number}" if keyed else None)


# --- the layer -----------------------------------------------------------------------------------


class Inside:
    """The WSGI application of this process."""

    def __init__(self, token: str) -> None:
        from django.core.wsgi import get_wsgi_application

        self._application: Any = get_wsgi_application()
        self._token = token

    def __call__(self, request: Request) -> bytes:
        """Answer a request as a server would have it answered."""
        environ: dict[str, Any] = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": f"/api/v1/collections/{support.COLLECTION}/{request.path}",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(request.body)),
            "HTTP_HOST": "localhost",
            "HTTP_AUTHORIZATION": f"Bearer {self._token}",
            "wsgi.input": io.BytesIO(request.body),
        }
        if request.key:
            environ["HTTP_IDEMPOTENCY_KEY"] = request.key
        setup_testing_defaults(environ)
        status: list[str] = []
        answer = self._application(environ, lambda line, headers, problem=None: status.append(line))
        try:
            content = b"".join(answer)
        finally:
            answer.close()
        if not status[0].startswith("20"):
            raise RuntimeError(f"{request.path}: {status[0]} {content[:500]!r}")
        return content


def layer(name: str, calls: int, near: Callable[[int], Any], far: Callable[[int], Any]) -> float:
    """Print both sides of one call, made by turns; return the milliseconds of CPU time that HTTP adds."""
    facade, http = support.Timer(), support.Timer()
    for number in range(calls + 10):
        if number == 10:  # what is imported and cached on first use is no cost of a call
            facade, http = support.Timer(), support.Timer()
            gc.freeze()  # as config/gunicorn.py does
        sides = [(facade, near), (http, far)]
        # Who asks second finds caches warm.
        for timer, side in sides if number % 2 else reversed(sides):
            timer(lambda side=side, number=number: side(number))
    added = http.spread.cpu - facade.spread.cpu
    print(f"  {name:<16} facade {facade.spread}")
    print(f"  {'':<16} http   {http.spread}")
    print(f"  {'':<16} added  p50 {http.spread.p50 - facade.spread.p50:.2f}  cpu {added:.2f} ms")
    return added


def layers(token: str, moments: int, calls: int) -> bool:
    """Print what HTTP adds to recall and to remembering; tell whether it is within the goal."""
    from memory_app.runtime import close_memories, get_memory

    memory, inside = get_memory(support.COLLECTION), Inside(token)
    print(
        f"HTTP layer over the facade's call, in one process, {moments * support.OBJECTS_PER_MOMENT} objects:"
    )
    contexts = list(latency.questions(moments, calls + 10))
    asked = list(retrieving(iter(contexts)))
    fresh = itertools.count(moments)
    added = [
        layer("retrieve", calls, lambda n: memory.retrieve(contexts[n]), lambda n: inside(asked[n])),
    ]
    for name, keyed in (("remember", False), ("remember, keyed", True)):
        told = remembering((support.moment(number) for number in fresh), keyed)
        near = (support.moment(number) for number in fresh)
        added.append(
            layer(
                name,
                calls,
                lambda n, near=near: memory.remember(next(near)),
                lambda n, told=told: inside(next(told)),
            )
        )
    close_memories()
    print(f"  goal: at most {GOAL_MS} ms of CPU time added: {'met' if max(added) <= GOAL_MS else 'not met'}")
    return max(added) <= GOAL_MS


# --- under load ----------------------------------------------------------------------------------


def load(url: str, token: str, requests: Iterator[Request], count: int, what: str) -> None:
    """Send requests from four clients at once, each over one kept connection, and print what came of it."""
    place, taken, lock = urlsplit(url), [], threading.Lock()
    failures: list[str] = []

    def next_request() -> Request | None:
        with lock:
            return next(requests, None)

    def ask() -> None:
        connection = HTTPConnection(place.hostname or "", place.port)
        while (request := next_request()) is not None:
            headers = request.headers | {"Authorization": f"Bearer {token}"}
            start = time.perf_counter()
            connection.request("POST", f"{place.path}/{request.path}", request.body, headers)
            answer = connection.getresponse()
            content = answer.read()
            took = (time.perf_counter() - start) * 1_000
            with lock:
                taken.append(took)
                if answer.status not in (200, 201):
                    failures.append(f"{answer.status} {content[:300]!r}")
        connection.close()

    threads = [threading.Thread(target=ask) for _ in range(CLIENTS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - start
    if failures or len(taken) != count:
        raise RuntimeError(f"{len(failures)} of {len(taken)} failed, for example {failures[:1]}")
    taken.sort()
    p50, p95 = taken[len(taken) // 2], taken[int(len(taken) * 0.95)]
    print(f"  {what:<12} {len(taken) / seconds:7.1f} requests/s   p50 {p50:6.1f}  p95 {p95:6.1f} ms")


def under_load(url: str, token: str, known: int, fresh: int, count: int) -> None:
    """Print the figures of recall over `known` moments and of remembering those from `fresh` on."""
    load(url, token, retrieving(latency.questions(known, count)), count, "retrieve")
    told = remembering(support.moment(number) for number in range(fresh, fresh + count))
    load(url, token, told, count, "remember")


@contextmanager
def gunicorn(workers: int) -> Iterator[str]:
    """Run the reference project as its documents say, with this process's environment."""
    port = free_port()
    bind = ("--bind", f"127.0.0.1:{port}", "--workers", str(workers), "--log-level", "warning")
    process = subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-m", "gunicorn", "-c", "python:config.gunicorn", *bind, "config.wsgi"], cwd=ROOT
    )
    try:
        wait_until_it_answers(f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}/api/v1/collections/{support.COLLECTION}"
    finally:
        process.terminate()
        process.wait()


def wait_until_it_answers(url: str) -> None:
    """Ask for the API's health until it is told.

    Raises:
        TimeoutError: it is not, for a minute.
    """
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        connection = HTTPConnection(urlsplit(url).netloc, timeout=5)
        try:
            connection.request("GET", "/api/v1/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
        finally:
            connection.close()
    raise TimeoutError(f"{url} does not answer")


# --- where it runs -------------------------------------------------------------------------------


def set_up(root: Path) -> None:
    """Make this process one of the reference project, with embedded stores under `root`."""
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "benchmarks.project",
        "DJANGO_SECRET_KEY": "of the benchmark",
        "DATA_DIR": str(root),
        "MEMORY_EMBEDDING_PROVIDER_FACTORY": "benchmarks.support.ReadyVectors",
        **{name: value for name, value in support.settings(root).items() if name != "RETRIEVAL_STATS_PATH"},
    }
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0, interactive=False)


def make_key() -> str:
    """Make the collection's owner and a key for it; return the key's text."""
    from django.contrib.auth import get_user_model

    from memory_app.models import ApiKey, MemoryCollection

    owner = get_user_model().objects.create_user("benchmark")
    row, _made = MemoryCollection.objects.get_or_create(name=support.COLLECTION)
    row.owner = owner
    row.save(update_fields=["owner"])
    return ApiKey.objects.issue(owner, "benchmark", ["read", "write"], [row])[1]


MAKE_KEY = "from benchmarks.api import make_key; print(make_key())"


def service(folder: Path, count: int) -> None:
    """Print the figures of service mode."""
    from tests.support import services as row

    if why := row.missing():
        print(f"service mode is left out: {why}")
        return
    with row.running(folder) as services:
        services.environment = dict(services.environment) | {
            "DJANGO_SETTINGS_MODULE": "benchmarks.project",
            "MEMORY_EMBEDDING_PROVIDER_FACTORY": "benchmarks.support.ReadyVectors",
            "PYTHONPATH": str(ROOT),
        }
        services.manage("migrate", "--verbosity", "0")
        token = services.manage("shell", "--verbosity", "0", "-c", MAKE_KEY).strip()
        url = services.web(workers=2)
        wait_until_it_answers(url)
        url += f"/api/v1/collections/{support.COLLECTION}"
        print(
            "service mode: 2 workers of 4 threads, PostgreSQL, oxigraph serve, and the stub in place of Qdrant:"
        )
        load(url, token, iter([Request("plans/commit", support.people().to_json().encode())]), 1, "(people)")
        told = remembering(support.moment(number) for number in range(SERVICE_MOMENTS))
        load(url, token, told, SERVICE_MOMENTS, "(filling)")
        under_load(url, token, SERVICE_MOMENTS, SERVICE_MOMENTS, count)


def main() -> int:
    """Run; 1 if the layer costs more than the goal."""
    parser = argparse.ArgumentParser(description="what the HTTP layer costs")
    parser.add_argument("--moments", type=int, default=3_333, help="of three objects each")
    parser.add_argument("--calls", type=int, default=200, help="of each kind, for the layer")
    parser.add_argument("--load", type=int, default=400, help="requests of each kind, under load")
    parser.add_argument("--folder", help="on which disk")
    parser.add_argument("--embedded-only", action="store_true", help="leave service mode out")
    given = parser.parse_args()
    with support.scratch(given.folder) as root:
        set_up(root)
        support.grow(root, given.moments)
        from django.core.management import call_command

        call_command("memory_rebuild_statistics", "--collection", support.COLLECTION, verbosity=0)
        token = make_key()
        met = layers(token, given.moments, given.calls)
        objects = given.moments * support.OBJECTS_PER_MOMENT
        print(f"embedded: 1 worker of 4 threads, {CLIENTS} clients, {objects} objects at first:")
        with gunicorn(workers=1) as url:
            under_load(url, token, given.moments, given.moments + 10_000, given.load)
        if not given.embedded_only:
            folder = root / "service"
            folder.mkdir()
            service(folder, given.load)
    print(json.dumps({"load_average": os.getloadavg()[0]}))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

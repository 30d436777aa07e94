"""The production row of docs/deployment.md on this machine: every server a process on a loopback port of its own.

PostgreSQL and Redis are Debian's, the graph is `oxigraph serve`, and there is a stub where a Qdrant server would
be; with REQUIRE_QDRANT_TESTS=1 the server at QDRANT_CONNECTION_STRING is used, and there is no stub to trouble.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pytest

from charactermemory.testing.servers import OxigraphServer, free_port
from tests.support.postgres import PostgresServer, programs
from tests.support.qdrant_stub import QdrantStub

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = 60.0
"""How long anything may take that a test waits for; on a machine with other work to do."""


def missing() -> str | None:
    """Say which Debian package is not there, None if all are."""
    if programs() is None:
        return "PostgreSQL is not installed (apt-get install postgresql)"
    if shutil.which("redis-server") is None:
        return "Redis is not installed (apt-get install redis-server)"
    return None


def eventually(what: str, condition: Callable[[], Any], seconds: float = DEADLINE_SECONDS) -> Any:
    """Return what `condition` returns once that is true; fail when the deadline passes."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what}: not within {seconds:.0f} s; last seen: {found!r}")
        time.sleep(0.05)
    return found


class RedisServer:
    """A broker that keeps nothing: what was queued when it is killed is lost."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, on the port that it had before, and wait until it answers.

        While it was away somebody's connection may have had that port; then it is tried again.
        """
        eventually("Redis answers", self._answers)

    def _answers(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            self._begin()
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _begin(self) -> None:
        options = ("--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(self._folder))
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["redis-server", "--port", str(self.port), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """Kill -9 it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


class Services:
    """The running servers, and the processes of the project that use them."""

    def __init__(
        self,
        folder: Path,
        postgres: PostgresServer,
        redis: RedisServer,
        graph: OxigraphServer,
        stub: QdrantStub | None,
    ) -> None:
        self.folder, self.redis, self.graph = folder, redis, graph
        self._stub = stub
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, tuple[str, ...]] = {}
        vectors = stub.url if stub else os.environ["QDRANT_CONNECTION_STRING"]
        self.environment: Mapping[str, str] = {
            **{name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ},
            "HOME": str(folder),
            "DJANGO_SETTINGS_MODULE": "tests.topology.settings",
            "DJANGO_SECRET_KEY": "of the topology tests",
            "DATA_DIR": str(folder / "data"),
            "POSTGRES_DB": postgres.settings["NAME"],
            "POSTGRES_USER": postgres.settings["USER"],
            "POSTGRES_HOST": postgres.settings["HOST"],
            "CELERY_BROKER_URL": f"redis://127.0.0.1:{redis.port}/0",
            "GRAPH_STORE_MODE": "service",
            "OXIGRAPH_URL": graph.url,
            "VECTOR_STORE_MODE": "service",
            "QDRANT_CONNECTION_STRING": vectors,
            "EMBEDDING_PROVIDER": "hashing",
            "MEMORY_REPAIR_LEASE_SECONDS": "2",
            "MEMORY_REPAIR_COOLDOWN_SECONDS": "1",
        }  # fmt: skip

    @property
    def stub(self) -> QdrantStub:
        """The stub of a Qdrant server; the test is skipped where a real one is used."""
        if self._stub is None:
            pytest.skip("a real Qdrant server cannot be told to fail")
        return self._stub

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        """Start a process of the project in a group of its own; what it prints goes into a file."""
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=ROOT,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes[name] = process
        self._commands[name] = command
        return process

    def restart_ended(self) -> None:
        """Start again what has ended by itself, as a supervisor does: Celery may, when its broker goes."""
        for name, process in list(self._processes.items()):
            if process.poll() is not None:
                self.start(name, *self._commands[name])

    def web(self, workers: int) -> str:
        """Start gunicorn and return its address once a worker answers."""
        port = free_port()
        bind = ("--bind", f"127.0.0.1:{port}", "--workers", str(workers))
        self.start("web", "gunicorn", "-c", "python:config.gunicorn", *bind, "config.wsgi")
        return f"http://127.0.0.1:{port}"

    def worker(self, name: str) -> None:
        """Start a Celery worker with two processes."""
        queues = ("-Q", "memory_repair,celery", "-c", "2", "-l", "INFO", "-n", f"{name}@%h")
        alone = ("--without-mingle", "--without-gossip")  # they only wait for other workers to answer
        self.start(name, "celery", "-A", "config", "worker", "-P", "prefork", *queues, *alone)

    def beat(self) -> None:
        """Start the beat."""
        self.start("beat", "celery", "-A", "config", "beat", "-s", str(self.folder / "beat-schedule"))

    def manage(self, *arguments: str) -> str:
        """Run a management command and return what it printed; it must succeed."""
        return self.run("django", *arguments)

    def differences(self, collection: str) -> int:
        """Return how many differences `memory_verify` finds now."""
        arguments = ("memory_verify", "--json", "--collection", collection)
        said = json.loads(self._ran("django", arguments, DEADLINE_SECONDS).stdout)
        return int(said["differences"])

    def run(self, module: str, *arguments: str, seconds: float | None = DEADLINE_SECONDS) -> str:
        """Run a Python module to its end and return what it printed; it must succeed."""
        done = self._ran(module, arguments, seconds)
        assert done.returncode == 0, f"{module} {arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def _ran(
        self, module: str, arguments: tuple[str, ...], seconds: float | None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            timeout=seconds,
        )

    def verified(self, collection: str) -> dict[str, Any]:
        """Return what `memory_verify` says about a collection in which nothing differs."""
        said = json.loads(self.manage("memory_verify", "--json", "--collection", collection))
        assert isinstance(said, dict)
        return said

    def kill(self, name: str) -> None:
        """Kill -9 a process and all its children."""
        process = self._processes.pop(name)
        with suppress(ProcessLookupError):  # it ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def kill_all(self) -> None:
        """Kill -9 whatever still runs."""
        for name in list(self._processes):
            self.kill(name)

    def logs(self) -> str:
        """Return the ends of all log files, for a failing test."""
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-4000:]}"
            for path in sorted(self.folder.glob("*.log"))
        )


@contextmanager
def running(folder: Path) -> Iterator[Services]:
    """Start all servers, and kill everything at the end."""
    binaries = programs()
    assert binaries is not None
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        starting = pool.submit(PostgresServer, binaries)
        redis = stack.enter_context(RedisServer(folder))
        graph = stack.enter_context(OxigraphServer(folder / "graph"))
        real = os.environ.get("REQUIRE_QDRANT_TESTS") == "1"
        stub = None if real else stack.enter_context(QdrantStub())
        postgres = starting.result()
        stack.callback(postgres.stop)
        services = Services(folder, postgres, redis, graph, stub)
        stack.callback(services.kill_all)
        yield services

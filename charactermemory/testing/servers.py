"""A real SPARQL endpoint for tests and trials: `oxigraph serve` of the PyPI package, on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType

READY_SECONDS = 120.0
"""How long a server may take to answer; a long log is read again first (consistency.md §1)."""


class OxigraphServer:
    """One `oxigraph serve` process; a context manager that starts it and, at the end, kills it.

    Args:
        location: its store folder; None keeps everything in memory (and serialises updates, so it is no
            evidence about races).
        port: a loopback port; None takes a free one, which stays the same over restarts.

    Raises on starting:
        FileNotFoundError: the package `oxigraph` is not installed.
        RuntimeError: the server ended, or did not answer in time; with what it printed.
    """

    def __init__(self, location: Path | None = None, *, port: int | None = None) -> None:
        self.location = location
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> OxigraphServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start the server and wait until it answers; nothing if it runs."""
        if self.process is not None and self.process.poll() is None:
            return
        command = [_executable(), "serve", "--bind", f"127.0.0.1:{self.port}"]
        if self.location is not None:
            command += ["--location", str(self.location)]
        self.process = subprocess.Popen(  # noqa: S603 - our own command, no shell
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait_until_ready(self.process)

    def kill(self) -> None:
        """Kill -9 the server, as a crash would; also a paused one."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        """Kill the server and start it again on the same port and folder."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Stop the process where it is (SIGSTOP): connections stay open, nothing answers."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._running().send_signal(signal.SIGCONT)

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            raise RuntimeError("the server is not running")
        return self.process

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError(f"oxigraph serve ended with status {process.returncode}")
            connection = HTTPConnection("127.0.0.1", self.port, timeout=1)
            try:
                connection.request("HEAD", "/")
                connection.getresponse()
                return
            except OSError:
                time.sleep(0.02)
            finally:
                connection.close()
        self.kill()
        raise RuntimeError(f"oxigraph serve did not answer within {READY_SECONDS:.0f} s")


def free_port() -> int:
    """Return a loopback port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _executable() -> str:
    """The server beside this interpreter, else the one on PATH."""
    beside = Path(sys.executable).parent / "oxigraph"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("oxigraph")
    if found is None:
        raise FileNotFoundError("oxigraph is not installed; run: pip install oxigraph")
    return found

"""The quickstart's server: this process, which has the embedded stores, on the loopback interface."""

from __future__ import annotations

import gc
import signal
from typing import Any

from django.apps import apps
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application
from django.urls import NoReverseMatch, reverse

HOST = "127.0.0.1"


class PortTaken(OSError):
    """Another program listens on the port, or this one may not."""


class Server:
    """Listens from the beginning, so that a port that is taken is known before anything is done."""

    def __init__(self, port: int) -> None:
        """Take the port; 0 takes any that is free.

        Raises:
            PortTaken: it cannot be had.
        """
        try:
            self._server: Any = ThreadedWSGIServer((HOST, port), WSGIRequestHandler)
        except OSError as error:
            raise PortTaken(error.errno, error.strerror) from error
        self._server.daemon_threads = True  # a connection that is kept open does not keep the process

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{HOST}:{self._server.server_port}"

    def serve(self) -> None:
        """Answer requests until Ctrl-C or SIGTERM."""
        application: Any = get_wsgi_application()
        if apps.is_installed("django.contrib.staticfiles"):
            application = StaticFilesHandler(application)  # the admin's looks, also without DEBUG
        self._server.set_app(application)
        gc.freeze()  # garbage collection passes over what is loaded for good, as under config/gunicorn.py
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            self._server.serve_forever()
        except KeyboardInterrupt:
            pass
        finally:
            signal.signal(signal.SIGTERM, before)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.server_close()


def address(name: str) -> str | None:
    """Return the path of a page by its name; None where the project has not mounted it."""
    try:
        return reverse(name)
    except NoReverseMatch:
        return None

"""gunicorn's settings of the reference project: ``gunicorn -c python:config.gunicorn config.wsgi``.

Workers come from ``WEB_CONCURRENCY``, more than one only with service stores; everything else by gunicorn's own
options or ``GUNICORN_CMD_ARGS``.
"""

from typing import Any

worker_class = "gthread"
threads = 4
# Nothing is opened before the fork (`memory_app.runtime`): loading the application once is safe, and saves memory.
preload_app = True
# One commit may wait 10 s for its turn, and 10 s for the graph; settling a dead writer takes up to 25 s.
timeout = 60
graceful_timeout = 30


def worker_exit(server: Any, worker: Any) -> None:
    """Close what the worker has open, so that its marks are written and its connections given back."""
    from memory_app.runtime import close_memories

    close_memories()

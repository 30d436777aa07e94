"""gunicorn's settings of the reference project: ``gunicorn -c python:config.gunicorn config.wsgi``.

Workers come from ``WEB_CONCURRENCY``, more than one only with service stores; everything else by gunicorn's own
options or ``GUNICORN_CMD_ARGS``.
"""

import gc
from typing import Any

worker_class = "gthread"
threads = 4
# Nothing is opened before the fork (`memory_app.runtime`): loading the application once is safe, and saves memory.
preload_app = True
# One commit may wait 10 s for its turn, and 10 s for the graph; settling a dead writer takes up to 25 s.
timeout = 60
graceful_timeout = 30


def pre_fork(server: Any, worker: Any) -> None:
    """Let garbage collection pass over what is loaded for good.

    Walking all of it in every full collection cost a recall some 5 ms, and it writes into pages that the workers
    share.
    """
    from django.urls import get_resolver

    get_resolver().url_patterns  # noqa: B018 - loads the views
    gc.collect()
    gc.freeze()


def worker_exit(server: Any, worker: Any) -> None:
    """Close what the worker has open, so that its marks are written and its connections given back."""
    from memory_app.runtime import close_memories

    close_memories()

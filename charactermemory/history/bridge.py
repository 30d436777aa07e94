"""Where synchronous and asynchronous code meet: algorithms and summarisers may be either."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")

caller_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("caller_loop", default=None)
"""In a worker thread that serves an async call: the loop that waits for it."""


def settle(value: T | Awaitable[T]) -> T:
    """Return `value`, or the result of awaiting it.

    An awaitable of an async call runs on that call's own loop, so that clients bound to the loop keep
    working; otherwise it runs on a loop of its own.
    """
    if not inspect.isawaitable(value):
        return value
    awaited: Awaitable[T] = value
    loop = caller_loop.get()
    if loop is not None and loop.is_running():
        return asyncio.run_coroutine_threadsafe(_await(awaited), loop).result()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_await(awaited))
    return _run_aside(awaited)


async def in_worker(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run blocking `function` in a worker thread; awaitables it settles run on the present loop."""
    loop = asyncio.get_running_loop()

    def serve() -> T:
        caller_loop.set(loop)  # in the worker's own copy of the context
        return function(*args, **kwargs)

    return await asyncio.to_thread(serve)


async def _await(value: Awaitable[T]) -> T:
    return await value


def _run_aside(value: Awaitable[T]) -> T:
    # A synchronous call made while a loop runs in this very thread cannot use that loop.
    outcome: list[Any] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(asyncio.run(_await(value)))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return cast(T, outcome[0])

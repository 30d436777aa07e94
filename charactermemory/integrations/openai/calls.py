"""Wrapping one method of a client: make the request ready, send it, store both sides."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable
from typing import Any, Protocol

from charactermemory.history import Message
from charactermemory.integrations.openai.recorders import Recorder
from charactermemory.integrations.openai.request import Given
from charactermemory.integrations.openai.saving import Call, CallOptions, History
from charactermemory.integrations.openai.streams import AsyncHistoryStream, HistoryStream

logger = logging.getLogger(__name__)

RAW_HEADER = "X-Stainless-Raw-Response"
"""The header by which the SDK's `with_raw_response` ("true") and `with_streaming_response` ("stream") ask."""

ORIGINAL = "_charactermemory_original"
"""Attribute of a wrapped method that holds the client's own."""


class Api(Protocol):
    """What a wrapped method needs to know of the API behind it."""

    def applies(self, kwargs: dict[str, Any]) -> bool:
        """Say whether the call carries a conversation."""

    def given(self, kwargs: dict[str, Any]) -> list[Given]:
        """Return the caller's messages."""

    def with_request(self, kwargs: dict[str, Any], request: list[Given]) -> dict[str, Any]:
        """Return the arguments to send."""

    def outputs(self, answer: Any) -> list[Message]:
        """Return the answer as messages."""


def original_of(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the client's own method, whether it is wrapped already or not."""
    found: Callable[..., Any] = getattr(method, "__dict__", {}).get(ORIGINAL, method)
    return found


def is_async(method: Callable[..., Any]) -> bool:
    """Say whether calling `method` has to be awaited; sees through the SDK's decorators."""
    return inspect.iscoroutinefunction(inspect.unwrap(method))


def wrapped_call(
    original: Callable[..., Any], api: Api, recorder: Callable[[], Recorder], history: History
) -> Callable[..., Any]:
    """Return `original` (create or parse) with history."""

    def ready(kwargs: dict[str, Any], options: CallOptions) -> Call:
        return history.begin(api.given(kwargs), options)

    def failed(call: Call, error: BaseException) -> None:
        # The SDK's parse raises on answers that were cut short, and hands the paid answer along.
        completion = getattr(error, "completion", None)
        if completion is not None:
            call.save(lambda: api.outputs(completion))
        else:
            call.failed()

    def answered(call: Call, answer: Any, kwargs: dict[str, Any]) -> None:
        raw = (kwargs.get("extra_headers") or {}).get(RAW_HEADER)
        if raw is None:
            call.save(lambda: api.outputs(answer))
        elif raw == "true" and not kwargs.get("stream"):
            call.save(lambda: api.outputs(answer.parse()))
        else:
            logger.warning(
                "a streamed raw response is passed on as it is; neither it nor its input is stored"
            )

    def streams(kwargs: dict[str, Any]) -> bool:
        return kwargs.get("stream") is True and RAW_HEADER not in (kwargs.get("extra_headers") or {})

    @functools.wraps(original)
    def call_sync(*args: Any, **kwargs: Any) -> Any:
        options = CallOptions.take(kwargs)
        if not api.applies(kwargs):
            return original(*args, **kwargs)
        call = ready(kwargs, options)
        try:
            answer = original(*args, **api.with_request(kwargs, call.prepared.request))
        except BaseException as error:
            failed(call, error)
            raise
        if streams(kwargs):
            return HistoryStream(answer, recorder(), call)
        answered(call, answer, kwargs)
        call.remember()
        return call.mark(answer)

    @functools.wraps(original)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        options = CallOptions.take(kwargs)
        if not api.applies(kwargs):
            return await original(*args, **kwargs)
        run = history.manager.storage.run
        await history.settled(options.thread_id)
        call = await run(ready, kwargs, options)
        try:
            answer = await original(*args, **api.with_request(kwargs, call.prepared.request))
        except BaseException as error:
            await run(failed, call, error)
            raise
        if streams(kwargs):
            return AsyncHistoryStream(answer, recorder(), call)
        await run(answered, call, answer, kwargs)
        await call.remember_async()
        return call.mark(answer)

    call = call_async if is_async(original) else call_sync
    setattr(call, ORIGINAL, original)
    return call


def wrapped_stream(original: Callable[..., Any], create: Callable[..., Any]) -> Callable[..., Any]:
    """Return the SDK's `stream` helper taking the thread's arguments too; it calls `create` itself."""

    @functools.wraps(original)
    def stream(*args: Any, **kwargs: Any) -> Any:
        options = {name: kwargs.pop(name) for name in CallOptions.NAMES if name in kwargs}
        function = getattr(original, "__func__", None)
        if not options or function is None:
            return original(*args, **kwargs)
        resource = _Resource(original.__self__, functools.partial(create, **options))  # type: ignore[attr-defined]
        return function(resource, *args, **kwargs)

    setattr(stream, ORIGINAL, original)
    return stream


class _Resource:
    """A resource of the client whose `create` has the thread's arguments filled in."""

    def __init__(self, inner: Any, create: Callable[..., Any]) -> None:
        self._inner = inner
        self.create = create

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

"""Streams that store what passed through them, however they end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

from charactermemory.integrations.openai.recorders import Recorder
from charactermemory.integrations.openai.saving import Call

logger = logging.getLogger(__name__)


class _Recording:
    """What both kinds of stream share: the events seen, and storing them exactly once."""

    def __init__(self, inner: Any, recorder: Recorder, call: Call) -> None:
        self._inner = inner
        self._recorder = recorder
        self._call = call
        self._done = False
        self._thread_id = call.prepared.thread_id

    def _feed(self, event: Any) -> None:
        try:
            self._recorder.feed(event)
        except Exception:
            logger.exception("a stream event could not be recorded; it is passed on")

    def _save(self, ended: bool) -> None:
        self._call.save(self._recorder.messages, partial=not (ended or self._recorder.finished))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class HistoryStream(_Recording):
    """A stream as the SDK returns it, stored when it ends, is closed, fails, or is left in mid-loop.

    Leaving a `for` loop closes it; to look at single events first, use `next(stream)`.
    """

    def __iter__(self) -> Iterator[Any]:
        try:
            while True:
                try:
                    event = next(self)
                except StopIteration:
                    return
                yield event
        finally:
            self.close()

    def __next__(self) -> Any:
        try:
            event = next(self._iterator)
        except StopIteration:
            self._finish(ended=True)
            raise
        except BaseException:
            self._finish(ended=False)
            raise
        self._feed(event)
        return event

    @property
    def _iterator(self) -> Iterator[Any]:
        inner = self._inner
        if not hasattr(inner, "__next__"):
            inner = self.__dict__.setdefault("_plain_iterator", iter(inner))
        return inner  # type: ignore[no-any-return]

    @property
    def response(self) -> Any:
        """The HTTP response; closing it stores what was read."""
        return _ClosingResponse(self._inner.response, self)

    def close(self) -> None:
        """Close the response and store what was read."""
        self._finish(ended=False)

    def _finish(self, ended: bool) -> None:
        if self._done:
            return
        self._done = True
        close = getattr(self._inner, "close", None)
        try:
            if close is not None:
                close()
        finally:
            self._save(ended)
            self._call.remember()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self.__dict__.get("_done", True):
            self.close()


class AsyncHistoryStream(_Recording):
    """The async kind of `HistoryStream`; cancelling the task that reads it stores what was read."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return _Reading(self)

    async def __anext__(self) -> Any:
        try:
            event = await anext(self._iterator)
        except StopAsyncIteration:
            await self._finish(ended=True)
            raise
        except BaseException:
            await asyncio.shield(self._finish(ended=False))
            raise
        self._feed(event)
        return event

    @property
    def _iterator(self) -> AsyncIterator[Any]:
        inner = self._inner
        if not hasattr(inner, "__anext__"):
            inner = self.__dict__.setdefault("_plain_iterator", aiter(inner))
        return inner  # type: ignore[no-any-return]

    @property
    def response(self) -> Any:
        """The HTTP response; closing it stores what was read."""
        return _AsyncClosingResponse(self._inner.response, self)

    async def close(self) -> None:
        """Close the response and store what was read."""
        await self._finish(ended=False)

    async def _finish(self, ended: bool) -> None:
        if self._done:
            return
        self._done = True
        close = getattr(self._inner, "close", None)
        try:
            if close is not None:
                await close()
        finally:
            await self._call.history.manager.storage.run(self._save, ended)
            await self._call.remember_async()

    def abandon(self) -> None:
        """Close and store without anybody waiting for it."""
        if self._done:
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._done = True
            self._save(ended=False)
            self._call.remember()
            return
        self._call.history.save_later(self._call.prepared.thread_id, self._finish(ended=False))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __del__(self) -> None:
        if not self.__dict__.get("_done", True):
            with contextlib.suppress(RuntimeError):
                self.abandon()


class _Reading:
    """One `async for` over a stream; when it is left, so is the stream."""

    def __init__(self, stream: AsyncHistoryStream) -> None:
        self._stream = stream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return await anext(self._stream)

    def __del__(self) -> None:
        self._stream.abandon()


class _ClosingResponse:
    """The SDK's stream helpers close the response they find on the stream, not the stream."""

    def __init__(self, inner: Any, stream: HistoryStream) -> None:
        self._inner = inner
        self._stream = stream

    def close(self) -> None:
        self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class _AsyncClosingResponse:
    """The async kind of `_ClosingResponse`."""

    def __init__(self, inner: Any, stream: AsyncHistoryStream) -> None:
        self._inner = inner
        self._stream = stream

    async def aclose(self) -> None:
        await self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

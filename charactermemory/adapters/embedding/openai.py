"""OpenAI's embeddings endpoint, or a server that speaks the same protocol (recall.md §11.14)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from charactermemory.adapters.embedding.checks import checked_vector, require_text, require_texts
from charactermemory.adapters.embedding.disclosure import disclosable, failure_text
from charactermemory.adapters.embedding.packages import require_package
from charactermemory.errors import EmbeddingError, OutOfDomain
from charactermemory.ports.embedding import Vector

if TYPE_CHECKING:
    from openai import OpenAI

MODELS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072}
"""Known models and their dimensions."""

DEFAULT_MODEL = "text-embedding-3-small"
DEFAULT_BASE_URL = "https://api.openai.com/v1"

CHUNK = 2048
"""Inputs the endpoint takes in one request."""

_TRANSPORT_KINDS = {
    "TimeoutException": "timeout",
    "ConnectError": "connect",
    "ProxyError": "connect",
    "WriteError": "request",
    "LocalProtocolError": "request",
    "UnsupportedProtocol": "request",
    "ReadError": "body",
    "RemoteProtocolError": "body",
    "DecodingError": "body",
}
"""Class names of the SDK's HTTP client, which has had two names itself, to transport kinds."""


class OpenAIEmbedding:
    """Embeds through OpenAI's SDK, which is imported and connected on first use. Thread-safe.

    The SDK repeats a request after transport errors and statuses 408, 409, 429 and 5xx; every other
    failure is one request. Its objects are not trusted: the body is read and checked here.
    """

    def __init__(
        self,
        api_key: str,
        model: str = DEFAULT_MODEL,
        base_url: str | None = None,
        max_retries: int = 2,
        timeout: float = 30.0,
    ) -> None:
        """Check the settings; nothing is sent.

        Args:
            api_key: the bearer key; appears in no repr, message or error.
            model: one of `MODELS`.
            base_url: another server with the same protocol; None or blank means OpenAI's.
            max_retries: repetitions after the first request, 0 or more.
            timeout: seconds for connecting, and for each wait for data.

        Raises:
            EmbeddingError: `missing_api_key` for a blank key.
            OutOfDomain: an unknown model, negative retries, or the SDK is not installed.
        """
        if not api_key.strip():
            raise EmbeddingError("missing_api_key", "set OPENAI_API_KEY or choose another EMBEDDING_PROVIDER")
        if model not in MODELS:
            raise OutOfDomain(keys=("EMBEDDING_MODEL",), expected=" or ".join(MODELS), actual=model)
        if max_retries < 0:
            raise OutOfDomain(
                keys=("EMBEDDING_MAX_RETRIES",), expected="a whole number from 0", actual=str(max_retries)
            )
        require_package("openai")
        self._key = SecretStr(api_key.strip())
        self._model = model
        self._base_url = (base_url or "").strip() or DEFAULT_BASE_URL
        self._max_retries = max_retries
        self._timeout = timeout
        self._lock = Lock()
        self._client: tuple[int, OpenAI] | None = None

    def __repr__(self) -> str:
        # The rest of the address may hold a password.
        return f"OpenAIEmbedding(model={self._model!r}, host={urlsplit(self._base_url).hostname!r})"

    def fingerprint(self) -> str:
        """Return `openai:<model>:<dimension>`; the server's address is no part of it."""
        return f"openai:{self._model}:{self.vector_size()}"

    def vector_size(self) -> int:
        """Return the model's dimension."""
        return MODELS[self._model]

    def generate_embedding(self, text: str) -> Vector:
        """Embed one text with one request.

        Raises:
            EmbeddingError: `blank_input` before anything is sent, or what went wrong.
        """
        require_text(text)
        return self._request([text])[0]

    def bulk_generate_embeddings(self, texts: Sequence[str]) -> list[Vector]:
        """Embed many texts, `CHUNK` per request, one request after the other.

        One failing chunk fails the call; indices in its error count within the chunk.

        Raises:
            EmbeddingError: `blank_input` naming the index before anything is sent, or what went wrong.
        """
        require_texts(texts)
        vectors: list[Vector] = []
        for start in range(0, len(texts), CHUNK):
            vectors.extend(self._request(list(texts[start : start + CHUNK])))
        return vectors

    def _request(self, chunk: list[str]) -> list[list[float]]:
        failure: EmbeddingError
        try:
            # Plain floats rather than the SDK's base64 default, which not every compatible server knows.
            response = self._connected().embeddings.with_raw_response.create(
                model=self._model, input=chunk, encoding_format="float"
            )
            body = response.content
        except Exception as error:
            failure = _failure(error, [*chunk, self._key.get_secret_value()])
        else:
            return _vectors(body, len(chunk), self.vector_size())
        # Raised outside the handler: the SDK's errors carry the request, with its texts and key.
        raise failure

    def _connected(self) -> OpenAI:
        with self._lock:
            # Connections do not survive a fork: two processes would read each other's answers.
            if self._client is None or self._client[0] != os.getpid():
                from openai import OpenAI

                client = OpenAI(
                    api_key=self._key.get_secret_value(),
                    base_url=self._base_url,
                    max_retries=self._max_retries,
                    timeout=self._timeout,
                )
                self._client = os.getpid(), client
            return self._client[1]


def _failure(error: Exception, private: list[str]) -> EmbeddingError:
    """Name the kind of what the SDK, or something below it, raised."""
    from openai import APIConnectionError, APIStatusError

    if isinstance(error, APIStatusError):
        body = disclosable(error.response.text, private)
        details = (("status", error.status_code), ("body", body))
        return EmbeddingError("http_status", "", details, _retry_after(error.response.headers))
    if isinstance(error, APIConnectionError):
        cause = error.__cause__ or error
        names = [base.__name__ for base in type(cause).__mro__]
        kind = next((_TRANSPORT_KINDS[name] for name in names if name in _TRANSPORT_KINDS), "other")
        return EmbeddingError("transport", failure_text(cause, private), (("transport_kind", kind),))
    return EmbeddingError("unrecognized", failure_text(error, private))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to be left alone: as a number, or as the moment when they end."""
    written = headers.get("retry-after", "")
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]*)?", written):
        return float(written)
    try:
        until = parsedate_to_datetime(written)
    except ValueError:
        return None
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _vectors(body: bytes, count: int, size: int) -> list[list[float]]:
    """Read a response body into vectors in input order; `data` may come in any order."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise EmbeddingError("invalid_json", type(error).__name__) from None
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list):
        raise EmbeddingError("missing_data", "the response has no list named data")
    if len(data) != count:
        raise EmbeddingError("count_mismatch", details=(("expected", count), ("actual", len(data))))
    placed: dict[int, list[float]] = {}
    for number, item in enumerate(data):
        index = _index(item, number, count)
        if index in placed:
            raise EmbeddingError("duplicate_index", details=(("index", index),))
        embedding = item.get("embedding")
        if not isinstance(embedding, list):
            raise EmbeddingError("missing_embedding", details=(("item", number),))
        placed[index] = checked_vector(embedding, index, size)
    return [placed[index] for index in range(count)]


def _index(item: Any, number: int, count: int) -> int:
    index = item.get("index") if isinstance(item, dict) else None
    if isinstance(index, bool) or not isinstance(index, int):
        raise EmbeddingError("missing_index", details=(("item", number),))
    if not 0 <= index < count:
        raise EmbeddingError("index_out_of_range", details=(("index", index), ("expected_count", count)))
    return index

"""What every provider owes before and after the call: no blank text in, well-formed vectors out.

An all-zero vector passes: the indexing step refuses it, because only that step can name the object
(memory-core §11.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from numbers import Real
from typing import Any

from charactermemory.errors import EmbeddingError


def require_text(text: str) -> None:
    """Refuse a blank text.

    Raises:
        EmbeddingError: `blank_input`, without an index.
    """
    if not text.strip():
        raise EmbeddingError("blank_input")


def require_texts(texts: Sequence[str]) -> None:
    """Refuse a batch with a blank text in it.

    Raises:
        EmbeddingError: `blank_input` with the index of the first blank text.
    """
    for index, text in enumerate(texts):
        if not text.strip():
            raise EmbeddingError("blank_input", details=(("index", index),))


def checked_size(size: object) -> int:
    """Return `size` if it can be the number of components of a vector.

    Raises:
        EmbeddingError: `invalid_vector_size`.
    """
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise EmbeddingError("invalid_vector_size", details=(("actual", size),))
    return size


def checked_batch(vectors: object, count: int, size: int) -> list[list[float]]:
    """Return a provider's batch as lists of floats, in the order given.

    Args:
        vectors: whatever the provider returned; arrays that know `tolist` are read too.
        count: how many texts were given.
        size: components per vector.

    Raises:
        EmbeddingError: `missing_data` (no sequence), `count_mismatch`, or as `checked_vector`.
    """
    rows = _as_list(vectors)
    if rows is None:
        raise EmbeddingError("missing_data", f"expected a list of vectors, got {type(vectors).__name__}")
    if len(rows) != count:
        raise EmbeddingError("count_mismatch", details=(("expected", count), ("actual", len(rows))))
    return [checked_vector(row, index, size) for index, row in enumerate(rows)]


def checked_vector(vector: object, index: int, size: int) -> list[float]:
    """Return one vector as a list of `size` finite floats; `index` is its place, for the error.

    Raises:
        EmbeddingError: `missing_embedding` (no sequence), `dimension_mismatch`, or `non_numeric_value`
            for a component that is no number, a bool, NaN, infinite or too large for a float.
    """
    values = _as_list(vector)
    if values is None:
        raise EmbeddingError("missing_embedding", details=(("item", index),))
    if len(values) != size:
        details = (("index", index), ("expected", size), ("actual", len(values)))
        raise EmbeddingError("dimension_mismatch", details=details)
    numbers = _plain(values)
    if numbers is not None:
        return numbers
    return [_number(value, index, component) for component, value in enumerate(values)]


def _plain(values: list[Any]) -> list[float] | None:
    """Check a vector of Python's own numbers without a loop over its components: batches have millions.

    A sum is finite only if all its parts are. None leaves the verdict, and the place, to `_number`.
    """
    if not set(map(type, values)) <= {float, int}:
        return None
    try:
        numbers = list(map(float, values))
    except OverflowError:
        return None
    return numbers if isfinite(sum(numbers)) else None


def _number(value: object, index: int, component: int) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _not_a_number(type(value).__name__, index, component)
    try:
        number = float(value)
    except OverflowError:
        raise _not_a_number("one too large", index, component) from None
    if not isfinite(number):
        raise _not_a_number(str(number), index, component)
    return number


def _not_a_number(found: str, index: int, component: int) -> EmbeddingError:
    details = (("index", index), ("component", component))
    return EmbeddingError("non_numeric_value", f"expected a finite number, got {found}", details)


def _as_list(values: object) -> list[Any] | None:
    tolist = getattr(values, "tolist", None)
    if callable(tolist):
        values = tolist()
    if isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray | memoryview):
        return list(values)
    return None

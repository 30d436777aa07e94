"""Reading a request: its body and query as the models of the core, strictly."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.request import Request

from memory_app.api.problems import BadRequest, ProblemItem, TooLarge

M = TypeVar("M", bound=BaseModel)

MEDIA_TYPE = "application/json"
MAX_ITEMS = 50
"""Problems reported of one request; a body can have millions."""
_ABSENT = object()


def read_body(request: Request, limit: int) -> bytes:
    """Return the raw body, at most `limit` bytes; Django's own limit is about forms and does not count here.

    Raises:
        UnsupportedMediaType: it is not declared as JSON in UTF-8, or is compressed.
        BadRequest: its length is not told; Django reads no such body.
        TooLarge: it is longer; then it is not read further.
    """
    if (coding := request.META.get("HTTP_CONTENT_ENCODING", "identity")) != "identity":
        raise UnsupportedMediaType(coding, f"Bodies are read as they are, not in Content-Encoding {coding}.")
    kind, _semicolon, parameters = (request.META.get("CONTENT_TYPE") or "").partition(";")
    charset = re.search(r'charset="?([^";\s]+)', parameters, re.IGNORECASE)
    if kind.strip().lower() != MEDIA_TYPE or (charset and charset[1].lower() not in ("utf-8", "utf8")):
        given = request.META.get("CONTENT_TYPE") or "none"
        raise UnsupportedMediaType(
            given, f"The body must be JSON, and said to be: Content-Type: {MEDIA_TYPE}. It came as {given}."
        )
    if "HTTP_TRANSFER_ENCODING" in request.META and "CONTENT_LENGTH" not in request.META:
        raise BadRequest("The body came in chunks; send it with a Content-Length.", "length_required")
    declared = request.META.get("CONTENT_LENGTH") or ""
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(int(declared), limit)
    raw = request._request
    data = raw.body if hasattr(raw, "_body") else raw.read(limit + 1)
    if len(data) > limit:
        raise _too_large(len(data), limit)
    return bytes(data)


def parse_body(model: type[M], data: bytes) -> M:
    """Read a body as `model`.

    Raises:
        BadRequest: it does not fit; with a JSON pointer for every problem.
    """
    try:
        return model.model_validate_json(data)
    except ValidationError as error:
        raise BadRequest(
            "The body does not fit the schema.", "invalid_body", _body_items(error, data)
        ) from None


def parse_query(model: type[M] | None, request: Request) -> M | None:
    """Read the query string as `model`; without a model there may be none.

    Raises:
        BadRequest: a parameter is unknown, given twice, or no legal value.
    """
    given = request.query_params
    known = model.model_fields if model else {}
    items = [
        ProblemItem(parameter=name[:100], detail="this parameter is unknown here")
        for name in given
        if name not in known
    ]
    items += [
        ProblemItem(parameter=name, detail="this parameter is given more than once")
        for name in known
        if len(given.getlist(name)) > 1
    ]
    if not items and model is not None:
        try:
            return model.model_validate_json(json.dumps(given.dict()))
        except ValidationError as error:
            items = [
                ProblemItem(parameter=str(item["loc"][0]) if item["loc"] else None, detail=_words(item))
                for item in error.errors(include_url=False, include_input=False)
            ]
    if items:
        raise BadRequest("The query does not fit the schema.", "invalid_query", items[:MAX_ITEMS])
    return None


def _read_by(pattern: str, make: Callable[[str], Any], expected: str) -> BeforeValidator:
    """Read a query value by one spelling only; the rest of the field's type judges the value."""

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        if not re.fullmatch(pattern, value):
            raise ValueError(f"expected {expected}")
        return make(value)

    return BeforeValidator(read)


Flag = Annotated[bool, _read_by("true|false", lambda value: value == "true", "true or false")]
"""A yes or no in a query."""
WHOLE = _read_by("-?[0-9]{1,9}", int, "a whole number")
"""Reads a whole number in a query; stands last, since what stands before it judges what it read."""


def _too_large(size: int, limit: int) -> TooLarge:
    return TooLarge(
        f"The body has at least {size} bytes; this server takes {limit}. Split it.", "body_too_large"
    )


def _body_items(error: ValidationError, data: bytes) -> list[ProblemItem]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = _ABSENT
    found = error.errors(include_url=False, include_input=False)[:MAX_ITEMS]
    return [ProblemItem(pointer=_pointer(item["loc"], document), detail=_words(item)) for item in found]


def _pointer(location: tuple[int | str, ...], document: Any) -> str:
    """Write where in the document a problem is.

    Pydantic's locations also name the branch of a union, which is no place in the document: those steps are
    left out. The last step of a missing field is kept, although it is not there.
    """
    steps: list[str] = []
    here = document
    for number, step in enumerate(location):
        below = _ABSENT
        if isinstance(here, dict) and isinstance(step, str):
            below = here.get(step, _ABSENT)
        elif isinstance(here, list) and isinstance(step, int) and step < len(here):
            below = here[step]
        if below is not _ABSENT or number == len(location) - 1:
            steps.append(str(step).replace("~", "~0").replace("/", "~1"))
            here = below
    return "".join("/" + step for step in steps)


_SAID: dict[str, str] = {
    "extra_forbidden": "this field is unknown here",
    "missing": "this field is required",
    "timezone_aware": "expected a time with an offset, such as 2026-01-31T18:30:00+01:00",
}
"""What pydantic says in terms of Python, said in terms of JSON."""


def _words(item: Any) -> str:
    return _SAID.get(item["type"]) or str(item["msg"]).removeprefix("Value error, ")

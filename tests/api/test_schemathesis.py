"""Requests made up from the description, sound and unsound: no operation answers what it does not describe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.contrib.auth import get_user_model
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from schemathesis import GenerationMode

from memory_app import urls
from tests.api.conftest import Api, permit

CASES = 6
"""Sound requests to each operation in a default run, and as many unsound ones."""
MANY = 200
"""The same with `-m slow`."""

CONFIG = schemathesis.Config.from_dict(
    {
        "generation": {"mode": "all", "allow-x00": False},
        "analysis": {"constants": {"enabled": False}},  # values from the source would change with it
        "checks": {
            # What fits the schema and cannot be done is 422; too large a page of candidates is 413.
            "positive_data_acceptance": {
                "expected-statuses": ["2xx", "401", "403", "404", "409", "413", "422", "5xx"]
            },
        },
    }
)
ARCHIVE = "POST /collections/{collection}/archive"


def labels() -> list[str]:
    """Every operation that the addresses serve, as Schemathesis calls it."""
    found = []
    for pattern in urls.urlpatterns:
        view = getattr(pattern.callback, "cls", None)
        path = "/" + str(pattern.pattern)
        for kind in ("str:", "path:"):
            path = path.replace(f"<{kind}", "{")
        for method in ("get", "post", "put"):
            if hasattr(getattr(view, method, None), "operation"):
                found.append(f"{method.upper()} {path.replace('>', '}')}")
    return found


@pytest.fixture
def described(api: Api, settings: Any) -> Iterator[Any]:
    """The description as the server gives it; one who may everything, and no limit of requests."""
    permit(get_user_model().objects.get(), "add_memorycollection")
    rates = dict.fromkeys(("memory_read", "memory_write", "memory_retrieve", "memory_operate"))
    settings.CHARACTER_MEMORY = {**settings.CHARACTER_MEMORY, "API": {"THROTTLE_RATES": rates}}
    api.remember("Ada planted tomatoes.")
    # The server shares the test's transaction: no request may close its connection.
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application(), config=CONFIG)
    schema.location = None  # else the description's own address is left out
    yield schema
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def by_label(schema: Any) -> dict[str, Any]:
    return {operation.label: operation for operation in (item.ok() for item in schema.get_all_operations())}


def test_every_operation_is_tried(described: Any) -> None:
    assert sorted(by_label(described)) == sorted(labels())


# Schemathesis' own pytest plugin cannot name its tests under this pytest, so its cases are drawn here.
@pytest.mark.parametrize("label", labels())
def test_an_operation_answers_as_described(described: Any, api: Api, label: str) -> None:
    play(by_label(described)[label], api, CASES)


@pytest.mark.slow
@pytest.mark.parametrize("label", labels())
def test_an_operation_answers_as_described_at_length(described: Any, api: Api, label: str) -> None:
    play(by_label(described)[label], api, MANY)


def play(operation: Any, api: Api, number: int) -> None:
    """Make requests to one operation, the same in every run, and judge every answer by the description."""
    make_requests(operation, api, number, GenerationMode.POSITIVE)
    parts = (operation.path_parameters, operation.query, operation.headers, operation.body)
    if {parameter.name for part in parts for parameter in part} - {"collection", "Authorization"}:
        make_requests(operation, api, number, GenerationMode.NEGATIVE)


def make_requests(operation: Any, api: Api, number: int, mode: GenerationMode) -> None:
    @hypothesis_settings(
        max_examples=number,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def answers(case: Any) -> None:
        # A made-up name would end every request at the door.
        if "collection" in case.path_parameters and operation.label != ARCHIVE:
            case.path_parameters["collection"] = "ada"
        if mode is GenerationMode.POSITIVE:
            case.query.pop("cursor", None)  # opaque: only the server makes one
            case.body = whole(case.body)
        case.headers.pop("Authorization", None)  # a made-up key is refused before anything is read
        case.call_and_validate(headers={"Authorization": f"Bearer {api.token}"})

    answers()


def whole(value: Any) -> Any:
    """Write whole numbers without a fraction: JSON Schema calls 1.0 an integer, the API does not."""
    if isinstance(value, dict):
        return {name: whole(item) for name, item in value.items()}
    if isinstance(value, list):
        return [whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value

"""Requests made up from the description, sound and unsound: no operation answers what it does not describe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from django.contrib.auth import get_user_model
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from django.utils import timezone
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from schemathesis import GenerationMode

from memory_app import urls
from memory_app.models import RepairMarker
from tests.api.conftest import Api, permit

pytestmark = pytest.mark.long

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


def labels() -> list[str]:
    """Every operation that the addresses serve, as Schemathesis calls it."""
    found = []
    for pattern in urls.urlpatterns:
        view = getattr(pattern.callback, "cls", None)
        path = "/" + str(pattern.pattern)
        for kind in ("str:", "path:"):
            path = path.replace(f"<{kind}", "{")
        for method in ("get", "post", "put", "patch", "delete"):
            if hasattr(getattr(view, method, None), "operation"):
                found.append(f"{method.upper()} {path.replace('>', '}')}")
    return found


@dataclass
class Described:
    """The operations by label, a key that may everything, and a value for every part of an address."""

    operations: dict[str, Any]
    token: str
    known: dict[str, Any]


@pytest.fixture
def described(api: Api, settings: Any) -> Iterator[Described]:
    """The description as the server gives it, a memory with something in it, no limit of requests."""
    permit(get_user_model().objects.get(), "add_memorycollection")
    rates = dict.fromkeys(("memory_read", "memory_write", "memory_retrieve", "memory_operate"))
    settings.CHARACTER_MEMORY = {
        **settings.CHARACTER_MEMORY,
        "API": {"THROTTLE_RATES": rates},
        "DISPATCH": "none",  # another thread has no part in the test's transaction
    }
    episode = api.remember("Ada planted tomatoes.")["episode"]
    assert api.put("external-keys/k", episode).status == 201
    assert api.post("threads", {"id": "t"}).status == 201
    assert api.post("threads/t/messages", {"role": "user", "content": "Hello."}).status == 201
    repair = RepairMarker.objects.create(
        collection=api.collection, store="vector", object_type="episode", object_id=episode["id"],
        origin="commit", cause_code="transport", available_at=timezone.now(), due_since=timezone.now(),
    )  # fmt: skip
    known = {"collection": api.collection, "key": "k", "thread": "t", "repair": repair.pk}
    known |= {"object_type": "episode", "object_id": episode["id"]}
    # The server shares the test's transaction: no request may close its connection.
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application(), config=CONFIG)
    schema.location = None  # else the description's own address is left out
    operations = {item.ok().label: item.ok() for item in schema.get_all_operations()}
    yield Described(operations, str(api.token), known)
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def test_every_operation_is_tried(described: Described) -> None:
    assert sorted(described.operations) == sorted(labels())


# Schemathesis' own pytest plugin cannot name its tests under this pytest, so its cases are drawn here.
@pytest.mark.parametrize("label", labels())
def test_an_operation_answers_as_described(described: Described, label: str) -> None:
    play(described, label, CASES)


@pytest.mark.slow
@pytest.mark.parametrize("label", labels())
def test_an_operation_answers_as_described_at_length(described: Described, label: str) -> None:
    play(described, label, MANY)


def play(described: Described, label: str, number: int) -> None:
    """Make requests to one operation, the same in every run, and judge every answer by the description."""
    operation = described.operations[label]
    make_requests(described, operation, number, GenerationMode.POSITIVE)
    parts = (operation.path_parameters, operation.query, operation.headers, operation.body)
    if {parameter.name for part in parts for parameter in part} - {"collection", "Authorization"}:
        make_requests(described, operation, number, GenerationMode.NEGATIVE)


def make_requests(described: Described, operation: Any, number: int, mode: GenerationMode) -> None:
    # A made-up key or name would end every request at the door.
    key = {"Authorization": f"Bearer {described.token}"}
    known = {"collection": described.known["collection"]}
    if mode is GenerationMode.POSITIVE:
        known = described.known
    fixed = {item.name: known[item.name] for item in operation.path_parameters if item.name in known}

    @hypothesis_settings(
        max_examples=number,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode, path_parameters=fixed or None, headers=key))
    def answers(case: Any) -> None:
        if mode is GenerationMode.POSITIVE:
            case.query.pop("cursor", None)  # opaque: only the server makes one
            case.query, case.body = sayable(case.query), sayable(case.body)
        case.call_and_validate(headers=key)

    answers()


def sayable(value: Any) -> Any:
    """Take what the schema cannot say out of a sound request.

    JSON Schema calls 1.0 an integer, the API does not; and on the first and last day of the calendar there are
    times of which UTC has no instant.
    """
    if isinstance(value, dict):
        return {name: sayable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [sayable(item) for item in value]
    if isinstance(value, str):
        return re.sub("^(0001-01-01|9999-12-31)(?=[Tt])", "2026-01-01", value)
    return int(value) if isinstance(value, float) and value.is_integer() else value

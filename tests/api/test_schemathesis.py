"""Requests made up from the description, sound and unsound: no operation answers what it does not describe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, settings

from tests.api.conftest import Api, permit

# By hand: schemathesis' own pytest plugin cannot name its tests on a worker process yet.
pytestmark = pytest.mark.slow

PER_OPERATION = 8

CONFIG = schemathesis.Config.from_dict(
    {
        "generation": {"mode": "all", "allow-x00": False, "deterministic": True},
        "checks": {
            # What fits the schema and cannot be done is 422; too large a page of candidates is 413.
            "positive_data_acceptance": {
                "expected-statuses": ["2xx", "401", "403", "404", "409", "413", "422", "5xx"]
            },
        },
        "phases": {"stateful": {"enabled": False}},
    }
)


@pytest.fixture
def described(api: Api, settings: Any) -> Iterator[Any]:
    """The description as the server gives it, and a key that may everything."""
    from django.contrib.auth import get_user_model

    permit(get_user_model().objects.get(), "add_memorycollection")
    rates = dict.fromkeys(("memory_read", "memory_write", "memory_retrieve", "memory_operate"))
    settings.CHARACTER_MEMORY = {**settings.CHARACTER_MEMORY, "API": {"THROTTLE_RATES": rates}}
    api.remember("Ada planted tomatoes.")
    # The server shares the test's transaction: no request may close its connection.
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", get_wsgi_application(), config=CONFIG)
    yield schema
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(
    max_examples=PER_OPERATION, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
def test_an_operation_answers_as_described(case: Any, api: Api) -> None:
    if (
        "collection" in case.path_parameters
        and case.operation.label != "POST /collections/{collection}/archive"
    ):
        case.path_parameters["collection"] = "ada"
    case.call_and_validate(headers={"Authorization": f"Bearer {api.token}"})

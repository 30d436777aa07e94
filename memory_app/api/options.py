"""What a host may set for the API: the `API` group of `settings.CHARACTER_MEMORY`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from django.apps import apps
from django.utils.module_loading import import_string

from charactermemory.remember.plan import PLAN_BYTES
from memory_app.conf import given_mapping

GROUP = "API"

_RATES = {
    "memory_read": "1200/min",
    "memory_retrieve": "600/min",
    "memory_write": "600/min",
    "memory_operate": "120/min",
}


def _authentication() -> tuple[str, ...]:
    """Keys first: their challenge makes an unknown caller a 401; DRF tokens where the host has them."""
    token = ("rest_framework.authentication.TokenAuthentication",)
    return (
        "memory_app.api.authentication.ApiKeyAuthentication",
        *(token if apps.is_installed("rest_framework.authtoken") else ()),
        "rest_framework.authentication.SessionAuthentication",
    )


@dataclass(frozen=True)
class ApiOptions:
    """The options of the API with their defaults.

    Attributes:
        authentication_classes: import strings of DRF authentication classes, in order.
        access_policy_class: import string of an `AccessPolicy`.
        throttle_rates: requests a principal may make, by scope, as DRF writes rates; None = no limit.
        max_body_bytes: greatest size of a request body; a plan needs the default.
        idempotency_hours: how long the outcome of a request with an `Idempotency-Key` is kept.
        window_algorithms: window algorithms that a preview may ask for by name, as import strings of a class or
            function that returns one.
    """

    authentication_classes: tuple[str, ...] = field(default_factory=_authentication)
    access_policy_class: str = "memory_app.api.policy.AccessPolicy"
    throttle_rates: Mapping[str, str | None] = field(default_factory=lambda: dict(_RATES))
    max_body_bytes: int = PLAN_BYTES
    idempotency_hours: int = 24
    window_algorithms: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def current(cls) -> ApiOptions:
        """Read the settings as they are now.

        Raises:
            TypeError: a key is unknown.
        """
        given: Any = given_mapping().get(GROUP) or {}
        known = {item.name.upper() for item in fields(cls)}
        unknown = sorted(given.keys() - known)
        if unknown:
            raise TypeError(f"CHARACTER_MEMORY[{GROUP!r}] has no key {', '.join(unknown)}")
        values = {name.lower(): value for name, value in given.items()}
        if "throttle_rates" in values:
            values["throttle_rates"] = {**_RATES, **values["throttle_rates"]}
        return cls(**values)

    def load(self, path: str) -> Any:
        """Import what an option names."""
        return import_string(path)

"""What a host may set for the API: the `API` group of `settings.CHARACTER_MEMORY`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
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

_RATE = re.compile(r"[1-9]\d*/[smhd][a-z]*")
"""A rate as DRF reads it: how many, and a word that begins like second, minute, hour or day."""


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

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield each key whose value is not allowed, with what is wrong with it."""
        classes: object = self.authentication_classes
        if not isinstance(classes, (list, tuple)):
            yield (
                "AUTHENTICATION_CLASSES",
                f"expected a list of import strings, got {classes!r}",
            )
        algorithms: object = self.window_algorithms
        if not isinstance(algorithms, Mapping):
            yield "WINDOW_ALGORITHMS", f"expected names and import strings, got {algorithms!r}"
        for key in ("max_body_bytes", "idempotency_hours"):
            value = getattr(self, key)
            if type(value) is not int or value < 1:
                yield key.upper(), f"expected a whole number from 1, got {value!r}"
        for scope, rate in self.throttle_rates.items():
            if scope not in _RATES:
                yield "THROTTLE_RATES", f"expected one of {', '.join(_RATES)}, got {scope!r}"
            elif rate is not None and not (isinstance(rate, str) and _RATE.fullmatch(rate)):
                yield "THROTTLE_RATES", f"{scope}: expected a rate such as 60/min or None, got {rate!r}"

    def load(self, path: str) -> Any:
        """Import what an option names."""
        return import_string(path)

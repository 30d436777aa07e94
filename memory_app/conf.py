"""The app's settings: one dict, `settings.CHARACTER_MEMORY`, read once into one immutable object.

Its keys are those of the core (`charactermemory.Settings`) and those below. Nothing reads it at import.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

from django.conf import settings
from django.utils.crypto import salted_hmac
from django.utils.module_loading import import_string
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from charactermemory.config import Settings
from charactermemory.config.failures import unknown_key, wrong_value
from charactermemory.errors import ConfigParseError
from charactermemory.ports.embedding import EmbeddingProvider

NAME = "CHARACTER_MEMORY"
"""Of the setting."""
GROUPS = frozenset({"API"})
"""Keys whose value is a mapping of its own, read by the part of the app that it is about."""

Dispatch = Literal["thread", "celery", "inline", "none"]
_Count = Annotated[int, Field(ge=1)]
_CORE_KEYS = frozenset(name.upper() for name in Settings.model_fields)


class AppSettings(BaseModel):
    """Every setting of the app. A field is the lower-case name of its key; `core` holds the core's."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    core: Settings
    statistics: Literal["orm", "core"] = Field(
        "orm",
        description="Where the retrieval statistics are: in the host's database, or where the core keeps them "
        "(RETRIEVAL_STATS_STORE_MODE, which is ignored otherwise).",
    )
    dispatch: Dispatch = Field(
        description="Who runs the repairs: a thread of the process, Celery, the caller at once, or nobody but "
        "`manage.py memory_repair`. Not given: thread with embedded stores, celery with servers.",
    )
    repair_max_attempts: _Count = Field(
        8, description="Attempts before a repair is given up; kept with each repair from its beginning."
    )
    repair_batch: _Count = Field(50, description="Repairs claimed at a time.")
    repair_lease_seconds: _Count = Field(
        360, description="How long a claim holds; longer than a task may run (its hard limit is 300 s)."
    )
    repair_cooldown_seconds: _Count = Field(
        30, description="How long a derived store that is out is left alone before one repair tries it again."
    )
    repair_keep_days: _Count = Field(7, description="How long settled repairs are kept.")
    retrieval_events_sample_rate: Annotated[float, Field(ge=0, le=1)] = Field(
        1.0, description="Share of retrieves that leave an event: counts, times and ids, never text."
    )
    retrieval_events_keep_days: _Count = Field(30, description="How long those events are kept.")
    embedding_provider_factory: str | None = Field(
        None,
        description="Import string of a function without arguments that returns the embedding provider; "
        "takes the place of EMBEDDING_PROVIDER and its settings. It is called for each memory that is opened: "
        "let it return the same object where that loads a model.",
    )
    api: Mapping[str, Any] = Field(
        {}, repr=False, description="Options of the HTTP API; a mapping with keys of its own (docs/api.md)."
    )

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> Self:
        """Read settings whose keys are upper-case names; values are texts, or already of the field's type.

        A `FENCE_SECRET` that is not given is derived from Django's `SECRET_KEY`.

        Raises:
            ConfigParseError: not a mapping, or a value that cannot be read as its type.
            OutOfDomain: an unknown key (names the nearest known one), or a value that is not allowed.
            MissingForMode: a store mode lacks what it needs.
        """
        if not isinstance(mapping, Mapping):
            raise ConfigParseError(detail=f"expected a mapping of settings, got {type(mapping).__name__}")
        known = known_keys()
        for key in mapping:
            if failure := unknown_key(key, known):
                raise failure
        of_core = {key: value for key, value in mapping.items() if key in _CORE_KEYS}
        if _blank(of_core.get("FENCE_SECRET")):
            of_core["FENCE_SECRET"] = _fence_secret()
        core = Settings.from_mapping(of_core)
        given = {key.lower(): value for key, value in mapping.items() if key not in _CORE_KEYS}
        given = {name: value for name, value in given.items() if not _blank(value)}
        for name, value in given.items():
            if isinstance(value, bool):  # pydantic would read it as the number 0 or 1
                raise ConfigParseError(detail=f"{name.upper()}: no setting is a yes or no, got {value}")
        given.setdefault("dispatch", "thread" if _embedded(core) else "celery")
        try:
            return cls.model_validate({"core": core, **given})
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
        # Outside the handler: an error raised inside would carry pydantic's, and with it the values.
        raise wrong_value(problem, secret=GROUPS)

    @property
    def embedded(self) -> bool:
        """Whether a store lies in this process, so that no other process can open it."""
        return _embedded(self.core)

    def embedding_provider(self) -> EmbeddingProvider | None:
        """Return a new provider of the host's, None where the core makes one.

        Raises:
            ImportError: EMBEDDING_PROVIDER_FACTORY names nothing.
        """
        if self.embedding_provider_factory is None:
            return None
        factory: Callable[[], EmbeddingProvider] = import_string(self.embedding_provider_factory)
        return factory()


def known_keys() -> frozenset[str]:
    """Return every key that the setting may have."""
    return _CORE_KEYS | {name.upper() for name in AppSettings.model_fields if name != "core"}


def given_mapping() -> Mapping[str, object]:
    """Return the setting as the host wrote it, empty where it did not."""
    given: Mapping[str, object] = getattr(settings, NAME, {})
    return given


def app_settings() -> AppSettings:
    """Return the settings, read on first use and when the dict is no longer what it was then.

    Raises:
        ConfigParseError, ConfigValidationError: see `AppSettings.from_mapping`; `manage.py check` tells all.
    """
    global _read
    given = given_mapping()
    with _lock:
        if _read is None or _read[0] != given:
            settings_read = AppSettings.from_mapping(given)
            _read = dict(given), settings_read
        return _read[1]


def reload() -> None:
    """Forget what was read; the next use reads the settings as they are then."""
    global _read
    with _lock:
        _read = None


_lock = threading.Lock()
_read: tuple[Mapping[str, object], AppSettings] | None = None
"""A copy of the dict, for a change inside it has no signal, and what it says."""


def _after_fork_in_child() -> None:
    """Another thread of the parent, which is not here to give the lock back, may have held it."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def _embedded(core: Settings) -> bool:
    return core.graph_store_mode != "service" or core.vector_store_mode != "service"


def _fence_secret() -> str:
    """Return a secret that tells nothing of `SECRET_KEY` and stays the same for as long as that does."""
    return salted_hmac("character-memory.fence", "", algorithm="sha256").hexdigest()


def _blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())

"""The app's settings: one dict, typed, with the nearest key named when one is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from charactermemory.config.failures import scheme_of
from charactermemory.errors import ConfigParseError, MissingForMode, OutOfDomain
from memory_app import conf
from memory_app.conf import AppSettings, app_settings

EMBEDDED = {"OXIGRAPH_PATH": "/stores/graph", "VECTOR_STORE_PATH": "/stores/vectors"}
SERVICE = {
    "GRAPH_STORE_MODE": "service",
    "OXIGRAPH_URL": "http://graph:7878",
    "VECTOR_STORE_MODE": "service",
    "QDRANT_CONNECTION_STRING": "http://vectors:6333",
}


def provider() -> object:
    return "made"


def test_the_defaults_follow_the_store_modes() -> None:
    embedded, service = AppSettings.from_mapping(EMBEDDED), AppSettings.from_mapping(SERVICE)
    assert (embedded.embedded, embedded.dispatch) == (True, "thread")
    assert (service.embedded, service.dispatch) == (False, "celery")
    assert AppSettings.from_mapping(SERVICE | {"VECTOR_STORE_MODE": "embedded"} | EMBEDDED).embedded
    assert (embedded.statistics, embedded.repair_max_attempts, embedded.retrieval_events_sample_rate) == (
        "orm",
        8,
        1.0,
    )
    assert embedded.core.oxigraph_path is not None


def test_values_are_texts_or_of_their_type_and_blank_ones_are_not_given() -> None:
    given = {
        "REPAIR_BATCH": "7",
        "DISPATCH": "none",
        "STATISTICS": " ",
        "RETRIEVAL_EVENTS_SAMPLE_RATE": "0.25",
    }
    read = AppSettings.from_mapping(EMBEDDED | given)
    assert (read.repair_batch, read.dispatch, read.statistics) == (7, "none", "orm")
    assert read.retrieval_events_sample_rate == 0.25


@pytest.mark.parametrize(
    ("key", "nearest"), [("REPAIR_MAX_ATTEMPT", "REPAIR_MAX_ATTEMPTS"), ("OXIGRAPH_PAHT", "OXIGRAPH_PATH")]
)
def test_an_unknown_key_is_refused_with_the_nearest_of_both_kinds(key: str, nearest: str) -> None:
    with pytest.raises(OutOfDomain, match=f"{key}.*{nearest}"):
        AppSettings.from_mapping(EMBEDDED | {key: "5"})


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("DISPATCH", "cron", OutOfDomain),
        ("REPAIR_BATCH", 0, OutOfDomain),
        ("REPAIR_BATCH", "many", ConfigParseError),
        ("REPAIR_BATCH", True, ConfigParseError),
        ("RETRIEVAL_EVENTS_SAMPLE_RATE", 1.5, OutOfDomain),
        ("API", "open", ConfigParseError),
    ],
)
def test_a_wrong_value_names_its_key(key: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=key):
        AppSettings.from_mapping(EMBEDDED | {key: value})


def test_what_is_no_mapping_or_lacks_what_its_mode_needs_is_refused() -> None:
    with pytest.raises(ConfigParseError, match="mapping"):
        AppSettings.from_mapping(["OXIGRAPH_PATH"])  # type: ignore[arg-type]
    with pytest.raises(MissingForMode, match="QDRANT_CONNECTION_STRING"):
        AppSettings.from_mapping({**SERVICE, "QDRANT_CONNECTION_STRING": ""})


def test_it_cannot_be_changed_and_shows_no_secret() -> None:
    read = AppSettings.from_mapping(
        EMBEDDED | {"FENCE_SECRET": "hush-1", "OPENAI_API_KEY": "hush-2", "API": {"key": "hush-3"}}
    )
    assert "hush" not in repr(read) + str(read)
    with pytest.raises(ValidationError):
        read.repair_batch = 9  # type: ignore[misc]
    with pytest.raises(ConfigParseError) as failure:
        AppSettings.from_mapping(EMBEDDED | {"API": "hush-4"})
    assert "hush" not in str(failure.value)
    assert scheme_of("http://user:hush@graph") == "http://..."


def test_the_fence_secret_follows_the_secret_key_unless_it_is_given(settings: Any) -> None:
    def secret(**given: str) -> str:
        read = AppSettings.from_mapping(EMBEDDED | given).core.fence_secret
        assert read is not None
        return read.get_secret_value()

    settings.SECRET_KEY = "first-key"
    first, again = secret(), secret(FENCE_SECRET=" ")
    settings.SECRET_KEY = "other-key"
    assert first == again != secret()
    assert "first-key" not in first
    assert secret(FENCE_SECRET="mine") == "mine"


def test_changed_settings_are_read_anew(settings: Any) -> None:
    settings.CHARACTER_MEMORY = EMBEDDED
    assert app_settings().repair_batch == 50
    assert app_settings() is app_settings()
    settings.CHARACTER_MEMORY = EMBEDDED | {"REPAIR_BATCH": 3}
    assert app_settings().repair_batch == 3
    settings.CHARACTER_MEMORY["REPAIR_BATCH"] = 4
    assert app_settings().repair_batch == 4


def test_the_providers_factory_is_imported_when_a_provider_is_needed() -> None:
    assert AppSettings.from_mapping(EMBEDDED).embedding_provider() is None
    named = {"EMBEDDING_PROVIDER_FACTORY": "tests.app.test_conf.provider"}
    assert AppSettings.from_mapping(EMBEDDED | named).embedding_provider() == "made"
    missing = AppSettings.from_mapping(
        EMBEDDED | {"EMBEDDING_PROVIDER_FACTORY": "tests.app.nowhere.provider"}
    )
    with pytest.raises(ImportError):
        missing.embedding_provider()


def test_without_the_setting_the_core_says_what_it_needs(settings: Any) -> None:
    del settings.CHARACTER_MEMORY
    conf.reload()
    with pytest.raises(MissingForMode, match="OXIGRAPH_PATH"):
        app_settings()

"""Settings are read from a mapping, whole or not at all, and show no secret."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from charactermemory.config import Settings
from charactermemory.errors import (
    CharacterMemoryError,
    ConfigParseError,
    ConfigValidationError,
    MissingForMode,
    OutOfDomain,
)

EMBEDDED = {"OXIGRAPH_PATH": "data/graph", "VECTOR_STORE_PATH": "data/vectors"}
SERVICE = {
    "GRAPH_STORE_MODE": "service",
    "OXIGRAPH_URL": "http://127.0.0.1:7878",
    "VECTOR_STORE_MODE": "service",
    "QDRANT_CONNECTION_STRING": "http://127.0.0.1:6334",
    "WRITER_LOCK_PATH": "data/locks",
}
FANOUT_PAIRS = ("ABOUT_ENTITY_DERIVED_MEMORY", "PARTICIPANT_ENTITY_EPISODE", "PART_OF_THREAD_DERIVED_MEMORY")


def read(base: dict[str, str], **changes: object) -> Settings:
    return Settings.from_mapping({**base, **changes})


def refusal(base: dict[str, str], **changes: object) -> ConfigValidationError:
    with pytest.raises(ConfigValidationError) as caught:
        read(base, **changes)
    return caught.value


def out_of_domain(keys: str | tuple[str, ...], expected: str, actual: str) -> tuple[object, ...]:
    return OutOfDomain, (keys,) if isinstance(keys, str) else keys, expected, actual


def told(error: CharacterMemoryError) -> tuple[object, ...]:
    """The type and every field of an error."""
    return type(error), *vars(error).values()


def test_what_is_not_given_has_the_documented_default() -> None:
    settings = read(EMBEDDED)
    assert settings.graph_store_mode == "persistent"
    assert settings.oxigraph_path == Path("data/graph")
    assert settings.vector_store_mode == "embedded"
    assert settings.vector_store_path == Path("data/vectors")
    assert settings.retrieval_stats_store_mode == "sqlite"
    assert settings.retrieval_stats_path == Path("data/retrieval-stats.sqlite3")
    assert (settings.selectivity_smoothing_alpha, settings.selectivity_gamma) == (1.0, 1.0)
    assert settings.language == "english"
    assert settings.fence_secret is None
    assert [
        tuple(getattr(settings, f"retrieval_fanout_{pair.lower()}_{end}") for end in ("min", "max"))
        for pair in FANOUT_PAIRS
    ] == [(0, 20), (0, 5), (0, 15)]


def test_texts_and_typed_values_read_alike() -> None:
    texts = read(
        EMBEDDED,
        SELECTIVITY_GAMMA="0.5",
        RETRIEVAL_FANOUT_PARTICIPANT_ENTITY_EPISODE_MIN="2",
        EMBEDDING_MAX_RETRIES="0",
        FENCE_SECRET="fence",
    )
    typed = Settings.from_mapping(
        {
            "OXIGRAPH_PATH": Path("data/graph"),
            "VECTOR_STORE_PATH": Path("data/vectors"),
            "SELECTIVITY_GAMMA": 0.5,
            "RETRIEVAL_FANOUT_PARTICIPANT_ENTITY_EPISODE_MIN": 2,
            "EMBEDDING_MAX_RETRIES": 0,
            "FENCE_SECRET": SecretStr("fence"),
        }
    )
    assert texts == typed
    assert (typed.selectivity_gamma, typed.embedding_max_retries) == (0.5, 0)
    assert typed.retrieval_fanout_participant_entity_episode_min == 2


@pytest.mark.parametrize("blank", ["", "  ", None, SecretStr(" ")])
def test_a_blank_value_counts_as_not_given(blank: object) -> None:
    settings = read(EMBEDDED, OPENAI_API_KEY=blank, RETRIEVAL_STATS_PATH=blank, GRAPH_STORE_MODE=blank)
    assert settings == read(EMBEDDED)
    assert refusal(EMBEDDED, OXIGRAPH_PATH=blank).keys == ("OXIGRAPH_PATH",)


def test_a_mode_needs_no_key_of_another_mode() -> None:
    in_memory = {"GRAPH_STORE_MODE": "in_memory", "VECTOR_STORE_PATH": "data/vectors"}
    assert read(in_memory).oxigraph_path is None
    assert read(in_memory, OXIGRAPH_PATH="http://x", OXIGRAPH_URL="nonsense", QDRANT_CONNECTION_STRING="x")
    service = read(SERVICE, VECTOR_STORE_PATH="http://x")
    service.require_writer_lock()
    read(EMBEDDED).require_writer_lock()


@pytest.mark.spec("core-101")
def test_each_mode_asks_for_what_it_needs_and_each_value_stays_in_its_domain() -> None:
    assert told(refusal(EMBEDDED, VECTOR_STORE_PATH="")) == (
        MissingForMode,
        ("VECTOR_STORE_PATH",),
        "VECTOR_STORE_MODE",
        "embedded",
    )
    assert told(refusal(SERVICE, QDRANT_CONNECTION_STRING="")) == (
        MissingForMode,
        ("QDRANT_CONNECTION_STRING",),
        "VECTOR_STORE_MODE",
        "service",
    )
    assert told(refusal(SERVICE, OXIGRAPH_URL="")) == (
        MissingForMode,
        ("OXIGRAPH_URL",),
        "GRAPH_STORE_MODE",
        "service",
    )
    with pytest.raises(MissingForMode) as caught:
        read(SERVICE, WRITER_LOCK_PATH="").require_writer_lock()
    assert told(caught.value) == (MissingForMode, ("WRITER_LOCK_PATH",), "GRAPH_STORE_MODE", "service")

    error = refusal(EMBEDDED, OXIGRAPH_PATH="http://x")
    assert told(error) == out_of_domain("OXIGRAPH_PATH", "a local filesystem path", "http://...")
    for key in (
        "GRAPH_STORE_MODE",
        "VECTOR_STORE_MODE",
        "RETRIEVAL_STATS_STORE_MODE",
        "EMBEDDING_PROVIDER",
    ):
        error = refusal(EMBEDDED, **{key: "telepathy"})
        assert isinstance(error, OutOfDomain)
        assert (error.keys, error.actual) == ((key,), "'telepathy'")

    error = refusal(EMBEDDED, SELECTIVITY_GAMMA="0")
    assert told(error) == out_of_domain("SELECTIVITY_GAMMA", "a number above 0", "'0'")
    for pair in FANOUT_PAIRS:
        ends = (f"RETRIEVAL_FANOUT_{pair}_MIN", f"RETRIEVAL_FANOUT_{pair}_MAX")
        error = refusal(EMBEDDED, **dict(zip(ends, ("9", "8"), strict=True)))
        assert told(error) == out_of_domain(ends, "min <= max", "min=9 max=8")
    for pair in ("about_entity_episode", "participant_entity_derived_memory", "part_of_thread_episode"):
        key = f"RETRIEVAL_FANOUT_{pair.upper()}_MAX"
        error = refusal(EMBEDDED, **{key: "3"})
        assert told(error) == out_of_domain(key, "an implemented retrieval fanout target", pair)

    error = refusal(EMBEDDED, RETRIEVAL_STATS_HEALTH_FAIL_MODE="conservative")
    assert isinstance(error, OutOfDomain)
    assert (error.keys, error.actual) == (("RETRIEVAL_STATS_HEALTH_FAIL_MODE",), "an unknown name")


@pytest.mark.spec("recall-112")
@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (
            {
                "RETRIEVAL_FANOUT_PART_OF_THREAD_DERIVED_MEMORY_MIN": 9,
                "RETRIEVAL_FANOUT_PART_OF_THREAD_DERIVED_MEMORY_MAX": 8,
            },
            out_of_domain(
                (
                    "RETRIEVAL_FANOUT_PART_OF_THREAD_DERIVED_MEMORY_MIN",
                    "RETRIEVAL_FANOUT_PART_OF_THREAD_DERIVED_MEMORY_MAX",
                ),
                "min <= max",
                "min=9 max=8",
            ),
        ),
        (
            {"SELECTIVITY_SMOOTHING_ALPHA": 0},
            out_of_domain("SELECTIVITY_SMOOTHING_ALPHA", "a number above 0", "0"),
        ),
        (
            {"SELECTIVITY_GAMMA": float("nan")},
            out_of_domain("SELECTIVITY_GAMMA", "a number above 0", "nan"),
        ),
        (
            {"RETRIEVAL_FANOUT_MENTIONS_OBSERVATION_MIN": 1},
            out_of_domain(
                "RETRIEVAL_FANOUT_MENTIONS_OBSERVATION_MIN",
                "an implemented retrieval fanout target",
                "mentions_observation",
            ),
        ),
    ],
    ids=["min above max", "alpha 0", "gamma NaN", "unknown pair"],
)
def test_what_selectivity_and_fanout_refuse(changes: dict[str, object], error: tuple[object, ...]) -> None:
    assert told(refusal(EMBEDDED, **changes)) == error


@pytest.mark.parametrize(
    ("graph", "vectors"),
    [
        ("stores", "./stores"),
        ("data", "data/vectors"),  # where a graph called `vectors` would be
        ("data/vectors/a/graph", "data/vectors"),
        ("data", "data/../data/x"),
    ],
)
def test_the_embedded_stores_do_not_share_a_folder(graph: str, vectors: str) -> None:
    error = refusal(EMBEDDED, OXIGRAPH_PATH=graph, VECTOR_STORE_PATH=vectors)
    assert isinstance(error, OutOfDomain)
    assert error.keys == ("OXIGRAPH_PATH", "VECTOR_STORE_PATH")


def test_stores_side_by_side_and_stores_that_are_not_used_may_lie_as_they_like() -> None:
    read(EMBEDDED, OXIGRAPH_PATH="data/graph", VECTOR_STORE_PATH="data/graph-vectors")
    read(EMBEDDED, OXIGRAPH_PATH="data/graph", VECTOR_STORE_PATH="data/graph/../vectors")
    Settings.from_mapping(
        {"GRAPH_STORE_MODE": "in_memory", "OXIGRAPH_PATH": "stores", "VECTOR_STORE_PATH": "stores"}
    )


@pytest.mark.parametrize("value", ["inf", "-1", "nan", float("inf")])
def test_the_selectivity_numbers_are_finite_and_positive(value: object) -> None:
    for key in ("SELECTIVITY_SMOOTHING_ALPHA", "SELECTIVITY_GAMMA"):
        assert refusal(EMBEDDED, **{key: value}).keys == (key,)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("SELECTIVITY_GAMMA", "much"),
        ("SELECTIVITY_GAMMA", True),
        ("EMBEDDING_MAX_RETRIES", "2.5"),
        ("EMBEDDING_MAX_RETRIES", 2.5),
        ("EMBEDDING_MAX_RETRIES", "9" * 5000),
        ("OXIGRAPH_PATH", 5),
        ("EMBEDDING_MODEL", ["a"]),
    ],
)
def test_a_value_that_cannot_be_read_is_named(key: str, value: object) -> None:
    with pytest.raises(ConfigParseError) as caught:
        read(EMBEDDED, **{key: value})
    assert key in caught.value.detail
    assert len(caught.value.detail) < 200


def test_what_is_no_mapping_of_names_cannot_be_read() -> None:
    no_mapping: Any = [("OXIGRAPH_PATH", "x")]
    with pytest.raises(ConfigParseError, match="mapping"):
        Settings.from_mapping(no_mapping)
    no_name: Any = {1: "x"}
    with pytest.raises(ConfigParseError, match="name"):
        Settings.from_mapping(no_name)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [
        ("SELECTIVITY_GAMA", "SELECTIVITY_GAMMA"),
        ("oxigraph_path", "OXIGRAPH_PATH"),
        ("OPENAI_KEY", "OPENAI_API_KEY"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(key: str, nearest: str) -> None:
    error = refusal(EMBEDDED, **{key: "sk-hidden"})
    assert told(error) == out_of_domain(key, f"a known setting, perhaps {nearest}", "an unknown name")


@pytest.mark.parametrize(
    ("key", "schemes"),
    [("OXIGRAPH_URL", ("http", "https")), ("QDRANT_CONNECTION_STRING", ("http", "https", "grpc"))],
)
def test_a_server_address_has_one_of_its_schemes(key: str, schemes: tuple[str, ...]) -> None:
    for scheme in schemes:
        assert read(SERVICE, **{key: f"{scheme}://host:1"})
    for address, actual in {
        "ftp://me:hidden@host": "ftp://...",
        "me:hidden@host": "a text without a scheme",
        "http://": "http://...",
    }.items():
        error = refusal(SERVICE, **{key: address})
        assert isinstance(error, OutOfDomain)
        assert (error.keys, error.actual) == ((key,), actual)


def test_without_a_choice_the_key_decides_the_provider() -> None:
    assert read(EMBEDDED).provider == "wordllama"
    assert read(EMBEDDED, OPENAI_API_KEY="sk-hidden").provider == "openai"
    assert read(EMBEDDED, OPENAI_API_KEY="sk-hidden", EMBEDDING_PROVIDER="hashing").provider == "hashing"


def test_the_provider_chosen_asks_for_what_it_needs() -> None:
    for provider in ("wordllama", "hashing"):
        read(EMBEDDED, EMBEDDING_PROVIDER=provider, EMBEDDING_MODEL="unread").require_embedding()
    for model in ("text-embedding-3-small", "text-embedding-3-large"):
        read(EMBEDDED, OPENAI_API_KEY="sk-hidden", EMBEDDING_MODEL=model).require_embedding()
    fastembed = {"EMBEDDING_PROVIDER": "fastembed", "EMBEDDING_MODEL": "BAAI/bge-small-en-v1.5"}
    read(EMBEDDED | fastembed, EMBEDDING_MODEL_PATH="models/bge").require_embedding()

    for changes, keys in (
        ({"EMBEDDING_PROVIDER": "openai"}, ("OPENAI_API_KEY", "EMBEDDING_MODEL")),
        ({"OPENAI_API_KEY": "sk-hidden"}, ("EMBEDDING_MODEL",)),
        (fastembed, ("EMBEDDING_MODEL_PATH",)),
    ):
        settings = read(EMBEDDED, **changes)
        with pytest.raises(MissingForMode) as caught:
            settings.require_embedding()
        assert told(caught.value) == (MissingForMode, keys, "EMBEDDING_PROVIDER", settings.provider)


def test_openai_refuses_an_unknown_model_and_another_scheme() -> None:
    with pytest.raises(ConfigParseError, match="EMBEDDING_MODEL: expected text-embedding-3-small or .*'ada'"):
        read(EMBEDDED, OPENAI_API_KEY="sk-hidden", EMBEDDING_MODEL="ada").require_embedding()
    settings = read(
        EMBEDDED,
        OPENAI_API_KEY="sk-hidden",
        EMBEDDING_MODEL="text-embedding-3-small",
        OPENAI_BASE_URL="ws://me:hidden@host",
    )
    with pytest.raises(OutOfDomain) as caught:
        settings.require_embedding()
    assert (caught.value.keys, caught.value.actual) == (("OPENAI_BASE_URL",), "ws://...")


def test_settings_for_a_provider_that_is_handed_over_are_not_looked_at() -> None:
    # Reading succeeds; only require_embedding, which nobody calls then, would refuse these.
    assert read(EMBEDDED, EMBEDDING_PROVIDER="openai", EMBEDDING_MODEL="ada", OPENAI_BASE_URL="ws://x")


def test_secrets_are_masked_and_addresses_left_out() -> None:
    settings = read(
        SERVICE,
        OPENAI_API_KEY="sk-hidden",
        FENCE_SECRET="hidden-fence",
        OXIGRAPH_URL="http://me:hidden@host",
        QDRANT_CONNECTION_STRING="grpc://me:hidden@host",
        OPENAI_BASE_URL="https://me:hidden@host",
    )
    assert "hidden" not in f"{settings!r} {settings}"
    assert settings.openai_api_key is not None
    assert settings.openai_api_key.get_secret_value() == "sk-hidden"
    assert pickle.loads(pickle.dumps(settings)) == settings


@pytest.mark.parametrize(
    "changes",
    [
        {"OXIGRAPH_PATH": "http://me:hidden@host"},
        {"SELECTIVITY_GAMMA": "much"},
        {"LANGUAGE": "polish"},
        {"OPENAI_API_KEY": ["sk-hidden"]},
        {"OPENAI_API_KEY": b"sk-hidden\xff"},
        {"FENCE_SECRET": {"hidden": 1}},
    ],
)
def test_no_error_shows_or_carries_a_secret(changes: dict[str, object]) -> None:
    given = {"OPENAI_API_KEY": "sk-hidden", "FENCE_SECRET": "hidden-fence"} | changes
    with pytest.raises(CharacterMemoryError) as caught:
        read(EMBEDDED, **given)
    assert "hidden" not in f"{caught.value!r} {caught.value} {told(caught.value)}"
    assert caught.value.__context__ is None


def test_settings_are_frozen_and_direct_construction_hides_what_it_refuses() -> None:
    settings = read(EMBEDDED)
    with pytest.raises(ValidationError):
        settings.language = "german"  # type: ignore[misc]
    with pytest.raises(ValidationError) as caught:
        Settings(openai_api_key=b"sk-hidden\xff", oxigraph_path=Path("a"))  # type: ignore[arg-type]
    assert "hidden" not in str(caught.value)
    with pytest.raises(MissingForMode):
        Settings(oxigraph_path=Path("a"))

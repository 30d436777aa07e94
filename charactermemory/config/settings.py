"""Settings of the core."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from charactermemory.config.failures import scheme_of, unknown_key, wrong_value
from charactermemory.errors import ConfigParseError, MissingForMode, OutOfDomain

GraphStoreMode = Literal["persistent", "in_memory", "service"]
VectorStoreMode = Literal["embedded", "service"]
StatisticsStoreMode = Literal["sqlite", "in_memory"]
EmbeddingProviderName = Literal["openai", "wordllama", "fastembed", "hashing"]
# The languages of Qdrant Edge's own Bm25 (qdrant-edge-py 0.9), which refuses every other one.
Language = Literal[
    "arabic", "azerbaijani", "basque", "bengali", "catalan", "chinese", "danish", "dutch", "english",
    "finnish", "french", "german", "greek", "hebrew", "hinglish", "hungarian", "indonesian", "italian",
    "japanese", "kazakh", "nepali", "norwegian", "portuguese", "romanian", "russian", "slovene",
    "spanish", "swedish", "tajik", "turkish",
]  # fmt: skip

OPENAI_MODELS = ("text-embedding-3-small", "text-embedding-3-large")
_FANOUT_TARGETS = (
    "about_entity_derived_memory",
    "participant_entity_episode",
    "part_of_thread_derived_memory",
)

_PATHS_OF_MODES = (
    ("graph_store_mode", "persistent", "oxigraph_path"),
    ("vector_store_mode", "embedded", "vector_store_path"),
)
_Count = Annotated[int, Field(ge=0)]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Settings(BaseModel):
    """Every setting of the core, checked on construction for the store modes it chooses.

    A field is the lower-case name of its key. Blank texts and None count as not given. Secrets are masked
    in `repr`, and URLs, which may hold a password, are left out of it. What a caller may replace by an
    object of its own has a check of its own: `require_writer_lock`, `require_embedding`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    graph_store_mode: GraphStoreMode = Field(
        "persistent",
        description="Where the graph lives: embedded on disk (one process), in memory, or a SPARQL server.",
    )
    oxigraph_path: Path | None = Field(
        None,
        description="Folder of the embedded graph, one sub-folder a collection, 16 of them open at a time. "
        "Required when GRAPH_STORE_MODE is persistent, else ignored.",
    )
    oxigraph_url: str | None = Field(
        None,
        repr=False,
        description="Base address of the SPARQL server, http:// or https://. "
        "Required when GRAPH_STORE_MODE is service, else ignored.",
    )
    vector_store_mode: VectorStoreMode = Field(
        "embedded",
        description="Where the vector index lives: embedded on disk (one process) or a Qdrant server.",
    )
    vector_store_path: Path | None = Field(
        None,
        description="Folder of the embedded vector index, one sub-folder a collection; neither inside "
        "OXIGRAPH_PATH nor around it. Required when VECTOR_STORE_MODE is embedded, else ignored.",
    )
    qdrant_connection_string: str | None = Field(
        None,
        repr=False,
        description="Address of the Qdrant server: grpc://host:port or port 6334 for gRPC, any other "
        "http:// or https:// address for REST. Required when VECTOR_STORE_MODE is service, else ignored.",
    )
    embedding_provider: EmbeddingProviderName | None = Field(
        None,
        description="Who makes the vectors; a provider handed over in code takes its place. "
        "Not given: openai if OPENAI_API_KEY is given, else wordllama.",
    )
    embedding_model: str | None = Field(
        None,
        description="Model of the provider. Required for openai "
        f"({' or '.join(OPENAI_MODELS)}) and for fastembed (a name in its list), else ignored.",
    )
    embedding_model_path: Path | None = Field(
        None,
        description="Folder with the model's files; nothing is downloaded. "
        "Required for fastembed, else ignored.",
    )
    embedding_max_retries: _Count = Field(
        2,
        description="How often openai repeats a request after transport errors "
        "and statuses 408, 409, 429 and 5xx.",
    )
    openai_api_key: SecretStr | None = Field(
        None, description="Key for openai. Required for it, else ignored."
    )
    openai_base_url: str | None = Field(
        None,
        repr=False,
        description="Another server that speaks OpenAI's protocol, http:// or https://. "
        "Not given: OpenAI's own.",
    )
    retrieval_stats_store_mode: StatisticsStoreMode = Field(
        "sqlite", description="Where the core keeps its retrieval statistics: a SQLite file or in memory."
    )
    retrieval_stats_path: Path = Field(
        Path("data/retrieval-stats.sqlite3"),
        description="That SQLite file; its folder is created. "
        "Ignored when RETRIEVAL_STATS_STORE_MODE is in_memory.",
    )
    writer_lock_path: Path | None = Field(
        None,
        description="Folder of the lock files by which the processes of one machine take turns at writing. "
        "Required when GRAPH_STORE_MODE is service, unless a writer lock is handed over in code "
        "(memory_app does); else ignored.",
    )
    language: Language = Field(
        "english",
        description="Language of stop words and word stems in the word search, and of the months in a topic. "
        "Changing it needs a rebuild of the vectors.",
    )
    fence_secret: SecretStr | None = Field(
        None,
        description="Secret from which the fence around memories in a prompt is made; no prompt without it. "
        "Keep it the same: another one changes every rendered pack. Not given: memory_app derives it from "
        "Django's SECRET_KEY.",
    )
    selectivity_smoothing_alpha: _Positive = Field(
        1.0, description="Added to both counts when the selectivity of a notion is scored."
    )
    selectivity_gamma: _Positive = Field(
        1.0, description="Exponent on that score: above 1 common notions open less, below 1 more."
    )
    retrieval_fanout_about_entity_derived_memory_min: _Count = Field(
        0, description="Least number of memories about a notion that recall opens from it."
    )
    retrieval_fanout_about_entity_derived_memory_max: _Count = Field(
        20, description="Greatest number of them; the limits of the recall call apply besides."
    )
    retrieval_fanout_participant_entity_episode_min: _Count = Field(
        0, description="Least number of episodes with a participant that recall opens from its notion."
    )
    retrieval_fanout_participant_entity_episode_max: _Count = Field(
        5, description="Greatest number of them; the limits of the recall call apply besides."
    )
    retrieval_fanout_part_of_thread_derived_memory_min: _Count = Field(
        0, description="Least number of memories in a thread that recall opens from it."
    )
    retrieval_fanout_part_of_thread_derived_memory_max: _Count = Field(
        15, description="Greatest number of them; the limits of the recall call apply besides."
    )

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> Self:
        """Read settings whose keys are upper-case names; values are texts, or already of the field's type.

        Raises:
            ConfigParseError: not a mapping, or a value that cannot be read as its type.
            OutOfDomain: an unknown key, or a value that is not allowed, also beside another (min above max).
            MissingForMode: a store mode lacks what it needs.
        """
        if not isinstance(mapping, Mapping):
            raise ConfigParseError(detail=f"expected a mapping of settings, got {type(mapping).__name__}")
        known = {name.upper() for name in cls.model_fields}
        for key in mapping:
            if failure := unknown_key(key, known):
                raise failure
        try:
            return cls.model_validate({key.lower(): value for key, value in mapping.items()})
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
        # Outside the handler: an error raised inside would carry pydantic's, and with it the values.
        raise wrong_value(problem, secret={"OPENAI_API_KEY", "FENCE_SECRET"})

    @property
    def provider(self) -> EmbeddingProviderName:
        """The embedding provider chosen or, by whether a key is given, implied (decisions.md "To R7")."""
        return self.embedding_provider or ("openai" if self.openai_api_key else "wordllama")

    def require_writer_lock(self) -> None:
        """Check what the core's own writer lock needs; for a caller that brings none.

        Raises:
            MissingForMode: the graph is a service and WRITER_LOCK_PATH is not given.
        """
        if self.graph_store_mode == "service":
            self._require("graph_store_mode", self.graph_store_mode, "writer_lock_path")

    def require_embedding(self) -> None:
        """Check what the chosen embedding provider needs; for a caller that brings none.

        Raises:
            MissingForMode: the key, the model or the model's folder is not given.
            ConfigParseError: a model that openai does not have (memory-core §13).
            OutOfDomain: OPENAI_BASE_URL is no http:// or https:// address.
        """
        if self.provider == "openai":
            self._require("embedding_provider", "openai", "openai_api_key", "embedding_model")
            if self.embedding_model not in OPENAI_MODELS:
                known = " or ".join(OPENAI_MODELS)
                raise ConfigParseError(
                    detail=f"EMBEDDING_MODEL: expected {known}, got {self.embedding_model!r}"
                )
            self._require_url("openai_base_url", ("http", "https"))
        elif self.provider == "fastembed":
            self._require("embedding_provider", "fastembed", "embedding_model", "embedding_model_path")

    @model_validator(mode="before")
    @classmethod
    def _only_what_is_given(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        given = {name: value for name, value in given.items() if not _blank(value)}
        for name, value in given.items():
            if isinstance(value, bool):  # pydantic would read it as the number 0 or 1
                raise ConfigParseError(detail=f"{name.upper()}: no setting is a yes or no, got {value}")
        for mode_name, mode, name in _PATHS_OF_MODES:
            # Seen only here: a Path makes one slash of two.
            chosen = given.get(mode_name, cls.model_fields[mode_name].default)
            path = str(given.get(name, ""))
            if chosen == mode and "://" in path:
                raise OutOfDomain(
                    keys=(name.upper(),), expected="a local filesystem path", actual=scheme_of(path)
                )
        return given

    @model_validator(mode="after")
    def _what_the_modes_need(self) -> Self:
        if self.graph_store_mode == "persistent":
            self._require("graph_store_mode", "persistent", "oxigraph_path")
        elif self.graph_store_mode == "service":
            self._require("graph_store_mode", "service", "oxigraph_url")
            self._require_url("oxigraph_url", ("http", "https"))
        if self.vector_store_mode == "embedded":
            self._require("vector_store_mode", "embedded", "vector_store_path")
        else:
            self._require("vector_store_mode", "service", "qdrant_connection_string")
            self._require_url("qdrant_connection_string", ("http", "https", "grpc"))
        self._require_two_folders()
        for target in _FANOUT_TARGETS:
            names = (f"retrieval_fanout_{target}_min", f"retrieval_fanout_{target}_max")
            least, most = (getattr(self, name) for name in names)
            if least > most:
                raise OutOfDomain(
                    keys=tuple(name.upper() for name in names),
                    expected="min <= max",
                    actual=f"min={least} max={most}",
                )
        return self

    def _require(self, mode_name: str, mode: str, *names: str) -> None:
        missing = tuple(name.upper() for name in names if getattr(self, name) is None)
        if missing:
            raise MissingForMode(keys=missing, mode_key=mode_name.upper(), mode=mode)

    def _require_two_folders(self) -> None:
        """Both stores keep a folder a collection, by its name.

        In one folder they would be in each other's way; in `data` and `data/vectors` those of a collection
        called `vectors` would.
        """
        graph = self.oxigraph_path if self.graph_store_mode == "persistent" else None
        vectors = self.vector_store_path if self.vector_store_mode == "embedded" else None
        if graph is None or vectors is None:
            return
        real = Path(os.path.realpath(graph)), Path(os.path.realpath(vectors))
        if real[0].is_relative_to(real[1]) or real[1].is_relative_to(real[0]):
            both = (
                f"{str(graph)!r} for both" if real[0] == real[1] else f"{str(graph)!r} and {str(vectors)!r}"
            )
            raise OutOfDomain(
                keys=("OXIGRAPH_PATH", "VECTOR_STORE_PATH"),
                expected="two different folders, neither of them inside the other",
                actual=both,
            )

    def _require_url(self, name: str, schemes: tuple[str, ...]) -> None:
        url: str | None = getattr(self, name)
        if url is None:
            return
        scheme, _, rest = url.partition("://")
        if scheme not in schemes or not rest:
            raise OutOfDomain(
                keys=(name.upper(),),
                expected=f"an address that starts with {' or '.join(f'{known}://' for known in schemes)}",
                actual=scheme_of(url),
            )


def _blank(value: object) -> bool:
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    return text is None or (isinstance(text, str) and not text.strip())

"""Opening a memory: what is refused before the disk is touched, and what is opened (core-101 to 103, 106)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from charactermemory import composition
from charactermemory.adapters import handles
from charactermemory.adapters.embedding import HashingEmbedding, wordllama
from charactermemory.config import Settings
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.repair import StatsUpdateMarker
from charactermemory.errors import (
    CollectionIncompatible,
    ConfigValidationError,
    InvalidInput,
    MissingForMode,
    OutOfDomain,
    RetrievalStatsStoreError,
    StoreClosedError,
    StoreError,
)
from charactermemory.ids import ObjectType
from charactermemory.memory import CharacterMemory
from charactermemory.ports.statistics import Health
from charactermemory.remember.drafts import MemoryLinkDraft
from charactermemory.remember.outcome import Outcome
from tests.facade.conftest import Open
from tests.revise.drafts import correction, forgetting, sourced
from tests.support.plans import episode, memory_ref, notion, plan, uid

SERVICE = {"GRAPH_STORE_MODE": "service", "OXIGRAPH_URL": "http://127.0.0.1:9"}
VECTOR_SERVICE = {"VECTOR_STORE_MODE": "service"}


@pytest.mark.spec("core-101")
@pytest.mark.parametrize(
    ("changes", "error", "key"),
    [
        ({"VECTOR_STORE_PATH": None}, MissingForMode, "VECTOR_STORE_PATH"),
        (VECTOR_SERVICE, MissingForMode, "QDRANT_CONNECTION_STRING"),
        (SERVICE | {"OXIGRAPH_URL": None}, MissingForMode, "OXIGRAPH_URL"),
        (SERVICE | {"WRITER_LOCK_PATH": None}, MissingForMode, "WRITER_LOCK_PATH"),
        ({"OXIGRAPH_PATH": "http://x"}, OutOfDomain, "OXIGRAPH_PATH"),
        ({"GRAPH_STORE_MODE": "telepathy"}, OutOfDomain, "GRAPH_STORE_MODE"),
        ({"VECTOR_STORE_MODE": "telepathy"}, OutOfDomain, "VECTOR_STORE_MODE"),
        ({"RETRIEVAL_STATS_STORE_MODE": "telepathy"}, OutOfDomain, "RETRIEVAL_STATS_STORE_MODE"),
        ({"EMBEDDING_PROVIDER": "telepathy"}, OutOfDomain, "EMBEDDING_PROVIDER"),
        ({"SELECTIVITY_GAMMA": 0}, OutOfDomain, "SELECTIVITY_GAMMA"),
        (
            {
                "RETRIEVAL_FANOUT_ABOUT_ENTITY_DERIVED_MEMORY_MIN": 9,
                "RETRIEVAL_FANOUT_ABOUT_ENTITY_DERIVED_MEMORY_MAX": 8,
            },
            OutOfDomain,
            "RETRIEVAL_FANOUT_ABOUT_ENTITY_DERIVED_MEMORY_MIN",
        ),
        (
            {"RETRIEVAL_FANOUT_ABOUT_ENTITY_EPISODE_MAX": 3},
            OutOfDomain,
            "RETRIEVAL_FANOUT_ABOUT_ENTITY_EPISODE_MAX",
        ),
        (
            {"RETRIEVAL_STATS_HEALTH_FAIL_MODE": "conservative"},
            OutOfDomain,
            "RETRIEVAL_STATS_HEALTH_FAIL_MODE",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_settings_are_judged_before_a_store_is_made(
    open_memory: Open, tmp_path: Path, changes: dict[str, object], error: type[Any], key: str
) -> None:
    with pytest.raises(error) as caught:
        open_memory(changes=changes)
    assert isinstance(caught.value, ConfigValidationError)
    assert key in caught.value.keys
    assert key in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("core-102")
@pytest.mark.parametrize(
    "name", ["../x", "A", "con", "", "a" * 129], ids=["dots", "A", "con", "empty", "129"]
)
def test_a_collection_name_is_judged_before_the_disk_is_touched(
    open_memory: Open, tmp_path: Path, name: str
) -> None:
    with pytest.raises(ConfigValidationError):
        open_memory(name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spec("core-102")
def test_names_at_the_edge_of_what_is_allowed_open(open_memory: Open, tmp_path: Path) -> None:
    for name in ("a" * 128, "0-_a", "console"):
        open_memory(name)
        assert (tmp_path / "stores" / "graph" / name).is_dir()


@pytest.mark.spec("core-103")
def test_a_custom_provider_needs_no_embedding_settings(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    custom = HashingEmbedding(48)
    memory = open_memory(changes={"EMBEDDING_PROVIDER": None}, embedding_provider=custom)
    assert memory.stores.embedder.fingerprint() == custom.fingerprint()
    assert memory.stores.embedder.vector_size() == 48
    assert memory.remember("It rains.").complete

    # OpenAI settings that could not work are ignored beside it.
    wrong = {"EMBEDDING_PROVIDER": "openai", "OPENAI_API_KEY": None}
    other = open_memory("bea", changes=wrong, embedding_provider=custom)
    assert other.remember("It snows.").complete


@pytest.mark.spec("core-103")
def test_without_provider_and_key_wordllama_embeds(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    memory = open_memory(changes={"EMBEDDING_PROVIDER": None})
    assert memory.stores.embedder.fingerprint() == "wordllama:l2_supercat:256"
    outcome = memory.remember("It rains.")
    assert outcome.complete
    assert len(outcome.vector_indexed_object_ids) == 1


class Renamed(HashingEmbedding):
    """Of the same size, but no longer the same model."""

    def fingerprint(self) -> str:
        return f"renamed:{self.vector_size()}"


@pytest.mark.spec("core-103")
@pytest.mark.parametrize(
    ("other", "mismatch"),
    [(HashingEmbedding(64), "vector_size"), (Renamed(48), "fingerprint")],
    ids=["size", "fingerprint"],
)
def test_an_index_of_another_model_is_refused_by_name(
    open_memory: Open, other: HashingEmbedding, mismatch: str
) -> None:
    first = HashingEmbedding(48)
    with open_memory(embedding_provider=first) as memory:
        memory.remember("It rains.")
    with pytest.raises(CollectionIncompatible) as caught:
        open_memory(embedding_provider=other)
    error = caught.value
    assert (error.collection, error.mismatch) == ("ada", mismatch)
    now, then = ("64", "48") if mismatch == "vector_size" else (other.fingerprint(), first.fingerprint())
    assert now in error.expected
    assert then in error.actual
    for word in (error.expected, error.actual, "memory_rebuild_vectors --collection ada"):
        assert word in str(error)

    # Nothing is lost, and the rebuild it speaks of helps.
    with open_memory(embedding_provider=first) as memory:
        assert memory.stores.vectors.count() == 1
    with open_memory(embedding_provider=other, for_rebuild=True) as memory:
        assert memory.upkeep.rebuild_vectors().objects > 0
    assert open_memory(embedding_provider=other).stores.vectors.count() == 1


@pytest.mark.spec("core-106")
@pytest.mark.parametrize("obstacle", ["a folder", "another file"])
def test_statistics_that_cannot_be_opened_stop_nothing(
    open_memory: Open, tmp_path: Path, obstacle: str
) -> None:
    path = tmp_path / "not-a-database"
    if obstacle == "a folder":
        path.mkdir()
    else:
        path.write_text("This is no database.\n" * 100)

    memory = open_memory(changes={"RETRIEVAL_STATS_PATH": str(path)})

    def writes(number: int) -> list[Outcome]:
        """One write of each kind, as `number` apart from another round."""
        memory.commit(plan(episode(1), notion(2)))
        made = MemoryLinkDraft.new(
            ObjectType.EPISODE, uid(1), RelationType.INVOLVES, ObjectType.ENTITY, uid(2)
        ).replace(id=uid(number + 3))
        return [
            memory.commit(plan(sourced(number, "It rains.", episodes=(1,)))),
            memory.link(made),
            memory.correct(correction(number, rationale=f"It did not, {number}.")),
            memory.forget(forgetting(memory_ref(number))),
        ]

    for outcome in writes(0x10):
        assert outcome.stats_update_status.status == "failed"
        (cause,) = outcome.stats_update_status.causes
        assert (cause.cause, cause.detail) == ("store_unhealthy", "store_initialization")
        (marker,) = outcome.repair_needed
        assert isinstance(marker, StatsUpdateMarker)
        assert marker.causes == (cause,)
    assert memory.stores.graph.read([memory_ref(0x10)])[memory_ref(0x10)].suppressed
    assert memory.stores.statistics.health(0) == Health("unhealthy", "store_initialization")
    memory.upkeep.sweep()
    assert memory.stores.statistics.health(0).state == "unhealthy", "a sweep does not heal it"

    with pytest.raises(RetrievalStatsStoreError, match="for this process alone"):
        memory.upkeep.rebuild_statistics()
    assert [outcome.complete for outcome in writes(0x20)] == [True] * 4
    assert memory.stores.statistics.health(memory.stores.graph.head()) == Health("healthy")


@pytest.mark.parametrize("place", ["graph", "vectors/copy", ""])
def test_a_backup_is_kept_out_of_the_folders_of_the_stores(
    open_memory: Open, settings: dict[str, object], tmp_path: Path, place: str
) -> None:
    """The last is the folder around both, where the copy's own `graph` is the store's."""
    memory = open_memory()
    memory.remember("It rains.")
    before = sorted(path for path in tmp_path.rglob("*") if path.is_dir())
    with pytest.raises(InvalidInput, match="lies in the folder of (OXIGRAPH|VECTOR_STORE)_PATH"):
        memory.upkeep.backup(tmp_path / "stores" / place)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_dir()) == before
    assert memory.upkeep.backup(tmp_path / "stores" / "copy").graph, "beside them is no harm"


def test_a_closed_memory_says_so(open_memory: Open) -> None:
    memory = open_memory()
    memory.close()
    memory.close()
    for call in (
        lambda: memory.remember("It rains."),
        lambda: memory.retrieve("rain"),
        lambda: memory.forget(forgetting(memory_ref(1))),
        memory.upkeep.sweep,
        memory.upkeep.verify,
    ):
        with pytest.raises(StoreClosedError, match="memory ada"):
            call()
    assert repr(memory) == "<CharacterMemory 'ada' closed>"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("remember", "RememberInput"),
        ("retrieve", "RetrievalContext"),
        ("link", "MemoryLinkDraft"),
        ("correct", "CorrectMemoryDraft"),
        ("plan_correction", "CorrectMemoryDraft"),
        ("forget", "ForgetMemoryDraft"),
        ("plan_forget", "ForgetMemoryDraft"),
    ],
)
def test_something_else_than_a_call_takes_is_named(open_memory: Open, call: str, expected: str) -> None:
    with pytest.raises(InvalidInput, match=f"expected a {expected}, got bytes"):
        getattr(open_memory(), call)(b"She asked me to.")


def test_two_facades_of_one_folder_share_it(open_memory: Open) -> None:
    one, two = open_memory(), open_memory()
    one.remember("It rains.")
    assert two.stores.graph.head() == 1
    one.close()
    assert two.remember("It snows.").complete
    assert two.upkeep.verify().differences == 0


def test_an_open_that_fails_releases_what_it_opened(open_memory: Open, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "ada").write_text("a file, where the index's folder should be")
    with pytest.raises(StoreError, match="taken"):
        open_memory(changes={"VECTOR_STORE_PATH": str(taken)})
    assert isinstance(open_memory(), CharacterMemory)


def test_the_memories_of_a_process_load_one_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """WordLlama's takes 40 MB and 0.2 s, and a process may serve hundreds of characters."""
    loads: list[str] = []
    load = wordllama._load
    monkeypatch.setattr(wordllama, "_load", lambda: loads.append("loaded") or load())
    composition._shared_embedder.cache_clear()
    mapping = {
        "GRAPH_STORE_MODE": "in_memory",
        "VECTOR_STORE_PATH": str(tmp_path),
        "RETRIEVAL_STATS_STORE_MODE": "in_memory",
        "EMBEDDING_PROVIDER": "wordllama",
    }
    for name in ("ada", "grace"):
        with CharacterMemory.open(mapping, name) as memory:
            assert memory.remember("The kettle whistles.").complete
    assert loads == ["loaded"]


@pytest.mark.parametrize(
    "other", [{"OPENAI_API_KEY": "k2"}, {"OPENAI_BASE_URL": "http://b"}, {"EMBEDDING_MAX_RETRIES": 0}]
)
def test_memories_share_a_provider_only_where_all_its_settings_are_the_same(
    other: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    mapping: dict[str, object] = {
        "GRAPH_STORE_MODE": "in_memory", "VECTOR_STORE_PATH": "v", "EMBEDDING_PROVIDER": "openai",
        "OPENAI_API_KEY": "k", "EMBEDDING_MODEL": "text-embedding-3-small",
    }  # fmt: skip
    made = composition._configured_embedder(Settings.from_mapping(mapping))
    assert composition._configured_embedder(Settings.from_mapping(mapping)) is made
    assert composition._configured_embedder(Settings.from_mapping(mapping | other)) is not made
    monkeypatch.setattr(handles, "_forks", handles.fork_count() + 1)
    assert composition._configured_embedder(Settings.from_mapping(mapping)) is not made

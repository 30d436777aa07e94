"""The operators' commands: JSON that is JSON, exit codes that tell, nothing created by a wrong name."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from charactermemory import CharacterMemory
from charactermemory.adapters.embedding.hashing import HashingEmbedding
from charactermemory.errors import EmbeddingError
from charactermemory.remember.outcome import CommitOptions
from memory_app import runtime
from memory_app.models import (
    EntityEdge,
    EntityRelationCount,
    GlobalRelationCount,
    MemoryCollection,
    MemoryState,
    RepairMarker,
    StatisticsHealth,
)
from memory_app.repairs import queue
from memory_app.repairs.clock import database_now
from tests.operations.conftest import Manage
from tests.repairs.world import POLICY, TOO_LONG, failure
from tests.support.plans import episode, episode_ref, plan

LATER = CommitOptions(update_vectors=False, update_stats=False)


def lose_a_point(memory: CharacterMemory) -> None:
    memory.commit(plan(episode(1, "We met.")))
    memory.stores.vectors.write((), [episode_ref(1)], 0)


def test_ctrl_c_ends_a_command_in_one_line(
    shed: CharacterMemory, manage: Manage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("memory_app.operations.verify.verify", interrupted)
    with pytest.raises(CommandError, match=r"^stopped; what was done stays") as stopped:
        call_command("memory_verify")
    assert stopped.value.returncode == 130


def test_where_there_is_no_collection_it_says_so(mapping: dict[str, Any], manage: Manage) -> None:
    assert manage("memory_collections") == "There is no collection yet.\n"
    assert manage("memory_collections", json=True) == {"collections": []}


@pytest.mark.parametrize(
    "command",
    [
        ("memory_repair",),
        ("memory_verify",),
        ("memory_rebuild_statistics",),
        ("memory_collections",),
        ("memory_check",),
        ("memory_export", "out"),
        ("memory_backup", "out"),
    ],
)
def test_an_unknown_collection_is_refused_and_nothing_is_made(
    shed: CharacterMemory, manage: Manage, command: tuple[str, ...], mapping: dict[str, Any], tmp_path: Path
) -> None:
    arguments = [str(tmp_path / part) if part == "out" else part for part in command]
    _, problem = manage(*arguments, collections=["house"], json=True, fails=True)
    assert problem == "no collection is called 'house'; known: shed"
    assert os.listdir(mapping["OXIGRAPH_PATH"]) == ["shed"]
    assert not (tmp_path / "out").exists()


def test_verify_finds_what_differs_and_repairs_it(shed: CharacterMemory, manage: Manage) -> None:
    assert manage("memory_verify", json=True)["differences"] == 0
    lose_a_point(shed)
    answer, problem = manage("memory_verify", json=True, fails=True)
    (found,) = answer["collections"]
    assert (answer["differences"], found["kinds"]) == (1, {"vector_missing": 1})
    assert found["first"] == [f"vector_missing {episode_ref(1)}"]
    assert problem == "shed: 1 difference; --repair sets right what differs"
    answer = manage("memory_verify", repair=True, json=True)
    assert (answer["differences"], answer["collections"][0]["found"]) == (0, 1)
    assert "0 differences" in manage("memory_verify")
    assert manage("memory_verify", verbosity=0) == ""


def test_repair_sweeps_and_works_the_queue_off(shed: CharacterMemory, manage: Manage) -> None:
    shed.commit(plan(episode(1, "We met.")), LATER)
    answer = manage("memory_repair", json=True)
    assert answer["standing"]["pending"] == 0
    assert answer["unswept"] == []
    assert manage("memory_verify", json=True)["differences"] == 0


def test_repair_fails_while_something_is_left_and_requeues_and_cancels(
    shed: CharacterMemory, manage: Manage, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = HashingEmbedding.bulk_generate_embeddings

    def refuse(self: HashingEmbedding, texts: Any) -> Any:
        raise EmbeddingError("http_status", details=(("status", 400), ("body", "")))

    monkeypatch.setattr(HashingEmbedding, "bulk_generate_embeddings", refuse)
    shed.commit(plan(episode(1, "We met.")))
    answer, problem = manage("memory_repair", json=True, fails=True)
    assert answer["standing"]["dead"] == 1
    assert "dead repairs: 1" in problem
    assert manage("memory_repair", dry_run=True, json=True)["standing"]["dead"] == 1
    assert manage("memory_repair", cancel=True) == "1 repair cancelled\n"
    assert manage("memory_repair", requeue=True, json=True) == {"requeued": 1}
    monkeypatch.setattr(HashingEmbedding, "bulk_generate_embeddings", embed)
    assert manage("memory_repair", json=True)["succeeded"] == 1
    assert manage("memory_repair", prune=True, json=True) == {"pruned": 0}
    RepairMarker.objects.update(completed_at="2020-01-01T00:00:00Z")
    assert manage("memory_repair", prune=True, json=True) == {"pruned": 1}


def test_an_archived_collection_is_neither_swept_nor_owed_anything(
    shed: CharacterMemory, manage: Manage
) -> None:
    queue.record("shed", [failure(episode_ref(1))], "commit", database_now(), POLICY)
    MemoryCollection.objects.update(archived=True)
    answer = manage("memory_repair", json=True)
    assert (answer["unswept"], answer["cancelled"]) == ([], 1)
    assert manage("memory_check", json=True)["problems"] == []
    MemoryCollection.objects.update(archived=False)
    assert manage("memory_repair", json=True)["standing"]["cancelled"] == 1


def test_a_rebuilt_index_settles_its_repairs_and_queues_what_failed(
    shed: CharacterMemory, manage: Manage, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = HashingEmbedding.bulk_generate_embeddings

    def refuse(self: HashingEmbedding, texts: Any) -> Any:
        if any("bellows" in text for text in texts):
            raise EmbeddingError("unrecognized")
        return embed(self, texts)

    lose_a_point(shed)
    monkeypatch.setattr(HashingEmbedding, "bulk_generate_embeddings", refuse)
    shed.remember("The bellows again.")
    assert RepairMarker.objects.filter(status="pending").count() == 1
    answer, problem = manage("memory_rebuild_vectors", collection="shed", json=True, fails=True)
    assert (answer["failed"], answer["collection"]) == (1, "shed")
    assert problem.startswith("1 of 9 objects could not be indexed")
    assert RepairMarker.objects.filter(status="pending").count() == 1, "the lost point's is settled"
    monkeypatch.setattr(HashingEmbedding, "bulk_generate_embeddings", embed)
    manage("memory_repair")
    assert manage("memory_verify", json=True)["differences"] == 0


def test_a_dry_run_rebuilds_nothing(shed: CharacterMemory, manage: Manage) -> None:
    lose_a_point(shed)
    answer = manage("memory_rebuild_vectors", collection="shed", dry_run=True, json=True)
    assert answer["objects"]["episode"] == 4
    assert manage("memory_rebuild_statistics", dry_run=True, json=True)["errors"] == []
    assert manage("memory_verify", json=True, fails=True)[0]["differences"] == 1


def test_rebuilding_makes_statistics_healthy(shed: CharacterMemory, manage: Manage) -> None:
    shed.stores.statistics.mark_unhealthy("a test says so")
    _, problem = manage("memory_check", json=True, fails=True)
    assert "the statistics of shed are unhealthy" in problem
    answer = manage("memory_rebuild_statistics", json=True)
    assert answer["collections"] == [{"applied": 4, "collection": "shed"}]
    assert shed.stores.statistics.health(4).state == "healthy"


@pytest.mark.parametrize("by", ["memory_rebuild_statistics", "memory_repair"])
def test_a_damaged_file_of_statistics_is_healed_for_the_next_process_too(
    mapping: dict[str, Any], manage: Manage, by: str
) -> None:
    mapping |= {"STATISTICS": "core"}
    runtime.get_memory("shed").remember("The harmonium lacks a reed.")
    runtime.close_memories()
    file = Path(mapping["RETRIEVAL_STATS_PATH"])
    damaged = file.read_bytes()[:4096] + b"\xff" * 20_000
    file.write_bytes(damaged)
    manage(by)
    runtime.close_memories()
    assert runtime.get_memory("shed").stores.statistics.health(1).state == "healthy"
    assert Path(f"{file}.damaged").read_bytes() == damaged
    assert manage("memory_verify", json=True)["differences"] == 0


def test_a_file_of_statistics_that_cannot_be_used_is_no_success_and_keeps_nothing_else_back(
    mapping: dict[str, Any], manage: Manage, caplog: pytest.LogCaptureFixture
) -> None:
    mapping |= {"STATISTICS": "core"}
    file = Path(mapping["RETRIEVAL_STATS_PATH"])
    file.write_text("These are notes of somebody's.")
    lose_a_point(memory := runtime.get_memory("shed"))
    answer, problem = manage("memory_rebuild_statistics", json=True, fails=True)
    assert answer["collections"] == []
    assert f"{file} cannot be read" in problem and "RETRIEVAL_STATS_PATH. Rebuilt in memory" in problem
    memory.stores.statistics.mark_unhealthy("a test says so")
    assert manage("memory_repair", json=True)["unswept"] == []
    assert "statistics of collection shed could not be rebuilt" in caplog.text
    assert file.read_text() == "These are notes of somebody's."


def test_collections_are_listed_with_size_backlog_and_fingerprint(
    shed: CharacterMemory, manage: Manage
) -> None:
    shed.commit(plan(episode(1, "We met.")), LATER)
    (item,) = manage("memory_collections", json=True)["collections"]
    assert (item["name"], item["head"], item["points"]) == ("shed", 5, shed.stores.vectors.count())
    assert item["vector_backlog"] >= 1
    assert item["embedding_fingerprint"] == shed.stores.embedder.fingerprint()
    assert "shed: 5 commits" in manage("memory_collections")


def test_a_collection_that_cannot_be_opened_makes_the_others_no_worse(
    shed: CharacterMemory, manage: Manage, mapping: dict[str, Any]
) -> None:
    folder = Path(mapping["OXIGRAPH_PATH"]) / "barn"
    folder.mkdir()
    (folder / "character-memory.json").write_text('{"kind": "graph", "format": 99, "collection": "barn"}')
    answer, problem = manage("memory_verify", json=True, fails=True)
    assert [item["collection"] for item in answer["collections"]] == ["shed"]
    assert problem.startswith("barn: ")
    listed, problem = manage("memory_collections", json=True, fails=True)
    assert {item["name"]: item["error"] for item in listed["collections"]} == {
        "barn": "not_a_store",
        "shed": None,
    }
    assert f"barn: cannot be opened: {folder} is not a graph" in manage("memory_collections", fails=True)[0]


def test_a_database_without_the_apps_tables_is_told_in_one_line(
    shed: CharacterMemory, manage: Manage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RepairMarker._meta, "db_table", "missing")
    _, problem = manage("memory_collections", fails=True)
    assert problem.startswith("the database: ") and "missing" in problem
    assert problem.endswith("are its tables there? (manage.py migrate)")


def test_a_backup_is_taken_while_writes_go_on_and_only_has_to_catch_up(
    shed: CharacterMemory, manage: Manage, mapping: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    graph = shed.stores.graph
    backup = type(graph).backup

    def late(self: Any, folder: Path) -> bool:
        shed.commit(plan(episode(1, "Written between index and graph.")))
        return backup(self, folder)

    monkeypatch.setattr(type(graph), "backup", late)
    answer = manage("memory_backup", str(tmp_path / "copy"), json=True)
    assert answer["backups"][0]["graph"] == "copy"
    assert answer["backups"][0]["vectors"] == "copy"
    shed.commit(plan(episode(2, "Written after the backup.")))

    runtime.close_memories()
    for name, part in (("oxigraph", "graph"), ("vectors", "vectors")):
        shutil.rmtree(tmp_path / name)
        shutil.move(tmp_path / "copy/shed" / part, tmp_path / name)
    (tmp_path / "statistics.sqlite3").unlink(missing_ok=True)
    for model in (StatisticsHealth, MemoryState, EntityEdge, EntityRelationCount, GlobalRelationCount):
        model.objects.all().delete()
    manage("memory_repair")
    memory = runtime.get_memory("shed")
    assert manage("memory_verify", json=True)["differences"] == 0
    found = memory.browse.get(episode_ref(1), episode_ref(2))
    assert set(found) == {episode_ref(1)}
    assert memory.remember("It goes on.").complete


def test_a_backup_overwrites_nothing(shed: CharacterMemory, manage: Manage, tmp_path: Path) -> None:
    manage("memory_backup", str(tmp_path / "copy"))
    _, problem = manage("memory_backup", str(tmp_path / "copy"), fails=True)
    assert "is there already" in problem


@pytest.mark.parametrize("key", ["OXIGRAPH_PATH", "VECTOR_STORE_PATH"])
@pytest.mark.parametrize("place", [".", "backups/today", "link"])
def test_a_backup_into_a_folder_of_the_stores_is_refused_before_anything_is_written(
    shed: CharacterMemory, manage: Manage, mapping: dict[str, Any], tmp_path: Path, key: str, place: str
) -> None:
    store = Path(mapping[key])
    target = store / place
    if place == "link":
        target = tmp_path / "looks-harmless"
        target.symlink_to(store)
    before = sorted(os.listdir(store))
    _, problem = manage("memory_backup", str(target), fails=True)
    assert f"{target / 'shed'} lies in the folder of {key}, {store}; name a folder outside of it" in problem
    assert sorted(os.listdir(store)) == before


def test_half_a_backup_does_not_stand_in_the_way_of_the_next(
    shed: CharacterMemory, manage: Manage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Any, folder: Path) -> bool:
        raise OSError(28, "No space left on device", str(folder))

    with monkeypatch.context() as patch:
        patch.setattr(type(shed.stores.graph), "backup", full)
        _, problem = manage("memory_backup", str(tmp_path / "copy"), fails=True)
    assert "No space left" in problem
    assert list((tmp_path / "copy").iterdir()) == []
    manage("memory_backup", str(tmp_path / "copy"))
    assert (tmp_path / "copy/shed/backup.json").is_file()


def test_check_says_that_all_is_well(shed: CharacterMemory, manage: Manage) -> None:
    answer = manage("memory_check", json=True)
    assert answer["problems"] == []
    assert answer["health"]["well"] is True
    told = manage("memory_check")
    assert "collection.shed.commits: ok" in told
    assert "shed: answers" in told and "collection.shed.statistics: ok 0 commits behind" in told


def test_check_says_how_many_repairs_were_given_up(shed: CharacterMemory, manage: Manage) -> None:
    queue.record("shed", [failure(episode_ref(2), TOO_LONG)], "commit", timezone.now(), POLICY)
    _, problem = manage("memory_check", fails=True)
    assert problem == "repairs.dead: 1 given up"


def test_a_folder_that_cannot_be_made_is_told_in_one_line(
    shed: CharacterMemory, manage: Manage, tmp_path: Path
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    for command in ("memory_backup", "memory_export"):
        _, problem = manage(command, str(taken / "below"), fails=True)
        assert "taken" in problem and "Errno" not in problem and "\n" not in problem

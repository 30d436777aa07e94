"""The embedded index: its folder, what it refuses to open, and what its engine is never asked."""

import json
import math
import os
import shutil
import struct
from uuid import UUID

import pytest

from charactermemory.adapters.qdrant import edge as edge_module
from charactermemory.adapters.qdrant import shard as shard_module
from charactermemory.adapters.qdrant.edge import EdgeVectorIndex
from charactermemory.adapters.qdrant.records import CURSOR_POINT, identify, payload, point_id
from charactermemory.domain.kinds import SCHEMA_VERSION
from charactermemory.errors import (
    CollectionIncompatible,
    NotAStore,
    OutOfDomain,
    UnsupportedSchemaVersion,
    VectorDatabaseError,
)
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.vectors import Completeness, Cursor, VectorSurface
from charactermemory.testing.vector_samples import EVERY_TYPE, numbers, record, ref

from .conftest import FINGERPRINT

ONE = [1.0, 0.0, 0.0, 0.0]


class Spy:
    """A shard that keeps the names of the engine calls made through it."""

    def __init__(self, shard):
        self.shard = shard
        self.calls = []

    def __getattr__(self, name):
        self.calls.append(name)
        return getattr(self.shard, name)


def spy_on(index) -> Spy:
    generation = index._store.generation
    generation._shard = Spy(generation._shard)
    return generation._shard


def shard_of(index):
    return index._store.generation._shard


@pytest.mark.spec("recall-76")
def test_nothing_asked_reaches_no_engine(open_edge):
    index = open_edge()
    index.write([record(1, ONE, "dog")], [], 1)
    spy = spy_on(index)
    for embedding, text, limit, scope in (
        (ONE, "dog", 5, ()),
        (ONE, "dog", 0, EVERY_TYPE),
        (None, None, 5, EVERY_TYPE),
    ):
        hits = index.search(embedding, text, limit, scope)
        assert hits.dense.completeness == hits.lexical.completeness == Completeness(kind="not_requested")
    assert spy.calls == []


@pytest.mark.spec("recall-91")
def test_an_empty_write_reaches_no_engine(open_edge):
    index = open_edge()
    index.write([record(1, ONE)], [], 1)
    spy = spy_on(index)
    index.write([], [], 5)
    assert spy.calls == []
    assert index.count() == 1


def test_both_legs_are_one_engine_call(open_edge):
    index = open_edge()
    index.write([record(1, ONE, "dog"), record(2, [0, 1, 0, 0], "cat")], [], 1)
    index.search(ONE, "dog", 5, EVERY_TYPE)
    spy = spy_on(index)
    index.search(ONE, "dog", 5, EVERY_TYPE)
    assert spy.calls == ["query_batch"]


def test_high_goes_into_the_same_engine_call_as_the_points_and_ahead_of_deletes(open_edge):
    index = open_edge()
    index.write([record(1, ONE)], [], 1)
    spy = spy_on(index)
    index.write([record(2, ONE)], [], 2)
    assert spy.calls.count("update") == 1
    seen = []

    def update(operation):
        seen.append(spy.shard.retrieve([CURSOR_POINT], True, False)[0].payload["high"])
        spy.shard.update(operation)

    spy.update = update
    index.write([], [ref(1)], 3)
    assert seen == [2, 3]


def test_exhaustive_counts_the_scope(open_edge):
    """The number kept in memory follows every kind of write, and the engine is asked for it once."""
    index = open_edge()
    index.write([record(n, ONE) for n in range(1, 6)], [], 1)
    index.write([record(9, ONE, object_type=ObjectType.EPISODE)], [], 1)

    def scanned(*scope):
        return index.search(ONE, None, 1, scope).dense.completeness.scanned

    assert (scanned(*EVERY_TYPE), scanned(ObjectType.OBSERVATION)) == (6, 5)
    spy = spy_on(index)
    index.write([record(5, ONE), record(6, ONE), record(6, ONE)], [], 2)
    assert (scanned(*EVERY_TYPE), scanned(ObjectType.OBSERVATION)) == (7, 6)
    index.write([record(7, ONE), record(7, ONE)], [], 2)
    assert scanned(*EVERY_TYPE) == 8
    index.write([], [ref(1), ref(99)], 3)
    assert (scanned(*EVERY_TYPE), scanned(ObjectType.OBSERVATION)) == (7, 6)
    index.write([record(2, ONE), record(1, ONE)], [ref(2), ref(9, ObjectType.EPISODE), ref(2)], 3)
    assert (scanned(*EVERY_TYPE), scanned(ObjectType.OBSERVATION), scanned(ObjectType.EPISODE)) == (7, 7, 0)
    assert "facet" not in spy.calls
    assert index.count() == 7


@pytest.mark.spec("recall-87")
@pytest.mark.parametrize(
    "damage",
    [
        {"object_type": "gizmo"},
        {"surface": "back"},
        {"object_id": "no-id"},
        {"object_id": None},
        {"object_type": 7},
    ],
)
def test_a_point_that_cannot_be_read_fails_the_whole_search(open_edge, damage):
    import qdrant_edge as qe

    index = open_edge()
    index.write([record(1, ONE)], [], 1)
    fields = {name: value for name, value in (payload(record(2, ONE)) | damage).items() if value is not None}
    shard_of(index).update(qe.UpdateOperation.upsert_points([qe.Point(UUID(int=5), {"": ONE}, fields)]))
    with pytest.raises(VectorDatabaseError) as caught:
        index.search(ONE, None, 5, EVERY_TYPE)
    assert caught.value.kind == "payload_deserialization"


def test_a_point_that_cannot_be_read_fails_every_search(open_edge):
    import qdrant_edge as qe

    index = open_edge()
    index.write([record(1, ONE)], [], 1)
    shard_of(index).update(qe.UpdateOperation.upsert_points([qe.Point(UUID(int=5), {"": ONE}, {})]))
    for _ in range(2):
        with pytest.raises(VectorDatabaseError, match="object_id"):
            index.search(ONE, None, 5, EVERY_TYPE)


@pytest.fixture
def known(monkeypatch):
    known = {}
    monkeypatch.setattr(shard_module, "_known", known)
    return known


def test_who_a_point_is_about_is_read_once_each_time_it_is_written(open_edge, known):
    index = open_edge()
    index.write([record(n, ONE, "dog") for n in range(1, 4)], [], 1)
    index.search(ONE, "dog", 5, EVERY_TYPE)
    index.write([record(4, ONE, "dog"), record(2, ONE, "cat")], [ref(3)], 2)
    spy = spy_on(index)
    read = []

    def retrieve(ids, *rest):
        read.extend(ids)
        return spy.shard.retrieve(ids, *rest)

    spy.retrieve = retrieve
    for _ in range(2):
        hits = index.search(ONE, "dog", 5, EVERY_TYPE)
        assert (numbers(hits.dense), numbers(hits.lexical)) == ([1, 2, 4], [1, 4])
    assert set(read) == {point_id(ref(n), VectorSurface.TEXT) for n in (2, 4)}
    assert len(read) == 2


def test_what_is_known_of_points_is_bounded(open_edge, known, monkeypatch):
    monkeypatch.setattr(shard_module, "KNOWN_POINTS", 3)
    index = open_edge()
    index.write([record(n, ONE, f"name{n}") for n in range(1, 10)], [], 1)
    sizes = []
    for n in range(1, 10):
        assert numbers(index.search(None, f"name{n}", 5, EVERY_TYPE).lexical) == [n]
        sizes.append(len(known))
    assert sizes == [1, 2, 3] * 3
    assert len(index.search(ONE, None, 9, EVERY_TYPE).dense.candidates) == 9
    assert len(known) == 3


def test_a_point_that_lies_about_itself_misleads_no_other_collection_and_nobody_once_it_is_mended(open_edge):
    import qdrant_edge as qe

    damaged, sound = open_edge("damaged"), open_edge("sound")
    point = point_id(ref(2), VectorSurface.TEXT)
    lie = qe.Point(point, {"": ONE}, payload(record(7, ONE)))
    shard_of(damaged).update(qe.UpdateOperation.upsert_points([lie]))
    sound.write([record(2, ONE)], [], 1)
    assert numbers(damaged.search(ONE, None, 5, EVERY_TYPE).dense) == [7]
    assert numbers(sound.search(ONE, None, 5, EVERY_TYPE).dense) == [2]
    damaged.write([record(2, ONE)], [], 1)
    assert numbers(damaged.search(ONE, None, 5, EVERY_TYPE).dense) == [2]


def test_a_point_that_was_deleted_is_met_anew(open_edge, known):
    index = open_edge()
    index.write([record(1, ONE), record(2, ONE)], [], 1)
    index.search(ONE, None, 5, EVERY_TYPE)
    index.write([], [ref(1)], 2)
    assert list(known.values()) == [identify(ref(2), VectorSurface.TEXT)]


@pytest.mark.spec("recall-88")
def test_extra_payload_fields_are_ignored(open_edge):
    import qdrant_edge as qe

    index = open_edge()
    fields = payload(record(2, ONE, "dog")) | {f"extra_{n}": n for n in range(28)}
    point = qe.Point(point_id(ref(2), VectorSurface.TEXT), {"": ONE}, fields)
    shard_of(index).update(qe.UpdateOperation.upsert_points([point]))
    assert numbers(index.search(ONE, None, 5, EVERY_TYPE).dense) == [2]
    assert index.present([ref(2)]) == {ref(2): "Label: dog"}


def test_a_point_holds_exactly_five_fields(open_edge):
    index = open_edge()
    index.write([record(1, ONE, "dog")], [], 1)
    (stored,) = shard_of(index).retrieve([point_id(ref(1), VectorSurface.TEXT)], True, False)
    assert stored.payload == {
        "object_id": str(UUID(int=1)),
        "object_type": "observation",
        "surface": "text",
        "schema_version": SCHEMA_VERSION,
        "embedding_text": "Label: dog",
    }


def test_a_delete_removes_surfaces_an_older_release_wrote(open_edge):
    import qdrant_edge as qe

    index = open_edge()
    index.write([record(1, ONE), record(2, ONE)], [], 1)
    old = qe.Point(
        point_id(ref(1), VectorSurface.SUMMARY), {"": ONE}, payload(record(1, ONE)) | {"surface": "summary"}
    )
    shard_of(index).update(qe.UpdateOperation.upsert_points([old]))
    index.write([], [ref(1)], 2)
    assert numbers(index.search(ONE, None, 5, EVERY_TYPE).dense) == [2]


@pytest.mark.spec("recall-80")
def test_a_store_of_another_size_is_refused_and_left_as_it_was(open_edge):
    index = open_edge(size=8)
    index.write([record(1, [1.0] * 8, "dog")], [], 3)
    index.close()
    with pytest.raises(CollectionIncompatible) as caught:
        open_edge(size=16)
    assert (caught.value.mismatch, caught.value.expected, caught.value.actual) == ("vector_size", "16", "8")
    again = open_edge(size=8)
    assert again.present([ref(1)]) == {ref(1): "Label: dog"}
    assert again.cursor() == Cursor(applied=0, high=3)


def test_another_fingerprint_is_refused_with_both_and_the_remedy(open_edge):
    open_edge(fingerprint="one").close()
    with pytest.raises(CollectionIncompatible, match="memory_rebuild_vectors") as caught:
        open_edge(fingerprint="two")
    assert (caught.value.mismatch, caught.value.expected, caught.value.actual) == (
        "fingerprint",
        "two",
        "one",
    )
    with pytest.raises(CollectionIncompatible) as caught:
        open_edge(fingerprint="one", language="german")
    assert caught.value.mismatch == "fingerprint"
    assert "english" in caught.value.actual
    assert "german" in caught.value.expected


def test_rebuild_only_serves_words_and_waits_for_the_rebuild(open_edge):
    """With another embedder the words still answer, forgetting still works, vectors are not written."""
    old = open_edge(fingerprint="one")
    old.write([record(1, ONE, "dog"), record(2, ONE, "dog")], [], 1)
    old.close()
    index = open_edge(fingerprint="two", size=8, on_mismatch="rebuild_only")
    assert numbers(index.search(None, "dog", 5, EVERY_TYPE).lexical) == [1, 2]
    for refused in (
        lambda: index.search([1.0] * 8, "dog", 5, EVERY_TYPE),
        lambda: index.write([record(3, [1.0] * 8)], [], 2),
    ):
        with pytest.raises(CollectionIncompatible):
            refused()
    index.write([], [ref(2)], 2)
    assert index.count() == 1
    rebuild = index.begin_rebuild()
    rebuild.write([record(1, [1.0] * 8, "dog")], [], 2)
    rebuild.switch(applied=2)
    assert numbers(index.search([1.0] * 8, "dog", 5, EVERY_TYPE).dense) == [1]
    index.close()
    assert open_edge(fingerprint="two", size=8).cursor() == Cursor(applied=2, high=2)


def test_an_index_opened_before_a_switch_to_another_fingerprint_does_not_mix(open_edge):
    first = open_edge(fingerprint="one")
    second = open_edge(fingerprint="two", on_mismatch="rebuild_only")
    second.begin_rebuild().switch(applied=0)
    with pytest.raises(CollectionIncompatible):
        first.search(ONE, None, 5, EVERY_TYPE)
    with pytest.raises(CollectionIncompatible):
        first.write([record(1, ONE)], [], 1)


@pytest.mark.spec("recall-82")
@pytest.mark.parametrize("name", ["Main", "a/b", "con", "", "-x", "a" * 129])
def test_bad_collection_names_touch_no_folder(open_edge, root, name):
    with pytest.raises(OutOfDomain) as caught:
        open_edge(name)
    assert caught.value.keys == ("collection_name",)
    assert not root.exists()


@pytest.mark.spec("recall-82")
@pytest.mark.parametrize("name", ["a", "0-x_1", "a" * 128])
def test_good_collection_names_are_folders(open_edge, root, name):
    open_edge(name)
    assert (root / name / "character-memory.json").is_file()


def test_an_unknown_language_touches_no_folder(open_edge, root):
    with pytest.raises(OutOfDomain) as caught:
        open_edge(language="klingon")
    assert caught.value.keys == ("language",)
    assert not root.exists()


@pytest.mark.spec("recall-83")
def test_a_moved_store_is_told_by_its_marker(open_edge, root):
    open_edge("first").close()
    shutil.move(root / "first", root / "second")
    with pytest.raises(CollectionIncompatible) as caught:
        open_edge("second")
    assert (caught.value.mismatch, caught.value.expected, caught.value.actual) == (
        "collection_name",
        "second",
        "first",
    )


@pytest.mark.spec("recall-84")
def test_a_marker_of_another_schema_version_is_refused(open_edge, root):
    open_edge().close()
    marker = root / "contract" / "gen-000001" / "character-memory.json"
    values = json.loads(marker.read_text())
    marker.write_text(json.dumps(values | {"record_schema_version": "older"}))
    with pytest.raises(UnsupportedSchemaVersion) as caught:
        open_edge()
    assert (caught.value.expected, caught.value.actual) == (SCHEMA_VERSION, "older")
    assert "marker" in caught.value.context


def test_a_folder_with_other_things_is_refused_before_the_engine(open_edge, root):
    folder = root / "contract"
    folder.mkdir(parents=True)
    (folder / "letter.txt").write_text("mine")
    with pytest.raises(NotAStore, match=r"letter\.txt"):
        open_edge()
    assert [entry.name for entry in folder.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ('{"kind": "graph", "format": 1}', "graph"),
        ("no json", "cannot be read"),
        ('{"kind": "vectors", "format": 99}', "99"),
    ],
)
def test_a_marker_of_something_else_is_refused(open_edge, root, content, found):
    folder = root / "contract"
    folder.mkdir(parents=True)
    (folder / "character-memory.json").write_text(content)
    with pytest.raises(NotAStore, match=found):
        open_edge()


def test_a_file_in_the_place_of_the_folder_is_refused(open_edge, root):
    root.mkdir()
    (root / "contract").write_text("")
    with pytest.raises(NotAStore, match="not a folder"):
        open_edge()


def test_an_opening_that_stopped_early_is_taken_up_again(open_edge, root):
    """Only our own first files are there: the lock, half a marker, half a generation."""
    folder = root / "contract"
    (folder / "gen-000001").mkdir(parents=True)
    (folder / "character-memory.json").write_text(
        '{"kind": "vectors", "format": 1, "collection": "contract"}'
    )
    (folder / "owner.lock").write_text("stale")
    assert open_edge().count() == 0
    early = root / "early"
    early.mkdir()
    (early / "owner.lock").write_text("")
    (early / "character-memory.json.new").write_text("{")
    assert open_edge("early").count() == 0


def test_a_missing_generation_is_told(open_edge, root):
    open_edge().close()
    shutil.rmtree(root / "contract" / "gen-000001")
    with pytest.raises(VectorDatabaseError, match="gen-000001"):
        open_edge()


def cut_config(shard):
    shutil.rmtree(shard / "segments")
    (shard / "edge_config.json").write_text("{")


def cut_status(shard):
    """Over which the engine panics."""
    (status,) = shard.glob("segments/*/vector_storage/vectors/status.dat")
    os.truncate(status, 2)


def scrambled_vectors(shard):
    """Which the engine opens, and scores with what is no number."""
    (chunk,) = shard.glob("segments/*/vector_storage/vectors/chunk_0.mmap")
    with chunk.open("r+b") as file:
        file.write(struct.pack("<4f", *[math.nan] * 4) * 64)


@pytest.mark.parametrize("damage", [cut_config, cut_status, scrambled_vectors])
def test_a_damaged_index_fails_its_calls_until_it_is_rebuilt(open_edge, root, damage):
    index = open_edge()
    index.write([record(n, ONE, "dog") for n in range(3)], [], 3)
    index.close()
    damage(root / "contract" / "gen-000001" / "shard")
    for _ in range(2):
        index = open_edge()
        for _ in range(2):
            with pytest.raises(VectorDatabaseError, match="rebuild the index") as caught:
                index.search(ONE, None, 5, EVERY_TYPE)
            assert (caught.value.backend, caught.value.kind) == ("qdrant_edge", "engine")
        index.close()
    index = open_edge()
    anew = index.begin_rebuild()
    anew.write([record(n, ONE, "dog") for n in range(3)], [], 3)
    anew.switch(3)
    assert numbers(index.search(ONE, None, 5, EVERY_TYPE).dense) == [0, 1, 2]
    index.close()
    assert open_edge().count() == 3


def test_an_old_generation_that_cannot_be_closed_gives_way_all_the_same(open_edge, root, caplog):
    index = open_edge()
    index.write([record(1, ONE, "dog")], [], 1)
    anew = index.begin_rebuild()
    anew.write([record(2, ONE, "dog")], [], 1)

    def failing():
        raise Exception("no space left")

    spy_on(index).flush = failing
    anew.switch(1)
    assert "closing" in caplog.text
    assert numbers(index.search(ONE, None, 5, EVERY_TYPE).dense) == [2]
    assert sorted(entry.name for entry in (root / "contract").glob("gen-*")) == ["gen-000002"]


def test_indexes_of_one_folder_share_the_shard_until_the_last_closes(open_edge, root, tmp_path):
    first = open_edge()
    link = tmp_path / "link"
    link.symlink_to(root)
    second = EdgeVectorIndex(link, "contract", 4, FINGERPRINT)
    first.write([record(1, ONE, "dog")], [], 1)
    assert second.count() == 1
    first.close()
    second.write([record(2, ONE, "dog")], [], 2)
    second.close()
    assert str((root / "contract").resolve()) not in edge_module._stores._entries
    assert open_edge().count() == 2


def test_a_failed_write_forgets_what_was_kept_in_memory(open_edge):
    """After it the cursor and the counts are read from the engine again."""
    index = open_edge()
    index.write([record(1, ONE)], [], 4)
    index.search(ONE, None, 1, EVERY_TYPE)
    generation = index._store.generation
    shard = generation._shard

    class Broken(Spy):
        def update(self, operation):
            shard.update(operation)
            raise Exception("disk full")

    generation._shard = Broken(shard)
    with pytest.raises(VectorDatabaseError, match="disk full"):
        index.write([record(2, ONE)], [], 6)
    generation._shard = shard
    assert index.cursor() == Cursor(applied=0, high=6)
    assert index.search(ONE, None, 1, EVERY_TYPE).dense.completeness.scanned == 2


def test_applied_is_written_after_the_points_are_durable(open_edge):
    index = open_edge()
    index.write([record(1, ONE)], [], 1)
    spy = spy_on(index)
    index.flush()
    assert spy.calls == ["flush"]
    spy.calls.clear()
    index.flush(applied=1)
    assert spy.calls == ["flush", "update", "flush"]
    spy.calls.clear()
    index.flush(applied=1)
    assert spy.calls == ["flush"]


def test_a_rebuild_left_open_is_gone_on_with_if_it_fits(open_edge, root):
    def folders():
        return sorted(entry.name for entry in (root / "contract").glob("gen-*"))

    index = open_edge()
    index.begin_rebuild().write([record(1, ONE, "dog")], [], 1)
    index.close()
    assert folders() == ["gen-000001", "gen-000002"]
    index = open_edge()
    assert index.begin_rebuild().present([ref(1)]) == {ref(1): "Label: dog"}
    index.close()
    index = open_edge(fingerprint="two", on_mismatch="rebuild_only")
    rebuild = index.begin_rebuild()
    assert rebuild.present([ref(1)]) == {}, "it was made with another model"
    rebuild.switch(applied=0)
    index.close()
    assert folders() == ["gen-000002"]


def test_a_rebuild_that_was_damaged_is_begun_anew(open_edge, root):
    index = open_edge()
    index.begin_rebuild().leave()
    shutil.rmtree(root / "contract" / "gen-000002" / "shard")
    rebuild = index.begin_rebuild()
    rebuild.write([record(1, ONE)], [], 1)
    rebuild.switch(applied=1)
    assert index.count() == 1


def test_of_two_rebuilds_at_once_each_has_its_own(open_edge):
    index = open_edge()
    one, two = index.begin_rebuild(), index.begin_rebuild()
    one.write([record(1, ONE)], [], 1)
    assert two.present([ref(1)]) == {}
    one.switch(applied=1)
    two.leave()
    assert index.present([ref(1)]).keys() == {ref(1)}


def test_point_ids_are_fixed():
    """A new derivation would orphan every point ever written."""
    assert str(point_id(MemoryObjectRef.of(ObjectType.EPISODE, UUID(int=1)), VectorSurface.SUMMARY)) == (
        "59d28b02-9ea5-560e-ab01-46f1754b627a"
    )
    assert str(CURSOR_POINT) == "0c9b7761-9a96-526f-ab9d-0d334af12cd0"

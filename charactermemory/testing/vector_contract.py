"""The contract of a vector index, as tests: subclass, say how to open one, and run pytest.

    class TestMyIndex(VectorIndexContract):
        @pytest.fixture
        def open_index(self, tmp_path):
            return lambda collection="contract", size=4: MyIndex(tmp_path, collection, size)

A dense query scores by cosine, a text by BM25 over word stems; both are checked by order, not by value.
"""

from __future__ import annotations

import threading
from typing import Protocol

import pytest

from charactermemory.domain.kinds import SCHEMA_VERSION
from charactermemory.errors import (
    CollectionIncompatible,
    StoreClosedError,
    UnsupportedSchemaVersion,
    VectorDatabaseError,
)
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.vectors import (
    Completeness,
    Cursor,
    LegHits,
    VectorIndex,
    VectorSurface,
)
from charactermemory.testing.vector_samples import EVERY_TYPE, numbers, record, ref


class OpenIndex(Protocol):
    """Opens a new, empty index; the suite closes what it opens."""

    def __call__(self, collection: str = "contract", size: int = 4) -> VectorIndex:
        """Return it."""
        ...


def closed(leg: LegHits) -> bool:
    """Whether every record tied at the cut was seen."""
    return leg.completeness.kind in ("exhaustive", "boundary_tie_closed")


class VectorIndexContract:
    """Everything a caller may rely on, whatever the engine."""

    @pytest.fixture
    def open_index(self) -> OpenIndex:
        """Return how to open an index; subclasses override it."""
        raise NotImplementedError

    @pytest.fixture
    def index(self, open_index: OpenIndex) -> VectorIndex:
        """Return an empty index of size 4."""
        return open_index()

    # --- searching -------------------------------------------------------------------------------

    def test_a_tied_cut_is_decided_by_id(self, index: VectorIndex) -> None:
        """Of two equal scores at limit 1 the lower id is returned, whatever the engine returns first."""
        for first, second in ((1, 2), (4, 3)):
            index.write([record(first, [1, 0, 0, 0]), record(second, [1, 0, 0, 0])], [], 1)
        index.write([record(9, [0.5, 0.8660254, 0, 0])], [], 1)
        hits = index.search([1, 0, 0, 0], None, 1, EVERY_TYPE)
        assert numbers(hits.dense) == [1]
        assert hits.dense.candidates[0].score == 1.0
        assert closed(hits.dense)

    def test_dense_hits_come_best_first_with_their_cosines(self, index: VectorIndex) -> None:
        """Scores are cosines, rounded to 6 decimals, whatever the length of the stored vector."""
        index.write([record(1, [0.6, 0.8, 0, 0]), record(2, [7, 0, 0, 0]), record(3, [-1, 0, 0, 0])], [], 1)
        hits = index.search([2, 0, 0, 0], None, 5, EVERY_TYPE).dense
        assert [(c.ref, c.surface, c.score) for c in hits.candidates] == [
            (ref(2), VectorSurface.TEXT, 1.0),
            (ref(1), VectorSurface.TEXT, 0.6),
            (ref(3), VectorSurface.TEXT, -1.0),
        ]

    @pytest.mark.parametrize("length", [1e-3, 1e-4, 1e-15])
    def test_a_short_vector_has_a_direction_all_the_same(self, index: VectorIndex, length: float) -> None:
        """Engines leave a vector of a length below 3.4e-4 as it is, and what they score is no cosine then."""
        index.write([record(1, [0.6 * length, 0.8 * length, 0, 0]), record(2, [length, 0, 0, 0])], [], 1)
        for query in ([2.0, 0, 0, 0], [2 * length, 0, 0, 0]):
            found = index.search(query, None, 5, EVERY_TYPE).dense.candidates
            assert [(c.ref, c.score) for c in found] == [(ref(2), 1.0), (ref(1), 0.6)]

    def test_ties_are_ordered_by_type_then_id(self, index: VectorIndex) -> None:
        """Equal scores follow the stable ranks: type first, then id."""
        same = [1.0, 0.0, 0.0, 0.0]
        index.write(
            [
                record(1, same, object_type=ObjectType.DERIVED_MEMORY),
                record(2, same, object_type=ObjectType.MEMORY_THREAD),
                record(4, same),
                record(3, same),
                record(5, same, object_type=ObjectType.EPISODE),
            ],
            [],
            1,
        )
        assert numbers(index.search(same, None, 10, EVERY_TYPE).dense) == [5, 3, 4, 2, 1]

    def test_words_are_found_by_their_stems(self, index: VectorIndex) -> None:
        """The lexical leg finds what shares a stem with the query, rarer words first, and nothing else."""
        index.write(
            [
                record(1, [1, 0, 0, 0], "the dog sleeps"),
                record(2, [1, 0, 0, 0], "dogs and a lighthouse"),
                record(3, [1, 0, 0, 0], "the dog walks"),
                record(4, [1, 0, 0, 0], "nothing of the kind"),
            ],
            [],
            1,
        )
        hits = index.search(None, "dog lighthouses", 10, EVERY_TYPE)
        assert numbers(hits.lexical) == [2, 1, 3]
        assert closed(hits.lexical)
        assert hits.dense.completeness == Completeness(kind="not_requested")
        assert hits.dense.candidates == ()

    def test_a_text_without_spaces_is_taken_apart(self, index: VectorIndex) -> None:
        """Languages written without spaces are tokenised into words."""
        index.write(
            [record(1, [1, 0, 0, 0], "京都に行きました"), record(2, [1, 0, 0, 0], "海を見ました")], [], 1
        )
        assert numbers(index.search(None, "京都", 10, EVERY_TYPE).lexical) == [1]

    def test_a_text_of_stop_words_finds_nothing(self, index: VectorIndex) -> None:
        """A text without a single term matches nothing, and that is a complete answer."""
        index.write([record(1, [1, 0, 0, 0], "the dog"), record(2, [1, 0, 0, 0], "the")], [], 1)
        for text in ("the", "", " \n"):
            hits = index.search(None, text, 10, EVERY_TYPE).lexical
            assert hits.candidates == ()
            assert closed(hits)

    def test_both_legs_answer_as_each_alone(self, index: VectorIndex) -> None:
        """Asking for both at once changes neither."""
        index.write([record(n, [1, n / 10, 0, 0], f"word{n % 3} dog") for n in range(1, 30)], [], 1)
        both = index.search([1, 0.5, 0, 0], "word1", 5, EVERY_TYPE)
        assert both.dense == index.search([1, 0.5, 0, 0], None, 5, EVERY_TYPE).dense
        assert both.lexical == index.search(None, "word1", 5, EVERY_TYPE).lexical
        assert len(both.dense.candidates) == len(both.lexical.candidates) == 5

    def test_a_scope_holds_in_both_legs(self, index: VectorIndex) -> None:
        """No type outside the scope is returned, and ties are closed inside it."""
        same = [1.0, 0.0, 0.0, 0.0]
        index.write([record(n, same, "dog") for n in range(1, 21)], [], 1)
        index.write([record(n, same, "dog", ObjectType.DERIVED_MEMORY) for n in (32, 31, 33)], [], 1)
        hits = index.search(same, "dog", 2, [ObjectType.EPISODE, ObjectType.DERIVED_MEMORY])
        for found in (hits.dense, hits.lexical):
            assert numbers(found) == [31, 32]
            assert {c.ref.object_type for c in found.candidates} == {ObjectType.DERIVED_MEMORY}
            assert closed(found)

    def test_nothing_asked_is_not_requested(self, index: VectorIndex) -> None:
        """An empty scope, a limit of 0 and no query reach no engine."""
        index.write([record(1, [1, 0, 0, 0], "dog")], [], 1)
        for embedding, text, limit, scope in (
            ([1.0, 0, 0, 0], "dog", 5, ()),
            ([1.0, 0, 0, 0], "dog", 0, EVERY_TYPE),
            (None, None, 5, EVERY_TYPE),
        ):
            hits = index.search(embedding, text, limit, scope)
            for found in (hits.dense, hits.lexical):
                assert found == LegHits((), Completeness(kind="not_requested"))

    def test_a_query_without_length_scores_everything_nought(self, index: VectorIndex) -> None:
        """No similarity exists: the whole scope in canonical order, all 0.0, exhaustive."""
        index.write([record(n, [1, n, 0, 0]) for n in (5, 3, 1, 4, 2)], [], 1)
        index.write([record(6, [1, 0, 0, 0], object_type=ObjectType.EPISODE)], [], 1)
        hits = index.search([0.0, 0.0, 0.0, 0.0], None, 3, [ObjectType.OBSERVATION]).dense
        assert numbers(hits) == [1, 2, 3]
        assert [candidate.score for candidate in hits.candidates] == [0.0, 0.0, 0.0]
        assert hits.completeness == Completeness(kind="exhaustive", scanned=5)

    def test_a_query_of_another_size_is_refused(self, open_index: OpenIndex) -> None:
        """The error names both sizes."""
        index = open_index(size=1536)
        with pytest.raises(CollectionIncompatible) as caught:
            index.search([1.0] * 8, None, 5, EVERY_TYPE)
        assert (caught.value.mismatch, caught.value.expected, caught.value.actual) == (
            "vector_size",
            "1536",
            "8",
        )

    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e39])
    def test_a_query_that_is_not_finite_is_refused(self, index: VectorIndex, bad: float) -> None:
        """Engines would answer it silently."""
        with pytest.raises(VectorDatabaseError) as caught:
            index.search([bad, 0.0, 0.0, 0.0], None, 5, EVERY_TYPE)
        assert caught.value.kind == "conversion"

    def test_what_was_deleted_or_rewritten_no_longer_weighs(self, open_index: OpenIndex) -> None:
        """Scores depend on what is there, not on what was: word rarity forgets deleted and old texts."""
        lived, fresh = open_index("lived"), open_index("fresh")
        lived.write([record(n, [1, 0, 0, 0], "lighthouse keeper") for n in range(10, 40)], [], 1)
        lived.write([record(1, [1, 0, 0, 0], "lighthouse"), record(2, [1, 0, 0, 0], "harbour")], [], 1)
        lived.write([], [ref(n) for n in range(10, 40)], 2)
        lived.write([record(2, [1, 0, 0, 0], "a lighthouse, a harbour")], [], 3)
        fresh.write(
            [record(1, [1, 0, 0, 0], "lighthouse"), record(2, [1, 0, 0, 0], "a lighthouse, a harbour")], [], 1
        )
        asked = (None, "lighthouse harbour", 10, EVERY_TYPE)
        assert lived.search(*asked).lexical.candidates == fresh.search(*asked).lexical.candidates

    # --- writing ---------------------------------------------------------------------------------

    def test_a_write_is_searchable_when_it_returns(self, index: VectorIndex) -> None:
        """Indexing an object again replaces its one point, in both legs, at once."""
        index.write([record(1, [1, 0, 0, 0], "harbour"), record(2, [0, 1, 0, 0], "garden")], [], 1)
        index.write([record(1, [0, 0, 1, 0], "lighthouse")], [], 2)
        assert index.count() == 2
        assert index.present([ref(1)]) == {ref(1): "Label: lighthouse"}
        found = index.search([0, 0, 1, 0], "lighthouse", 1, EVERY_TYPE)
        assert numbers(found.dense) == numbers(found.lexical) == [1]
        assert found.dense.candidates[0].score == 1.0
        assert index.search(None, "harbour", 5, EVERY_TYPE).lexical.candidates == ()

    def test_a_delete_removes_the_object_and_no_neighbour(self, index: VectorIndex) -> None:
        """Identity is type and id: an object of another type with the same id stays."""
        same = [1.0, 0.0, 0.0, 0.0]
        index.write([record(1, same, "dog"), record(2, same, "dog")], [], 1)
        index.write([record(1, same, "dog", ObjectType.EPISODE)], [], 1)
        index.write([], [ref(1), ref(77)], 2)
        assert index.count() == 2
        assert set(index.present([ref(1), ref(2), ref(1, ObjectType.EPISODE)])) == {
            ref(2),
            ref(1, ObjectType.EPISODE),
        }
        hits = index.search(same, "dog", 10, EVERY_TYPE)
        assert numbers(hits.dense) == numbers(hits.lexical) == [1, 2]

    def test_one_write_deletes_before_it_upserts(self, index: VectorIndex) -> None:
        """An object both deleted and upserted is there."""
        index.write([record(1, [1, 0, 0, 0], "old")], [], 1)
        index.write([record(1, [1, 0, 0, 0], "new")], [ref(1)], 2)
        assert index.present([ref(1)]) == {ref(1): "Label: new"}
        assert index.count() == 1

    def test_an_empty_write_changes_nothing(self, index: VectorIndex) -> None:
        """No ids to delete means nothing is deleted, and `high` stays."""
        index.write([record(1, [1, 0, 0, 0])], [], 1)
        index.write([], [], 9)
        assert index.count() == 1
        assert index.cursor() == Cursor(applied=0, high=1)

    @pytest.mark.parametrize(
        ("embedding", "problem"),
        [
            ([0.0, 0.0, 0.0, 0.0], "conversion"),
            ([float("nan"), 0.0, 0.0, 0.0], "conversion"),
            ([float("inf"), 1.0, 0.0, 0.0], "conversion"),
            ([1e-30, 0.0, 0.0, 0.0], "conversion"),
            ([1.0, 0.0, 0.0], "vector_size"),
        ],
    )
    def test_one_bad_embedding_refuses_the_whole_write(
        self, index: VectorIndex, embedding: list[float], problem: str
    ) -> None:
        """Nothing is written, not even the deletes, and the error names the record or both sizes."""
        index.write([record(1, [1, 0, 0, 0])], [], 1)
        batch = [record(2, [1, 0, 0, 0]), record(3, embedding), record(4, [1, 0, 0, 0])]
        with pytest.raises((VectorDatabaseError, CollectionIncompatible)) as caught:
            index.write(batch, [ref(1)], 2)
        if problem == "vector_size":
            assert isinstance(caught.value, CollectionIncompatible)
            assert (caught.value.mismatch, caught.value.expected, caught.value.actual) == (problem, "4", "3")
        else:
            assert isinstance(caught.value, VectorDatabaseError)
            assert caught.value.kind == problem
            assert str(ref(3)) in caught.value.message
        assert set(index.present([ref(n) for n in range(1, 5)])) == {ref(1)}
        assert index.cursor() == Cursor(applied=0, high=1)

    def test_a_record_of_another_schema_version_is_refused(self, index: VectorIndex) -> None:
        """Nothing is written."""
        with pytest.raises(UnsupportedSchemaVersion) as caught:
            index.write([record(1, [1, 0, 0, 0]), record(2, [1, 0, 0, 0], schema_version="old")], [], 1)
        assert (caught.value.expected, caught.value.actual) == (SCHEMA_VERSION, "old")
        assert index.count() == 0

    # --- the place in the commit log -------------------------------------------------------------

    def test_high_and_applied_only_grow(self, index: VectorIndex) -> None:
        """`high` rises with writes, `applied` with flushes; neither falls, and neither is a point."""
        assert index.cursor() == Cursor(applied=0, high=0)
        index.write([record(1, [1, 0, 0, 0], "dog")], [], 7)
        assert index.cursor() == Cursor(applied=0, high=7)
        index.write([record(2, [1, 0, 0, 0], "dog")], [], 5)
        index.flush()
        assert index.cursor() == Cursor(applied=0, high=7)
        index.flush(applied=6)
        index.flush(applied=4)
        assert index.cursor() == Cursor(applied=6, high=7)
        index.write([], [ref(2)], 8)
        assert index.cursor() == Cursor(applied=6, high=8)
        assert index.count() == 1
        assert numbers(index.search([1, 0, 0, 0], "dog", 10, EVERY_TYPE).dense) == [1]
        assert numbers(index.search([0, 0, 0, 0], "dog", 10, EVERY_TYPE).dense) == [1]
        assert index.scan(None, 10)[0] == [(ref(1), "Label: dog")]

    # --- looking through -------------------------------------------------------------------------

    def test_present_tells_what_is_there(self, index: VectorIndex) -> None:
        """Only refs that were asked for and have a point; types that are never indexed are absent."""
        index.write([record(n, [1, n, 0, 0], f"text {n}") for n in range(1, 700)], [], 1)
        asked = [ref(n) for n in range(100, 900)] + [ref(100, ObjectType.ENTITY), ref(1, ObjectType.EPISODE)]
        assert index.present(asked) == {ref(n): f"Label: text {n}" for n in range(100, 700)}
        assert index.present([]) == {}

    def test_scan_visits_every_point_once(self, index: VectorIndex) -> None:
        """Pages of any size together hold each point exactly once."""
        index.write([record(n, [1, n, 0, 0], f"text {n}") for n in range(1, 24)], [], 1)
        for page in (1, 7, 23, 100):
            seen: list[tuple[MemoryObjectRef, str]] = []
            after = None
            while True:
                found, after = index.scan(after, page)
                seen += found
                if after is None:
                    break
            assert len(seen) == 23
            assert dict(seen) == {ref(n): f"Label: text {n}" for n in range(1, 24)}

    # --- rebuilding ------------------------------------------------------------------------------

    def test_a_rebuild_serves_only_after_its_switch(self, index: VectorIndex) -> None:
        """The old generation serves and takes writes meanwhile; the switch changes everything at once."""
        index.write([record(1, [1, 0, 0, 0], "old")], [], 3)
        index.flush(applied=3)
        rebuild = index.begin_rebuild()
        rebuild.write([record(2, [1, 0, 0, 0], "new"), record(3, [1, 0, 0, 0], "gone")], [], 3)
        rebuild.write([], [ref(3)], 4)
        index.write([record(4, [1, 0, 0, 0], "meanwhile")], [], 4)
        assert set(index.present([ref(n) for n in range(1, 5)])) == {ref(1), ref(4)}
        assert rebuild.present([ref(n) for n in range(1, 5)]) == {ref(2): "Label: new"}
        rebuild.switch(applied=4)
        assert set(index.present([ref(n) for n in range(1, 5)])) == {ref(2)}
        assert index.cursor() == Cursor(applied=4, high=4)
        assert numbers(index.search([1, 0, 0, 0], "new", 5, EVERY_TYPE).lexical) == [2]
        assert index.count() == 1
        with pytest.raises(StoreClosedError):
            rebuild.write([record(5, [1, 0, 0, 0])], [], 5)

    def test_a_rebuild_that_was_left_is_gone_on_with(self, index: VectorIndex) -> None:
        """What serves knows nothing of it; the next rebuild has what it wrote, unless it begins anew."""
        index.write([record(1, [1, 0, 0, 0])], [], 1)
        rebuild = index.begin_rebuild()
        rebuild.write([record(2, [1, 0, 0, 0], "two")], [], 1)
        rebuild.leave()
        assert index.count() == 1
        with pytest.raises(StoreClosedError):
            rebuild.switch(applied=1)
        again = index.begin_rebuild()
        assert again.present([ref(1), ref(2)]) == {ref(2): "Label: two"}
        assert again.scan(None, 5)[0] == [(ref(2), "Label: two")]
        again.leave()
        anew = index.begin_rebuild(anew=True)
        assert anew.present([ref(1), ref(2)]) == {}
        anew.switch(applied=1)
        assert index.count() == 0
        assert index.begin_rebuild().present([ref(2)]) == {}

    # --- threads and the end ---------------------------------------------------------------------

    def test_threads_share_an_index(self, index: VectorIndex) -> None:
        """Concurrent writers and readers lose nothing and see only whole points."""
        problems: list[BaseException] = []

        def work(first: int) -> None:
            try:
                for number in range(first, first + 20):
                    index.write([record(number, [1, 0, 0, 0], "dog")], [], number)
                    hits = index.search([1, 0, 0, 0], "dog", 200, EVERY_TYPE)
                    assert number in numbers(hits.dense)
                    assert number in numbers(hits.lexical)
            except BaseException as error:
                problems.append(error)

        threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert problems == []
        assert index.count() == 80
        assert index.cursor().high == 419

    def test_close_twice_then_every_use_is_refused(self, index: VectorIndex) -> None:
        """The second close is fine; what comes after is told that the owner is unavailable."""
        index.write([record(1, [1, 0, 0, 0])], [], 1)
        index.close()
        index.close()
        for use in (
            lambda: index.search([1, 0, 0, 0], None, 5, EVERY_TYPE),
            lambda: index.write([record(2, [1, 0, 0, 0])], [], 2),
            lambda: index.present([ref(1)]),
            lambda: index.cursor(),
            lambda: index.flush(),
            lambda: index.scan(None, 5),
            lambda: index.count(),
            lambda: index.begin_rebuild(),
        ):
            with pytest.raises(StoreClosedError, match="owner unavailable"):
                use()

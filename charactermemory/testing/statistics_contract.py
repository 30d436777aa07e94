"""The contract of a statistics store, as tests: subclass, say how to open one, and run pytest.

    class TestMyStore(PersistentStatisticsContract):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda collection="contract": MyStore(tmp_path / "statistics", collection)

Use `StatisticsContract` for a store that forgets everything when it is closed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

import pytest

from charactermemory.domain.kinds import RelationType
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.statistics import (
    Best,
    Count,
    CountScope,
    Health,
    HubEdge,
    ObjectState,
    Projection,
    StatisticsStore,
)
from charactermemory.ports.vectors import Cursor
from charactermemory.testing.statistics_model import (
    ABOUT,
    DERIVED,
    about,
    assert_equal_to_recount,
    best_of,
    counts_of,
    hint,
    memory,
    notion,
    overall_of,
    random_projections,
    state,
)


class OpenStore(Protocol):
    """Opens a collection's store in the test's place; the suite closes what it opens."""

    def __call__(self, collection: str = "contract") -> StatisticsStore:
        """Return it, with what an earlier one of that collection left there if it is persistent."""
        ...


class StatisticsContract:
    """Everything a caller may rely on, whatever keeps the rows."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Return how to open a store; subclasses override it."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Iterator[StatisticsStore]:
        """Return a new, empty store."""
        store = open_store()
        yield store
        store.close()

    # --- counting --------------------------------------------------------------------------------

    def test_a_new_store_knows_nothing(self, store: StatisticsStore) -> None:
        """No counter reads as none, not as zeros; no cursor as zeros."""
        assert counts_of(store, [notion(1)], ABOUT, DERIVED) == {}
        assert overall_of(store, ABOUT, DERIVED) is None
        assert best_of(store, notion(1), ABOUT, DERIVED, "total", 5) == []
        assert store.states([memory(1)]) == {}
        assert store.edges_of([memory(1)]) == {}
        assert store.scan(None, 5) == []
        assert store.cursor() == Cursor(0, 0)
        assert store.health(0) == Health("healthy")

    def test_empty_input_selects_and_changes_nothing(self, store: StatisticsStore) -> None:
        """Nothing asked, nothing answered; an empty projection still raises the mark."""
        store.apply(Projection((), ()), 3)
        assert counts_of(store, [], ABOUT, DERIVED) == {}
        assert store.states([]) == {}
        assert store.edges_of([]) == {}
        assert store.cursor() == Cursor(0, 3)

    def test_each_scope_counts_its_edges(self, store: StatisticsStore) -> None:
        """All, active, and current ones."""
        states = [state(memory(1)), state(memory(2), superseded=True), state(memory(3), suppressed=True)]
        store.apply(about(notion(7), *states), 1)
        assert counts_of(store, [notion(7), notion(8)], ABOUT, DERIVED) == {notion(7): Count(3, 2, 1)}
        assert overall_of(store, ABOUT, DERIVED) == Count(3, 2, 1)

    def test_relation_and_types_keep_counters_apart(self, store: StatisticsStore) -> None:
        """One id under three hub types, two object types and two relations."""
        same = UUID(int=5)
        hubs = [
            MemoryObjectRef.of(kind, same)
            for kind in (ObjectType.ENTITY, ObjectType.MEMORY_THREAD, ObjectType.EPISODE)
        ]
        states = (state(memory(5, ObjectType.OBSERVATION)), state(memory(5)))
        edges = [HubEdge(hub, ABOUT, states[1].ref) for hub in hubs]
        edges += [
            HubEdge(hubs[0], RelationType.MENTIONS, states[1].ref),
            HubEdge(hubs[0], ABOUT, states[0].ref),
        ]
        store.apply(Projection(states, tuple(edges)), 1)
        one = Count(1, 1, 1)
        assert counts_of(store, hubs, ABOUT, DERIVED) == dict.fromkeys(hubs, one)
        assert overall_of(store, ABOUT, DERIVED) == Count(3, 3, 3)
        assert overall_of(store, RelationType.MENTIONS, DERIVED) == one
        assert counts_of(store, hubs, ABOUT, ObjectType.OBSERVATION) == {hubs[0]: one}
        assert best_of(store, hubs[1], ABOUT, DERIVED, "current", 5) == [memory(5)]

    def test_an_edge_counts_once(self, store: StatisticsStore) -> None:
        """Whether it comes twice in one projection or again in a later one."""
        edge = HubEdge(notion(7), ABOUT, memory(1))
        projection = Projection((state(memory(1)),), (edge, edge))
        store.apply(projection, 1)
        store.apply(projection, 2)
        assert overall_of(store, ABOUT, DERIVED) == Count(1, 1, 1)
        assert store.edges_of([memory(1)]) == {memory(1): frozenset({edge})}

    def test_a_notion_at_a_notion_is_active_and_current(self, store: StatisticsStore) -> None:
        """It has no state that could say otherwise, nor hint at it; ties go by id."""
        related = RelationType.ASSOCIATED_WITH
        edges = tuple(HubEdge(notion(1), related, notion(n)) for n in (3, 2))
        store.apply(Projection((), edges), 1)
        assert counts_of(store, [notion(1)], related, ObjectType.ENTITY) == {notion(1): Count(2, 2, 2)}
        key = (notion(1), related, ObjectType.ENTITY)
        assert store.best([key], "current", 5, [notion(2)]) == Best({key: [notion(2), notion(3)]}, {})

    # --- merging ---------------------------------------------------------------------------------

    @pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)])
    def test_states_only_restrict_in_any_order(self, store: StatisticsStore, order: Sequence[int]) -> None:
        """A forgotten memory stays forgotten when an older projection arrives late."""
        hub, ref = notion(7), memory(1)
        versions = [
            about(hub, state(ref)),
            about(hub, state(ref, superseded=True)),
            about(hub, state(ref, suppressed=True)),
        ]
        for index in order:
            store.apply(versions[index], index + 1)
        assert overall_of(store, ABOUT, DERIVED) == Count(1, 0, 0)
        assert store.states([ref]) == {ref: state(ref, suppressed=True)}
        assert best_of(store, hub, ABOUT, DERIVED, "total", 5) == [ref]
        assert best_of(store, hub, ABOUT, DERIVED, "active", 5) == []

    def test_two_states_of_one_object_in_one_projection_restrict_too(self, store: StatisticsStore) -> None:
        """The order within a projection does not matter either."""
        ref = memory(1)
        store.apply(about(notion(7), state(ref, superseded=True), state(ref)), 1)
        assert overall_of(store, ABOUT, DERIVED) == Count(1, 1, 0)

    def test_a_state_reaches_every_edge_of_its_object(self, store: StatisticsStore) -> None:
        """A predecessor's counters drop at all its hubs when its state comes without its edges."""
        ref = memory(1)
        edges = [HubEdge(notion(n), ABOUT, ref) for n in (7, 8)]
        edges.append(HubEdge(memory(9, ObjectType.EPISODE), RelationType.DERIVED_FROM, ref))
        store.apply(Projection((state(ref),), tuple(edges)), 1)
        store.apply(Projection((state(ref, superseded=True),), ()), 2)
        assert counts_of(store, [notion(7), notion(8)], ABOUT, DERIVED) == {
            notion(7): Count(1, 1, 0),
            notion(8): Count(1, 1, 0),
        }
        assert overall_of(store, ABOUT, DERIVED) == Count(2, 2, 0)
        assert overall_of(store, RelationType.DERIVED_FROM, DERIVED) == Count(1, 1, 0)

    def test_a_later_edge_takes_the_recorded_state(self, store: StatisticsStore) -> None:
        """An edge that comes without its object's state is weighed by the one recorded."""
        low, high = memory(1), memory(2)
        store.apply(Projection((state(low, suppressed=True, salience=0.1), state(high, salience=0.9)), ()), 1)
        store.apply(Projection((), tuple(HubEdge(notion(7), ABOUT, ref) for ref in (low, high))), 2)
        assert overall_of(store, ABOUT, DERIVED) == Count(2, 1, 1)
        assert best_of(store, notion(7), ABOUT, DERIVED, "total", 5) == [high, low]

    @pytest.mark.parametrize("seed", range(5))
    def test_counters_equal_a_recount(self, store: StatisticsStore, seed: int) -> None:
        """After many projections, repeated and out of order."""
        projections = random_projections(seed, 40)
        for token, projection in enumerate(projections + projections[::3], 1):
            store.apply(projection, token)
        assert_equal_to_recount(store, projections)

    # --- reading ---------------------------------------------------------------------------------

    def test_best_goes_by_salience_then_time_then_id(self, store: StatisticsStore) -> None:
        """Both descending, then the lower id; the limit cuts, the scope leaves out."""
        states = [
            state(memory(1), salience=0.2, minutes=9),
            state(memory(2), salience=0.8, minutes=1),
            state(memory(3), salience=0.8, minutes=2, superseded=True),
            state(memory(5), salience=0.8, minutes=1),
            state(memory(4), salience=0.8, minutes=1),
            state(memory(6), salience=1.0, suppressed=True),
        ]
        store.apply(about(notion(7), *states), 1)

        def best(scope: CountScope, limit: int = 9) -> list[int]:
            return [ref.id.int for ref in best_of(store, notion(7), ABOUT, DERIVED, scope, limit)]

        assert best("total") == [6, 3, 2, 4, 5, 1]
        assert best("active") == [3, 2, 4, 5, 1]
        assert best("current") == [2, 4, 5, 1]
        assert best("total", 2) == [6, 3]
        assert best("total", 0) == []

    def test_best_answers_for_many_hubs_at_once(self, store: StatisticsStore) -> None:
        """Each with its own limit; one that has none in scope has no key."""
        low, high, gone = state(memory(1), salience=0.2), state(memory(2), salience=0.9), state(memory(3))
        store.apply(about(notion(7), low, high), 1)
        store.apply(about(notion(8), low, replace(gone, suppressed=True, current=False)), 2)
        store.apply(about(notion(9), replace(gone, suppressed=True, current=False)), 3)
        keys = [(notion(number), ABOUT, DERIVED) for number in (7, 8, 9, 10)]
        assert store.best(keys, "current", 1).objects == {keys[0]: [memory(2)], keys[1]: [memory(1)]}
        assert store.best([], "current", 1) == Best({}, {})

    def test_states_come_back_as_they_were(self, store: StatisticsStore) -> None:
        """To the microsecond, before 1970 and after 2038, with the local day given."""
        states = [
            ObjectState(memory(1), False, True, 0.1, datetime(1969, 12, 31, 23, 59, 59, 1, UTC), "01-01"),
            ObjectState(memory(2), False, False, 1.0, datetime(2051, 2, 3, 4, 5, 6, 999_999, UTC), "02-29"),
            ObjectState(memory(3), True, False, 0.0, datetime(1, 1, 1, tzinfo=UTC), "12-31"),
        ]
        store.apply(Projection(tuple(states), ()), 1)
        asked = [memory(n) for n in (1, 2, 3, 4)]
        assert store.states(asked) == {item.ref: item for item in states}
        assert store.hints(asked) == {item.ref: hint(item) for item in states}

    def test_best_brings_hints_at_what_it_found_and_at_others(self, store: StatisticsStore) -> None:
        """At none beyond the limit, at nothing unknown, and not at another type's object of the same id."""
        states = [
            state(memory(1), salience=0.9, minutes=1.5, superseded=True),
            state(memory(2), salience=0.2),
            state(memory(3), suppressed=True, minutes=-3),
            state(memory(3, ObjectType.EPISODE), salience=0.7),
        ]
        store.apply(about(notion(7), *states[:2]), 1)
        store.apply(Projection(tuple(states[2:]), ()), 2)
        key = (notion(7), ABOUT, DERIVED)
        hints = {item.ref: hint(item) for item in states}
        assert store.best([key], "active", 1, [memory(3), memory(4), notion(7)]) == Best(
            {key: [memory(1)]}, {ref: hints[ref] for ref in (memory(1), memory(3))}
        )
        assert store.best([key], "active", 0, [memory(1)]) == Best({}, {memory(1): hints[memory(1)]})
        assert store.best([], "current", 9, [memory(3, ObjectType.EPISODE)]).hints.keys() == {states[3].ref}
        assert store.hints([]) == {}

    def test_hints_follow_what_is_merged_later(self, store: StatisticsStore) -> None:
        """At a hub as elsewhere, in a rebuilt store as before."""
        hub, key = notion(7), (notion(7), ABOUT, DERIVED)
        first, later = state(memory(1)), state(memory(1), salience=0.9, minutes=3, superseded=True)
        store.apply(about(hub, first), 1)
        store.apply(Projection((later,), ()), 2)
        for _ in range(2):
            assert store.best([key], "total", 1).hints == store.hints([memory(1)]) == {memory(1): hint(later)}
            store.rebuild([about(hub, later)], 2)

    def test_many_are_hinted_at_in_one_call(self, store: StatisticsStore) -> None:
        """More than one statement of a store may hold, beside more hubs than that."""
        hubs = [(notion(number), ABOUT, DERIVED) for number in range(1, 121)]
        states = [state(memory(number), minutes=number) for number in range(1, 121)]
        for (hub, _, _), item in zip(hubs, states, strict=True):
            store.apply(about(hub, item), 1)
        asked = [memory(number) for number in range(1, 6_000)]
        found = store.best(hubs, "total", 2, asked)
        assert found.objects == {key: [item.ref] for key, item in zip(hubs, states, strict=True)}
        assert found.hints == {item.ref: hint(item) for item in states}

    def test_scan_pages_in_order_of_references(self, store: StatisticsStore) -> None:
        """By id, then type; the last page is short, the one behind it empty."""
        refs = [memory(n) for n in (300, 2, 1)]
        refs += [memory(2, kind) for kind in (ObjectType.EPISODE, ObjectType.OBSERVATION)]
        store.apply(Projection(tuple(state(ref) for ref in refs), ()), 1)
        pages, after = [], None
        while page := store.scan(after, 2):
            pages.append([item.ref for item in page])
            after = page[-1].ref
        assert [len(page) for page in pages] == [2, 2, 1]
        assert [ref for page in pages for ref in page] == sorted(refs)

    # --- place and health ------------------------------------------------------------------------

    def test_the_marks_only_rise(self, store: StatisticsStore) -> None:
        """`apply` raises `high`, `advance` both; neither lowers."""
        store.apply(about(notion(7), state(memory(1))), 5)
        assert store.cursor() == Cursor(applied=0, high=5)
        store.apply(about(notion(7), state(memory(2))), 4)
        store.advance(3)
        store.advance(2)
        assert store.cursor() == Cursor(applied=3, high=5)
        store.advance(8)
        assert store.cursor() == Cursor(applied=8, high=8)

    def test_a_store_behind_the_graph_lags_until_it_caught_up(self, store: StatisticsStore) -> None:
        """Counters stay readable meanwhile."""
        store.apply(about(notion(7), state(memory(1))), 2)
        assert store.health(2) == Health("lagging")
        assert overall_of(store, ABOUT, DERIVED) == Count(1, 1, 1)
        store.advance(2)
        assert store.health(2) == Health("healthy")

    def test_only_a_rebuild_makes_healthy(self, store: StatisticsStore) -> None:
        """Good writes and catching up do not; the cause is the last one marked."""
        store.mark_unhealthy("first")
        store.mark_unhealthy("second")
        store.apply(about(notion(7), state(memory(1))), 1)
        store.advance(1)
        assert store.health(1) == Health("unhealthy", "second")
        store.rebuild([], 1)
        assert store.health(1) == Health("healthy")

    # --- rebuilding ------------------------------------------------------------------------------

    def test_a_rebuild_replaces_everything(self, store: StatisticsStore) -> None:
        """It may loosen, and lower the marks; what is not in the projections is gone."""
        store.apply(about(notion(7), state(memory(1), suppressed=True), state(memory(2))), 9)
        store.advance(9)
        projections = [about(notion(7), state(memory(1))), about(notion(8), state(memory(3)))]
        store.rebuild(iter(projections), 4)
        assert store.cursor() == Cursor(applied=4, high=4)
        assert store.states([memory(2)]) == {}
        assert store.edges_of([memory(2)]) == {}
        assert_equal_to_recount(store, projections)
        store.apply(about(notion(7), state(memory(2))), 5)
        assert counts_of(store, [notion(7)], ABOUT, DERIVED) == {notion(7): Count(2, 2, 2)}

    def test_the_old_rows_serve_until_the_switch(self, store: StatisticsStore) -> None:
        """What is read while the new rows come in is the old state, and health stays as marked."""
        store.apply(about(notion(7), state(memory(1))), 1)
        store.mark_unhealthy("drift")
        seen: list[object] = []

        def projections() -> Iterator[Projection]:
            for n in range(2, 3_000):
                yield about(notion(7), state(memory(n)))
            seen.extend((overall_of(store, ABOUT, DERIVED), store.health(1), store.cursor()))
            seen.append(best_of(store, notion(7), ABOUT, DERIVED, "total", 5))

        store.rebuild(projections(), 1)
        assert seen == [Count(1, 1, 1), Health("unhealthy", "drift"), Cursor(0, 1), [memory(1)]]
        assert overall_of(store, ABOUT, DERIVED) == Count(2_998, 2_998, 2_998)

    def test_what_is_applied_meanwhile_is_in_the_new_rows(self, store: StatisticsStore) -> None:
        """Also when the rebuild read an object before it was forgotten; the marks tell of it."""

        def projections() -> Iterator[Projection]:
            store.apply(about(notion(7), state(memory(1), suppressed=True), state(memory(2))), 6)
            yield about(notion(7), state(memory(1)))

        store.rebuild(projections(), 5)
        assert overall_of(store, ABOUT, DERIVED) == Count(2, 1, 1)
        assert store.states([memory(1)])[memory(1)].suppressed
        assert store.cursor() == Cursor(applied=5, high=6)

    def test_a_rebuild_that_fails_leaves_the_old_rows(self, store: StatisticsStore) -> None:
        """What the projections raise passes through; a second attempt works."""
        store.apply(about(notion(7), state(memory(1))), 1)
        store.mark_unhealthy("drift")

        def projections() -> Iterator[Projection]:
            for n in range(2, 3_000):
                yield about(notion(7), state(memory(n)))
            raise LookupError("the graph went away")

        with pytest.raises(LookupError):
            store.rebuild(projections(), 1)
        assert overall_of(store, ABOUT, DERIVED) == Count(1, 1, 1)
        assert store.health(1) == Health("unhealthy", "drift")
        store.rebuild([about(notion(7), state(memory(2)))], 1)
        assert best_of(store, notion(7), ABOUT, DERIVED, "total", 5) == [memory(2)]

    # --- sharing ---------------------------------------------------------------------------------

    def test_threads_lose_nothing(self, store: StatisticsStore) -> None:
        """Eight threads apply shuffled halves of one history while one reads."""
        projections = random_projections(99, 48)
        errors: list[BaseException] = []

        def work(number: int) -> None:
            rng = random.Random(number)  # noqa: S311 - no secret
            mine = [index for index in range(len(projections)) if index % 2 == number % 2]
            rng.shuffle(mine)
            try:
                for index in mine:
                    store.apply(projections[index], index + 1)
                    count = overall_of(store, ABOUT, DERIVED)
                    assert count is None or count.total >= count.active >= count.current >= 0
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert store.cursor().high == len(projections)
        assert_equal_to_recount(store, projections)

    def test_closing_twice_is_fine(self, open_store: OpenStore) -> None:
        """The second close does nothing."""
        store = open_store()
        store.close()
        store.close()


class PersistentStatisticsContract(StatisticsContract):
    """What holds besides for stores that several handles open in one place."""

    def test_a_reopened_store_has_everything(self, open_store: OpenStore) -> None:
        """Rows, marks and health survive closing."""
        first = open_store()
        projections = random_projections(3, 20)
        for token, projection in enumerate(projections, 1):
            first.apply(projection, token)
        first.advance(12)
        first.mark_unhealthy("drift")
        first.close()
        second = open_store()
        assert_equal_to_recount(second, projections)
        assert second.cursor() == Cursor(applied=12, high=20)
        assert second.health(20) == Health("unhealthy", "drift")
        second.close()

    def test_two_handles_see_each_others_writes(self, open_store: OpenStore) -> None:
        """As two processes of one site do."""
        first, second = open_store(), open_store()
        projections = random_projections(4, 20)
        for token, projection in enumerate(projections, 1):
            (first, second)[token % 2].apply(projection, token)
        assert_equal_to_recount(first, projections)
        second.rebuild(projections[:5], 5)
        assert_equal_to_recount(first, projections[:5])
        first.close()
        second.close()

    def test_collections_do_not_meet(self, open_store: OpenStore) -> None:
        """Neither in counts nor in marks, health, pages or rebuilds."""
        first, second = open_store("first"), open_store("second")
        first.apply(about(notion(7), state(memory(1))), 3)
        first.mark_unhealthy("drift")
        assert counts_of(second, [notion(7)], ABOUT, DERIVED) == {}
        assert overall_of(second, ABOUT, DERIVED) is None
        assert second.scan(None, 5) == []
        assert second.cursor() == Cursor(0, 0)
        assert second.health(0) == Health("healthy")
        second.rebuild([about(notion(7), state(memory(2)))], 1)
        assert overall_of(first, ABOUT, DERIVED) == Count(1, 1, 1)
        assert best_of(first, notion(7), ABOUT, DERIVED, "total", 5) == [memory(1)]
        assert first.health(3) == Health("unhealthy", "drift")
        first.close()
        second.close()

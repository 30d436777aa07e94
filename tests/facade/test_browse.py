"""Reading without recall: by typed id, by chain, by page (core-97 and the facade's `browse` and `upkeep`)."""

from __future__ import annotations

import pytest

from charactermemory.domain.kinds import RelationType
from charactermemory.errors import OutOfDomain
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.graph import Neighbourhood
from charactermemory.recall.context import RetrievalContext
from charactermemory.upkeep.reading import PAGE
from tests.revise.drafts import correction, forgetting, replacement, sourced
from tests.support.plans import (
    belief,
    episode,
    episode_ref,
    memory_ref,
    notion,
    notion_ref,
    observation,
    plan,
    uid,
)
from tests.support.rig import Rig

SHARED = 0x77


@pytest.mark.spec("core-97")
def test_objects_of_two_types_may_share_an_id(rig: Rig) -> None:
    rig.memory.commit(plan(notion(SHARED), episode(SHARED, "We met.")))
    rig.memory.commit(plan(belief(SHARED, "It rains.", (SHARED,))))
    notion_, happened, held = notion_ref(SHARED), episode_ref(SHARED), memory_ref(SHARED)

    for ref in (notion_, happened):
        assert rig.memory.browse.get(ref).keys() == {ref}
        assert rig.graph.existing([ref]) == {ref}
    by_id = [MemoryObjectRef.of(object_type, uid(SHARED)) for object_type in ObjectType]
    found = rig.memory.browse.get(*by_id)
    assert {notion_, happened} <= found.keys()
    assert found.keys() == {notion_, happened, held}
    assert {ref: item.object.object_type for ref, item in found.items()} == {
        ref: ref.object_type for ref in found
    }

    # A notion has no vector of its own; a memory under the same id has, beside the episode's.
    assert rig.points().keys() == {happened, held}
    rig.vectors.inner.write((), [happened], 0)
    assert rig.points().keys() == {held}
    assert rig.memory.upkeep.verify(repair=True).differences == 1
    assert rig.points().keys() == {happened, held}

    rig.memory.forget(forgetting(happened))
    assert rig.points().keys() == {held}
    after = rig.memory.browse.get(*by_id)
    assert after[happened].suppressed
    assert (after[notion_], after[held]) == (found[notion_], found[held])


@pytest.mark.spec("core-98")
def test_nothing_asked_of_any_store_is_nothing_found(rig: Rig) -> None:
    rig.memory.commit(plan(notion(1), episode(2, "We met."), observation(3, 2, "hello", raw_ref="raw:1")))
    rig.memory.commit(plan(belief(4, "It rains.", (1,), thread_ids=())))
    graph, statistics, index = rig.graph, rig.statistics, rig.vectors
    assert rig.memory.browse.get() == {}
    for read in (
        graph.read,
        graph.existing,
        graph.notions_known_as,
        graph.names_of,
        graph.observed_from,
        graph.observations_of,
        graph.places,
        graph.turns,
        graph.link_ids,
        statistics.states,
        statistics.edges_of,
        index.present,
    ):
        assert not read([]), read
    assert graph.memories_from([], []) == ()
    assert graph.neighbours([], tuple(RelationType), 9) == {}
    assert graph.neighbours([notion_ref(1)], [], 9) == {notion_ref(1): Neighbourhood()}
    pair = (RelationType.ABOUT, ObjectType.DERIVED_MEMORY)
    assert statistics.counts([notion_ref(1)], [pair]).at
    assert not statistics.counts([], [pair]).at
    assert not statistics.counts([notion_ref(1)], []).at
    assert not statistics.best([], "total", 9).objects
    vector = rig.embedder.inner.generate_embedding("We met.")
    assert index.search(vector, "We met.", 9, tuple(ObjectType)).dense.candidates
    for nothing in (index.search(vector, "We met.", 9, ()), index.search(None, None, 9, tuple(ObjectType))):
        assert (nothing.dense.candidates, nothing.lexical.candidates) == ((), ())
    with pytest.raises(OutOfDomain):
        rig.memory.retrieve(RetrievalContext(topic="We met.", object_type_defaults=()))


def test_a_history_shows_the_whole_chain_from_any_of_its_memories(rig: Rig) -> None:
    rig.memory.commit(plan(episode(1), sourced(2, "A", episodes=(1,)), sourced(9, "apart", episodes=(1,))))
    for number, text in ((3, "B"), (4, "C")):
        new = replacement(text, id=uid(number), derived_from_episode_ids=(uid(1),))
        rig.memory.correct(correction(number - 1, replacements=(new,)))
    rig.memory.forget(forgetting(memory_ref(4)))
    for start in (2, 3, 4):
        chain = rig.memory.browse.history(memory_ref(start))
        assert [item.object.text for item in chain] == ["A", "B", "C"]  # type: ignore[union-attr]
    assert [item.suppressed for item in chain] == [False, False, True]
    assert rig.memory.browse.history(memory_ref(0x99)) == []


def test_a_list_shows_everything_once(rig: Rig) -> None:
    rig.memory.commit(plan(episode(1), *(observation(n, 1, f"word {n}", n) for n in range(2, 9))))
    rig.memory.commit(plan(notion(9), belief(10, "It rains.", (9,))))
    seen: list[MemoryObjectRef] = []
    after: str | None = None
    while True:
        page, after = rig.memory.browse.list(after, 3)
        assert len(page) <= 3
        seen += [item.ref for item in page]
        if after is None:
            break
    assert len(seen) == len(set(seen)) == 8 + 3, "one About link among them"


def test_reconcile_looks_at_the_named_objects_only(rig: Rig) -> None:
    rig.memory.commit(plan(episode(1, "We met."), episode(2, "We parted.")))
    for number in (1, 2):
        rig.vectors.inner.write((), [episode_ref(number)], 0)
    report = rig.memory.upkeep.reconcile(episode_ref(2))
    assert (report.indexed, report.changed) == ((episode_ref(2),), (episode_ref(2),))
    assert rig.points().keys() == {episode_ref(2)}


def test_the_export_holds_what_is_stored_and_nothing_twice(rig: Rig) -> None:
    rig.memory.commit(plan(episode(1, "We met."), *(observation(n, 1, "word", n) for n in range(2, PAGE))))
    lines = list(rig.memory.upkeep.export())
    assert lines == sorted(set(lines))
    assert tuple(lines) == rig.triples()
    assert sum(b"vocab:Observation>" in line for line in lines) == PAGE - 2

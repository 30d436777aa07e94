"""The index follows the graph: what has a surface, what stays out, what is repaired (recall-96 to recall-99)."""

from __future__ import annotations

import pytest

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.repair import VectorIndexMarker, VectorMaintenanceMarker
from charactermemory.errors import GraphQueryError, VectorDatabaseError
from charactermemory.testing import builders
from charactermemory.upkeep.surfaces import surface_of
from tests.support.plans import belief, link, memory_ref, naming, notion, notion_ref, plan, uid
from tests.support.rig import Rig

NOTION, OTHER = 0xA1, 0xA2
OLD = plan(notion(NOTION), notion(OTHER), belief(1, "Mimi is a dog.", (NOTION,)))
NEW = plan(belief(2, "Mimi is a cat.", (NOTION,), supersedes=(uid(1),)))


@pytest.mark.spec("recall-96")
def test_notions_and_links_have_no_surface_and_a_name_adds_nothing_to_one(rig: Rig) -> None:
    person = builders.notion()
    assert surface_of(person) is None
    assert surface_of(builders.link(person, builders.notion())) is None

    named = naming(3, NOTION, "Zaphod").replace(text="It has two heads.")
    relation = link(uid(0x91), notion_ref(NOTION), RelationType.ASSOCIATED_WITH, notion_ref(OTHER))
    rig.memory.commit(plan(notion(NOTION), notion(OTHER), named, relation))

    surface = surface_of(rig.stored(memory_ref(3)).object)
    assert surface is not None
    assert (surface.embedding_text, surface.lexical_text) == ("It has two heads.", "It has two heads.")
    assert rig.points() == {memory_ref(3): "It has two heads."}
    assert rig.stored(memory_ref(3)).object.assertions[0].name == "Zaphod"


@pytest.mark.spec("recall-97")
def test_a_replay_does_not_index_again_what_was_superseded_since(rig: Rig) -> None:
    rig.memory.commit(OLD)
    assert memory_ref(1) in rig.points()
    rig.memory.commit(NEW)
    rig.embedder.calls.clear()

    outcome = rig.memory.commit(OLD)

    assert outcome.vector_indexed_object_ids == ()
    assert outcome.complete
    assert rig.points() == {memory_ref(2): "Mimi is a cat."}
    assert rig.memory.upkeep.sweep().repaired == ()
    assert rig.points() == {memory_ref(2): "Mimi is a cat."}


@pytest.mark.spec("recall-98")
def test_a_predecessor_that_stays_in_the_index_is_not_recalled_and_a_replay_removes_it(rig: Rig) -> None:
    rig.memory.commit(OLD)
    failure = VectorDatabaseError("edge", "engine", "full")
    rig.vectors.fail("write", failure)

    outcome = rig.memory.commit(NEW)

    assert outcome.persisted_object_ids == (memory_ref(2),)
    assert rig.stored(memory_ref(1)).superseded_by == (uid(2),)
    (marker,) = outcome.repair_needed
    assert isinstance(marker, VectorMaintenanceMarker)
    (item,) = marker.failures
    assert (item.operation, item.objects) == ("delete", (memory_ref(1),))
    assert (item.cause.cause, item.cause.detail) == ("vector_database", str(failure))

    assert rig.points().keys() == {memory_ref(1), memory_ref(2)}
    recalled = rig.memory.retrieve("Mimi is a dog.")
    assert [entry.memory.id for entry in recalled.pack.derived_memories] == [uid(2)]
    assert recalled.rationale.lifecycle_omission_count >= 1

    assert rig.memory.commit(NEW).repair_needed == ()
    assert rig.points().keys() == {memory_ref(2)}


@pytest.mark.spec("recall-99")
@pytest.mark.parametrize("times", [1, 2], ids=["before embedding", "before embedding and writing"])
def test_when_currency_cannot_be_looked_up_the_graph_is_kept_and_the_index_owed(rig: Rig, times: int) -> None:
    rig.memory.commit(OLD)
    failure = GraphQueryError("selection", "no supersession today")
    rig.graph.fail("read", failure, times)

    outcome = rig.memory.commit(NEW)

    (marker,) = (item for item in outcome.repair_needed if isinstance(item, VectorIndexMarker))
    assert memory_ref(2) in marker.objects
    assert (marker.cause.cause, marker.cause.detail) == ("graph_query", str(failure))
    assert outcome.vector_indexing_failure == marker
    assert outcome.vector_indexed_object_ids == ()
    assert memory_ref(2) not in rig.points()

    assert outcome.persisted_object_ids == (memory_ref(2),)
    assert rig.stored(memory_ref(2)).current
    assert rig.stored(memory_ref(1)).superseded_by == (uid(2),)

    assert rig.memory.upkeep.sweep().complete
    assert rig.points().keys() == {memory_ref(2)}

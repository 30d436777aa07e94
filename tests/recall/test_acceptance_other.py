"""Cases 67, 73, 85, 93-95, 129, 132, 134-136: what recall relies on, seen from a whole memory."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from pydantic import ValidationError

from charactermemory import CharacterMemory
from charactermemory.adapters.qdrant.records import Identity, identify
from charactermemory.adapters.qdrant.search import fetch_bound, leg
from charactermemory.domain.kinds import DerivedType, RelationType
from charactermemory.domain.objects import Episode, MemoryObject
from charactermemory.domain.repair import StatsUpdateMarker
from charactermemory.errors import RetrievalStatsStoreError
from charactermemory.ids import ObjectType, new_id
from charactermemory.ports.statistics import Health
from charactermemory.ports.vectors import Completeness, HybridHits, LegHits, VectorSurface
from charactermemory.recall import RetrievalContext
from charactermemory.remember.drafts import MemoryLinkDraft
from charactermemory.revise.drafts import ForgetCascade, ForgetMemoryDraft
from charactermemory.testing.builders import belief, episode, numbered_id, thread
from charactermemory.upkeep.surfaces import surface_of
from tests.recall.world import World, refs_in
from tests.support import plans
from tests.support.rig import Rig


@pytest.mark.spec("recall-67")
@pytest.mark.parametrize("with_observations", [True, False])
def test_observations_of_a_forgotten_episode(rig: Rig, with_observations: bool) -> None:
    rig.memory.commit(
        plans.plan(plans.episode(1, "We spoke of roses."), plans.observation(2, 1, "Roses need sun."))
    )
    assert plans.observation_ref(2) in refs_in(rig.memory.retrieve("Roses need sun."))
    cascade = ForgetCascade() if with_observations else ForgetCascade(apply_to_observations=False)

    rig.memory.forget(
        ForgetMemoryDraft(targets=(plans.episode_ref(1),), rationale="asked to", cascade_policy=cascade)
    )

    found = refs_in(rig.memory.retrieve("Roses need sun."))
    assert found == ([] if with_observations else [plans.observation_ref(2)])


@pytest.mark.spec("recall-73")
def test_more_ties_than_the_bound_are_told_and_recall_succeeds(world: World) -> None:
    alike = [episode(id=numbered_id(n), summary="Tea.") for n in range(1, 6_001)]
    world.store(alike[0], alike[1])

    class Alike(NamedTuple):
        item: Episode
        score: float = 0.5

    def engine(ask: int) -> list[Alike]:
        # As engines do: equal scores in no order of ours.
        return [Alike(item) for item in alike[::-1][:ask]]

    def identities(hits: Sequence[Alike]) -> list[Identity]:
        return [identify(hit.item.ref, VectorSurface.SUMMARY) for hit in hits]

    def search(embedding: object, text: str | None, limit: int, scope: object) -> HybridHits:
        return HybridHits(
            dense=leg(engine, identities, limit, len(alike)),
            lexical=LegHits((), Completeness(kind="not_requested")),
        )

    world.vectors.search = search  # type: ignore[method-assign, assignment]

    outcome = world.retrieve()

    bound = fetch_bound(48)
    assert outcome.rationale.telemetry.vector_recall_completeness == Completeness(
        kind="boundary_tie_open", fetched=bound, fetch_bound=bound
    )
    assert outcome.rationale.telemetry.returned_vector_candidate_count == 48
    assert outcome.rationale.degraded == ()


@pytest.mark.spec("recall-85")
def test_what_the_index_lost_lies_beyond_its_cursor_and_comes_back_with_a_sweep(
    rig: Rig, tmp_path: Path
) -> None:
    rig.memory.commit(plans.plan(plans.episode(1, "Roses need sun.")))
    rig.memory.upkeep.sweep()
    folder = Path(str(rig.settings.vector_store_path))
    rig.close()
    shutil.copytree(folder, tmp_path / "flushed")
    rig.reopen()
    rig.memory.commit(plans.plan(plans.episode(2, "Lilies need shade.")))
    assert plans.episode_ref(2) in refs_in(rig.memory.retrieve("Lilies need shade.")), "visible at once"
    rig.close()
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "flushed", folder)  # as after a loss of what was not flushed
    rig.reopen()

    assert rig.points().keys() == {plans.episode_ref(1)}
    assert rig.memory.stores.vectors.cursor().applied < rig.head()

    rig.memory.upkeep.sweep()

    assert rig.points().keys() == {plans.episode_ref(1), plans.episode_ref(2)}
    assert rig.backlog() == (0, 0)
    assert plans.episode_ref(2) in refs_in(rig.memory.retrieve("Lilies need shade."))


def texts(item: MemoryObject) -> tuple[str, str] | None:
    surface = surface_of(item)
    return (surface.embedding_text, surface.lexical_text) if surface else None


@pytest.mark.spec("recall-93")
def test_the_surface_of_an_episode_is_its_bare_summary() -> None:
    assert texts(episode(summary="Short \n summary.")) == ("Short summary.", "Short summary.")
    assert texts(episode(summary=None)) is None


@pytest.mark.spec("recall-94")
def test_the_surface_of_a_thread_is_its_bare_title_and_summary() -> None:
    assert texts(thread(title=" Trip ", summary=" \t ")) == ("Trip", "Trip")
    assert texts(thread(title=" ", summary="\n")) is None


@pytest.mark.spec("recall-95")
@pytest.mark.parametrize("kind", list(DerivedType))
def test_the_surface_of_a_derived_memory_is_its_bare_text(kind: DerivedType) -> None:
    assert len(DerivedType) == 10
    assert texts(belief(derived_type=kind, text=" call  Ann ")) == ("call Ann", "call Ann")


@pytest.mark.spec("recall-129")
def test_a_failed_statistics_write_is_one_cause_and_leaves_nothing(rig: Rig) -> None:
    before = rig.memory.stores.statistics.scan(None, 10)
    rig.statistics.fail("apply", RetrievalStatsStoreError("sqlite", "disk full"))

    outcome = rig.memory.commit(
        plans.plan(plans.episode(1, "Roses."), plans.notion(2), plans.belief(3, "Roses are red.", (2,)))
    )

    (marker,) = [item for item in outcome.repair_needed if isinstance(item, StatsUpdateMarker)]
    assert [cause.cause for cause in marker.causes] == ["stats_write"]
    assert {plans.episode_ref(1), plans.notion_ref(2), plans.memory_ref(3)} <= set(marker.objects)
    assert rig.memory.stores.statistics.scan(None, 10) == before == []
    assert rig.memory.stores.statistics.edges_of([plans.memory_ref(3)]) == {}


@pytest.mark.spec("recall-132")
def test_statistics_that_cannot_be_opened_stop_nothing(tmp_path: Path) -> None:
    (tmp_path / "statistics.sqlite3").mkdir()
    with CharacterMemory.open(
        {
            "OXIGRAPH_PATH": str(tmp_path / "graph"),
            "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
            "RETRIEVAL_STATS_PATH": str(tmp_path / "statistics.sqlite3"),
            "EMBEDDING_PROVIDER": "wordllama",
        },
        "recall",
    ) as memory:
        outcome = memory.commit(
            plans.plan(plans.notion(2), plans.belief(3, "Roses are red.", (2,)), plans.episode(1, "Roses."))
        )
        assert any(isinstance(item, StatsUpdateMarker) for item in outcome.repair_needed)

        recalled = memory.retrieve(RetrievalContext(anchors=(plans.uid(2),), include_trace=True))
        assert recalled.trace
        decisions = {row.decision for row in recalled.trace.selectivity_decisions}
        assert decisions == {"conservative_fallback"}
        assert plans.memory_ref(3) in refs_in(recalled)

        with pytest.raises(RetrievalStatsStoreError, match="for this process alone"):
            memory.upkeep.rebuild_statistics()
        assert memory.stores.statistics.health(memory.stores.graph.head()) == Health("healthy")
        later = memory.commit(plans.plan(plans.episode(4, "More roses.")))
        assert later.repair_needed == ()


@pytest.mark.spec("recall-134")
def test_a_link_is_the_callers_word_and_takes_no_evidence(rig: Rig) -> None:
    rig.memory.commit(plans.plan(plans.notion(1), plans.notion(2)))
    draft = plans.link(new_id(), plans.notion_ref(1), RelationType.ASSOCIATED_WITH, plans.notion_ref(2))
    before = rig.contents()
    with pytest.raises(ValidationError) as caught:
        MemoryLinkDraft.model_validate({**dict(draft), "evidence": "often seen together"})
    assert [(error["loc"], error["type"]) for error in caught.value.errors()] == [
        (("evidence",), "extra_forbidden")
    ]
    assert rig.contents() == before

    made = rig.memory.link(draft).link

    assert rig.stored(made.ref).object == made


@pytest.mark.spec("recall-135")
def test_links_between_notions_are_alike_whatever_they_are_called(rig: Rig) -> None:
    names = ("Mira", "the harbour", "Project Lighthouse")
    people = [plans.notion(n) for n in range(1, 7)]
    naming = [plans.naming(20 + n, 2 * n + 1, name) for n, name in enumerate(names)]
    rig.memory.commit(plans.plan(*people, *naming))

    outcomes = [
        rig.memory.link(
            plans.link(new_id(), plans.notion_ref(n), RelationType.ASSOCIATED_WITH, plans.notion_ref(n + 1))
        )
        for n in (1, 3, 5)
    ]

    assert len({(item.stats_update_status.status, item.repair_needed) for item in outcomes}) == 1
    assert all(rig.stored(item.link.ref).object == item.link for item in outcomes)


@pytest.mark.spec("recall-136")
def test_memories_about_one_notion_are_not_linked_pairwise(rig: Rig) -> None:
    held = [plans.belief(n, f"The harbour has {n} boats.", (1,)) for n in range(2, 52)]
    rig.memory.commit(plans.plan(plans.notion(1), *held))

    harbour = plans.notion_ref(1)
    refs = [plans.memory_ref(n) for n in range(2, 52)]
    around = rig.memory.stores.graph.neighbours(refs, list(RelationType), 100)
    for ref in refs:
        assert {edge.other(ref) for edge in around[ref].edges} == {harbour}
    assert _links(rig) == 50, "each memory's own link to its notion, and no other"


def _links(rig: Rig) -> int:
    found, after = 0, None
    while True:
        page, after = rig.memory.stores.graph.scan(after, 500)
        found += sum(ref.object_type is ObjectType.MEMORY_LINK for ref in page)
        if after is None:
            return found

"""Links that callers author: retries, refusals, and what one link can never do to another (core-67 to 70, 96)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from charactermemory.domain.kinds import RelationType
from charactermemory.errors import (
    AuthoredBeliefAboutLink,
    AuthoredSupersedesLink,
    DeterministicIdCollision,
    DomainValidationError,
    UnknownObjectRef,
    VectorDatabaseError,
)
from charactermemory.ids import MemoryObjectRef, supersedes_link_id
from charactermemory.ports.graph import Edge
from charactermemory.remember.drafts import MemoryLinkDraft
from charactermemory.remember.outcome import CommitOptions
from tests.revise.drafts import lines_naming, nothing_written
from tests.support.plans import (
    belief,
    episode,
    episode_ref,
    link_ref,
    memory_ref,
    notion,
    notion_ref,
    plan,
    uid,
)
from tests.support.rig import Rig

ABOUT, ASSOCIATED = RelationType.ABOUT, RelationType.ASSOCIATED_WITH


def draft(
    source: MemoryObjectRef, relation: RelationType, target: MemoryObjectRef, **fields: Any
) -> MemoryLinkDraft:
    """A link that says no time of its own."""
    made = MemoryLinkDraft.new(source.object_type, source.id, relation, target.object_type, target.id)
    return made.replace(**fields)


@pytest.fixture
def two(rig: Rig) -> Rig:
    """Two notions, an episode, and a belief about the first notion that superseded another."""
    rig.memory.commit(plan(notion(1), notion(2), episode(3, "We met."), belief(4, "It rains.", (1,))))
    rig.memory.commit(plan(belief(5, "It snows.", (1,), supersedes=(uid(4),))))
    return rig


@pytest.mark.spec("core-67")
def test_an_identical_retry_returns_the_stored_link_and_nothing_else_is_taken_for_one(two: Rig) -> None:
    first = draft(notion_ref(1), ASSOCIATED, notion_ref(2), id=uid(9), rationale="they are friends")
    stored = two.memory.link(first).link
    assert two.stored(link_ref(uid(9))).object == stored

    retried = two.memory.link(first)
    assert retried.link == stored
    assert retried.complete

    for other in (
        first.replace(created_at=stored.created_at + timedelta(microseconds=1)),
        first.replace(rationale="they are neighbours"),
    ):
        with nothing_written(two), pytest.raises(DeterministicIdCollision) as caught:
            two.memory.link(other)
        assert caught.value.object == link_ref(uid(9))
        assert two.stored(link_ref(uid(9))).object == stored
    assert two.memory.link(first.replace(created_at=stored.created_at)).link == stored


@pytest.mark.spec("core-68")
def test_the_id_of_a_supersedes_link_cannot_be_turned_to_something_else(two: Rig) -> None:
    taken = supersedes_link_id(uid(5), uid(4))
    before = two.stored(link_ref(taken)).object
    with nothing_written(two), pytest.raises(DeterministicIdCollision) as caught:
        two.memory.link(draft(memory_ref(5), ASSOCIATED, memory_ref(4), id=taken))
    assert caught.value.object == link_ref(taken)
    assert two.stored(link_ref(taken)).object == before
    assert two.stored(memory_ref(4)).superseded_by == (uid(5),)


@pytest.mark.spec("core-69")
@pytest.mark.parametrize(
    ("source", "relation", "target", "error"),
    [
        (memory_ref(4), RelationType.SUPERSEDES, memory_ref(5), AuthoredSupersedesLink),
        (memory_ref(4), ABOUT, notion_ref(1), AuthoredBeliefAboutLink),
        (notion_ref(2), ABOUT, memory_ref(4), AuthoredBeliefAboutLink),
    ],
    ids=["supersedes", "about", "about reversed"],
)
def test_derived_relations_are_refused(
    two: Rig,
    source: MemoryObjectRef,
    relation: RelationType,
    target: MemoryObjectRef,
    error: type[DomainValidationError],
) -> None:
    assert issubclass(error, DomainValidationError)
    with nothing_written(two), pytest.raises(error):
        two.memory.link(draft(source, relation, target))


@pytest.mark.spec("core-70")
def test_unknown_ends_are_named_both_and_nothing_is_stored(two: Rig) -> None:
    with nothing_written(two), pytest.raises(UnknownObjectRef) as caught:
        two.memory.link(draft(notion_ref(77), ASSOCIATED, episode_ref(88), id=uid(9)))
    assert caught.value.references == (
        ("memory_link_from", notion_ref(77)),
        ("memory_link_to", episode_ref(88)),
    )
    assert two.stored(link_ref(uid(9))) is None

    with nothing_written(two), pytest.raises(UnknownObjectRef) as caught:
        two.memory.link(draft(notion_ref(1), ASSOCIATED, episode_ref(88)))
    assert caught.value.references == (("memory_link_to", episode_ref(88)),)


@pytest.mark.spec("core-96")
def test_nothing_rewrites_a_link_and_two_links_share_one_triple(two: Rig) -> None:
    one = draft(notion_ref(1), ASSOCIATED, notion_ref(2), id=uid(0x91), rationale="friends")
    two.memory.link(one)
    stored = two.stored(link_ref(uid(0x91)))
    for other in (
        one.replace(relation=RelationType.CONTRADICTS),
        one.replace(to_type=episode_ref(3).object_type, to_id=uid(3)),
        one.replace(rationale="enemies"),
    ):
        with nothing_written(two), pytest.raises(DeterministicIdCollision):
            two.memory.link(other)
        with nothing_written(two), pytest.raises(DeterministicIdCollision):
            two.memory.commit(
                plan(
                    other.replace(
                        created_at=stored.object.created_at, schema_version=stored.object.schema_version
                    )
                )
            )
    assert two.stored(link_ref(uid(0x91))) == stored

    two.memory.link(one.replace(id=uid(0x92), rationale="colleagues"))
    triple = lines_naming(two, f"entity:{uid(1)}> <urn:charactermemory:relation:associated_with>")
    assert len(triple) == 1
    nodes = (
        lines_naming(two, "vocab:MemoryLink>", str(uid(0x91))),
        lines_naming(two, "vocab:MemoryLink>", str(uid(0x92))),
    )
    assert [len(lines) for lines in nodes] == [1, 1]
    edge = Edge(notion_ref(1), ASSOCIATED, notion_ref(2))
    assert two.graph.link_ids([edge]) == {edge: (uid(0x91), uid(0x92))}
    assert two.stored(link_ref(uid(0x92))).object.rationale == "colleagues"


def test_a_link_reports_what_its_ends_lack_in_the_index(two: Rig) -> None:
    two.memory.commit(plan(episode(6, "We parted.")), CommitOptions(update_vectors=False))
    two.vectors.fail("write", VectorDatabaseError("edge", "engine", "full"))
    outcome = two.memory.link(draft(notion_ref(1), ASSOCIATED, episode_ref(6)))
    assert [marker.kind for marker in outcome.repair_needed] == ["vector_maintenance"]
    assert not outcome.complete
    assert two.memory.upkeep.sweep().complete
    assert episode_ref(6) in two.points()

"""Verify: each kind of difference is found, and repaired where it can be."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime

import pytest

from charactermemory.domain.kinds import RelationType
from charactermemory.errors import GraphQueryError, StoredConflict
from charactermemory.ids import MemoryObjectRef
from charactermemory.ports.statistics import HubEdge, ObjectState, Projection
from charactermemory.ports.vectors import VectorSurface
from charactermemory.recall.context import RetrievalContext
from charactermemory.upkeep import verify as verify_module
from tests.revise.drafts import forgetting, nothing_written, sourced
from tests.support.plans import (
    belief,
    episode,
    episode_ref,
    memory_ref,
    notion,
    notion_ref,
    observation,
    observation_ref,
    plan,
    thread,
    thread_ref,
    uid,
)
from tests.support.rig import DIMENSION, Rig
from tests.upkeep.support import Poisoned, add, put_point, rewrite, take_point

E, SAID, HELD, GIVEN, GONE, THREAD = (
    episode_ref(1),
    observation_ref(2),
    memory_ref(3),
    memory_ref(4),
    memory_ref(5),
    thread_ref(6),
)
STRANGER = memory_ref(0x99)
WHEN = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def world(rig: Rig) -> Rig:
    """One of each, and a memory that is forgotten; everything derived."""
    rig.memory.commit(
        plan(
            notion(0xA1),
            thread(6),
            episode(1, "We met."),
            observation(2, 1, "It rains."),
            sourced(3, "Rain is wet.", episodes=(1,), about=(0xA1,), thread_ids=(uid(6),)),
            belief(4, "It is called Mimi.", (0xA1,)),
            sourced(5, "Rain is dry.", episodes=(1,)),
        )
    )
    rig.memory.forget(forgetting(GONE))
    rig.memory.upkeep.sweep()
    return rig


def test_stores_that_agree_show_no_difference(world: Rig) -> None:
    with nothing_written(world):
        report = world.memory.upkeep.verify()
    assert (report.objects, report.points) == (7 + 2, 5), "two About links were derived"
    assert report.found == ()
    assert report.went_back is None
    assert world.memory.upkeep.verify(repair=True).found == ()


def state(ref: MemoryObjectRef, **fields: object) -> ObjectState:
    values = {
        "suppressed": False,
        "current": True,
        "salience": 0.5,
        "memory_time": WHEN,
        "month_day": "01-01",
    }
    return ObjectState(ref=ref, **(values | fields))  # type: ignore[arg-type]


def misstate(rig: Rig, ref: MemoryObjectRef) -> None:
    """Record an object as suppressed that is not, or one that is not there at all."""
    rig.statistics.inner.apply(Projection((state(ref, suppressed=True, current=False),), ()), 0)


def lose_edges(rig: Rig) -> None:
    with closing(sqlite3.connect(str(rig.settings.retrieval_stats_path))) as connection, connection:
        connection.execute("DELETE FROM edge WHERE object = ?", (GIVEN.id.bytes,))


Harm = Callable[[Rig], None]

HARMS: dict[str, tuple[Harm, list[tuple[str, MemoryObjectRef]]]] = {
    "a point is missing": (lambda rig: take_point(rig, HELD), [("vector_missing", HELD)]),
    "a point has another text": (
        lambda rig: put_point(rig, SAID, "It snows.", VectorSurface.TEXT),
        [("vector_differs", SAID)],
    ),
    "a forgotten memory has a point": (
        lambda rig: put_point(rig, GONE, "Rain is dry.", VectorSurface.DERIVED_TEXT),
        [("vector_not_wanted", GONE)],
    ),
    "a point is of nothing": (
        lambda rig: put_point(rig, STRANGER, "Who?", VectorSurface.DERIVED_TEXT),
        [("vector_not_wanted", STRANGER)],
    ),
    "a state is too strict": (lambda rig: misstate(rig, HELD), [("statistics_state", HELD)]),
    "a state is of nothing": (lambda rig: misstate(rig, STRANGER), [("statistics_state", STRANGER)]),
    "an edge is missing": (lose_edges, [("statistics_edges", GIVEN)]),
    "several at once": (
        lambda rig: [take_point(rig, HELD), take_point(rig, E), misstate(rig, SAID)] and None,
        [("vector_missing", E), ("vector_missing", HELD), ("statistics_state", SAID)],
    ),
}


@pytest.mark.parametrize("name", HARMS)
def test_what_a_derived_store_has_wrong_is_found_and_repaired(
    world: Rig, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(verify_module, "PAGE", 2)
    before = world.contents()
    harm, expected = HARMS[name]
    harm(world)

    with nothing_written(world):
        found = world.memory.upkeep.verify().found
    assert sorted((item.kind, item.object) for item in found) == sorted(expected)

    repaired = world.memory.upkeep.verify(repair=True)
    assert repaired.found == found
    assert repaired.left == ()
    assert world.memory.upkeep.verify().found == ()
    after = world.contents()
    assert (after.points, after.states, after.edges) == (before.points, before.states, before.edges)
    assert after.triples == before.triples


def test_an_edge_of_nothing_goes_with_its_state(world: Rig) -> None:
    edge = HubEdge(notion_ref(0xA1), RelationType.ABOUT, STRANGER)
    world.statistics.inner.apply(Projection((state(STRANGER),), (edge,)), 0)
    assert [item.object for item in world.memory.upkeep.verify(repair=True).found] == [STRANGER]
    assert world.statistics.inner.edges_of([STRANGER]) == {}


FAULTS: dict[str, tuple[Harm, str, type[Exception] | None]] = {
    "two contents": (lambda rig: add(rig, HELD, "digest", '"another"'), "stored_conflict", StoredConflict),
    "an unknown token": (
        lambda rig: rewrite(rig, HELD, "retentionState", '"asleep"'),
        "unreadable",
        GraphQueryError,
    ),
    "a changed text": (lambda rig: rewrite(rig, HELD, "text", '"Rain is warm."'), "digest_mismatch", None),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_the_graph_has_wrong_is_listed_and_hides_nothing_else(world: Rig, name: str) -> None:
    harm, kind, error = FAULTS[name]
    harm(world)
    take_point(world, SAID)
    misstate(world, E)
    if error is not None:
        with pytest.raises(error):
            world.graph.inner.read([HELD, E], anew=True)
    if error is StoredConflict:
        with pytest.raises(StoredConflict):
            world.memory.retrieve(RetrievalContext(topic="Rain"))

    report = world.memory.upkeep.verify()
    found = {(item.kind, item.object) for item in report.found}
    assert {(kind, HELD), ("vector_missing", SAID), ("statistics_state", E)} <= found

    repaired = world.memory.upkeep.verify(repair=True)
    assert HELD in repaired.left
    assert SAID in world.points()
    left = {(item.kind, item.object) for item in world.memory.upkeep.verify().found}
    assert left == {(kind, HELD)}


def test_an_episode_that_cannot_be_read_does_not_stop_its_observations(world: Rig) -> None:
    """The state of an observation rests on its episode's scene."""
    known = world.graph.inner.read([E])[E].digest
    add(world, E, "digest", '"another"')
    report = world.memory.upkeep.verify(repair=True)
    (conflict,) = report.found
    assert (conflict.kind, conflict.object) == ("stored_conflict", E)
    assert set(conflict.digests) == {known, "another"}
    assert all(one in str(conflict) for one in (str(E), *conflict.digests))
    assert report.left == (E,)
    assert SAID in world.points()


def test_a_repair_that_fails_is_listed(world: Rig) -> None:
    take_point(world, E)
    world.memory.commit(plan(episode(7, "poison")))
    take_point(world, episode_ref(7))
    world.embedder.inner = Poisoned(DIMENSION)
    report = world.memory.upkeep.verify(repair=True)
    assert {item.object for item in report.found} == {E, episode_ref(7)}
    assert report.left == (episode_ref(7),)
    assert E in world.points()


def test_unhealthy_statistics_are_rebuilt_by_a_repair(world: Rig) -> None:
    world.statistics.inner.mark_unhealthy("drift")
    assert world.memory.upkeep.verify(repair=True).found == ()
    assert world.statistics.inner.health(0).state == "healthy"

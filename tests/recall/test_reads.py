"""Cases 69, 70, 9, 10 and the budgets: recall only reads, seldom, and always says the same (recall.md §3)."""

import random
from collections.abc import Callable

import pytest

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.objects import MemoryObject
from charactermemory.domain.scene import Participant, Scene
from charactermemory.ports.statistics import Hint
from charactermemory.recall import CandidateLimits, GraphLimits, RetrievalContext
from charactermemory.revise.drafts import ForgetCascade, ForgetMemoryDraft
from charactermemory.testing.builders import (
    NOON,
    at,
    belief,
    episode,
    link,
    notion,
    numbered_id,
    observation,
    thread,
)
from tests.recall.world import World, refs_in
from tests.support import plans
from tests.support.rig import Rig

MAX_GRAPH_ROUND_TRIPS = 6
MAX_STATISTICS_QUERIES = 3
"""What one recall may ask, whatever the corpus."""

GRAPH_READS = {"notions_known_as", "places", "neighbours", "link_ids", "read"}
STATISTICS_READS = {"health", "counts", "best", "hints"}


def life(episodes: int = 12, turns: int = 8) -> list[MemoryObject]:
    """Several episodes with one person in all of them, things said, things concluded, two threads."""
    numbers = iter(range(1, 10_000))

    def new_id() -> object:
        return numbered_id(next(numbers))

    person, other = notion(id=new_id()), notion(id=new_id())
    lines = [thread(id=new_id()), thread(id=new_id())]
    items: list[MemoryObject] = [person, other, *lines]
    for n in range(episodes):
        present = [Participant(key=person.id)] + ([Participant(key=other.id)] if n % 3 == 0 else [])
        happened = episode(id=new_id(), scene=Scene.at(at(n), *present), salience_score=n % 4 / 4)
        said = [
            observation(happened, position, id=new_id(), salience_score=position % 5 / 5)
            for position in range(turns)
        ]
        held = belief(
            said[0], id=new_id(), entity_ids=(person.id,), thread_ids=(lines[n % 2].id,), salience_score=0.3
        )
        items += [happened, *said, held]
    return items


@pytest.mark.spec("recall-69")
def test_members_forgotten_with_their_thread_are_gone_from_recall_and_search(rig: Rig) -> None:
    memory = rig.memory
    memory.commit(
        plans.plan(
            plans.episode(1, "We spoke of the garden."),
            plans.thread(2),
            plans.belief(
                3,
                "Roses need sun.",
                given_by_application=False,
                derived_from_episode_ids=(plans.uid(1),),
                thread_ids=(plans.uid(2),),
            ),
        )
    )
    member = plans.memory_ref(3)

    def found(text: str) -> set[object]:
        vector = rig.embedder.inner.generate_embedding(text)
        hits = rig.vectors.inner.search(vector, text, 50, tuple({ref.object_type for ref in rig.points()}))
        return {item.ref for leg in (hits.dense, hits.lexical) for item in leg.candidates}

    assert member in found("Roses need sun.")
    assert member in refs_in(memory.retrieve("Roses need sun."))

    memory.forget(
        ForgetMemoryDraft(
            targets=(plans.thread_ref(2),),
            rationale="enough of it",
            cascade_policy=ForgetCascade(apply_to_thread_members=True),
        )
    )

    assert rig.stored(member).suppressed
    assert member not in found("Roses need sun.")
    recalled = memory.retrieve("the garden")
    assert member not in refs_in(recalled)
    assert [item.id for item in recalled.pack.active_threads] == [plans.uid(2)]
    assert [item.id for item in recalled.pack.relevant_episodes] == [plans.uid(1)]
    assert not rig.stored(plans.episode_ref(1)).suppressed


@pytest.mark.spec("recall-70")
@pytest.mark.parametrize(
    "context",
    [
        RetrievalContext.new("roses").with_trace(),
        RetrievalContext(topic="roses", anchors=(plans.uid(4),)),
        RetrievalContext(topic="roses", lifecycle_policy={"include_superseded": True}),
        RetrievalContext(
            topic="What did Ada say of roses?",
            scene=Scene.at(plans.AT, Participant(key=plans.uid(4)), words="in the garden"),
        ).with_trace(),
    ],
    ids=["topic", "anchor", "superseded", "situation"],
)
def test_recall_writes_nothing(rig: Rig, context: RetrievalContext) -> None:
    sourced = {"given_by_application": False, "derived_from_episode_ids": (plans.uid(1),)}
    rig.memory.commit(
        plans.plan(
            plans.notion(4),
            plans.naming(5, 4, "Ada"),
            plans.episode(1, "We spoke of roses."),
            plans.belief(2, "Roses are red.", (4,), **sourced),
        )
    )
    rig.memory.commit(
        plans.plan(plans.belief(3, "Roses are white.", (4,), supersedes=(plans.uid(2),), **sourced))
    )
    rig.memory.upkeep.sweep()
    before = rig.contents()
    for port in (rig.graph, rig.vectors, rig.statistics):
        port.calls.clear()

    outcome = rig.memory.retrieve(context)

    assert refs_in(outcome)
    assert rig.contents() == before
    assert set(rig.graph.names()) <= GRAPH_READS
    assert set(rig.vectors.names()) <= {"search"}
    assert set(rig.statistics.names()) <= STATISTICS_READS


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("roots", [1, 12])
@pytest.mark.parametrize("trace", [True, False])
def test_graph_round_trips_do_not_grow(world: World, depth: int, roots: int, trace: bool) -> None:
    items = life()
    world.store(*items)
    said = [item for item in items if item.ref.object_type == "observation"]
    world.vectors.script(dense=[(item, 0.9 - n / 1_000) for n, item in enumerate(said)])

    world.retrieve(
        anchors=(items[0].id,) if roots > 1 else (),
        include_trace=trace,
        candidate_limits=CandidateLimits(max_graph_roots=roots),
        graph_limits=GraphLimits(max_depth=depth, max_fanout_per_node=4, max_hub_edges=8),
    )

    expected = ["notions_known_as", "places"]
    expected += ["neighbours"] * depth + (["link_ids"] if trace and depth else []) + ["read"]
    assert world.graph.names() == expected
    assert len(expected) <= MAX_GRAPH_ROUND_TRIPS
    assert set(world.statistics.names()) <= STATISTICS_READS


@pytest.mark.spec("recall-9")
def test_the_trace_changes_nothing(world: World) -> None:
    items = life()
    world.store(*items)
    world.vectors.script(dense=[(item, 0.9) for item in items[5:12]], lexical=[(items[6], 3.0)])
    context = RetrievalContext(topic="tea", anchors=(items[0].id,), graph_limits={"max_fanout_per_node": 3})

    without, with_trace = world.retrieve(context), world.retrieve(context.with_trace())

    assert without.trace is None
    assert with_trace.trace is not None
    assert with_trace.pack == without.pack
    assert with_trace.rationale == without.rationale


@pytest.mark.spec("recall-10")
def test_the_order_of_insertion_changes_nothing() -> None:
    items = life(episodes=4, turns=4)
    items.append(link(items[0], items[1], RelationType.ASSOCIATED_WITH, id=numbered_id(99_999)))
    hits = [(item, 0.5) for item in items if item.ref.object_type == "observation"]
    context = RetrievalContext(
        topic="tea",
        anchors=(items[0].id,),
        include_trace=True,
        graph_limits={"max_fanout_per_node": 3, "max_nodes": 9, "max_hub_edges": 4},
    )

    def outcome(shuffle: Callable[[list[MemoryObject]], None]) -> str:
        world = World()
        order = list(items)
        shuffle(order)
        world.store(*order)
        searched = list(hits)
        shuffle(searched)
        world.vectors.script(dense=searched)
        return world.retrieve(context).to_json()

    assert len({outcome(random.Random(seed).shuffle) for seed in range(20)}) == 1


def test_the_clock_is_not_asked(world: World) -> None:
    items = life(episodes=3)
    world.store(*items)
    world.vectors.script(dense=[(items[5], 0.9)])

    def stopped() -> object:
        raise AssertionError("recall asked what time it is")

    object.__setattr__(world.stores, "clock", stopped)
    assert refs_in(world.retrieve(scene=Scene.at(NOON, Participant(key=items[0].id))))


@pytest.mark.parametrize("named", [0, 1, 2])
@pytest.mark.parametrize("turns", [5, 8])
def test_statistics_are_asked_seldom(world: World, named: int, turns: int) -> None:
    items = life(turns=turns)
    world.store(*items)
    said = [item for item in items if item.ref.object_type == "observation"]
    world.vectors.script(dense=[(item, 0.9 - n / 1_000) for n, item in enumerate(said[:96])])

    world.retrieve(
        anchors=tuple(item.id for item in items[:named]),
        graph_limits=GraphLimits(max_fanout_per_node=4, max_hub_edges=6),
    )

    assert 1 < len(world.statistics.names()) <= MAX_STATISTICS_QUERIES


def test_a_crowd_of_which_nearly_all_was_forgotten_is_asked_for_once(world: World) -> None:
    """The counters tell that the statistics' best would be too few to take the crowd's place."""
    items = life()
    person, happened = items[0], next(item for item in items if item.ref.object_type == "episode")
    crowd = [belief(happened, id=numbered_id(20_000 + n), entity_ids=(person.id,)) for n in range(90)]
    world.store(*items, *crowd)
    world.forget(*crowd[3:])
    said = [item for item in items if item.ref.object_type == "observation"]
    world.vectors.script(dense=[(item, 0.9 - n / 1_000) for n, item in enumerate(said[:96])])

    found = refs_in(world.retrieve(anchors=(person.id,)))

    assert world.graph.names().count("neighbours") == GraphLimits().max_depth
    assert len(world.statistics.names()) == MAX_STATISTICS_QUERIES
    assert not {item.ref for item in crowd[3:]} & set(found)


@pytest.mark.parametrize("trusted", [True, False])
def test_statistics_that_are_wrong_hide_nothing(world: World, trusted: bool) -> None:
    happened = episode()
    said = [observation(happened, n) for n in range(90)]
    world.store(happened, *said)
    world.vectors.script(dense=[(said[0], 0.9)])
    if not trusted:
        world.statistics.inner.mark_unhealthy("drifted")

    def all_forgotten(hints: dict[object, Hint]) -> dict[object, Hint]:
        return {ref: hint._replace(suppressed=True, current=False) for ref, hint in hints.items()}

    for _ in range(3):
        world.statistics.alter("hints", all_forgotten)
        world.statistics.alter("best", lambda answer: answer._replace(hints=all_forgotten(answer.hints)))
    outcome = world.retrieve()

    assert len(outcome.pack.salient_observations) == 16
    assert trusted or outcome.rationale.lifecycle_omission_count == 0

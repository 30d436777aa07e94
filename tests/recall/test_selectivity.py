"""Cases 106-111, 112-120: a notion that is everywhere opens little (recall.md §12)."""

import math

import pytest

from charactermemory.config import Settings
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import LifecyclePolicy
from charactermemory.domain.objects import Entity
from charactermemory.domain.scene import Participant, Scene
from charactermemory.errors import OutOfDomain, RetrievalStatsStoreError
from charactermemory.ids import ObjectType
from charactermemory.ports.statistics import Count, Counts, Health
from charactermemory.recall import FanoutSpec, GraphLimits, RecallKnobs, RetrievalOutcome
from charactermemory.recall.roots import Candidate, Root
from charactermemory.recall.selectivity import Planner, SelectivityDecision, budget, selectivity
from charactermemory.recall.trust import Trust
from charactermemory.testing.builders import NOON, belief, episode, notion, thread
from charactermemory.testing.statistics_model import counts_of
from tests.recall.world import World, refs_in

ABOUT = (RelationType.ABOUT, ObjectType.DERIVED_MEMORY)
INVOLVES = (RelationType.INVOLVES, ObjectType.EPISODE)
IN_THREAD = (RelationType.PART_OF_THREAD, ObjectType.DERIVED_MEMORY)

# n, N, score, then the budgets for a maximum of 16 at support 1, 1.5 and 2, and for a maximum of 5 (§12.8).
TABLE = [
    (0, 100, 1.0, (16, 16, 16), (5, 5, 5)),
    (1, 100, 0.849810, (13, 16, 16), (4, 5, 5)),
    (1, 81, 0.842707, (13, 16, 16), (4, 5, 5)),
    (4, 49, 0.588592, (9, 14, 16), (2, 4, 5)),
    (1, 2, 0.369070, (5, 8, 11), (1, 2, 3)),
    (8, 24, 0.317394, (5, 7, 10), (1, 2, 3)),
    (50, 100, 0.148056, (2, 3, 4), (0, 1, 1)),
    (9, 10, 0.039747, (0, 0, 1), (0, 0, 0)),
    (1, 1, 0.0, (0, 0, 0), (0, 0, 0)),
    (100, 100, 0.0, (0, 0, 0), (0, 0, 0)),
]


def decided(
    outcome: RetrievalOutcome, known: Entity
) -> dict[tuple[RelationType, ObjectType], SelectivityDecision]:
    assert outcome.trace
    return {
        (row.relation, row.object_type): row
        for row in outcome.trace.selectivity_decisions
        if row.root == known.ref
    }


def counted(world: World, count: int, overall: int) -> None:
    """Let the statistics say that a notion has `count` of `overall` edges, whatever the pair."""
    world.statistics.recover()
    pairs = [spec.pair for spec in world.knobs.specs]
    world.statistics.alter(
        "counts",
        lambda _: Counts(
            Health("healthy"),
            dict.fromkeys(pairs, Count(overall, overall, overall)),
            {(known, pair): Count(count, count, count) for known in world.known for pair in pairs},
        ),
    )


@pytest.fixture
def known(world: World) -> Entity:
    """A stored notion."""
    item = notion()
    world.store(item)
    world.known = [item.ref]  # type: ignore[attr-defined]
    return item


@pytest.mark.spec("recall-106")
@pytest.mark.parametrize(("count", "overall", "score", "of_16", "of_5"), TABLE)
def test_the_published_table(
    count: int, overall: int, score: float, of_16: tuple[int, ...], of_5: tuple[int, ...]
) -> None:
    found = selectivity(count, overall, alpha=1.0)
    assert found == pytest.approx(score, abs=1e-6)
    for support, wide, narrow in zip((1.0, 1.5, 2.0), of_16, of_5, strict=True):
        assert budget(found, 0, 16, support, gamma=1.0) == wide
        assert budget(found, 0, 5, support, gamma=1.0) == narrow


def test_smoothing_changes_the_score() -> None:
    assert selectivity(4, 49, alpha=0.5) == pytest.approx(0.614534, abs=1e-6)
    assert selectivity(4, 49, alpha=2.0) == pytest.approx(0.544293, abs=1e-6)


@pytest.mark.spec("recall-107")
def test_nothing_counted_at_all_means_fallback(world: World, known: Entity) -> None:
    assert selectivity(0, 0, alpha=1.0) == 0
    counted(world, 0, 0)

    rows = decided(world.retrieve(anchors=(known.id,)), known)

    assert {row.decision for row in rows.values()} == {"conservative_fallback"}


@pytest.mark.spec("recall-108")
def test_support_and_gamma_shape_the_budget() -> None:
    assert budget(0.3, 0, 20, support=1.0, gamma=1.0) == 6
    assert budget(0.3, 0, 20, support=2.0, gamma=1.0) == 12
    assert budget(0.3, 0, 20, support=2.0, gamma=0.5) == 20
    assert budget(0.3, 0, 20, support=2.0, gamma=2.0) == 3


@pytest.mark.spec("recall-109")
def test_a_common_notion_is_supported_by_its_cue(world: World, known: Entity) -> None:
    counted(world, 8, 24)
    planner = Planner(Trust(world.statistics), RecallKnobs(), GraphLimits(), LifecyclePolicy())
    root = Root(Candidate(known.ref, ("place",), frozenset()), score=0.99, total=0.99)

    (row, *_) = planner.plan([root])[known.ref].decisions

    assert (row.relation, row.object_type) == ABOUT
    assert (row.entity_count, row.global_count, row.max_fanout) == (8, 24, 16)
    assert row.support_factor == pytest.approx(1.99)
    assert row.chosen_fanout == 10
    assert row.decision == "low_selectivity_supported"
    counted(world, 8, 24)
    assert decided(world.retrieve(anchors=(known.id,)), known)[ABOUT].chosen_fanout == 10


@pytest.mark.spec("recall-110")
@pytest.mark.parametrize("count", [0, 1, 10])
def test_no_notion_opens_more_than_the_fanout(world: World, known: Entity, count: int) -> None:
    counted(world, count, 1_000_000)
    row = decided(world.retrieve(anchors=(known.id,)), known)[ABOUT]
    assert row.chosen_fanout == row.max_fanout == 16


@pytest.mark.spec("recall-111")
def test_a_spec_bounds_even_the_rarest_notion(world: World, known: Entity) -> None:
    world.knobs = RecallKnobs(specs=(FanoutSpec(*ABOUT, 0, 2),))
    counted(world, 0, 100)

    row = decided(world.retrieve(anchors=(known.id,)), known)[ABOUT]

    assert (row.score, row.chosen_fanout) == (1.0, 2)
    assert row.decision == "high_selectivity"


@pytest.mark.spec("recall-112")
def test_settings_out_of_domain_are_refused() -> None:
    base = {"GRAPH_STORE_MODE": "in_memory", "VECTOR_STORE_PATH": "vectors"}

    def refused(**settings: str) -> OutOfDomain:
        with pytest.raises(OutOfDomain) as caught:
            Settings.from_mapping(base | settings)
        return caught.value

    pair = "RETRIEVAL_FANOUT_ABOUT_ENTITY_DERIVED_MEMORY"
    crossed = refused(**{f"{pair}_MIN": "9", f"{pair}_MAX": "8"})
    assert (crossed.expected, crossed.actual) == ("min <= max", "min=9 max=8")
    assert refused(SELECTIVITY_SMOOTHING_ALPHA="0").keys == ("SELECTIVITY_SMOOTHING_ALPHA",)
    assert refused(SELECTIVITY_GAMMA="nan").keys == ("SELECTIVITY_GAMMA",)
    unknown = refused(RETRIEVAL_FANOUT_ABOUT_ENTITY_EPISODE_MAX="3")
    assert unknown.expected == "an implemented retrieval fanout target"


def test_knobs_out_of_domain_are_refused() -> None:
    with pytest.raises(OutOfDomain) as caught:
        FanoutSpec(*ABOUT, 9, 8)
    assert (caught.value.expected, caught.value.actual) == ("min <= max", "min=9 max=8")
    for values in ({"alpha": 0.0}, {"gamma": math.nan}, {"alpha": math.inf}):
        with pytest.raises(OutOfDomain):
            RecallKnobs(**values)


def test_knobs_come_from_settings() -> None:
    settings = Settings.from_mapping(
        {
            "GRAPH_STORE_MODE": "in_memory",
            "VECTOR_STORE_PATH": "vectors",
            "SELECTIVITY_GAMMA": "2",
            "LANGUAGE": "german",
            "RETRIEVAL_FANOUT_PARTICIPANT_ENTITY_EPISODE_MIN": "1",
        }
    )
    knobs = RecallKnobs.of(settings)
    assert (knobs.alpha, knobs.gamma, knobs.language) == (1.0, 2.0, "german")
    assert knobs.specs == (
        FanoutSpec(*ABOUT, 0, 20),
        FanoutSpec(*INVOLVES, 1, 5),
        FanoutSpec(*IN_THREAD, 0, 15),
    )


@pytest.mark.spec("recall-113")
def test_without_counters_each_spec_opens_one(world: World, known: Entity) -> None:
    rows = decided(world.retrieve(anchors=(known.id,)), known)

    assert set(rows) == {ABOUT, INVOLVES, IN_THREAD}
    for row in rows.values():
        assert (row.chosen_fanout, row.decision) == (1, "conservative_fallback")
        assert row.score is row.entity_count is row.global_count is None
    assert world.statistics.inner.health(0).state == "healthy"


@pytest.mark.spec("recall-114")
@pytest.mark.parametrize(("cap", "chosen"), [(2, 2), (20, 4)])
def test_fallback_respects_the_minimum_within_the_cap(
    world: World, known: Entity, cap: int, chosen: int
) -> None:
    world.knobs = RecallKnobs(specs=(FanoutSpec(*ABOUT, 4, 20),))
    outcome = world.retrieve(anchors=(known.id,), graph_limits=GraphLimits(max_fanout_per_node=cap))
    row = decided(outcome, known)[ABOUT]
    assert (row.chosen_fanout, row.decision) == (chosen, "conservative_fallback")


@pytest.mark.spec("recall-115")
def test_unreadable_health_means_fallback_and_is_remembered(world: World, known: Entity) -> None:
    world.statistics.fail("counts", RetrievalStatsStoreError("sqlite", "disk I/O error"))

    outcome = world.retrieve(anchors=(known.id,))

    rows = decided(outcome, known)
    assert {row.decision for row in rows.values()} == {"conservative_fallback"}
    assert len(rows) == 3
    health = world.statistics.inner.health(0)
    assert health.state == "unhealthy"
    assert "health_check" in (health.cause or "")


@pytest.mark.spec("recall-116")
def test_a_counter_that_cannot_be_read_falls_back_with_the_later_ones(world: World, known: Entity) -> None:
    world.statistics.alter(
        "counts",
        lambda _: Counts(
            Health("healthy"),
            dict.fromkeys([ABOUT, INVOLVES], Count(24, 24, 24)),
            {(known.ref, ABOUT): Count(8, 8, 8)},
            RetrievalStatsStoreError("sqlite", "disk I/O error"),
        ),
    )

    rows = decided(world.retrieve(anchors=(known.id,)), known)

    assert [rows[pair].fallback for pair in (ABOUT, INVOLVES, IN_THREAD)] == [False, True, True]
    assert rows[ABOUT].score == pytest.approx(0.317394, abs=1e-6)
    health = world.statistics.inner.health(0)
    assert health.state == "unhealthy"
    assert "counter_read" in (health.cause or "")


@pytest.mark.spec("recall-117")
def test_what_is_out_of_scope_is_not_planned(world: World, known: Entity) -> None:
    outcome = world.retrieve(
        anchors=(known.id,),
        graph_limits=GraphLimits(allowed_object_types=(ObjectType.EPISODE, ObjectType.ENTITY)),
    )

    assert set(decided(outcome, known)) == {INVOLVES}
    assert outcome.rationale.telemetry.selectivity.decision_count == 1
    assert [call.args for call in world.statistics.calls if call.name == "counts"] == [
        ([known.ref], [INVOLVES])
    ]


@pytest.mark.spec("recall-118")
def test_counts_follow_the_lifecycle_policy(world: World) -> None:
    about, other, happened = notion(), notion(), episode()
    held = [belief(happened, entity_ids=(about.id,)) for _ in range(4)]
    world.store(about, other, happened, *held, belief(happened, entity_ids=(other.id,)))
    world.forget(*held[:2])

    def used(policy: LifecyclePolicy) -> int | None:
        row = decided(world.retrieve(anchors=(about.id,), lifecycle_policy=policy), about)[ABOUT]
        return row.entity_count

    default, suppressed = LifecyclePolicy(), LifecyclePolicy(include_suppressed=True)
    superseded = LifecyclePolicy(include_superseded=True)
    assert counts_of(world.statistics.inner, [about.ref], *ABOUT) == {about.ref: Count(4, 2, 2)}
    assert (used(suppressed), used(default)) == (4, 2)

    world.store(belief(happened, supersedes=(held[2].id,)))

    assert (used(default), used(superseded)) == (1, 2)


@pytest.mark.spec("recall-119")
def test_without_a_notion_among_the_roots_statistics_are_left_alone(world: World) -> None:
    met, line, happened = notion(), thread(), episode(scene=Scene.at(NOON))
    held = belief(happened, entity_ids=(met.id,), thread_ids=(line.id,))
    world.store(met, line, happened, held)
    world.vectors.script(dense=[(held, 0.9), (line, 0.8)])

    outcome = world.retrieve()

    assert refs_in(outcome)
    assert world.statistics.calls == []
    assert outcome.rationale.telemetry.selectivity.decision_count == 0


@pytest.mark.spec("recall-119")
def test_what_chooses_among_a_crowd_reads_no_counter(world: World) -> None:
    line, happened = thread(), episode(scene=Scene.at(NOON))
    crowd = [belief(happened, thread_ids=(line.id,)) for _ in range(80)]
    world.store(line, happened, *crowd)
    world.vectors.script(dense=[(line, 0.9)])

    outcome = world.retrieve()

    assert len(refs_in(outcome)) > 10
    assert {"health", "best"} <= set(world.statistics.names()) <= {"health", "best", "hints"}
    assert outcome.rationale.telemetry.selectivity.decision_count == 0


@pytest.mark.spec("recall-120")
def test_names_and_descriptions_do_not_matter(world: World) -> None:
    famous, plain, happened = notion(), notion(), episode()
    world.store(famous, plain, happened)
    world.store(
        belief(happened, entity_ids=(famous.id,), known_as="The Queen", text="She is the queen."),
        belief(happened, entity_ids=(plain.id,), text="A thing."),
        *(belief(happened, entity_ids=(notion_.id,)) for notion_ in (famous, plain)),
    )

    outcome = world.retrieve(anchors=(famous.id, plain.id))

    def budgets(item: Entity) -> dict[object, tuple[object, ...]]:
        return {
            pair: (row.chosen_fanout, row.score, row.entity_count, row.decision)
            for pair, row in decided(outcome, item).items()
        }

    assert budgets(famous) == budgets(plain)
    assert not decided(outcome, famous)[ABOUT].fallback


def test_scene_participants_with_a_key_are_anchors(world: World, known: Entity) -> None:
    scene = Scene.at(NOON, Participant(name="somebody"), Participant(key=known.id))
    outcome = world.retrieve(topic=None, scene=scene)
    assert set(decided(outcome, known)) == {ABOUT, INVOLVES, IN_THREAD}
    assert [row.proposed_count for row in outcome.rationale.telemetry.roads] == [1, 0]

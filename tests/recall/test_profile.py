"""Case 16, the automatic profile and the room that each kind of cue keeps (recall.md §16.4)."""

from collections.abc import Callable

import pytest

from charactermemory.adapters.embedding.wordllama import WordLlamaEmbedding
from charactermemory.recall import CandidateLimits, RecallKnobs, RetrievalContext, SectionLimits
from charactermemory.recall.context import AUTOMATIC_ROOTS, AUTOMATIC_SECTIONS
from charactermemory.recall.floors import admitted
from charactermemory.recall.knobs import RELEVANCE_FLOORS
from charactermemory.recall.roads.road import CueKind
from charactermemory.testing.builders import belief, episode, notion, observation, thread
from tests.recall.world import World, expansion_of, refs_in

TOPIC, PERSON = frozenset({CueKind.TOPIC}), frozenset({CueKind.PARTICIPANT})


def with_floor(world: World, floor: float) -> None:
    world.knobs = RecallKnobs(floors={world.embedder.fingerprint(): floor})


def below_floor(outcome: object) -> int:
    (row,) = [row for row in outcome.rationale.telemetry.roads if row.road == "topic"]  # type: ignore[attr-defined]
    return row.below_floor_count  # type: ignore[no-any-return]


@pytest.mark.spec("recall-16")
def test_a_weak_candidate_is_a_root_unless_a_floor_leaves_it_out(world: World) -> None:
    weak = thread()
    world.store(weak)
    world.vectors.script(dense=[(weak, -0.1)])
    with_floor(world, 0.3)

    outcome = world.retrieve()

    assert expansion_of(outcome, weak).object_count == 1
    (admission,) = outcome.pack.admissions
    assert admission.scores.similarity == -0.1
    assert below_floor(outcome) == 0

    outcome = world.retrieve(profile="automatic")

    assert refs_in(outcome) == []
    assert outcome.trace
    assert outcome.trace.graph_expansions == ()
    assert below_floor(outcome) == 1
    assert [row.score for row in outcome.trace.vector_candidates] == [-0.1]


def test_words_alone_do_not_pass_the_floor_but_do_beside_a_match(world: World) -> None:
    happened = [episode() for _ in range(2)]
    said = [observation(item, 0) for item in happened]
    world.store(*happened, *said)
    with_floor(world, 0.3)
    world.vectors.script(dense=[(said[0], 0.2)], lexical=[(said[1], 5.0)])
    assert refs_in(world.retrieve(profile="automatic")) == []

    world.vectors.script(dense=[(said[0], 0.4)], lexical=[(said[1], 5.0)])
    assert {item.ref for item in said} <= set(refs_in(world.retrieve(profile="automatic")))


def test_an_embedder_without_a_measured_floor_has_none(world: World) -> None:
    weak = thread()
    world.store(weak)
    world.vectors.script(dense=[(weak, 0.01)])

    assert refs_in(world.retrieve(profile="automatic")) == [weak.ref]
    assert WordLlamaEmbedding().fingerprint() in RELEVANCE_FLOORS


def test_the_automatic_profile_only_lowers_limits() -> None:
    wide = RetrievalContext(
        topic="tea",
        profile="automatic",
        candidate_limits=CandidateLimits(max_graph_roots=100),
        section_limits=SectionLimits(salient_observations=500, preferences=1),
    ).within_profile()

    assert wide.candidate_limits.max_graph_roots == AUTOMATIC_ROOTS
    assert wide.section_limits.salient_observations == AUTOMATIC_SECTIONS.salient_observations
    assert wide.section_limits.preferences == 1
    assert RetrievalContext(topic="tea").within_profile() == RetrievalContext(topic="tea")


def test_a_loud_topic_leaves_the_one_present_a_root_and_a_place(world: World) -> None:
    present = notion()
    of_them = belief(entity_ids=(present.id,), salience_score=0.0)
    loud = [belief(entity_ids=(notion().id,)) for _ in range(20)]
    world.store(present, of_them, *loud)
    world.vectors.script(dense=[(item, 1.0) for item in loud], lexical=[(item, 9.0) for item in loud])

    outcome = world.retrieve(
        anchors=(present.id,),
        candidate_limits=CandidateLimits(max_graph_roots=3),
        section_limits=SectionLimits(derived_memories=2),
    )

    assert expansion_of(outcome, present.ref)
    assert of_them.ref in refs_in(outcome)
    assert len(refs_in(outcome)) == 2


@pytest.mark.parametrize(
    ("kinds", "room", "expected"),
    [
        ([TOPIC, TOPIC, TOPIC, PERSON], 2, [True, False, False, True]),
        ([TOPIC, TOPIC, PERSON, TOPIC], 3, [True, True, True, False]),
        ([TOPIC, PERSON, PERSON], 5, [True, True, True]),
        ([TOPIC, PERSON], 1, [False, True]),
        ([TOPIC | PERSON, TOPIC, PERSON], 1, [True, False, False]),
        ([TOPIC, PERSON], 0, [False, False]),
        ([], 3, []),
    ],
)
def test_each_kind_of_cue_keeps_its_floor(
    kinds: list[frozenset[CueKind]], room: int, expected: list[bool]
) -> None:
    assert admitted(kinds, room) == expected


def test_a_question_about_nothing_known_brings_an_empty_pack(open_memory: Callable[[], object]) -> None:
    with open_memory() as memory:  # type: ignore[attr-defined]
        for text in (
            "We planted tomatoes behind the house and watered them every evening.",
            "My sister got married in June, and I held the speech.",
            "The dog ran off in the thunderstorm; we found it at the neighbours'.",
        ):
            memory.remember(text)

        def ask(topic: str) -> object:
            return memory.retrieve(RetrievalContext(topic=topic, profile="automatic")).pack

        assert ask("How did the tomatoes behind the house do?").admissions  # type: ignore[attr-defined]
        assert ask("Where did the dog run in the storm?").admissions  # type: ignore[attr-defined]
        assert not ask("What is the syntax of a for loop in Rust?").admissions  # type: ignore[attr-defined]
        assert not ask("asdf qwer zxcv uiop").admissions  # type: ignore[attr-defined]

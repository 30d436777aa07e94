"""Who is present has a say in what comes first, and none in what is relevant (docs/recall-tuning.md)."""

from collections.abc import Sequence

import pytest

from charactermemory.adapters.oxigraph.in_memory import InMemoryConnection
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.objects import Entity, Episode, MemoryObject
from charactermemory.domain.scene import Participant, Scene
from charactermemory.recall import CandidateLimits, RetrievalOutcome, reading
from charactermemory.recall.bearings import NAMED, PRESENT_BESIDE_NAMED, PRESENT_SHARE
from charactermemory.recall.presence import PARTY_SHARE
from charactermemory.testing.builders import at, belief, episode, link, notion, observation
from tests.recall.test_names import known
from tests.recall.test_ranking import recomputed, scores_of
from tests.recall.world import World, refs_in


def beside(*people: Entity, day: int = 0) -> Scene:
    return Scene.at(at(day), *(Participant(key=person.id) for person in people))


def lived(*people: Entity) -> Episode:
    return episode(scene=beside(*people))


def order(outcome: RetrievalOutcome, items: Sequence[MemoryObject]) -> list[int]:
    """Return the numbers of these items in the order in which the pack has them."""
    numbers = {item.ref: number for number, item in enumerate(items)}
    return [numbers[ref] for ref in refs_in(outcome) if ref in numbers]


def test_of_like_words_those_of_who_is_present_come_first(world: World) -> None:
    ann, bea = notion(), notion()
    hers, others = (observation(episode(), speaker_entity_id=person.id) for person in (bea, ann))
    world.store(ann, bea, *(episode(id=item.episode_id) for item in (hers, others)), hers, others)
    world.vectors.script(dense=[(others, 0.6), (hers, 0.55)])

    alone, with_her, with_ann = (world.retrieve(scene=beside(*people)) for people in ((), (bea,), (ann,)))

    assert [order(outcome, (hers, others)) for outcome in (alone, with_her, with_ann)] == [
        [1, 0],
        [0, 1],
        [1, 0],
    ]
    gained = scores_of(with_her, hers)
    assert gained.present_score == pytest.approx(PRESENT_SHARE * 0.55)
    assert gained.final_score == pytest.approx(recomputed(gained), abs=1e-9)
    assert scores_of(with_her, others).present_score is None
    assert scores_of(alone, hers).present_score is None


def test_what_is_held_about_who_is_present_gains_as_much(world: World) -> None:
    ann, bea = notion(), notion()
    of_her, of_ann = (belief(entity_ids=(person.id,)) for person in (bea, ann))
    world.store(ann, bea, of_her, of_ann)
    world.vectors.script(dense=[(of_ann, 0.6), (of_her, 0.55)])

    outcome = world.retrieve(scene=beside(bea))

    assert order(outcome, (of_her, of_ann)) == [0, 1]
    assert scores_of(outcome, of_her).present_score == pytest.approx(PRESENT_SHARE * 0.55)
    assert scores_of(outcome, of_ann).present_score is None


def test_who_spoke_is_asked_for_where_it_is_not_in_mind() -> None:
    connection = InMemoryConnection()
    ann, bea, happened = notion(), notion(), episode()
    said = [observation(happened, 9 * n, speaker_entity_id=person.id) for n, person in enumerate((ann, bea))]
    World(connection).store(ann, bea, happened, *said)
    reopened = World(connection)
    reopened.vectors.script(dense=[(said[0], 0.6), (said[1], 0.55)])

    assert order(reopened.retrieve(scene=beside(bea)), said) == [1, 0]


def test_being_close_in_two_ways_counts_once_and_having_been_there_beside_it(world: World) -> None:
    ann, bea = notion(), notion()
    happened, elsewhere = lived(bea), lived(ann)
    held = belief(happened, entity_ids=(ann.id, bea.id))
    said = observation(elsewhere, 0, speaker_entity_id=bea.id)
    world.store(ann, bea, happened, elsewhere, held, said, link(said, bea, RelationType.ABOUT))
    world.vectors.script(dense=[(held, 0.6), (said, 0.6)])

    outcome = world.retrieve(scene=beside(bea))

    assert scores_of(outcome, held).present_score == pytest.approx((1 + PARTY_SHARE) * PRESENT_SHARE * 0.6)
    assert scores_of(outcome, said).present_score == pytest.approx(PRESENT_SHARE * 0.6)


def test_what_was_lived_through_together_gains_a_little(world: World) -> None:
    ann, bea = notion(), notion()
    with_her, with_ann = lived(bea), lived(ann)
    said = [observation(item, 0) for item in (with_her, with_ann)]
    spoken = observation(with_her, 9, speaker_entity_id=bea.id)
    drawn = [belief(source) for source in (with_her, said[0], with_ann)]
    items = (with_her, with_ann, *said, spoken, *drawn)
    world.store(ann, bea, *items)
    world.vectors.script(dense=[(item, 0.6) for item in items])

    outcome = world.retrieve(scene=beside(bea))

    little = pytest.approx(PARTY_SHARE * PRESENT_SHARE * 0.6)
    assert [scores_of(outcome, item).present_score for item in items] == [
        little,
        None,
        little,
        None,
        pytest.approx((1 + PARTY_SHARE) * PRESENT_SHARE * 0.6),
        little,
        little,
        None,
    ]


def test_the_character_being_always_there_does_not_make_all_alike(world: World) -> None:
    robin, ann, bea = notion(), notion(), notion()
    with_ann, with_bea = lived(robin, ann), lived(robin, bea)
    replies = [observation(day, 0, speaker_entity_id=robin.id) for day in (with_ann, with_bea)]
    drawn = [belief(day) for day in (with_ann, with_bea)]
    world.store(robin, ann, bea, with_ann, with_bea, *replies, *drawn)
    world.vectors.script(dense=[(replies[0], 0.6), (replies[1], 0.58), (drawn[0], 0.6), (drawn[1], 0.58)])

    outcome = world.retrieve(scene=beside(robin, bea))

    assert order(outcome, replies) == order(outcome, drawn) == [1, 0]
    whole, half = (scores_of(outcome, item).present_score for item in (drawn[1], drawn[0]))
    assert whole == pytest.approx(PARTY_SHARE * PRESENT_SHARE * 0.58)
    assert half == pytest.approx(PARTY_SHARE * PRESENT_SHARE * 0.6 / 2)


def test_what_was_drawn_from_several_occasions_counts_by_the_one_with_most_company(world: World) -> None:
    ann, bea = notion(), notion()
    days = [lived(*people) for people in ((ann,), (ann, bea), (bea,))]
    held = belief(*days)
    world.store(ann, bea, *days, held)
    world.vectors.script(dense=[(held, 0.6)])

    scores = scores_of(world.retrieve(scene=beside(ann, bea)), held)

    assert scores.present_score == pytest.approx(PARTY_SHARE * PRESENT_SHARE * 0.6)


def test_the_turn_beside_a_match_gains_if_it_was_said_in_company(world: World) -> None:
    bea = notion()
    happened = lived(bea)
    question, answer = observation(happened, 0), observation(happened, 1)
    world.store(bea, happened, question, answer)
    world.vectors.script(dense=[(question, 0.8)])

    scores = scores_of(world.retrieve(scene=beside(bea)), answer)

    assert scores.present_score == pytest.approx(PARTY_SHARE * PRESENT_SHARE * scores.neighbour_score)


def test_an_occasion_that_is_forgotten_makes_nobody_a_party(world: World) -> None:
    bea = notion()
    happened = lived(bea)
    said = observation(happened, 0)
    world.store(bea, happened, said)
    world.forget(happened)
    world.vectors.script(dense=[(said, 0.6)])

    assert scores_of(world.retrieve(scene=beside(bea)), said).present_score is None


def test_being_there_makes_nothing_relevant(world: World) -> None:
    ann, bea = notion(), notion()
    apt, faint, unmatched = (
        observation(episode(), speaker_entity_id=person.id) for person in (ann, bea, bea)
    )
    said = (apt, faint, unmatched)
    held, *others = (belief(entity_ids=(person.id,)) for person in (bea, ann, ann, ann))
    world.store(ann, bea, *(episode(id=item.episode_id) for item in said), *said, held, *others)
    world.vectors.script(dense=[(apt, 0.8), (faint, 0.4)])

    outcome = world.retrieve(scene=beside(bea))

    assert order(outcome, said) == [0, 1]
    assert scores_of(outcome, held).present_score is None
    silent = world.retrieve(topic=None, scene=beside(bea))
    assert held.ref in refs_in(silent)
    assert scores_of(silent, held).present_score is None


def test_who_is_named_comes_before_who_is_present(world: World) -> None:
    ann, bea = known(world, "Ann"), known(world, "Bea")
    assert isinstance(ann, Entity)
    assert isinstance(bea, Entity)
    hers, others = (observation(lived(person), speaker_entity_id=person.id) for person in (bea, ann))
    place = notion()
    held = [belief(entity_ids=(place.id, person.id)) for person in (bea, ann)]
    naming = belief(entity_ids=(place.id,), known_as="Lisbon")
    world.store(*(episode(id=item.episode_id) for item in (hers, others)), hers, others, place, *held, naming)
    world.vectors.script(dense=[(hers, 0.6), (others, 0.5), (held[1], 0.6), (held[0], 0.58)])

    of_ann = world.retrieve(topic="When is Ann's birthday?", scene=beside(bea))
    of_lisbon = world.retrieve(topic="When do I go to Lisbon?", scene=beside(bea))

    assert order(of_ann, (hers, others)) == [1, 0]
    assert scores_of(of_ann, others).named_score == NAMED
    assert scores_of(of_ann, hers).present_score == pytest.approx(PRESENT_BESIDE_NAMED * 0.6)
    assert order(of_lisbon, held) == [0, 1], "both are about who is named, and only one about who asks"


def test_somebody_who_is_in_everything_changes_no_order(world: World) -> None:
    uma = notion()
    days = [episode(scene=beside(uma, day=number)) for number in range(30)]
    said = [observation(day, 0, speaker_entity_id=uma.id) for day in days]
    world.store(uma, *days, *said)
    world.vectors.script(dense=[(item, 0.9 - number / 100) for number, item in enumerate(said)])

    alone, with_her = world.retrieve(), world.retrieve(scene=beside(uma))

    assert order(with_her, said)[:8] == order(alone, said)[:8] == list(range(8))


def test_several_who_are_present_gain_alike_and_the_absent_comes_last(world: World) -> None:
    people = [notion() for _ in range(3)]
    said = [observation(lived(*people), speaker_entity_id=person.id) for person in people]
    world.store(*people, *(lived(*people).replace(id=item.episode_id) for item in said), *said)
    world.vectors.script(dense=[(said[0], 0.6), (said[1], 0.59), (said[2], 0.58)])

    outcome = world.retrieve(scene=beside(people[1], people[2]))

    assert order(outcome, said) == [1, 2, 0]
    assert scores_of(outcome, said[1]).present_score == pytest.approx(
        (1 + PARTY_SHARE) * PRESENT_SHARE * 0.59
    )
    assert scores_of(outcome, said[0]).present_score == pytest.approx(PRESENT_SHARE * PARTY_SHARE * 0.6)


def test_among_many_alike_those_of_who_is_present_are_expanded(world: World) -> None:
    people = [notion() for _ in range(30)]
    days = [episode() for _ in people]
    said = [observation(day, speaker_entity_id=person.id) for day, person in zip(days, people, strict=True)]
    world.store(*people, *days, *said)
    world.vectors.script(dense=[(item, 0.9 - number / 100) for number, item in enumerate(said)])

    outcome = world.retrieve(scene=beside(people[29]), candidate_limits=CandidateLimits(max_graph_roots=4))

    assert outcome.trace
    assert said[29].ref in {row.root for row in outcome.trace.graph_expansions}
    assert order(outcome, said)[0] == 29


def test_it_costs_no_further_read(world: World) -> None:
    ann, bea, happened = notion(), notion(), episode()
    said = observation(happened, 0, speaker_entity_id=bea.id)
    world.store(ann, bea, happened, said)
    world.vectors.script(dense=[(said, 0.6)])
    made = []
    for context in ({"anchors": (bea.id,)}, {"scene": beside(bea)}):
        world.clear_calls()
        world.retrieve(include_trace=False, **context)
        made.append([[call.name for call in port.calls] for port in (world.graph, world.statistics)])

    assert made[0] == made[1]


def test_what_is_foreseen_of_a_ranking_holds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ann, bea = notion(), notion()
    days = [lived(ann if number % 2 else bea) for number in range(20)]
    said = [observation(day, 0, speaker_entity_id=day.scene.participants[0].key) for day in days]
    world.store(ann, bea, *days, *said)
    world.vectors.script(dense=[(item, 0.9 - number / 100) for number, item in enumerate(said)])
    fields = {"scene": beside(bea), "section_limits": {"salient_observations": 2}}
    usual = world.retrieve(**fields)

    monkeypatch.setattr(reading, "FEW", 0)
    outcome = world.retrieve(**fields)

    assert outcome.pack == usual.pack
    assert order(outcome, said)[0] == 0
    assert not any(number % 2 for number in order(outcome, said))
    assert world.retrieve(**fields, include_trace=False).pack == usual.pack

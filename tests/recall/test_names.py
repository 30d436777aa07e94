"""Names in the topic are cues, not content (DESIGN R10, R12)."""

import pytest

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.scene import Participant, Scene
from charactermemory.recall import CandidateLimits
from charactermemory.recall.names import MAX_LOOKUPS, NameReference, read_topic
from charactermemory.testing.builders import at, belief, episode, link, notion, observation
from tests.recall.test_ranking import scores_of
from tests.recall.world import World, assignment_of, refs_in


def known(world: World, *names: str) -> object:
    person = notion()
    world.store(person, *(belief(entity_ids=(person.id,), known_as=name) for name in names))
    return person


@pytest.mark.parametrize(
    ("name", "topic", "content"),
    [
        ("Anna", "What did Anna cook?", "What did cook?"),
        ("Anna", "Is this ANNA's coat", "Is this coat"),
        ("Anna", "Anna’s coat", "coat"),
        ("James", "James' coat", "coat"),
        ("Anna Maria", "When did anna \t maria sing?", "When did sing?"),
        ("Dr. Smith", "What did Dr. Smith say?", "What did say?"),
        ("J.R.", "Who shot J.R. at noon", "Who shot at noon"),
        ("O'Brien", "the O'Brien house", "the house"),
        ("田中", "田中さんは何が好きですか", "さんは何が好きですか"),
        ("Ａnna", "what about anna", "what about"),  # noqa: RUF001  (NFKC folds it)
    ],
)
def test_a_known_name_leaves_the_text_that_is_embedded_and_stays_in_the_words(
    world: World, name: str, topic: str, content: str
) -> None:
    person = known(world, name)

    outcome = world.retrieve(topic=topic)

    assert world.embedder.queries == [content]
    ((_, text, _, _),) = world.vectors.searches
    assert text == " ".join(topic.split())
    assert outcome.rationale.names == (
        NameReference(position=0, resolution="resolved", candidates=(person.id,)),
    )
    assert name.lower() not in outcome.rationale.to_json().lower()


@pytest.mark.parametrize("topic", ["What did Annabel cook?", "Hanna cooks", "an na", "Aña", "cook"])
def test_names_match_exactly_or_not_at_all(world: World, topic: str) -> None:
    known(world, "Anna")

    outcome = world.retrieve(topic=topic)

    assert world.embedder.queries == [topic]
    assert outcome.rationale.names == ()


def test_every_bearer_of_an_ambiguous_name_is_a_cue(world: World) -> None:
    one, other = known(world, "Anna"), known(world, "Anna", "Annie")

    outcome = world.retrieve(topic="What do Anna and Annie like?")

    assert outcome.trace
    assert {row.root for row in outcome.trace.graph_expansions} == {one.ref, other.ref}
    assert [(row.resolution, set(row.candidates)) for row in outcome.rationale.names] == [
        ("ambiguous", {one.id, other.id}),
        ("resolved", {other.id}),
    ]


def test_a_name_no_longer_believed_is_no_name(world: World) -> None:
    person = notion()
    former = belief(entity_ids=(person.id,), known_as="Anna")
    forgotten = belief(entity_ids=(person.id,), known_as="Annie")
    world.store(person, former, forgotten)
    world.store(belief(entity_ids=(person.id,), known_as="Hanna", supersedes=(former.id,)))
    world.forget(forgotten)

    assert read_topic(world.graph, "Anna, Annie").names == ()
    assert read_topic(world.graph, "Hanna").bearers == (person.id,)


def test_the_longest_name_counts(world: World) -> None:
    known(world, "Anna")
    both = known(world, "Anna Maria")

    assert read_topic(world.graph, "Anna Maria Anna").bearers[0] == both.id
    assert len(read_topic(world.graph, "Anna Maria Anna").names) == 2


def test_a_topic_of_a_name_alone_is_searched_by_words_only(world: World) -> None:
    person = known(world, "Anna")

    outcome = world.retrieve(topic="Anna?")

    assert world.embedder.queries == []
    ((embedding, text, _, _),) = world.vectors.searches
    assert (embedding, text) == (None, "Anna?")
    assert outcome.rationale.degraded == ()
    assert outcome.rationale.names[0].candidates == (person.id,)


def test_a_long_topic_costs_one_bounded_look_up(world: World) -> None:
    world.retrieve(topic=" ".join(f"word{n}" for n in range(5_000)))

    (call,) = [call for call in world.graph.calls if call.name == "notions_known_as"]
    assert len(call.args[0]) == MAX_LOOKUPS


def test_what_someone_named_said_comes_first_if_it_matches_at_all(world: World) -> None:
    anna, ben, happened = known(world, "Anna"), known(world, "Ben"), episode()
    hers = observation(happened, 0, speaker_entity_id=anna.id)
    his = observation(happened, 9, speaker_entity_id=ben.id)
    off_topic = observation(happened, 20, speaker_entity_id=anna.id)
    world.store(happened, hers, his, off_topic)
    world.vectors.script(dense=[(his, 0.6), (hers, 0.5)])

    unnamed, named = world.retrieve(), world.retrieve(topic="What did Anna say of tea?")

    assert [item.id for item in unnamed.pack.salient_observations][:2] == [his.id, hers.id]
    assert [item.id for item in named.pack.salient_observations] == [hers.id, his.id, off_topic.id]
    assert scores_of(named, hers).named_score == 0.5
    assert scores_of(named, his).named_score is None
    assert scores_of(named, off_topic).named_score is None


def test_what_is_held_of_someone_named_gets_the_same_bonus(world: World) -> None:
    anna, ben = known(world, "Anna"), known(world, "Ben")
    of_her, of_him = (belief(entity_ids=(person.id,)) for person in (anna, ben))
    world.store(of_her, of_him)
    world.vectors.script(dense=[(of_him, 0.6), (of_her, 0.5)])

    named = world.retrieve(topic="What does Anna like?")

    held = [entry.memory.id for entry in named.pack.derived_memories]
    assert held.index(of_her.id) == 0
    assert of_him.id in held
    assert scores_of(named, of_her).named_score == 0.5


def test_a_named_hub_keeps_a_root_and_does_not_flood_the_pack(world: World) -> None:
    anna = known(world, "Anna")
    elsewhere = [episode(scene=Scene.at(at(n), Participant(key=anna.id))) for n in range(30)]
    said = [observation(item, 0) for item in elsewhere]
    world.store(*elsewhere, *said)
    hits = said[20:]
    world.vectors.script(
        dense=[(item, 0.9 - n / 100) for n, item in enumerate(hits)], lexical=[(hits[0], 9.0)]
    )

    outcome = world.retrieve(topic="What did Anna eat?", candidate_limits=CandidateLimits(max_graph_roots=4))

    assert outcome.trace
    roots = [row.root for row in outcome.trace.graph_expansions]
    assert anna.ref in roots
    assert len([ref for ref in roots if ref in {item.ref for item in hits}]) == 3
    observations = [item.id for item in outcome.pack.salient_observations]
    assert observations[:3] == [item.id for item in hits[:3]]


def test_a_link_to_someone_named_leads_on(world: World) -> None:
    anna, friend = known(world, "Anna"), notion()
    world.store(friend, link(anna, friend, RelationType.ASSOCIATED_WITH))
    held = belief(entity_ids=(friend.id,))
    world.store(held)

    outcome = world.retrieve(topic="Who is Anna close to?")

    assert held.ref in refs_in(outcome)
    (admission,) = [row for row in outcome.pack.admissions if row.object == held.ref]
    assert admission.admitted_by == ("anchor",)
    assert assignment_of(outcome, held).rank is not None

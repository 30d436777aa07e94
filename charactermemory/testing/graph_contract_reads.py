"""The part of the graph contract about finding: sources, members, neighbours, places, pages, exports."""

from __future__ import annotations

from itertools import pairwise

import pytest

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import derived_links
from charactermemory.domain.objects import MemoryObject
from charactermemory.domain.scene import Participant, Scene
from charactermemory.errors import DeterministicIdCollision, GraphQueryError
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType
from charactermemory.ports.graph import Edge, GraphStore, Neighbourhood, Place
from charactermemory.testing.builders import (
    NOON,
    at,
    belief,
    episode,
    forgetting,
    link,
    notion,
    observation,
    thread,
    unknown_ref,
)
from charactermemory.testing.graph_contract_writes import OpenStore, content, every_object, put, read_back

EVERY_RELATION = tuple(RelationType)


def ids(*items: MemoryObject) -> tuple[MemoryId, ...]:
    """Return the sorted ids of objects."""
    return tuple(sorted((item.id for item in items), key=lambda item: item.int))


def edges(store: GraphStore, node: MemoryObject, cap: int = 100) -> set[Edge]:
    """Return every edge of one node."""
    return set(store.neighbours([node.ref], EVERY_RELATION, cap)[node.ref].edges)


def scanned(store: GraphStore, limit: int, after: str | None = None) -> list[MemoryObjectRef]:
    """Return every page from `after` on, put together."""
    refs, after = store.scan(after, limit)
    while after is not None:
        assert len(refs) % limit == 0
        page, after = store.scan(after, limit)
        refs = refs + page
    return refs


class GraphReadsContract:
    """Set-based reads, capped where a node may have many neighbours."""

    def test_nothing_asked_is_nothing_found(self, store: GraphStore) -> None:
        """Never everything (case core-98)."""
        put(store, *every_object())
        assert store.read([]) == {}
        assert store.existing([]) == set()
        assert store.notions_known_as([]) == {}
        assert store.notions_known_as([""]) == {}
        assert store.names_of([]) == {}
        assert store.memories_from([], []) == ()
        assert store.observations_of([]) == ()
        assert store.neighbours([], EVERY_RELATION, 5) == {}
        assert store.turns([]) == {}
        assert store.link_ids([]) == {}

    def test_no_relation_asked_is_no_edge_found(self, store: GraphStore) -> None:
        """Every node has its answer all the same."""
        items = every_object()
        put(store, *items)
        refs = [item.ref for item in items]
        assert store.neighbours(refs, [], 5) == {ref: Neighbourhood() for ref in refs}

    def test_what_is_not_stored_is_left_out(self, store: GraphStore) -> None:
        """Also where a link already names it."""
        who, lost = notion(), unknown_ref()
        put(store, who, link(who, lost), link(lost, who))
        assert set(read_back(store, [who.ref, lost])) == {who.ref}
        assert store.existing([who.ref, lost], anew=True) == store.existing([who.ref, lost]) == {who.ref}

    def test_many_are_read_at_once(self, store: GraphStore) -> None:
        """More than any inner chunk."""
        people = [notion() for _ in range(500)]
        others = [notion() for _ in range(300)]
        put(store, *people)
        put(store, *others)
        refs = [item.ref for item in people + others]
        assert set(read_back(store, refs + refs)) == set(refs)
        assert store.existing(refs, anew=True) == store.existing(refs) == set(refs)

    def test_memories_are_found_by_their_sources(self, store: GraphStore) -> None:
        """By their own lists and by links in either direction, whatever their lifecycle; no other relation."""
        happened, other = episode(), episode()
        said = observation(happened)
        own, from_said, elsewhere = belief(happened), belief(said), belief(other)
        linked, linked_back, only_about = belief(), belief(), belief()
        put(store, happened, other, said, own, from_said, elsewhere, linked, linked_back, only_about)
        put(
            store,
            link(linked, happened, RelationType.DERIVED_FROM),
            link(said, linked_back, RelationType.DERIVED_FROM),
            link(only_about, happened, RelationType.ABOUT),
            link(happened, other, RelationType.DERIVED_FROM),
        )
        put(store, event=forgetting(own))
        assert store.memories_from([happened.id], []) == ids(own, linked)
        assert store.memories_from([], [said.id]) == ids(from_said, linked_back)
        assert store.memories_from([happened.id], [said.id]) == ids(own, linked, from_said, linked_back)
        assert store.memories_from([said.id], [happened.id]) == ()

    def test_links_do_not_change_what_a_memory_says_itself(self, store: GraphStore) -> None:
        """Its source, thread and notion lists and an observation's episode stay its own."""
        happened, other = episode(), episode()
        said = observation(happened)
        story, who = thread(), notion()
        held = belief(happened)
        put(store, happened, other, said, story, who, held)
        put(
            store,
            link(held, other, RelationType.DERIVED_FROM),
            link(held, said, RelationType.DERIVED_FROM),
            link(held, story, RelationType.PART_OF_THREAD),
            link(held, said, RelationType.ABOUT),
            link(said, other, RelationType.OBSERVED_IN),
        )
        stored = read_back(store, [held.ref, said.ref])
        assert (stored[held.ref].object, stored[said.ref].object) == (held, said)
        assert store.observations_of([other.id]) == ()

    def test_observations_are_found_by_their_episode(self, store: GraphStore) -> None:
        """Whatever their lifecycle."""
        first, second, third = episode(), episode(), episode()
        said = [observation(first, number) for number in range(12)]
        heard = observation(second)
        put(store, first, second, third, *said, heard)
        put(store, event=forgetting(said[0]))
        assert store.observations_of([first.id]) == ids(*said)
        assert store.observations_of([second.id, third.id]) == ids(heard)

    def test_members_are_those_that_say_so(self, store: GraphStore) -> None:
        """A part_of_thread link joins without making a member (case core-92)."""
        story, other = thread(), thread()
        member, both, linked = (
            belief(thread_ids=(story.id,)),
            belief(thread_ids=(story.id, other.id)),
            belief(),
        )
        put(store, story, other, member, both, linked, link(linked, story, RelationType.PART_OF_THREAD))
        assert store.members_of(story.id) == ids(member, both)
        assert store.members_of(other.id) == ids(both)

    def test_fields_are_edges_like_links(self, store: GraphStore) -> None:
        """Each (from, relation, to) once, however many assert it; a speaker is no edge."""
        who, story, old = notion(), thread(), belief()
        happened = episode(
            scene=Scene(time=NOON, participants=(Participant(key=who.id), Participant(key=who.id)))
        )
        said = observation(happened, speaker_entity_id=who.id)
        held = belief(said, happened, entity_ids=(who.id,), thread_ids=(story.id,), supersedes=(old.id,))
        put(store, who, story, old, happened, said, held, *derived_links(held))
        put(store, link(said, happened, RelationType.OBSERVED_IN), link(who, who.ref, id=who.id))
        of_held = {
            Edge(held.ref, RelationType.DERIVED_FROM, said.ref),
            Edge(held.ref, RelationType.DERIVED_FROM, happened.ref),
            Edge(held.ref, RelationType.ABOUT, who.ref),
            Edge(held.ref, RelationType.PART_OF_THREAD, story.ref),
            Edge(held.ref, RelationType.SUPERSEDES, old.ref),
        }
        assert edges(store, held) == of_held
        assert edges(store, said) == {
            Edge(said.ref, RelationType.OBSERVED_IN, happened.ref),
            Edge(held.ref, RelationType.DERIVED_FROM, said.ref),
        }
        assert edges(store, who) == {
            Edge(held.ref, RelationType.ABOUT, who.ref),
            Edge(happened.ref, RelationType.INVOLVES, who.ref),
            Edge(who.ref, RelationType.ASSOCIATED_WITH, who.ref),
        }

    def test_only_relations_asked_for_are_walked(self, store: GraphStore) -> None:
        """In both directions, over any pair of types."""
        who, story = notion(), thread()
        ties = [link(who, story, relation) for relation in EVERY_RELATION]
        put(store, who, story, *ties)
        found = store.neighbours([story.ref, who.ref], [RelationType.RESOLVES, RelationType.MENTIONS], 5)
        expected = {Edge(who.ref, r, story.ref) for r in (RelationType.RESOLVES, RelationType.MENTIONS)}
        assert {ref: set(near.edges) for ref, near in found.items()} == dict.fromkeys(found, expected)
        assert set(found) == {who.ref, story.ref}

    def test_a_hub_is_read_up_to_the_cap(self, store: GraphStore) -> None:
        """Per relation and direction, and it is told where there is more."""
        hub, around = notion(), [notion() for _ in range(6)]
        put(store, hub, *around)
        put(store, *(link(hub, one, RelationType.MENTIONS) for one in around))
        put(store, *(link(one, hub, RelationType.MENTIONS) for one in around[:5]))
        put(store, *(link(hub, one, RelationType.ABOUT) for one in around[:2]))
        near = store.neighbours([hub.ref], EVERY_RELATION, 5)[hub.ref]
        assert near.capped == {(RelationType.MENTIONS, True)}
        assert len(near.edges) == 5 + 5 + 2
        assert len(set(near.edges)) == len(near.edges)
        full = store.neighbours([hub.ref], EVERY_RELATION, 6)[hub.ref]
        assert (len(full.edges), full.capped) == (6 + 5 + 2, frozenset())

    def test_a_crowd_is_spared_where_told(self, store: GraphStore) -> None:
        """The first time and after; told of another node, relation or cap, or one that is no crowd, it is read."""
        hub, other, around = notion(), notion(), [notion() for _ in range(6)]
        put(store, hub, other, *around)
        put(store, *(link(one, hub, RelationType.MENTIONS) for one in around))
        put(store, *(link(hub, one, RelationType.MENTIONS) for one in around[:2]))
        put(store, *(link(one, other, RelationType.MENTIONS) for one in around[:3]))
        spared = [(hub.ref, RelationType.MENTIONS), (other.ref, RelationType.MENTIONS)]
        for _ in range(2):
            near = store.neighbours([hub.ref, other.ref], EVERY_RELATION, 5, (), spared)
            assert near[hub.ref].capped == {(RelationType.MENTIONS, False)}
            assert {edge.source for edge in near[hub.ref].edges} == {hub.ref}
            assert len(near[hub.ref].edges) == 2
            assert (len(near[other.ref].edges), near[other.ref].capped) == (3, frozenset())
        above = store.neighbours([hub.ref], EVERY_RELATION, 6, (), spared)[hub.ref]
        assert (len(above.edges), above.capped) == (8, frozenset())
        below = store.neighbours([hub.ref], EVERY_RELATION, 5)[hub.ref]
        assert (len(below.edges), below.capped) == (7, frozenset({(RelationType.MENTIONS, False)}))
        elsewhere = store.neighbours([hub.ref], EVERY_RELATION, 5, (), [(hub.ref, RelationType.ABOUT)])
        assert len(elsewhere[hub.ref].edges) == 7

    def test_an_object_with_many_links_is_read_whole(self, store: GraphStore) -> None:
        """What starts at it is passed over, whatever its number, also beside other objects."""
        happened, told = episode(summary="A fair."), belief(text="All of them were there.")
        people = [notion() for _ in range(240)]
        put(store, happened, told, *people)
        for start in range(0, len(people), 120):
            put(store, *(link(happened, one, RelationType.MENTIONS) for one in people[start : start + 120]))
        found = store.read([told.ref, happened.ref], anew=True)
        assert {ref: item.object for ref, item in found.items()} == {told.ref: told, happened.ref: happened}

    def test_a_place_in_an_episode_is_looked_up(self, store: GraphStore) -> None:
        """Exactly; positions are compared as numbers."""
        happened = episode()
        said = {number: observation(happened, number) for number in (0, 1, 10)}
        put(store, happened, *said.values())
        nowhere = MemoryObjectRef.of(ObjectType.EPISODE, unknown_ref().id)
        asked = [(happened.ref, number) for number in (0, 10, 2)] + [(nowhere, 0)]
        assert store.turns(asked) == {(happened.ref, 0): said[0].ref, (happened.ref, 10): said[10].ref}

    def test_two_links_that_say_the_same_are_two_nodes_and_one_edge(self, store: GraphStore) -> None:
        """Nothing rewrites a link (case core-96)."""
        who, story = notion(), thread()
        first, second = link(who, story), link(who, story, rationale="again")
        put(store, who, story, first)
        triples = len(content(store).splitlines())
        put(store, second)
        edge = Edge(who.ref, RelationType.ASSOCIATED_WITH, story.ref)
        assert store.link_ids([edge]) == {edge: ids(first, second)}
        assert edges(store, who) == {edge}
        lines = content(store).decode().splitlines()
        direct = "<urn:charactermemory:relation:associated_with> <urn:charactermemory:memory_thread:"
        assert len(lines) > triples
        assert len([line for line in lines if direct in line]) == 1
        with pytest.raises(DeterministicIdCollision) as caught:
            put(store, first.replace(relation=RelationType.MENTIONS))
        assert caught.value.object == first.ref
        assert content(store).decode().splitlines() == lines
        assert read_back(store, [first.ref, second.ref])[first.ref].object == first

    def test_places_tell_where_observations_stand(self, store: GraphStore) -> None:
        """With who spoke where that is asked, whatever was asked before."""
        happened, who = episode(), notion()
        spoken, unsaid = observation(happened, 0, speaker_entity_id=who.id), observation(happened, 7)
        asked = [spoken.ref, unsaid.ref, MemoryObjectRef.of(ObjectType.OBSERVATION, unknown_ref().id)]
        assert store.places(asked) == {}
        put(store, happened, who, spoken, unsaid)
        where = {spoken.ref: Place(happened.ref, 0), unsaid.ref: Place(happened.ref, 7)}
        said = where | {spoken.ref: Place(happened.ref, 0, who.ref)}
        assert store.places([]) == store.places([], speakers=True) == {}
        for _ in range(2):
            found = store.places(asked)
            assert {item: place[:2] for item, place in found.items()} == {
                item: place[:2] for item, place in where.items()
            }
            assert store.places(asked, speakers=True) == said

    def test_links_are_found_by_their_edge(self, store: GraphStore) -> None:
        """Direction, relation and types count; a field's edge has no link."""
        happened, story = episode(), thread()
        said = observation(happened)
        there, back = link(happened, story), link(story, happened)
        put(store, happened, story, said, there, back)
        asked = [
            Edge(happened.ref, RelationType.ASSOCIATED_WITH, story.ref),
            Edge(story.ref, RelationType.ASSOCIATED_WITH, happened.ref),
            Edge(happened.ref, RelationType.MENTIONS, story.ref),
            Edge(said.ref, RelationType.OBSERVED_IN, happened.ref),
        ]
        assert store.link_ids(asked) == dict(zip(asked, [(there.id,), (back.id,), (), ()], strict=True))

    @pytest.mark.parametrize("limit", [1, 3, 7, 1_000])
    def test_a_scan_visits_everything_once(self, store: GraphStore, limit: int) -> None:
        """In the order of writing; events and receipts are no objects; what comes meanwhile comes last."""
        batches: list[list[MemoryObject]] = [every_object(), [notion()], every_object()]
        for batch in batches:
            put(store, *batch)
        put(store, *batches[0], event=forgetting(batches[0][2]))
        found = scanned(store, limit)
        sizes = [len(batch) for batch in batches]
        starts = [sum(sizes[:number]) for number in range(len(sizes) + 1)]
        for batch, (start, end) in zip(batches, pairwise(starts), strict=True):
            assert set(found[start:end]) == {item.ref for item in batch}
        assert len(found) == starts[-1]
        assert scanned(store, limit) == found
        page, after = store.scan(None, 5)
        late = notion()
        put(store, late)
        assert page + scanned(store, limit, after) == [*found, late.ref]

    def test_an_empty_scan_ends_at_once(self, store: GraphStore) -> None:
        """And a cursor of another kind is refused."""
        assert store.scan(None, 10) == ([], None)
        with pytest.raises(GraphQueryError):
            store.scan("elsewhere", 10)

    def test_a_scan_passes_gaps_and_volumes(self, store: GraphStore) -> None:
        """Numbers need not follow each other."""
        first, second, third = notion(), notion(), notion()
        put(store, first)
        store.raise_head(600)
        put(store, second)
        store.raise_head(100_000)
        put(store, third)
        expected = [first.ref, second.ref, third.ref]
        assert scanned(store, 1) == expected
        assert scanned(store, 10) == expected
        assert store.head() > 100_000

    def test_an_export_is_sorted_and_complete(self, store: GraphStore, open_store: OpenStore) -> None:
        """The same content exports to the same bytes, whatever the order it was written in."""
        items = every_object()
        other = open_store("other")
        try:
            for target, order in ((store, items), (other, items[::-1])):
                put(target, *order)
                put(target, event=forgetting(items[2], id=items[0].id, at=at(9)))
            text, elsewhere = content(store), content(other)
        finally:
            other.close()
        lines = text.splitlines()
        assert lines == sorted(lines)
        assert len(lines) == len(set(lines))
        assert all(line.endswith(b" <urn:charactermemory:collection:contract> .") for line in lines)
        for name in (b"receipt:2>", b"event:", b":scene:participant:000001>", b"digest>"):
            assert any(name in line for line in lines)
        assert sorted(elsewhere.replace(b"collection:other>", b"collection:contract>").splitlines()) == lines

    def test_closing_twice_is_closing_once(self, open_store: OpenStore) -> None:
        """A closed store says so."""
        opened = open_store("closing")
        opened.close()
        opened.close()

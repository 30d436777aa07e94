"""The part of the graph contract about currency: suppression, supersession, and the names that follow from it."""

from __future__ import annotations

import pytest

from charactermemory.domain.kinds import RetentionState
from charactermemory.domain.lifecycle import LifecycleEvent, derived_links
from charactermemory.domain.objects import DerivedMemory
from charactermemory.errors import DeterministicIdCollision
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.graph import GraphStore
from charactermemory.testing.builders import (
    at,
    belief,
    episode,
    forgetting,
    notion,
    numbered_id,
    observation,
    thread,
)
from charactermemory.testing.graph_contract_writes import content, put, read_back


def known(store: GraphStore, name: str) -> tuple[object, ...]:
    """Return the bearers of one name."""
    return store.notions_known_as([name]).get(name, ())


class GraphLifecycleContract:
    """What events and successors do to what is stored."""

    def test_forgetting_adds_and_changes_nothing(self, store: GraphStore) -> None:
        """The object is suppressed from now on; every line that was there stays."""
        happened = episode(summary="Rain")
        put(store, happened)
        before = content(store).splitlines()
        assert put(store, event=forgetting(happened), operation="forget") == 2
        stored = read_back(store, [happened.ref])[happened.ref]
        assert stored.object == happened.replace(retention_state=RetentionState.SUPPRESSED)
        assert (stored.authored, stored.suppressed, stored.current) == (happened, True, False)
        assert set(before) <= set(content(store).splitlines())

    def test_the_last_event_dates_a_belief(self, store: GraphStore) -> None:
        """An episode has no such date; an event before the memory's own date leaves that."""
        old, late = belief(), belief(updated_at=at(120))
        put(store, old, late)
        put(store, event=forgetting(old, late, at=at(60)))
        put(store, event=forgetting(old, at=at(50)))
        stored = read_back(store, [old.ref, late.ref])
        dates = [getattr(stored[item.ref].object, "updated_at") for item in (old, late)]  # noqa: B009 - a union
        assert dates == [at(60), at(120)]

    def test_an_event_reaches_only_what_it_suppresses(self, store: GraphStore) -> None:
        """Targets alone are a record."""
        target, hit = episode(), episode()
        put(store, target, hit)
        put(store, event=forgetting(target, suppresses=(hit.ref,)))
        stored = read_back(store, [target.ref, hit.ref])
        assert [stored[item.ref].suppressed for item in (target, hit)] == [False, True]

    def test_what_was_born_suppressed_is_as_written(self, store: GraphStore) -> None:
        """It may be replayed, also after an event."""
        item = belief(retention_state=RetentionState.SUPPRESSED)
        put(store, item)
        assert read_back(store, [item.ref])[item.ref].authored is None
        assert put(store, item) is None
        put(store, event=forgetting(item))
        assert put(store, item) is None
        assert read_back(store, [item.ref])[item.ref].suppressed

    def test_what_was_forgotten_does_not_come_back(self, store: GraphStore) -> None:
        """Its own plan is a collision from then on (case core-43)."""
        happened = episode()
        said = observation(happened)
        put(store, happened, said)
        put(store, event=forgetting(said))
        before = content(store)
        with pytest.raises(DeterministicIdCollision) as caught:
            put(store, happened, said)
        assert caught.value.object == said.ref
        assert content(store) == before
        assert put(store, happened) is None

    def test_a_thread_is_never_suppressed(self, store: GraphStore) -> None:
        """An event that names one leaves it as it is."""
        story = thread()
        put(store, story)
        put(store, event=forgetting(story))
        assert read_back(store, [story.ref])[story.ref].object == story

    def test_a_successor_supersedes_whatever_becomes_of_it(self, store: GraphStore) -> None:
        """The predecessor stays as it is, active and superseded; both reasons are told."""
        old = belief()
        first, second = (belief(id=numbered_id(n), supersedes=(old.id,)) for n in (2, 1))
        put(store, old)
        assert read_back(store, [old.ref])[old.ref].current
        put(store, first, second, *derived_links(first), *derived_links(second))
        put(store, event=forgetting(first))
        stored = read_back(store, [old.ref, first.ref, second.ref])
        assert stored[old.ref].object == old
        assert stored[old.ref].superseded_by == (second.id, first.id)
        assert (stored[old.ref].suppressed, stored[old.ref].superseded) == (False, True)
        assert (stored[second.ref].current, stored[first.ref].current) == (True, False)

    def test_events_keep_everything_they_say(self, store: GraphStore) -> None:
        """Two events that differ in one field leave different graphs; one is written whole."""
        who = notion()
        put(store, who)
        event = LifecycleEvent(
            id=numbered_id(9),
            operation="correct",
            at=at(1),
            rationale="wrong",
            requested_by="user:1",
            external_refs=[{"source_ref": "s"}, {"raw_ref": "r"}],  # type: ignore[arg-type]
            targets=(who.ref, MemoryObjectRef.of(ObjectType.EPISODE, who.id)),
        )
        put(store, event=event, operation="correct")
        text = content(store).decode()
        for value in (
            '"wrong"',
            '"user:1"',
            '"correct"',
            '"s"',
            '"r"',
            f"urn:charactermemory:episode:{who.id}",
        ):
            assert value in text

    def test_all_bearers_of_a_name_are_returned_sorted(self, store: GraphStore) -> None:
        """Whatever the spelling; others are left out (case core-63)."""
        bearers = [notion(id=numbered_id(number)) for number in (3, 1, 2)]
        names = ("Alice Smith", "ＡＬＩＣＥ\u00a0smith ", "Alice Smyth")
        for who, name in zip(bearers, names, strict=True):
            put(store, who, belief(entity_ids=(who.id,), known_as=name))
        assert known(store, "alice smith") == (numbered_id(1), numbered_id(3))
        assert store.notions_known_as(["alice smyth", "bob", ""]) == {"alice smyth": (numbered_id(2),)}
        assert store.names_of([numbered_id(1), numbered_id(2)]) == {
            numbered_id(1): (names[1],),
            numbered_id(2): (names[2],),
        }

    def test_a_rename_moves_the_name(self, store: GraphStore) -> None:
        """Replays of both change nothing; the old belief is stored as it was (case core-64)."""
        who = notion()
        old = belief(entity_ids=(who.id,), known_as="Alice")
        new = belief(entity_ids=(who.id,), known_as="Ally", supersedes=(old.id,))
        plans: tuple[tuple[DerivedMemory, ...], ...] = ((old,), (new,))
        put(store, who)
        for _ in range(2):
            for plan in plans:
                put(store, *plan, *(tie for item in plan for tie in derived_links(item)))
        assert known(store, "ally") == (who.id,)
        assert known(store, "alice") == ()
        assert store.names_of([who.id]) == {who.id: ("Ally",)}
        stored = read_back(store, [old.ref])[old.ref]
        assert (stored.object, stored.superseded_by) == (old, (new.id,))

    def test_a_forgotten_rename_brings_no_name_back(self, store: GraphStore) -> None:
        """Neither the new one nor the old one (case core-65)."""
        who = notion()
        old = belief(entity_ids=(who.id,), known_as="Alice")
        new = belief(entity_ids=(who.id,), known_as="Ally", supersedes=(old.id,))
        put(store, who, old, *derived_links(old))
        put(store, new, *derived_links(new))
        put(store, event=forgetting(new))
        assert store.notions_known_as(["alice", "ally"]) == {}
        assert store.names_of([who.id]) == {}

    def test_only_an_assertion_names(self, store: GraphStore) -> None:
        """Text does not (case core-66), nor a participant's name, nor a belief that is not current."""
        who = notion()
        hidden = RetentionState.SUPPRESSED
        put(store, who, belief(entity_ids=(who.id,), text="someone calls it Alice"))
        put(store, belief(entity_ids=(who.id,), known_as="Alice", retention_state=hidden))
        assert known(store, "alice") == ()
        assert store.names_of([who.id]) == {}

    def test_a_name_of_something_not_stored_finds_nothing(self, store: GraphStore) -> None:
        """Bearers are stored notions."""
        put(store, belief(known_as="Alice"))
        assert known(store, "alice") == ()

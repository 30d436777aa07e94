"""What stored objects contribute to the statistics."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from charactermemory.domain.kinds import RelationType, RetentionState
from charactermemory.domain.lifecycle import Stored, derived_links
from charactermemory.domain.objects import MemoryObject
from charactermemory.domain.scene import Participant, Scene
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType
from charactermemory.ports.statistics import HubEdge
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
    unknown_ref,
)
from charactermemory.upkeep.projection import MissingEnds, project, wanted_ends

SUPPRESSED = RetentionState.SUPPRESSED


def stored(item: MemoryObject, *superseded_by: MemoryId) -> Stored:
    return Stored(object=item, digest="0", superseded_by=superseded_by)


def ends(*items: MemoryObject) -> dict[MemoryObjectRef, Stored]:
    return {item.ref: stored(item) for item in items}


def entity(id: MemoryId) -> MemoryObjectRef:
    return MemoryObjectRef.of(ObjectType.ENTITY, id)


def edges(items: Iterable[MemoryObject], *beside: MemoryObject) -> set[HubEdge]:
    found = project([stored(item) for item in items], ends(*beside)).edges
    assert len(found) == len(set(found))
    return set(found)


def test_an_episode_stands_at_each_distinct_participant_key() -> None:
    a, b = notion(), notion()
    people = [Participant(key=key) for key in (a.id, b.id, a.id)] + [Participant(name="somebody")]
    item = episode(scene=Scene.at(NOON, *people))
    assert edges([item]) == {
        HubEdge(a.ref, RelationType.INVOLVES, item.ref),
        HubEdge(b.ref, RelationType.INVOLVES, item.ref),
    }


def test_an_observation_stands_at_its_episode() -> None:
    scene = episode()
    said = observation(scene)
    assert edges([said], scene) == {HubEdge(scene.ref, RelationType.OBSERVED_IN, said.ref)}


def test_a_belief_stands_at_notions_threads_and_source_episodes_but_not_at_observations() -> None:
    scene, topic, subject = episode(), thread(), notion()
    said = observation(scene)
    item = belief(scene, said, entity_ids=(subject.id,), thread_ids=(topic.id,))
    assert edges([item]) == {
        HubEdge(subject.ref, RelationType.ABOUT, item.ref),
        HubEdge(topic.ref, RelationType.PART_OF_THREAD, item.ref),
        HubEdge(scene.ref, RelationType.DERIVED_FROM, item.ref),
    }


def test_notions_and_threads_bring_no_edges_and_only_threads_a_state() -> None:
    topic = thread(salience_score=0.75)
    projection = project([stored(notion()), stored(topic)], {})
    assert projection.edges == ()
    (state,) = projection.states
    assert (state.ref, state.suppressed, state.current, state.salience) == (topic.ref, False, True, 0.75)


def test_a_link_is_an_edge_at_every_end_that_is_a_hub() -> None:
    scene, item, about = episode(), belief(), notion()
    both = link(scene, about, RelationType.MENTIONS)
    one = link(item, scene, RelationType.SUPPORTS)
    neither = link(item, observation(scene), RelationType.SUPPORTS)
    assert edges([both], scene) == {
        HubEdge(scene.ref, RelationType.MENTIONS, about.ref),
        HubEdge(about.ref, RelationType.MENTIONS, scene.ref),
    }
    assert edges([one], item, scene) == {HubEdge(scene.ref, RelationType.SUPPORTS, item.ref)}
    assert edges([neither]) == set()


def test_a_links_ends_bring_their_states() -> None:
    scene = episode()
    said = observation(scene, retention_state=SUPPRESSED)
    subject = notion()
    projection = project([stored(link(subject, said))], ends(said, scene))
    assert [(state.ref, state.suppressed) for state in projection.states] == [(said.ref, True)]


def test_derived_links_repeat_what_the_fields_say() -> None:
    old = belief(entity_ids=(numbered_id(7),))
    new = belief(entity_ids=(numbered_id(7),), supersedes=(old.id,))
    links = derived_links(new)
    assert len(links) == 2
    assert edges([new, *links]) == edges([new]) == edges(links, new, old)


def test_states_follow_the_lifecycle() -> None:
    active, superseded = belief(), belief(salience_score=0.25)
    suppressed = belief(retention_state=SUPPRESSED)
    projection = project([stored(active), stored(superseded, active.id), stored(suppressed)], {})
    found = {state.ref: (state.suppressed, state.current, state.salience) for state in projection.states}
    assert found == {
        active.ref: (False, True, 0.5),
        superseded.ref: (False, False, 0.25),
        suppressed.ref: (True, False, 0.5),
    }


NEW_YEAR = datetime(2026, 1, 1, 0, 30, tzinfo=timezone(timedelta(hours=2)))
"""At the scene the year has begun; in UTC it is still the old one."""


def test_time_is_the_scenes_and_the_day_is_local_there() -> None:
    scene = episode(scene=Scene.at(NEW_YEAR))
    (state,) = project([stored(scene)], {}).states
    assert (state.memory_time, state.month_day) == (NEW_YEAR, "01-01")
    assert state.memory_time.tzinfo is UTC


def test_an_observation_has_its_own_time_else_its_episodes_at_the_episodes_offset() -> None:
    scene = episode(scene=Scene.at(NEW_YEAR))
    before = datetime(2025, 12, 31, 21, 59, tzinfo=UTC)
    timed = observation(scene, 0, observed_at=before)
    untimed = observation(scene, 1)
    states = {state.ref: state for state in project([stored(timed), stored(untimed)], ends(scene)).states}
    assert (states[timed.ref].memory_time, states[timed.ref].month_day) == (before, "12-31")
    assert (states[untimed.ref].memory_time, states[untimed.ref].month_day) == (NEW_YEAR, "01-01")
    together = project([stored(scene), stored(untimed)], {}).states
    assert states[untimed.ref] in together


def test_beliefs_and_threads_have_the_time_they_were_made_in_utc() -> None:
    made = datetime(2025, 12, 31, 23, 0, tzinfo=UTC)
    for item in (belief(created_at=made, updated_at=at(0)), thread(created_at=made)):
        (state,) = project([stored(item)], {}).states
        assert (state.memory_time, state.month_day) == (made, "12-31")


def test_the_last_hours_of_time_have_a_day() -> None:
    scene = episode(scene=Scene.at(NEW_YEAR))
    last = datetime.max.replace(tzinfo=UTC)
    states = project([stored(observation(scene, observed_at=last))], ends(scene)).states
    assert [state.month_day for state in states] == ["12-31"]


def test_wanted_ends_are_link_ends_with_a_state_then_their_episodes() -> None:
    scene, item, topic = episode(), belief(), thread()
    said = observation(scene)
    items = [stored(link(notion(), said)), stored(link(topic, item)), stored(link(topic, notion()))]
    first = wanted_ends(items)
    assert first == {said.ref, item.ref, topic.ref}
    given = ends(said, item, topic)
    assert wanted_ends(items, given) == {scene.ref}
    assert wanted_ends(items, given | ends(scene)) == frozenset()
    assert wanted_ends([stored(scene), stored(said)]) == frozenset()
    project(items, given | ends(scene))


def test_everything_missing_is_named_at_once_and_the_rest_is_projected() -> None:
    gone, lost = unknown_ref(), unknown_ref(ObjectType.DERIVED_MEMORY)
    orphan = observation(gone.id)
    item = belief()
    broken = link(notion(), lost)
    with pytest.raises(MissingEnds) as caught:
        project([stored(orphan), stored(broken), stored(item)], {})
    assert set(caught.value.references) == {gone, lost}
    assert str(gone) in str(caught.value) and str(lost) in str(caught.value)
    assert caught.value.projection == project([stored(item)], {})


def test_the_order_of_objects_does_not_matter() -> None:
    scene = episode(scene=Scene.at(NOON, Participant(key=numbered_id(7))))
    said = observation(scene)
    item = belief(scene, entity_ids=(numbered_id(7),))
    items = [stored(value) for value in (scene, said, item)]
    assert project(items, {}) == project(reversed(items), {})

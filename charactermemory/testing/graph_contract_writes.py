"""The part of the graph contract that writes: losslessness, replays, refusals, receipts (ports/graph.py)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta, timezone
from typing import Protocol

import pytest

from charactermemory.domain.beliefs import BeliefAssertion
from charactermemory.domain.digest import digest
from charactermemory.domain.kinds import DerivedType, Modality, RelationType, RetentionState, ThreadStatus
from charactermemory.domain.lifecycle import LifecycleEvent, Stored
from charactermemory.domain.objects import MemoryObject
from charactermemory.domain.scene import Participant, Scene, Setting
from charactermemory.errors import (
    CascadeTooLarge,
    CharacterMemoryError,
    DeterministicIdCollision,
    DuplicatePosition,
    InvalidSceneTimeOffset,
    PlanTooLarge,
    UnknownObjectRef,
    UnsupportedSchemaVersion,
)
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.graph import MAX_CASCADE, MAX_OBJECTS, GraphStore, Operation, Receipt, WriteBatch
from charactermemory.testing.builders import (
    NOON,
    at,
    belief,
    episode,
    forgetting,
    link,
    notion,
    numbered_id,
    observation,
    thread,
    unknown_ref,
)

HOSTILE = (
    "\" ' \\ \\u0022 \n \r \t } { ?s <urn:x> . # -- SERVICE <http://example.org/> { ?s ?p ?o } "
    "\u0001\u007f\u0085\u00a0\u2028\u2029\ufeff\uffff \U0001f600\U0010ffff e\u0301 \u0627 ${x} %s {0} `"
)
"""Everything that could end a literal early, start a clause, or be changed on the way."""

JAPAN = timezone(timedelta(hours=9))


def read_back(store: GraphStore, refs: list[MemoryObjectRef]) -> dict[MemoryObjectRef, Stored]:
    """Read anew, after making sure that what the store answers from memory is the same to the letter."""
    known, stored = store.read(refs), store.read(refs, anew=True)
    assert repr(known) == repr(stored)
    return stored


class OpenStore(Protocol):
    """Opens a new, empty store, or the one of that collection again; the suite closes what it opens."""

    def __call__(self, collection: str = "contract") -> GraphStore:
        """Return it."""
        ...


def put(
    store: GraphStore,
    *objects: MemoryObject,
    event: LifecycleEvent | None = None,
    requires: tuple[tuple[str, MemoryObjectRef], ...] = (),
    touched: tuple[MemoryObjectRef, ...] = (),
    operation: Operation = "commit",
) -> int | None:
    """Write one batch and return what `apply` returned."""
    batch = WriteBatch(operation, "plan", NOON, objects, event, requires, touched)
    with store.writing() as writer:
        return writer.apply(batch)


def content(store: GraphStore) -> bytes:
    """Return everything the store holds."""
    return b"".join(store.export())


def full_scene(*keys: MemoryObject) -> Scene:
    """A scene with everything in it; the participants' order is not that of their keys or names."""
    people = [Participant(key=item.id, name=f"Zoe {number}") for number, item in enumerate(keys)]
    return Scene(
        time=NOON.astimezone(JAPAN).replace(microsecond=123_456),
        participants=(
            *people,
            Participant(name="Bob", description="the neighbour"),
            Participant(description="a child"),
            Participant(name=""),
            Participant(key=keys[0].id, name="Zoe again") if keys else Participant(name="Al"),
        ),
        setting=Setting(key="room:1", words="the kitchen"),
        custom_values={"weather": "rain", "": "an empty key", "mood": HOSTILE},
    )


def every_object() -> list[MemoryObject]:
    """Objects of every type, with all fields and with as few as possible."""
    first, second = notion(), notion(created_at=at(0.000_001))
    bare, full = (
        episode(),
        episode(
            scene=full_scene(second, first),
            modality=Modality.VOICE_TRANSCRIPT,
            summary="Rain all day.",
            source_conversation_id="chat:1",
            raw_ref="file:1",
            salience_score=0.1 + 0.2,
            created_at=at(0.123_456),
        ),
    )
    said = observation(full, 0, text="")
    heard = observation(
        full,
        2**31 - 1,
        speaker_entity_id=first.id,
        observed_at=at(1),
        modality=Modality.VOICE_TRANSCRIPT,
        raw_ref="",
        salience_score=5e-324,
        retention_state=RetentionState.SUPPRESSED,
    )
    story = thread(summary="", title="", status=ThreadStatus.DORMANT, canonical_key="k", salience_score=1.0)
    given = belief(entity_ids=(second.id, first.id), known_as="Alice  Smith")
    derived = belief(
        full,
        said,
        heard,
        thread_ids=(story.id,),
        entity_ids=(first.id, second.id),
        assertions=(
            BeliefAssertion.known_as(second.id, "Zed"),
            BeliefAssertion.known_as(first.id, "Al"),
            BeliefAssertion.known_as(first.id, "Al"),
        ),
        derived_type=DerivedType.RELATIONSHIP_NOTE,
        salience_score=0.0,
        supersedes=(given.id,),
        updated_at=at(5),
    )
    linked = link(derived, story, RelationType.RESOLVES, rationale="because")
    return [first, second, bare, full, said, heard, story, thread(), given, derived, linked, link(bare, full)]


class GraphWritesContract:
    """Writing, whole or not at all, and reading back what was written."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Say how a store is opened."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Iterator[GraphStore]:
        """An open, empty store."""
        opened = open_store()
        yield opened
        opened.close()

    def test_what_is_read_equals_what_was_written(self, store: GraphStore) -> None:
        """Every field of every type, the scene's offset, the orders, and the digest."""
        objects = every_object()
        assert put(store, *objects) == 1
        stored = read_back(store, [item.ref for item in objects])
        assert {ref: row.object for ref, row in stored.items()} == {item.ref: item for item in objects}
        assert {ref: row.digest for ref, row in stored.items()} == {i.ref: digest(i) for i in objects}
        assert {digest(row.object) for row in stored.values()} == {digest(item) for item in objects}
        assert {row.authored for row in stored.values()} == {None}

    @pytest.mark.parametrize("offset", [-720, -210, -1, 0, 1, 345, 840])
    def test_a_scene_keeps_instant_and_offset(self, store: GraphStore, offset: int) -> None:
        """Down to the microsecond, at whole-minute offsets."""
        time = NOON.replace(microsecond=1).astimezone(timezone(timedelta(minutes=offset)))
        happened = episode(scene=Scene.at(time))
        put(store, happened)
        read = read_back(store, [happened.ref])[happened.ref].object
        assert read == happened
        assert read.scene.time.isoformat() == time.isoformat()

    def test_a_finer_offset_is_refused(self, store: GraphStore) -> None:
        """The graph keeps minutes; seconds would be lost without a word."""
        zone = timezone(timedelta(seconds=90))
        with pytest.raises(InvalidSceneTimeOffset):
            put(store, episode(scene=Scene.at(NOON.astimezone(zone))))
        assert content(store) == b""

    def test_hostile_text_is_only_text(self, store: GraphStore) -> None:
        """In every field that takes text."""
        who = notion()
        scene = Scene(
            time=NOON,
            participants=(Participant(name=HOSTILE, description=HOSTILE),),
            setting=Setting(key=HOSTILE, words=HOSTILE),
            custom_values={HOSTILE: HOSTILE},
        )
        happened = episode(scene=scene, summary=HOSTILE, source_conversation_id=HOSTILE, raw_ref=HOSTILE)
        said = observation(happened, text=HOSTILE, raw_ref=HOSTILE)
        story = thread(title=HOSTILE, summary=HOSTILE, canonical_key=HOSTILE)
        known = belief(said, text=HOSTILE, entity_ids=(who.id,), known_as=HOSTILE)
        tied = link(happened, story, rationale=HOSTILE)
        objects = (who, happened, said, story, known, tied)
        event = forgetting(said, rationale=HOSTILE, requested_by=HOSTILE)
        assert put(store, *objects) == 1
        assert put(store, event=event) == 2
        stored = read_back(store, [item.ref for item in objects])
        assert all((stored[i.ref].authored or stored[i.ref].object) == i for i in objects)
        name = known.assertions[0].normalized_name
        assert store.notions_known_as([name]) == {name: (who.id,)}
        assert store.names_of([who.id]) == {who.id: (HOSTILE,)}

    def test_a_setting_without_words_is_still_a_setting(self, store: GraphStore) -> None:
        """It has a digest of its own."""
        empty, none = (episode(scene=Scene(time=NOON, setting=place)) for place in (Setting(), None))
        put(store, empty, none)
        stored = read_back(store, [empty.ref, none.ref])
        assert (stored[empty.ref].object, stored[none.ref].object) == (empty, none)

    def test_a_replay_writes_nothing(self, store: GraphStore) -> None:
        """Not even a receipt."""
        objects = every_object()
        put(store, *objects)
        before = content(store)
        assert put(store, *reversed(objects)) is None
        assert put(store) is None
        assert content(store) == before
        assert store.head() == 1

    def test_a_partial_replay_adds_what_is_new(self, store: GraphStore) -> None:
        """And its receipt names only that."""
        happened = episode()
        said = observation(happened)
        put(store, happened)
        assert put(store, happened, said) == 2
        assert store.receipts(1, 2)[0].objects == (said.ref,)

    def test_an_id_keeps_its_content(self, store: GraphStore) -> None:
        """Another content under it is refused, with everything that came along."""
        for item in every_object():
            put(store, item)
            before = content(store)
            changed = item.replace(created_at=at(99))
            with pytest.raises(DeterministicIdCollision) as caught:
                put(store, notion(), changed)
            assert caught.value.object == item.ref
            assert content(store) == before
            assert read_back(store, [item.ref])[item.ref].object == item

    def test_one_batch_cannot_hold_two_contents_of_an_id(self, store: GraphStore) -> None:
        """The same content twice is one object."""
        one = notion()
        with pytest.raises(DeterministicIdCollision):
            put(store, one, one.replace(created_at=at(1)))
        assert content(store) == b""
        assert put(store, one, one) is not None

    def test_one_id_may_name_objects_of_several_types(self, store: GraphStore) -> None:
        """Identity is type and id together."""
        who = notion(id=numbered_id(7))
        happened = episode(id=numbered_id(7))
        put(store, who)
        assert store.existing([who.ref, happened.ref], anew=True) == {who.ref}
        put(store, happened)
        assert read_back(store, [happened.ref])[happened.ref].object == happened
        assert set(read_back(store, [who.ref, happened.ref])) == {who.ref, happened.ref}

    def test_a_required_object_must_be_stored_or_in_the_batch(self, store: GraphStore) -> None:
        """All that are missing stand in one error, with the roles that name them."""
        there, here = episode(), episode()
        put(store, there)
        lost, gone = unknown_ref(), unknown_ref(ObjectType.ENTITY)
        before = content(store)
        roles = (("a", there.ref), ("b", lost), ("c", here.ref), ("d", gone), ("e", lost))
        with pytest.raises(UnknownObjectRef) as caught:
            put(store, here, requires=roles)
        assert sorted(caught.value.references) == sorted([("b", lost), ("d", gone), ("e", lost)])
        assert content(store) == before
        assert put(store, here, requires=(("a", there.ref), ("c", here.ref))) is not None

    def test_a_position_holds_one_observation(self, store: GraphStore) -> None:
        """In the graph and within one batch."""
        happened = episode()
        first = observation(happened, 3)
        put(store, happened, first)
        before = content(store)
        for objects in ([observation(happened, 3)], [observation(happened, 4), observation(happened, 4)]):
            with pytest.raises(DuplicatePosition) as caught:
                put(store, *objects)
            assert caught.value.episode_id == happened.id
        assert content(store) == before
        assert put(store, observation(episode(), 3), observation(happened, 4)) is not None

    def test_another_schema_version_is_refused_before_anything_else(self, store: GraphStore) -> None:
        """Each type names its mapping; the batch also collides and lacks things, which is not reached."""
        base = every_object()
        put(store, *base)
        before = content(store)
        contexts = set()
        for item in base:
            strange = item.replace(schema_version="test_schema", created_at=at(77))
            with pytest.raises(UnsupportedSchemaVersion) as caught:
                put(store, strange, requires=(("a", unknown_ref()),))
            assert (caught.value.expected, caught.value.actual) == ("episodic_memory_initial", "test_schema")
            contexts.add(caught.value.context)
        assert contexts == {
            "RDF episode mapping",
            "RDF observation mapping",
            "RDF entity mapping",
            "RDF memory thread mapping",
            "RDF derived memory mapping",
            "RDF memory link mapping",
        }
        assert content(store) == before

    def test_a_commit_has_a_size(self, store: GraphStore) -> None:
        """In objects, in triples, and in what an event may suppress."""
        with pytest.raises(PlanTooLarge) as caught:
            put(store, *(notion() for _ in range(MAX_OBJECTS + 1)))
        assert (caught.value.what, caught.value.count, caught.value.limit) == ("objects", 501, 500)
        wide = Scene(time=NOON, custom_values={str(number): "x" for number in range(2_500)})
        with pytest.raises(PlanTooLarge) as caught:
            put(store, episode(scene=wide), episode(scene=wide))
        assert caught.value.what == "triples"
        assert caught.value.count > caught.value.limit == 20_000
        crowd = tuple(unknown_ref() for _ in range(MAX_CASCADE + 1))
        with pytest.raises(CascadeTooLarge):
            put(store, event=forgetting(suppresses=crowd))
        assert content(store) == b""
        assert put(store, *(notion() for _ in range(MAX_OBJECTS))) is not None

    def test_receipts_number_the_commits(self, store: GraphStore) -> None:
        """They name what was written and what it touched, and are asked for by number."""
        assert (store.head(), store.receipts(0, 10)) == (0, [])
        old, new = belief(), belief()
        assert put(store, old) == 1
        assert put(store, new, touched=(old.ref,), operation="correct") == 2
        event = forgetting(old)
        assert put(store, event=event, touched=(old.ref,), operation="forget") == 3
        assert store.head() == 3
        assert store.receipts(0, 5) == [
            Receipt(1, "commit", NOON, (old.ref,)),
            Receipt(2, "correct", NOON, tuple(sorted([old.ref, new.ref]))),
            Receipt(3, "forget", NOON, (old.ref,)),
        ]
        assert [receipt.token for receipt in store.receipts(1, 2)] == [2]
        assert store.receipts(3, 3) == []

    def test_a_writer_that_applies_nothing_leaves_nothing(self, store: GraphStore) -> None:
        """And the number is not lost to the next one; one grant carries one commit."""
        with store.writing() as writer:
            number = writer.token
        with pytest.raises(CharacterMemoryError):
            put(store, requires=(("a", unknown_ref()),), event=forgetting(notion()))
        assert content(store) == b""
        with store.writing() as writer:
            assert writer.token >= number
            assert writer.apply(WriteBatch("commit", "plan", NOON, (notion(),))) == writer.token
            with pytest.raises(RuntimeError):
                writer.apply(WriteBatch("commit", "plan", NOON, (notion(),)))
        assert store.head() == writer.token

    def test_a_raised_head_is_counted_on_from(self, store: GraphStore) -> None:
        """Commits are numbered above it, and it is no receipt."""
        put(store, notion())
        store.raise_head(1_000)
        assert store.head() == 1_000
        token = put(store, notion())
        assert token is not None and token > 1_000
        assert store.head() == token
        assert [receipt.token for receipt in store.receipts(0, token)] == [1, token]

    def test_collections_do_not_see_each_other(self, store: GraphStore, open_store: OpenStore) -> None:
        """The same ids may stand in both."""
        who = notion()
        put(store, who, belief(entity_ids=(who.id,), known_as="Ada"))
        other = open_store("other")
        try:
            assert other.collection == "other"
            assert (other.head(), content(other), other.read([who.ref])) == (0, b"", {})
            assert other.notions_known_as(["ada"]) == {}
            assert put(other, who.replace(created_at=at(1))) == 1
        finally:
            other.close()
        assert read_back(store, [who.ref])[who.ref].object == who

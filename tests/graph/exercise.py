"""Every method of the graph port once, with text that would harm a query built by formatting."""

from __future__ import annotations

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import derived_links
from charactermemory.domain.scene import Participant, Scene, Setting
from charactermemory.ports.graph import Edge, GraphStore
from charactermemory.testing.builders import (
    NOON,
    belief,
    episode,
    forgetting,
    link,
    notion,
    observation,
    thread,
)
from charactermemory.testing.graph_contract import put
from charactermemory.testing.graph_contract_writes import HOSTILE


def exercise(store: GraphStore) -> None:
    """Write one of everything and ask everything about it."""
    who, story = notion(), thread(title=HOSTILE, summary=HOSTILE, canonical_key=HOSTILE)
    scene = Scene(
        time=NOON,
        participants=(Participant(key=who.id, name=HOSTILE, description=HOSTILE),),
        setting=Setting(key=HOSTILE, words=HOSTILE),
        custom_values={HOSTILE: HOSTILE},
    )
    happened = episode(scene=scene, summary=HOSTILE, source_conversation_id=HOSTILE, raw_ref=HOSTILE)
    said = observation(happened, text=HOSTILE, raw_ref=HOSTILE, speaker_entity_id=who.id)
    old = belief(happened, said, text=HOSTILE, entity_ids=(who.id,), thread_ids=(story.id,), known_as=HOSTILE)
    new = belief(entity_ids=(who.id,), supersedes=(old.id,), known_as=HOSTILE)
    tied = link(happened, story, rationale=HOSTILE)
    put(store, who, story, happened, said, old, requires=(("role", who.ref),))
    put(store, new, tied, *derived_links(new), requires=(("role", old.ref),), touched=(old.ref,))
    put(store, who)
    put(store, event=forgetting(said, rationale=HOSTILE, requested_by=HOSTILE), touched=(said.ref,))
    objects = (who, story, happened, said, old, new, tied)
    refs = [item.ref for item in objects]
    store.read(refs)
    store.existing(refs)
    store.notions_known_as([HOSTILE, old.assertions[0].normalized_name])
    store.names_of([who.id])
    store.memories_from([happened.id], [said.id])
    store.observations_of([happened.id])
    store.members_of(story.id)
    store.neighbours([item.ref for item in objects], tuple(RelationType), 5)
    store.turns([(happened.ref, 0)])
    store.link_ids([Edge(happened.ref, RelationType.ASSOCIATED_WITH, story.ref)])
    store.receipts(0, store.head())
    store.scan(None, 100)
    list(store.export())
    store.raise_head(store.head() + 5)
    store.sync()

"""The sample life as the memory's own inputs: plans, corrections and forgettings, with ids made of its keys."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from charactermemory import (
    SCHEMA_VERSION,
    BeliefAssertion,
    CandidateProvenance,
    CorrectionTarget,
    CorrectMemoryDraft,
    DerivedMemoryDraft,
    EntityDraft,
    EpisodeDraft,
    ForgetMemoryDraft,
    MemoryId,
    MemoryLinkDraft,
    MemoryObjectRef,
    MemoryThreadDraft,
    ObjectType,
    ObservationDraft,
    Participant,
    PrepareOptions,
    RememberInput,
    RememberPlanDefaults,
    RememberWritePlan,
    ReplacementDerivedMemoryDraft,
    Scene,
    Setting,
    SourceProvenanceReference,
    candidate,
    derive_id,
)
from charactermemory.remember.prepare import prepare
from memory_app.sample.life import Correction, Forgetting, Link, Memory, Person, SampleLife, Session

NAMESPACE = "memory_app.sample_life"
"""First part of every id of the sample life. Fixed: a second run finds by it what the first one stored."""


def id_of(key: str) -> MemoryId:
    """Return the id of what the life calls `key`."""
    return derive_id(NAMESPACE, key)


class LifePlans:
    """Makes the inputs of one life. Pure: the same life gives the same inputs, byte for byte."""

    def __init__(self, life: SampleLife) -> None:
        """Take the life."""
        self.life = life

    def ref(self, key: str) -> MemoryObjectRef:
        """Return the typed reference of what the life calls `key`."""
        return MemoryObjectRef.of(self.life.object_types[key], id_of(key))

    def beginning(self) -> RememberWritePlan:
        """Plan what the companion is given before it has lived: notions and beliefs, and no experience."""
        began = self.life.beginning
        why = CandidateProvenance.caller("given to the companion before its first day")
        plan = RememberWritePlan.new()
        for key in began.notions:
            notion = EntityDraft(id=id_of(key), created_at=began.time, schema_version=SCHEMA_VERSION)
            plan = plan.with_candidates(candidate(notion, why))
        for belief in began.beliefs:
            given = self._memory(belief).replace(
                created_at=began.time, updated_at=began.time, schema_version=SCHEMA_VERSION
            )
            plan = plan.with_candidates(candidate(given, why))
        return plan

    def session(self, session: Session) -> RememberWritePlan:
        """Plan one session: its episode and turns, and what came of it but corrections and forgettings."""
        data = RememberInput(
            scene=scene_of(
                session.time,
                session.participants,
                Setting(key=session.setting.key, words=session.setting.words),
            ),
            episode=EpisodeDraft(id=id_of(session.key), summary=session.summary),
            observations=tuple(
                ObservationDraft(id=id_of(key), text=turn.text, speaker_entity_id=id_of(turn.by))
                for key, turn in zip(session.turn_keys, session.turns, strict=True)
            ),
            entity_ids=tuple(map(id_of, session.involves)),
            thread_ids=tuple(map(id_of, session.threads)),
            raw_refs=(session.key,),
            entity_drafts=tuple(EntityDraft(id=id_of(key)) for key in session.notions),
            memory_thread_drafts=tuple(
                MemoryThreadDraft(
                    id=id_of(thread.key), title=thread.title, summary=thread.summary, status=thread.status
                )
                for thread in session.new_threads
            ),
            derived_memory_drafts=tuple(map(self._memory, session.memories)),
            memory_link_drafts=tuple(map(self._link, session.links)),
        )
        defaults = RememberPlanDefaults.fixed(f"{NAMESPACE}/{session.key}", session.time)
        return prepare(data, PrepareOptions(), defaults)

    def correction(self, correction: Correction) -> CorrectMemoryDraft:
        """Draft a correction that rests on the turns in which the mistake came out."""
        held = correction.replacement
        episodes, observations = self._sources(held)
        origin = SourceProvenanceReference(episode_ids=episodes, observation_ids=observations)
        replacement = ReplacementDerivedMemoryDraft(
            id=id_of(held.key),
            derived_type=held.kind,
            text=held.text,
            derived_from_episode_ids=episodes,
            derived_from_observation_ids=observations,
            thread_ids=tuple(map(id_of, held.threads)),
            entity_ids=tuple(map(id_of, held.about)),
            assertions=_assertions(held),
            salience_score=held.salience,
            correction_origin_provenance=origin,
        )
        target = CorrectionTarget.derived_memory(id_of(correction.target))
        return CorrectMemoryDraft(
            targets=(target,),
            replacement_derived_memories=(replacement,),
            correction_origin=origin,
            rationale=correction.rationale,
            requested_by=correction.requested_by,
        )

    def forgetting(self, forgetting: Forgetting) -> ForgetMemoryDraft:
        """Draft a forgetting."""
        return ForgetMemoryDraft(
            targets=tuple(map(self.ref, forgetting.targets)),
            rationale=forgetting.rationale,
            requested_by=forgetting.requested_by,
        )

    def _memory(self, memory: Memory) -> DerivedMemoryDraft:
        episodes, observations = self._sources(memory)
        return DerivedMemoryDraft(
            id=id_of(memory.key),
            derived_type=memory.kind,
            text=memory.text,
            derived_from_episode_ids=episodes,
            derived_from_observation_ids=observations,
            thread_ids=tuple(map(id_of, memory.threads)),
            entity_ids=tuple(map(id_of, memory.about)),
            assertions=_assertions(memory),
            given_by_application=not memory.sources,
            salience_score=memory.salience,
            supersedes=tuple(map(id_of, memory.supersedes)),
        )

    def _sources(self, memory: Memory) -> tuple[tuple[MemoryId, ...], tuple[MemoryId, ...]]:
        """Return the episodes and the observations that a memory was concluded from."""
        refs = [self.ref(key) for key in memory.sources]
        episodes = tuple(ref.id for ref in refs if ref.object_type is ObjectType.EPISODE)
        observations = tuple(ref.id for ref in refs if ref.object_type is ObjectType.OBSERVATION)
        return episodes, observations

    def _link(self, link: Link) -> MemoryLinkDraft:
        source, target = self.ref(link.source), self.ref(link.target)
        return MemoryLinkDraft.new(
            source.object_type, source.id, link.relation, target.object_type, target.id
        )


def scene_of(time: datetime, people: Iterable[Person], setting: Setting | None = None) -> Scene:
    """Return the scene of a session or question: when, who is there and where."""
    participants = tuple(
        Participant(
            key=id_of(person.key) if person.key else None, name=person.name, description=person.description
        )
        for person in people
    )
    return Scene(time=time, participants=participants, setting=setting)


def _assertions(memory: Memory) -> tuple[BeliefAssertion, ...]:
    return tuple(BeliefAssertion.known_as(id_of(naming.of), naming.name) for naming in memory.names)

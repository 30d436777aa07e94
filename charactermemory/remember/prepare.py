"""Prepare: from an input to a plan. Pure; infers nothing from text (memory-core §5, decisions R9)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Self

from charactermemory.clock import Clock
from charactermemory.domain.kinds import SCHEMA_VERSION, RelationType
from charactermemory.domain.model import Instant, Key, Listed, Model, Name, Saying, Text
from charactermemory.domain.provenance import (
    CandidateProvenance,
    CandidateSource,
    ExternalSourceReference,
    ProducerKind,
    SourceSpan,
)
from charactermemory.domain.scene import Scene
from charactermemory.errors import InvalidInput
from charactermemory.ids import NIL_ID, MemoryId, ObjectType, new_id, plan_candidate_id
from charactermemory.remember.drafts import (
    DerivedMemoryDraft,
    EntityDraft,
    EpisodeDraft,
    MemoryLinkDraft,
    MemoryThreadDraft,
    ObservationDraft,
)
from charactermemory.remember.plan import (
    MemoryCandidate,
    ObjectCandidate,
    RememberWritePlan,
    StatsUpdateCandidate,
    StatsUpdateRequest,
    VectorIndexCandidate,
    VectorIndexRequest,
    candidate,
)

Ids = Annotated[tuple[MemoryId, ...], Listed]

_NO_EPISODE = (None, NIL_ID)


class RememberInput(Model):
    """What an application hands over: one episode and any number of observations, and what belongs to them.

    `content` is the text of the one observation and excludes `observations`. Without a scene the moment of
    `prepare` is taken, in UTC.
    """

    content: Saying | None = None
    scene: Scene | None = None
    episode: EpisodeDraft | None = None
    observations: Annotated[tuple[ObservationDraft, ...], Listed] = ()
    entity_ids: Ids = ()
    thread_ids: Ids = ()
    raw_refs: Annotated[tuple[Key, ...], Listed] = ()
    source_spans: Annotated[tuple[SourceSpan, ...], Listed] = ()
    entity_drafts: Annotated[tuple[EntityDraft, ...], Listed] = ()
    memory_thread_drafts: Annotated[tuple[MemoryThreadDraft, ...], Listed] = ()
    derived_memory_drafts: Annotated[tuple[DerivedMemoryDraft, ...], Listed] = ()
    memory_link_drafts: Annotated[tuple[MemoryLinkDraft, ...], Listed] = ()

    @classmethod
    def new(cls, content: str) -> Self:
        """An input of one text."""
        return cls(content=content)

    def with_scene(self, scene: Scene) -> Self:
        """Return a copy that happens in `scene`."""
        return self.replace(scene=scene)

    def with_episode(self, draft: EpisodeDraft) -> Self:
        """Return a copy with this episode draft."""
        return self.replace(episode=draft)

    def with_observation(self, draft: ObservationDraft) -> Self:
        """Return a copy with one more observation."""
        return self.replace(observations=(*self.observations, draft))

    def with_entity(self, draft: EntityDraft) -> Self:
        """Return a copy with one more notion."""
        return self.replace(entity_drafts=(*self.entity_drafts, draft))

    def with_memory_thread(self, draft: MemoryThreadDraft) -> Self:
        """Return a copy with one more thread."""
        return self.replace(memory_thread_drafts=(*self.memory_thread_drafts, draft))

    def with_derived_memory(self, draft: DerivedMemoryDraft) -> Self:
        """Return a copy with one more derived memory."""
        return self.replace(derived_memory_drafts=(*self.derived_memory_drafts, draft))

    def with_memory_link(self, draft: MemoryLinkDraft) -> Self:
        """Return a copy with one more link."""
        return self.replace(memory_link_drafts=(*self.memory_link_drafts, draft))

    def source_reference(self) -> ExternalSourceReference | None:
        """Return the first raw ref, else the reference of the first span that has one."""
        if self.raw_refs:
            return ExternalSourceReference(raw_ref=self.raw_refs[0])
        for span in self.source_spans:
            if span.source_ref is not None:
                return ExternalSourceReference(source_ref=span.source_ref)
            if span.raw_ref is not None:
                return ExternalSourceReference(raw_ref=span.raw_ref)
        return None


class PrepareOptions(Model):
    """Whether the plan also shows the derived writes that will follow."""

    include_vector_index_candidates: bool = True
    include_stats_update_candidates: bool = True


class RememberPlanDefaults(Model):
    """Where a plan's missing ids and times come from. Fixed defaults give byte-identical plans."""

    operation_seed: Text
    created_at: Instant
    schema_version: Name = SCHEMA_VERSION

    @classmethod
    def fixed(cls, seed: str, created_at: datetime) -> Self:
        """Defaults under the caller's control."""
        return cls(operation_seed=seed, created_at=created_at)

    @classmethod
    def generated(cls, clock: Clock) -> Self:
        """Fresh defaults: a random seed and the present instant."""
        return cls(operation_seed=str(new_id()), created_at=clock())


def prepare(
    data: RememberInput, options: PrepareOptions, defaults: RememberPlanDefaults
) -> RememberWritePlan:
    """Make the plan of an input.

    Raises:
        InvalidInput: content beside observations, nothing to remember at all, or a scene or hints without an
            episode of this plan that could bear them.
    """
    _check(data)
    objects = tuple(_Planner(data, defaults).candidates())
    shown = [item for item in objects if not _is_hint(item)]
    candidates: list[MemoryCandidate] = list(objects)
    if options.include_vector_index_candidates:
        candidates += [
            VectorIndexCandidate(candidate=_request(VectorIndexRequest, "target", c)) for c in shown
        ]
    if options.include_stats_update_candidates:
        candidates += [
            StatsUpdateCandidate(candidate=_request(StatsUpdateRequest, "subject", c)) for c in shown
        ]
    return RememberWritePlan(source_input_ref=data.source_reference(), candidates=tuple(candidates))


def _check(data: RememberInput) -> None:
    if data.content is not None and data.observations:
        problem = "content is the text of the one observation: give either content or observations"
        raise InvalidInput((("/content", problem),))
    if data.content is None and not data.observations and data.episode is None:
        problem = "nothing to remember: give content, observations or an episode draft"
        raise InvalidInput((("/content", problem),))
    if not _brings_episode(data):
        problem = "belongs to an episode of this input, and all its observations name episodes of their own"
        unborne = [name for name in ("scene", "entity_ids", "thread_ids") if getattr(data, name)]
        if unborne:
            raise InvalidInput(tuple((f"/{name}", problem) for name in unborne))


def _brings_episode(data: RememberInput) -> bool:
    given = data.content is not None or data.episode is not None
    return given or any(item.episode_id in _NO_EPISODE for item in data.observations)


def _is_hint(item: ObjectCandidate) -> bool:
    return (
        item.candidate_type == "memory_link"
        and item.candidate.provenance.producer_kind is ProducerKind.DETERMINISTIC_HELPER
    )


def _request(kind: type[Any], field: str, item: ObjectCandidate) -> Any:
    provenance = CandidateProvenance.unavailable(
        ProducerKind.DETERMINISTIC_HELPER, item.candidate.provenance.source
    )
    return kind(**{field: item.candidate.draft.ref, "provenance": provenance})


class _Planner:
    """Fills drafts in the order of the plan: episode, observations, notions, threads, derived, links."""

    def __init__(self, data: RememberInput, defaults: RememberPlanDefaults) -> None:
        self.data = data
        self.defaults = defaults
        self.now = defaults.created_at
        self.episode = self._episode()
        self.observations = self._observations()

    def candidates(self) -> Iterator[ObjectCandidate]:
        data = self.data
        externals = tuple(ExternalSourceReference(raw_ref=ref) for ref in data.raw_refs)
        spans = CandidateSource(external_refs=externals, source_spans=data.source_spans)
        helper = ProducerKind.DETERMINISTIC_HELPER
        episode_ids = (self.episode.id,) if self.episode and self.episode.id else ()
        if self.episode:
            yield candidate(self.episode, CandidateProvenance.unavailable(helper, spans))
        of_episode = spans.replace(episode_ids=episode_ids)
        for draft in self.observations:
            yield candidate(draft, CandidateProvenance.unavailable(helper, of_episode))
        observed = tuple(draft.id for draft in self.observations if draft.id)
        sources = of_episode.replace(observation_ids=observed)
        by_caller = CandidateProvenance.unavailable(ProducerKind.CALLER)
        for index, notion in enumerate(data.entity_drafts):
            yield candidate(self._filled(notion, f"entity:{index}"), by_caller)
        for index, thread in enumerate(data.memory_thread_drafts):
            yield candidate(self._filled(thread, f"thread:{index}"), by_caller)
        derived_by_caller = CandidateProvenance.unavailable(
            ProducerKind.CALLER, CandidateSource(episode_ids=episode_ids, observation_ids=observed)
        )
        for index, memory in enumerate(data.derived_memory_drafts):
            yield candidate(
                self._derived(memory, f"derived:{index}", episode_ids, observed), derived_by_caller
            )
        for index, link in enumerate(data.memory_link_drafts):
            yield candidate(self._filled(link, f"caller-link:{index}"), by_caller)
        for link in self._hint_links():
            yield candidate(link, CandidateProvenance.unavailable(helper, sources))

    def _filled(self, draft: Any, label: str, **extra: Any) -> Any:
        """Fill what every draft may lack: id, times, schema version."""
        values: dict[str, Any] = {
            "id": draft.id or plan_candidate_id(self.defaults.operation_seed, label),
            "schema_version": draft.schema_version or self.defaults.schema_version,
        }
        previous = self.now
        for name in draft.timestamps:
            previous = getattr(draft, name) or previous
            values[name] = previous
        return draft.replace(**(values | extra))

    def _episode(self) -> EpisodeDraft | None:
        data = self.data
        if not _brings_episode(data):
            return None
        draft = data.episode or EpisodeDraft()
        filled: EpisodeDraft = self._filled(
            draft,
            "episode:0",
            scene=draft.scene or data.scene or Scene(time=self.now),
            raw_ref=draft.raw_ref or (data.raw_refs[0] if data.raw_refs else None),
        )
        return filled

    def _observations(self) -> tuple[ObservationDraft, ...]:
        data = self.data
        drafts, episode = data.observations, self.episode
        if data.content is not None:
            drafts = (ObservationDraft(text=data.content),)
        raw_ref = data.raw_refs[0] if data.raw_refs and len(drafts) == 1 else None
        filled = []
        for index, draft in enumerate(drafts):
            place: dict[str, Any] = {"raw_ref": draft.raw_ref or raw_ref}
            if episode is not None and draft.episode_id in (*_NO_EPISODE, episode.id):
                scene = episode.scene
                place["episode_id"] = episode.id
                place["position"] = index if draft.position is None else draft.position
                place["observed_at"] = draft.observed_at or (scene.instant if scene else None)
            filled.append(self._filled(draft, f"observation:{index}", **place))
        return tuple(filled)

    def _derived(
        self,
        draft: DerivedMemoryDraft,
        label: str,
        episode_ids: tuple[MemoryId, ...],
        observation_ids: tuple[MemoryId, ...],
    ) -> DerivedMemoryDraft:
        sourced = draft.derived_from_episode_ids or draft.derived_from_observation_ids
        extra: dict[str, Any] = {}
        if not sourced and not draft.given_by_application:
            extra = {"derived_from_episode_ids": episode_ids, "derived_from_observation_ids": observation_ids}
        filled: DerivedMemoryDraft = self._filled(draft, label, **extra)
        return filled

    def _hint_links(self) -> Iterator[MemoryLinkDraft]:
        if self.episode is None or self.episode.id is None:
            return
        hints = (
            ("entity", self.data.entity_ids, RelationType.INVOLVES, ObjectType.ENTITY),
            ("thread", self.data.thread_ids, RelationType.PART_OF_THREAD, ObjectType.MEMORY_THREAD),
        )
        for name, ids, relation, to_type in hints:
            for index, to_id in enumerate(ids):
                draft = MemoryLinkDraft.new(ObjectType.EPISODE, self.episode.id, relation, to_type, to_id)
                yield self._filled(draft, f"hint-link:{name}:{index}")

"""What one may ask of a memory, each with what the model says must come of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from charactermemory.domain.kinds import RelationType
from charactermemory.domain.scene import Participant, Scene
from charactermemory.errors import (
    CharacterMemoryError,
    DeterministicIdCollision,
    ReplacementIdentityConflict,
)
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.memory import CharacterMemory
from charactermemory.remember.drafts import MemoryLinkDraft
from charactermemory.remember.outcome import CommitOptions
from charactermemory.remember.plan import RememberWritePlan
from charactermemory.revise.drafts import (
    CorrectionTarget,
    CorrectMemoryDraft,
    ForgetCascade,
    ForgetLifecyclePolicy,
    ForgetMemoryDraft,
    SuppressionPolicy,
)
from charactermemory.revise.grounding import replacement_ids
from tests.properties.model import Model
from tests.revise.drafts import ORIGIN, replacement, sourced
from tests.support.plans import AT, belief, episode, link, notion, observation, plan, thread, uid

NOTIONS = (1, 2, 3)
"""The ids of the notions that every memory here begins with."""


def key_of(ref: MemoryObjectRef) -> str:
    """The model's name of an object."""
    return f"{ref.object_type.value}:{ref.id}"


def ref_of(key: str) -> MemoryObjectRef:
    """The object that the model's name is of."""
    kind, _, id_ = key.partition(":")
    return MemoryObjectRef.of(ObjectType(kind), UUID(id_))


@dataclass(frozen=True)
class Expected:
    """What must come of a deed.

    writes: whether it adds a receipt. mutated: what a revision must say it mutated. refused: the error it must
    meet. tolerated: errors that leave everything as it was and depend on more than the model follows.
    """

    writes: bool = False
    mutated: frozenset[str] | None = None
    refused: tuple[type[CharacterMemoryError], ...] = ()
    tolerated: tuple[type[CharacterMemoryError], ...] = ()


@dataclass(frozen=True)
class Deed(ABC):
    """One call of the facade, which may be repeated."""

    def __str__(self) -> str:
        """Short, for errors name it."""
        return f"{type(self).__name__} {getattr(self, 'target', '') or getattr(self, 'key', '')}".strip()

    @abstractmethod
    def call(self, memory: CharacterMemory) -> Any:
        """Do it."""

    @abstractmethod
    def expect(self, model: Model) -> Expected:
        """What must come of it now."""

    @abstractmethod
    def happen(self, model: Model) -> None:
        """Let it happen in the model."""


@dataclass(frozen=True)
class Remember(Deed):
    """Commit a plan; `left` leaves its derived part to a sweep."""

    plan: RememberWritePlan
    objects: dict[str, dict[str, Any]]
    supersedes: tuple[str, ...] = ()
    left: bool = False

    def call(self, memory: CharacterMemory) -> Any:
        return memory.commit(
            self.plan, CommitOptions(update_vectors=not self.left, update_stats=not self.left)
        )

    def expect(self, model: Model) -> Expected:
        if model.was_forgotten(self.objects):
            return Expected(refused=(DeterministicIdCollision,))
        return Expected(bool(model.new(self.objects)))

    def happen(self, model: Model) -> None:
        model.remember(self.objects, self.supersedes)


@dataclass(frozen=True)
class Claim(Deed):
    """Commit another content under an id that is taken."""

    plan: RememberWritePlan

    def call(self, memory: CharacterMemory) -> Any:
        return memory.commit(self.plan)

    def expect(self, model: Model) -> Expected:
        return Expected(refused=(DeterministicIdCollision,))

    def happen(self, model: Model) -> None:
        pass


@dataclass(frozen=True)
class Forget(Deed):
    """Forget one target."""

    draft: ForgetMemoryDraft
    target: str
    reach: tuple[bool, bool, bool, bool]

    def call(self, memory: CharacterMemory) -> Any:
        return memory.forget(self.draft)

    def expect(self, model: Model) -> Expected:
        reached = frozenset(model.reached(self.target, *self.reach))
        return Expected(bool(reached), reached)

    def happen(self, model: Model) -> None:
        model.forget(model.reached(self.target, *self.reach))


@dataclass(frozen=True)
class Correct(Deed):
    """Correct a memory, or an experience by way of what rests on it; `key` names the replacement."""

    draft: CorrectMemoryDraft
    target: str
    key: str
    text: str

    def call(self, memory: CharacterMemory) -> Any:
        return memory.correct(self.draft)

    def expect(self, model: Model) -> Expected:
        if self.key not in model.objects:
            return Expected(True, frozenset({self.key}))
        if self.key in model.suppressed:
            return Expected(refused=(ReplacementIdentityConflict,))
        # A retry may find other memories to rest on the experience than the first call did.
        by_source = not self.target.startswith("derived_memory:")
        return Expected(mutated=frozenset(), tolerated=(ReplacementIdentityConflict,) if by_source else ())

    def happen(self, model: Model) -> None:
        if self.key not in model.objects:
            made = {self.key: model.replacement(self.target, self.text)}
            model.remember(made, tuple(model.predecessors(self.target)))


@dataclass(frozen=True)
class Link(Deed):
    """Relate two objects."""

    draft: MemoryLinkDraft
    key: str

    def call(self, memory: CharacterMemory) -> Any:
        return memory.link(self.draft)

    def expect(self, model: Model) -> Expected:
        return Expected(self.key not in model.objects)

    def happen(self, model: Model) -> None:
        model.remember({self.key: {}})


class Maker:
    """Makes deeds about what a model holds, with ids and texts of their own."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._last = 0xF

    def _number(self) -> int:
        self._last += 1
        return self._last

    def beginning(self) -> Remember:
        """The notions, and a thread."""
        number = self._number()
        objects = {f"entity:{uid(n)}": {} for n in NOTIONS}
        objects[f"memory_thread:{uid(number)}"] = {"text": "Note of a thread"}
        drafts = [notion(n) for n in NOTIONS]
        return Remember(plan(*drafts, thread(number, "Note", "of a thread")), objects)

    def remember(self, one: int, other: int, flags: int) -> Remember:
        """An episode with observations and memories, some of them about older experiences."""
        happened = self._number()
        summary = None if flags & 3 == 3 else f"Note {happened} of an evening"
        present = (Participant(key=uid(NOTIONS[one % 3]), name="Someone"),) if flags & 4 else ()
        scene = Scene(time=AT, participants=present)
        drafts: list[Any] = [episode(happened, summary, scene=scene, raw_ref=f"chat-{happened}")]
        key = f"episode:{uid(happened)}"
        objects: dict[str, dict[str, Any]] = {key: {"text": summary}}
        for position in range(2 if one % 3 == 2 else 1):
            number = self._number()
            text = f"Note {number} of what was said"
            drafts.append(observation(number, happened, text, position, raw_ref=f"turn-{number}"))
            objects[f"observation:{uid(number)}"] = {"text": text, "episode": key}
        supersedes: tuple[str, ...] = ()
        for index in range(other % 3):
            number = self._number()
            source = self._pick(one + index, "episode", "observation") if flags & 8 else None
            threads = (self._pick(other, "memory_thread") or "",) if flags & 16 else ()
            if flags & 32 and not index and (old := self._pick(other + one, "derived_memory")):
                supersedes = (old,)
            drafts.append(
                self._belief(
                    number, source or key, threads, supersedes if not index else (), about=flags & 64
                )
            )
            objects[f"derived_memory:{uid(number)}"] = {
                "text": f"Note {number} of what it means",
                "sources": {source or key},
                "threads": set(threads),
            }
        return Remember(plan(*drafts), objects, supersedes, left=flags & 128 != 0)

    def _belief(self, number: int, source: str, threads: Any, supersedes: Any, about: int) -> Any:
        id_ = ref_of(source).id.int
        kind = {"episodes": (id_,)} if source.startswith("episode") else {"observations": (id_,)}
        return sourced(
            number,
            f"Note {number} of what it means",
            **kind,
            thread_ids=tuple(ref_of(key).id for key in threads),
            supersedes=tuple(ref_of(key).id for key in supersedes),
            entity_ids=(uid(NOTIONS[number % 3]),) if about else (),
        )

    def claim(self, one: int) -> Claim | None:
        """Another belief under the id of one that is stored."""
        key = self._pick(one, "derived_memory")
        return Claim(plan(belief(ref_of(key).id.int, "Note of something else", (1,)))) if key else None

    def forget(self, one: int, flags: int) -> Forget | None:
        """Forget one thing, as far as the flags say; mostly as far as the default goes."""
        key = self._pick(one, "episode", "observation", "derived_memory", "memory_thread")
        if key is None:
            return None
        reach = (True, True, True, key.startswith("memory_thread"))
        if flags & 7 == 7:
            reach = (bool(flags & 8), bool(flags & 16), bool(flags & 32), bool(flags & 64))
        target_too, derived_too, observations_too, members_too = reach
        draft = ForgetMemoryDraft.suppress(
            ref_of(key),
            "asked to",
            lifecycle_policy=ForgetLifecyclePolicy(
                suppression=SuppressionPolicy(
                    suppress_target=target_too, suppress_derived_from_target=derived_too
                )
            ),
            cascade_policy=ForgetCascade(
                apply_to_derived_from_target=derived_too,
                apply_to_observations=observations_too,
                apply_to_thread_members=members_too,
            ),
        )
        return Forget(draft, key, reach)

    def correct(self, one: int, flags: int) -> Correct | None:
        """Correct a memory, or now and then what rests on an experience."""
        types = ("episode", "observation") if flags & 3 == 3 else ("derived_memory",)
        key = self._pick(one, *types)
        if key is None:
            return None
        number, ref = self._number(), ref_of(key)
        text = f"Note {number} of how it is instead"
        if ref.object_type is ObjectType.DERIVED_MEMORY:
            target: Any = CorrectionTarget.derived_memory(ref.id)
        elif ref.object_type is ObjectType.EPISODE:
            target = CorrectionTarget.episode(ref.id, raw_ref=f"chat-{ref.id.int}")
        else:
            target = CorrectionTarget.observation(ref.id, raw_ref=f"turn-{ref.id.int}")
        draft = CorrectMemoryDraft(targets=(target,), rationale=text, correction_origin=ORIGIN)
        if flags & 4:
            sources = [ref_of(source) for source in self._model.replacement(key, text)["sources"]]
            named = ORIGIN.replace(
                episode_ids=tuple(item.id for item in sources if item.object_type is ObjectType.EPISODE),
                observation_ids=tuple(
                    item.id for item in sources if item.object_type is ObjectType.OBSERVATION
                ),
            )
            made = replacement(text, id=uid(number), original_source_provenance=named)
            draft = draft.with_replacement(made)
        (id_,) = replacement_ids(draft)
        return Correct(draft, key, f"derived_memory:{id_}", text)

    def link(self, one: int, other: int) -> Link | None:
        """Associate two objects of any kind."""
        types = ("episode", "observation", "derived_memory", "memory_thread", "entity")
        source, target = self._pick(one, *types), self._pick(other, *types)
        if source is None or target is None or source == target:
            return None
        number = self._number()
        draft = link(uid(number), ref_of(source), RelationType.ASSOCIATED_WITH, ref_of(target))
        return Link(draft, f"memory_link:{uid(number)}")

    def _pick(self, number: int, *types: str) -> str | None:
        """Pick among the stored objects of these types, the newest first."""
        keys = self._model.of_type(*types)
        return keys[-1 - number % len(keys)] if keys else None

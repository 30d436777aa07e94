"""A memory as production has it, graph and vectors on servers, which can be broken in every way; and what is done
to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from charactermemory import CharacterMemory, MemoryObjectRef, RelationType
from charactermemory.adapters.embedding import HashingEmbedding
from charactermemory.revise.drafts import ForgetCascade
from charactermemory.testing.servers import OxigraphServer
from memory_app.models import RepairMarker
from memory_app.repairs import desk
from memory_app.repairs.policy import Policy
from memory_app.repairs.sweeping import Sweeper
from memory_app.repairs.worker import RunReport, Worker
from tests.repairs.world import Clock
from tests.revise.drafts import correction, forgetting, replacement
from tests.support.plans import (
    belief,
    episode,
    link,
    memory_ref,
    notion,
    observation,
    plan,
    thread,
    thread_ref,
    uid,
)
from tests.support.qdrant_stub import QdrantStub

POLICY = Policy()
NOTION, THREAD, WRONG, DULL, MEMBER = range(0xA1, 0xA6)
NUMBERS = itertools.count(1)


class Provider(HashingEmbedding):
    """Answers, fails with `error`, or answers what `spoil` makes of the vectors."""

    def __init__(self) -> None:
        super().__init__(16)
        self.error: Exception | None = None
        self.spoil: Callable[[list[list[float]]], list[list[float]]] = list

    def bulk_generate_embeddings(self, texts: Sequence[str]) -> list[list[float]]:
        if self.error is not None:
            raise self.error
        return self.spoil(super().bulk_generate_embeddings(texts))


provider = Provider()


def embedding_provider() -> Provider:
    """What EMBEDDING_PROVIDER_FACTORY names."""
    return provider


def grounds() -> Any:
    """What is there before the fault: a notion, a thread with a member, and beliefs."""
    return plan(
        notion(NOTION),
        thread(THREAD),
        belief(WRONG, "Mimi is a dog.", (NOTION,)),
        belief(DULL, "Mimi sleeps a lot.", (NOTION,)),
        belief(MEMBER, "The beans are up.", (NOTION,), thread_ids=(uid(THREAD),)),
    )


def commit(memory: CharacterMemory) -> Any:
    """Remember an episode with words."""
    return memory.commit(plan(episode(0xE1, "The ferry was late."), observation(0xE2, 0xE1, "We waited.")))


def correct(memory: CharacterMemory) -> Any:
    """Put a belief right."""
    new = replacement("Mimi is a cat.", entity_ids=(uid(NOTION),), given_by_application=True)
    return memory.correct(correction(WRONG, replacements=(new,)))


def forget(memory: CharacterMemory) -> Any:
    """Forget a belief."""
    return memory.forget(forgetting(memory_ref(DULL)))


def thread_forget(memory: CharacterMemory) -> Any:
    """Forget what belongs to a thread."""
    cascade = ForgetCascade(apply_to_thread_members=True)
    return memory.forget(forgetting(thread_ref(THREAD), cascade_policy=cascade))


def link_beliefs(memory: CharacterMemory) -> Any:
    """Let a belief support another."""
    return memory.link(link(uid(0xF1), memory_ref(DULL), RelationType.SUPPORTS, memory_ref(WRONG)))


Operation = Callable[[CharacterMemory], Any]

OPERATIONS: dict[str, Operation] = {
    "commit": commit,
    "link": link_beliefs,
    "correct": correct,
    "forget": forget,
    "thread_forget": thread_forget,
}
"""In an order in which each finds what it needs."""


@dataclass
class Deployment:
    """One memory, its servers, its queue, and a clock that stands until it is moved."""

    memory: CharacterMemory
    graph: OxigraphServer
    vectors: QdrantStub
    clock: Clock = field(default_factory=Clock)

    def worker(self, clock: Callable[[], Any] | None = None) -> Worker:
        """A worker, by its own clock or the deployment's."""
        return Worker(self._memory, policy=POLICY, clock=clock or self.clock, uniform=lambda: 1.0)

    def sweeper(self, clock: Callable[[], Any] | None = None) -> Sweeper:
        """One beat's sweeper."""
        return Sweeper(self._memory, policy=POLICY, clock=clock or self.clock)

    def _memory(self, collection: str) -> CharacterMemory:
        assert collection == self.memory.collection
        return self.memory

    def run(self) -> RunReport:
        """Repair what is due."""
        return self.worker().run()

    def sweep(self) -> Any:
        """Sweep once."""
        return self.sweeper().sweep_all([self.memory.collection])[self.memory.collection]

    def drain(self) -> None:
        """Let time pass until everything has had its turn; an operator asks for dead repairs again."""
        for _ in range(3):
            self.clock.forward(4000)
            self.run()
            desk.requeue(RepairMarker.objects.filter(status="dead"), self.clock())
            self.sweep()

    def contents(self) -> tuple[Any, ...]:
        """Everything that is stored, fences left out: one only says which writers are late."""
        stores = self.memory.stores
        graph = {line for line in self.memory.upkeep.export() if b":fence:" not in line}
        return graph, dict(stores.vectors.scan(None, 1000)[0]), stores.statistics.scan(None, 1000)

    def differences(self) -> int:
        """What a verification finds."""
        return self.memory.upkeep.verify().differences

    def indexed(self) -> set[MemoryObjectRef]:
        """What has a point."""
        return {ref for ref, _ in self.memory.stores.vectors.scan(None, 1000)[0]}

    def waiting(self) -> int:
        """Repairs that are not done, given up ones included."""
        return RepairMarker.objects.exclude(status="succeeded").count()

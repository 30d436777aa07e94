"""`CharacterMemory`, the facade: what one does with a character's memory."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Self, TypeVar

from charactermemory.clock import Clock, utc_now
from charactermemory.composition import Opened, StatisticsFactory, compose
from charactermemory.config import Settings
from charactermemory.domain.lifecycle import Stored
from charactermemory.domain.model import Model, of_text
from charactermemory.domain.objects import Episode
from charactermemory.domain.scene import Scene
from charactermemory.errors import InvalidInput, MissingValue, StoreClosedError
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.embedding import EmbeddingProvider
from charactermemory.ports.locks import WriterLock
from charactermemory.ports.stores import Postpone, Stores
from charactermemory.ports.transcript import TranscriptSource
from charactermemory.recall.calling import called
from charactermemory.recall.context import RetrievalContext
from charactermemory.recall.fence import fence_of
from charactermemory.recall.knobs import RecallKnobs
from charactermemory.recall.outcome import RetrievalOutcome
from charactermemory.recall.pack import ContinuityContextPack
from charactermemory.recall.recent import unremembered
from charactermemory.recall.render import Rendered, Style, people_of, render, unseen_episodes
from charactermemory.recall.retrieve import retrieve
from charactermemory.recall.tokens import TokenCounter, estimate_tokens
from charactermemory.remember.commit import commit
from charactermemory.remember.drafts import MemoryLinkDraft
from charactermemory.remember.outcome import CommitOptions, LinkOutcome, RememberOutcome
from charactermemory.remember.plan import CandidateValidation, RememberWritePlan
from charactermemory.remember.prepare import (
    PrepareOptions,
    RememberInput,
    RememberPlanDefaults,
    prepare,
)
from charactermemory.remember.validate import validate_plan
from charactermemory.revise.correct import correct, plan_correction
from charactermemory.revise.drafts import CorrectMemoryDraft, ForgetMemoryDraft
from charactermemory.revise.forget import forget, plan_forget
from charactermemory.revise.link import link
from charactermemory.revise.outcome import LifecycleMutationOutcome
from charactermemory.upkeep.backup import BackupReport, backup, require_outside_stores
from charactermemory.upkeep.derive import DeriveReport, derive
from charactermemory.upkeep.rebuild import Progress, RebuildReport, rebuild_statistics, rebuild_vectors
from charactermemory.upkeep.sweep import SweepReport, sweep
from charactermemory.upkeep.verify import VerifyReport, verify

_T = TypeVar("_T")


class RememberOptions(Model):
    """Options of both halves of `remember`."""

    prepare: PrepareOptions = PrepareOptions()
    commit: CommitOptions = CommitOptions()


class CharacterMemory:
    """One character's memory. Thread-safe; closes as a context manager or by `close`.

    Writes are durable when they return, also inside a host's database transaction: a rollback there does not
    take them back.
    """

    def __init__(
        self,
        opened: Opened,
        settings: Settings,
        collection: str,
        transcripts: TranscriptSource | None = None,
    ) -> None:
        """Take an open bundle; applications call `open`."""
        self._opened: Opened | None = opened
        self._lock = threading.Lock()
        self._knobs = RecallKnobs.of(settings)
        self._transcripts = transcripts
        self.settings = settings
        self.collection = collection

    @classmethod
    def open(
        cls,
        settings: Settings | Mapping[str, object],
        collection_name: str,
        *,
        embedding_provider: EmbeddingProvider | None = None,
        writer_lock: WriterLock | None = None,
        statistics: StatisticsFactory | None = None,
        postpone_statistics: Postpone | None = None,
        transcripts: TranscriptSource | None = None,
        clock: Clock = utc_now,
        for_rebuild: bool = False,
    ) -> Self:
        """Open or create the memory called `collection_name`.

        Args:
            settings: a `Settings`, or a mapping with its keys.
            collection_name: 1-128 of a-z, 0-9, `_` and `-`, starting with a letter or digit.
            embedding_provider: makes the embeddings instead of the configured provider.
            writer_lock: serialises writers instead of the configured lock.
            statistics: opens the statistics store instead of the configured one.
            postpone_statistics: asked before statistics are written, with the objects; True leaves them out.
            transcripts: where recall finds turns that are not remembered yet; without it there are none.
            clock: the present instant.
            for_rebuild: also open an index made by another model or dimension, to rebuild it.

        Raises:
            ConfigValidationError: a setting or the name is wrong; nothing was created.
            CollectionIncompatible: the index was made by another model; names both and the rebuild command.
            StoreInUse, NotAStore, StoreUnavailable, StoreError: a store cannot be opened.
        """
        configured = settings if isinstance(settings, Settings) else Settings.from_mapping(settings)
        opened = compose(
            configured,
            collection_name,
            clock=clock,
            embedding_provider=embedding_provider,
            writer_lock=writer_lock,
            statistics=statistics,
            postpone_statistics=postpone_statistics,
            for_rebuild=for_rebuild,
        )
        return cls(opened, configured, collection_name, transcripts)

    def __repr__(self) -> str:
        state = "open" if self._opened else "closed"
        return f"<CharacterMemory {self.collection!r} {state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed; `open` makes another."""
        return self._opened is None

    def close(self) -> None:
        """Flush and release the stores; a second call does nothing, any other call then raises."""
        with self._lock:
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    @property
    def stores(self) -> Stores:
        """The open bundle of ports.

        Raises:
            StoreClosedError: the memory was closed.
        """
        opened = self._opened
        if opened is None:
            raise StoreClosedError(store=f"memory {self.collection}")
        return opened.stores

    # --- remember --------------------------------------------------------------------------------

    def prepare(
        self,
        data: RememberInput,
        options: PrepareOptions = PrepareOptions(),  # noqa: B008 - frozen
        defaults: RememberPlanDefaults | None = None,
    ) -> RememberWritePlan:
        """Make a plan of `data`; nothing is read or written. See `remember.prepare.prepare`."""
        return prepare(data, options, defaults or RememberPlanDefaults.generated(self.stores.clock))

    def validate_plan(self, plan: RememberWritePlan) -> tuple[CandidateValidation, ...]:
        """Judge the plan against the graph as it is now. See `remember.validate.validate_plan`."""
        return validate_plan(plan, self.stores.graph)

    def commit(
        self,
        plan: RememberWritePlan,
        options: CommitOptions = CommitOptions(),  # noqa: B008 - frozen
    ) -> RememberOutcome:
        """Store a valid plan whole, then derive from it. See `remember.commit.commit`."""
        return commit(self.stores, plan, options)

    def remember(
        self,
        data: RememberInput | str,
        options: RememberOptions = RememberOptions(),  # noqa: B008 - frozen
    ) -> RememberOutcome:
        """Prepare and commit in one call; a text alone becomes one observation in an episode of its own.

        Raises:
            InvalidInput: the text is too long or holds what no store keeps, or it is neither; besides, the
                errors of both calls.
        """
        given = of_text(RememberInput.new, data) if isinstance(data, str) else _is(RememberInput, data)
        return self.commit(self.prepare(given, options.prepare), options.commit)

    # --- revise ----------------------------------------------------------------------------------

    def link(self, draft: MemoryLinkDraft) -> LinkOutcome:
        """Relate two stored objects. See `revise.link.link`."""
        return link(self.stores, _is(MemoryLinkDraft, draft))

    def plan_correction(self, draft: CorrectMemoryDraft) -> LifecycleMutationOutcome:
        """Return what `correct` would do; nothing is written."""
        return plan_correction(self.stores, _is(CorrectMemoryDraft, draft))

    def correct(self, draft: CorrectMemoryDraft) -> LifecycleMutationOutcome:
        """Supersede wrong memories by new ones. See `revise.correct.correct`."""
        return correct(self.stores, _is(CorrectMemoryDraft, draft))

    def plan_forget(self, draft: ForgetMemoryDraft) -> LifecycleMutationOutcome:
        """Return what `forget` would do; nothing is written."""
        return plan_forget(self.stores, _is(ForgetMemoryDraft, draft))

    def forget(self, draft: ForgetMemoryDraft) -> LifecycleMutationOutcome:
        """Take influence from memories, keeping them as history. See `revise.forget.forget`."""
        return forget(self.stores, _is(ForgetMemoryDraft, draft))

    # --- recall ----------------------------------------------------------------------------------

    def retrieve(self, context: RetrievalContext | str) -> RetrievalOutcome:
        """Return what the character has in mind in this situation. See `recall.retrieve.retrieve`.

        With a transcript source the pack also brings recent turns on the topic that are not remembered yet.
        """
        given = (
            of_text(RetrievalContext.new, context)
            if isinstance(context, str)
            else _is(RetrievalContext, context)
        )
        outcome = retrieve(self.stores, given, self._knobs)
        turns = unremembered(self._transcripts, self.stores.graph, given.query)
        return outcome.replace(pack=outcome.pack.replace(recent_turns=turns)) if turns else outcome

    def render(
        self,
        pack: ContinuityContextPack,
        *,
        budget: int | None = None,
        counter: TokenCounter = estimate_tokens,
        style: Style = "markdown",
        scene: Scene | None = None,
        in_progress: Collection[MemoryObjectRef] = (),
    ) -> Rendered:
        """Write a pack for a prompt, with this deployment's fence and the names the character knows.

        `scene` is that of the conversation: of two people of one name it tells who is there. `in_progress` are
        memories of the conversation in progress, to be marked.

        Raises:
            MissingValue: `FENCE_SECRET` is not configured.
            ValueError: the budget is negative.
            StoreError: the graph failed.
        """
        if self.settings.fence_secret is None:
            raise MissingValue(("FENCE_SECRET",))
        fence = fence_of(self.settings.fence_secret.get_secret_value(), self.collection)
        graph = self.stores.graph
        here = scene.participant_keys if scene else ()
        # Whoever is here and did not come up is still not to be taken for a namesake who did.
        spellings = graph.names_of(people_of(pack).union(here))
        episodes = graph.read([MemoryObjectRef.of(ObjectType.EPISODE, id_) for id_ in unseen_episodes(pack)])
        return render(
            pack,
            fence=fence,
            budget=budget,
            counter=counter,
            style=style,
            names=called(spellings, here),
            scenes={
                ref.id: item.object.scene
                for ref, item in episodes.items()
                if isinstance(item.object, Episode)
            },
            in_progress=in_progress,
        )

    # --- for operators ---------------------------------------------------------------------------

    @property
    def upkeep(self) -> Upkeep:
        """Keeping the derived stores equal to the graph."""
        return Upkeep(self)

    @property
    def browse(self) -> Browse:
        """Reading without recall, for operators; applications recall."""
        return Browse(self)


class Upkeep:
    """Sweeps, checks and rebuilds of one memory."""

    def __init__(self, memory: CharacterMemory) -> None:
        """Take the memory to keep."""
        self._memory = memory

    def sweep(
        self, parked: Collection[MemoryObjectRef] = (), waiting: Collection[MemoryObjectRef] = ()
    ) -> SweepReport:
        """Catch the derived stores up with the graph. See `upkeep.sweep.sweep`."""
        return sweep(self._memory.stores, parked, waiting)

    def reconcile(self, *refs: MemoryObjectRef) -> DeriveReport:
        """Make the derived stores equal to the graph for `refs`. See `upkeep.derive.derive`."""
        return derive(self._memory.stores, refs, isolate=True)

    def verify(self, repair: bool = False) -> VerifyReport:
        """Compare graph, index and statistics both ways. See `upkeep.verify.verify`."""
        return verify(self._memory.stores, repair)

    def rebuild_vectors(self, progress: Progress = lambda done: None, *, anew: bool = False) -> RebuildReport:
        """Fill a new index from the graph and switch to it. See `upkeep.rebuild.rebuild_vectors`."""
        return rebuild_vectors(self._memory.stores, progress, anew)

    def rebuild_statistics(self) -> int:
        """Fill the statistics anew from the graph. See `upkeep.rebuild.rebuild_statistics`."""
        return rebuild_statistics(self._memory.stores)

    def export(self) -> Iterator[bytes]:
        """Yield the graph as sorted N-Quads lines."""
        return self._memory.stores.graph.export()

    def load(self, file: BinaryIO) -> int:
        """Load an export, a TriG file, into this empty memory; a sweep then derives from it.

        See `GraphStore.load`.
        """
        return self._memory.stores.graph.load(file)

    def backup(self, folder: Path) -> BackupReport:
        """Copy the stores while they serve. See `upkeep.backup.backup`.

        Raises:
            InvalidInput: `folder` lies in the folder of a store; nothing was written.
        """
        require_outside_stores(self._memory.settings, folder)
        return backup(self._memory.stores, folder)


class Browse:
    """A read model beside recall: objects by reference, their history, and pages of everything."""

    def __init__(self, memory: CharacterMemory) -> None:
        """Take the memory to read."""
        self._memory = memory

    def get(self, *refs: MemoryObjectRef) -> dict[MemoryObjectRef, Stored]:
        """Return the stored objects among `refs` with their lifecycle."""
        return self._memory.stores.graph.read(refs)

    def history(self, ref: MemoryObjectRef) -> list[Stored]:
        """Return the supersession chain around a derived memory, both ways, oldest first."""
        graph = self._memory.stores.graph
        chain: dict[MemoryObjectRef, Stored] = {}
        frontier = {ref}
        while frontier:
            found = graph.read(frontier)
            chain |= found
            linked: set[MemoryObjectRef] = set()
            for item in found.values():
                ids = (*getattr(item.object, "supersedes", ()), *item.superseded_by)
                linked |= {MemoryObjectRef.of(item.ref.object_type, id_) for id_ in ids}
            frontier = linked - chain.keys()
        return sorted(chain.values(), key=lambda item: (item.object.created_at, item.ref.order))

    def list(self, after: str | None = None, limit: int = 100) -> tuple[list[Stored], str | None]:
        """Return one page of stored objects, and what continues it."""
        refs, cursor = self._memory.stores.graph.scan(after, limit)
        found = self._memory.stores.graph.read(refs)
        return [found[ref] for ref in refs if ref in found], cursor


def _is(kind: type[_T], value: _T) -> _T:
    """Return `value`; anything but a `kind` is refused here, where the caller still sees what was handed over."""
    if not isinstance(value, kind):
        raise InvalidInput((("", f"expected a {kind.__name__}, got {type(value).__name__}"),))
    return value


__all__ = ["Browse", "CharacterMemory", "RememberOptions", "Upkeep"]

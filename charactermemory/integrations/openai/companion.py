"""What a wrapped client does with a character's memory: recall before a call, remember after it."""

from __future__ import annotations

import functools
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

from charactermemory.domain.model import TEXT_LIMIT, says_nothing
from charactermemory.domain.scene import Scene
from charactermemory.history import Message, Recalled, Selection
from charactermemory.history.bridge import settle
from charactermemory.history.models import INSTRUCTION_ROLES
from charactermemory.ids import MemoryId, MemoryObjectRef, ObjectType
from charactermemory.integrations.openai.exchange import (
    MEMORY,
    Exchange,
    Recollection,
    Run,
    exchange_remembered,
    memory_failed,
)
from charactermemory.integrations.openai.request import Given, Prepared
from charactermemory.integrations.openai.saving import History
from charactermemory.memory import CharacterMemory
from charactermemory.recall.context import RetrievalContext
from charactermemory.recall.pack import ContinuityContextPack
from charactermemory.recall.render import Style
from charactermemory.recall.tokens import TokenCounter
from charactermemory.remember.drafts import EpisodeDraft, ObservationDraft
from charactermemory.remember.prepare import PrepareOptions, RememberInput, RememberPlanDefaults

logger = logging.getLogger(__name__)

SceneOf = Scene | Callable[[str], Scene | None] | None
Choose = Callable[[Exchange], Iterable[Message]]
Enrich = Callable[[Exchange, RememberInput], RememberInput | Awaitable[RememberInput]]
Later = Callable[[Callable[[], None]], object]
BlockRole = Literal["system", "developer", "user"]

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def said(exchange: Exchange) -> list[Message]:
    """Return what the user and the character said in a turn: what is remembered unless told otherwise."""
    return [
        message
        for message in exchange.messages
        if message.role in ("user", "assistant") and not message.hidden and not says_nothing(message.text)
    ]


@dataclass(frozen=True)
class MemoryCompanion:
    """A memory and the ways of one wrapped client; see `with_memory` for the options.

    Nothing here raises an `Exception`: memory that fails is logged and signalled, and the call goes on.
    """

    memory: CharacterMemory
    scene: SceneOf
    budget: int | None
    counter: TokenCounter
    style: Style
    role: BlockRole
    remembers: Choose
    speakers: Mapping[str, MemoryId]
    enrich: Enrich | None
    later: Later | None

    # --- before the call ---------------------------------------------------------------------------

    def recall(
        self, history: History, thread_id: str, given: list[Message], scene: Scene | None
    ) -> Recollection:
        """Return what comes to mind for the user's turn in this scene."""
        now = Scene(time=history.manager.clock())
        try:
            now = scene or self._scene(thread_id) or now
            topic = _topic(history, thread_id, given)
            context = RetrievalContext(topic=topic, scene=now, profile="automatic")
            pack = self.memory.retrieve(context).pack
            in_progress = _in_progress(self.memory, pack, thread_id)
        except Exception as error:
            self._failed("recall", thread_id, error)
            return Recollection(now)
        ids = frozenset(raw_ref for raw_ref in in_progress.values() if raw_ref is not None)
        return Recollection(now, pack, in_progress, Recalled(pack, ids))

    def insert(self, prepared: Prepared, recollection: Recollection) -> None:
        """Put the stable block behind the leading instructions and the volatile one before the user's words.

        So the request begins as the one before it did, and a prompt cache keeps serving it.
        """
        if recollection.pack is None:
            return
        try:
            window = {item.message.id for item in prepared.request}
            pack, marked = _untold(recollection, window)
            rendered = self.memory.render(
                pack,
                budget=self.budget,
                counter=self.counter,
                style=self.style,
                scene=recollection.scene,
                in_progress=marked,
            )
        except Exception as error:
            self._failed("recall", prepared.thread_id, error)
            return
        roles = [item.message.role for item in prepared.request]
        lead = next((place for place, role in enumerate(roles) if role not in INSTRUCTION_ROLES), len(roles))
        turn = max((place for place, role in enumerate(roles) if role == "user"), default=lead)
        for place, block in ((max(turn, lead), rendered.volatile), (lead, rendered.stable)):
            if block:
                message = Message(block, self.role, metadata={"type": MEMORY})
                prepared.request.insert(place, Given(message))

    def _scene(self, thread_id: str) -> Scene | None:
        return self.scene(thread_id) if callable(self.scene) else self.scene

    # --- after the call ----------------------------------------------------------------------------

    def remember(self, exchange: Exchange) -> None:
        """Keep the turn, now or when `later` says so."""
        job = functools.partial(self._keep, exchange)
        if self.later is None:
            job()
            return
        try:
            self.later(job)
        except Exception as error:
            self._failed("remember", exchange.thread_id, error)

    async def remember_async(self, exchange: Exchange, run: Run) -> None:
        """Keep the turn; an async `enrich` is awaited here, so that no thread waits for it."""
        if self.later is not None or not inspect.iscoroutinefunction(self.enrich):
            await run(self.remember, exchange)
            return
        plain = await run(self._draft, exchange)
        if plain is None:
            return
        enriched = None
        try:
            enriched = _checked(await self.enrich(exchange, plain))
        except Exception as error:
            self._failed("enrich", exchange.thread_id, error)
        await run(self._commit, exchange, plain, enriched)

    def _keep(self, exchange: Exchange) -> None:
        plain = self._draft(exchange)
        if plain is None:
            return
        enriched = None
        if self.enrich is not None:
            try:
                enriched = _checked(settle(self.enrich(exchange, plain)))
            except Exception as error:
                self._failed("enrich", exchange.thread_id, error)
        self._commit(exchange, plain, enriched)

    def _draft(self, exchange: Exchange) -> RememberInput | None:
        """Return the turn as an episode of its words; None when nothing of it is to be remembered."""
        try:
            messages = [item for item in self.remembers(exchange) if not says_nothing(_text(item))]
            if not messages:
                return None
            return RememberInput(
                scene=exchange.scene,
                episode=EpisodeDraft(
                    source_conversation_id=exchange.thread_id,
                    raw_ref=messages[0].id,
                ),
                observations=tuple(self._observation(message) for message in messages),
                raw_refs=tuple(message.id for message in messages),
            )
        except Exception as error:
            self._failed("remember", exchange.thread_id, error)
            return None

    def _observation(self, message: Message) -> ObservationDraft:
        return ObservationDraft(
            text=_text(message),
            raw_ref=message.id,
            speaker_entity_id=self.speakers.get(message.role),
            observed_at=message.created_at,
        )

    def _commit(self, exchange: Exchange, plain: RememberInput, enriched: RememberInput | None) -> None:
        """Store the turn; what the host adds must not cost the turn itself, so it is then stored alone."""
        # The same turn makes the same ids, so that remembering it again changes nothing.
        seed = f"{exchange.thread_id}:{plain.raw_refs[0]}"
        defaults = RememberPlanDefaults.fixed(seed, exchange.messages[-1].created_at)
        inputs = [("remember", plain)] if enriched is None else [("enrich", enriched), ("remember", plain)]
        for stage, data in inputs:
            try:
                outcome = self.memory.commit(self.memory.prepare(data, PrepareOptions(), defaults))
            except Exception as error:
                self._failed(stage, exchange.thread_id, error)
            else:
                exchange_remembered.send(self.memory, exchange=exchange, outcome=outcome)
                return

    def _failed(self, stage: str, thread_id: str, error: Exception) -> None:
        logger.error("memory failed to %s; the call goes on without it", stage, exc_info=error)
        memory_failed.send(self.memory, stage=stage, thread_id=thread_id, error=error)


def _topic(history: History, thread_id: str, given: list[Message]) -> str | None:
    """Return the user's words: of this call, or while tools are at work of the turn they work for."""
    users = [message for message in given if message.role == "user"]
    if not users:
        newest = Selection(roles=("user",), newest=True, limit=1, visible=True)
        users = history.manager.storage.read(thread_id, newest)
    return _text(users[-1]) if users else None


def _text(message: Message) -> str:
    """Return a message's words as a memory can hold them; the message store has them whole."""
    return _UNSTORABLE.sub("\ufffd", message.text)[:TEXT_LIMIT]


def _in_progress(
    memory: CharacterMemory, pack: ContinuityContextPack, thread_id: str
) -> dict[MemoryObjectRef, str | None]:
    """Return the pack's episodes and observations of this conversation, each with its message."""
    episodes = {episode.id: episode for episode in pack.relevant_episodes}
    unread = {item.episode_id for item in pack.salient_observations} - episodes.keys()
    stored = memory.browse.get(*(MemoryObjectRef.of(ObjectType.EPISODE, id_) for id_ in unread))
    episodes |= {ref.id: cast(Any, item.object) for ref, item in stored.items()}
    here = {id_ for id_, episode in episodes.items() if episode.source_conversation_id == thread_id}
    found = {item.ref: item.raw_ref for item in pack.relevant_episodes if item.id in here}
    return found | {item.ref: item.raw_ref for item in pack.salient_observations if item.episode_id in here}


def _untold(
    recollection: Recollection, window: set[str]
) -> tuple[ContinuityContextPack, frozenset[MemoryObjectRef]]:
    """Return the pack without what the window says itself, and what is left of this conversation."""
    pack, in_progress = recollection.pack, recollection.in_progress
    assert pack is not None
    told = {ref for ref, raw_ref in in_progress.items() if raw_ref in window}
    kept = pack.replace(
        relevant_episodes=tuple(item for item in pack.relevant_episodes if item.ref not in told),
        salient_observations=tuple(item for item in pack.salient_observations if item.ref not in told),
        recent_turns=tuple(turn for turn in pack.recent_turns if turn.raw_ref not in window),
    )
    return kept, frozenset(in_progress.keys() - told)


def _checked(data: Any) -> RememberInput:
    if not isinstance(data, RememberInput):
        raise TypeError(f"enrich: expected it to return a RememberInput, got {type(data).__name__}")
    return data

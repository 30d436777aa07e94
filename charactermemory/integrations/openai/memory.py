"""Putting a character's memory onto a client that has a history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from charactermemory.errors import ConfigurationError, MissingValue
from charactermemory.ids import MemoryId
from charactermemory.integrations.openai.client import history_of, install
from charactermemory.integrations.openai.companion import (
    BlockRole,
    Choose,
    Enrich,
    Later,
    MemoryCompanion,
    SceneOf,
    said,
)
from charactermemory.memory import CharacterMemory
from charactermemory.recall.render import Style
from charactermemory.recall.tokens import TokenCounter, estimate_tokens

Client = TypeVar("Client")

DEFAULT_BUDGET = 2_000
"""Tokens that both blocks may cost. The automatic profile brings at most 35 memories; at some 40 tokens each
they fit."""


def with_memory(
    client: Client,
    *,
    memory: CharacterMemory,
    scene: SceneOf = None,
    budget: int | None = DEFAULT_BUDGET,
    counter: TokenCounter = estimate_tokens,
    style: Style = "markdown",
    role: BlockRole = "system",
    remember: Choose = said,
    speakers: Mapping[str, MemoryId] | None = None,
    enrich: Enrich | None = None,
    later: Later | None = None,
) -> Client:
    """Let a client that has a history (`with_history`) recall before each call and remember after it.

    Before a call the memory is asked with the scene and the user's words, and what comes back is put into the
    request: the stable block behind the leading instructions, the volatile one before the user's words.
    After it the turn becomes an episode of the words said, each observation's raw_ref the id of its stored
    message and the episode's source_conversation_id the thread; no model decides. A turn with tool calls is
    one episode, remembered with the answer that ends it. Memories of this conversation are left out where the
    window holds the words themselves, and marked where it does not.

    Memory that fails is logged and sent to `memory_failed`; the call and its answer go on without it.

    Args:
        client: changed in place and returned; wrapping it again replaces the memory.
        memory: the character's. The host keeps it open.
        scene: the situation, or what tells it for a thread; a call's own `scene=` goes first. Without any, a
            scene is known by its time alone.
        budget: tokens that both blocks may cost by `counter`; None for no limit.
        counter: counts the tokens of a text.
        style: how the blocks are written.
        role: whose messages carry the blocks; "user" for models that take one leading system message only.
        remember: chooses a turn's messages to remember; none of them, and the turn is not remembered.
        speakers: the notion that speaks as "user", and as "assistant"; both must be stored.
        enrich: may add to what is to be remembered, for example derived memories, which then rest on the
            turn; sync or async. When it fails, or adds what cannot be stored, the turn is remembered alone.
        later: is given the work of remembering and calls it when it pleases, for example an executor's
            `submit` or `transaction.on_commit`. Without it, the work is done before the answer is returned.

    Raises:
        ConfigurationError: the client has no history.
        MissingValue: the memory has no `FENCE_SECRET`.
        ValueError: the budget is negative.
    """
    history = history_of(client)
    if history is None:
        raise ConfigurationError(
            detail="with_memory needs a client with a history: wrap it by with_history first"
        )
    if memory.settings.fence_secret is None:
        raise MissingValue(("FENCE_SECRET",))
    if budget is not None and budget < 0:
        raise ValueError(f"budget: expected 0 or more tokens, got {budget}")
    companion = MemoryCompanion(
        memory=memory,
        scene=scene,
        budget=budget,
        counter=counter,
        style=style,
        role=role,
        remembers=remember,
        speakers=dict(speakers or {}),
        enrich=enrich,
        later=later,
    )
    return install(client, replace(history, companion=companion))

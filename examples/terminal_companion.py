"""A companion in the terminal that remembers: talk to it, leave, come back another day.

    pip install "django-character-memory[openai]"
    python examples/terminal_companion.py --base-url http://localhost:11434/v1 --model llama3.2

It speaks with any OpenAI-compatible endpoint; without --base-url with OpenAI's own. The key is read from
OPENAI_API_KEY. Everything it keeps is in one folder (--data). Leave with /quit or the end of input.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from contextlib import closing
from datetime import datetime
from pathlib import Path

from openai import OpenAI, OpenAIError

from charactermemory import (
    BeliefAssertion,
    CharacterMemory,
    DerivedMemoryDraft,
    DerivedType,
    EntityDraft,
    EpisodeDraft,
    MemoryId,
    MemoryObjectRef,
    ObjectType,
    Participant,
    RememberInput,
    Scene,
    derive_id,
)
from charactermemory.history import HistoryManager, SQLiteStorage, TokenBudget
from charactermemory.integrations.openai import use_thread, with_history, with_memory

WINDOW = 4_000
"""Tokens of the talk's last turns that go into a request."""


def main(arguments: list[str] | None = None) -> int:
    """Talk until the user leaves; returns the exit status."""
    options = _options(arguments)
    options.data.mkdir(parents=True, exist_ok=True)
    storage = SQLiteStorage(options.data / "chat.db")
    with CharacterMemory.open(_settings(options), "companion") as memory, closing(storage):
        memory.upkeep.sweep()  # whatever an earlier run left undone
        user, character = _acquainted(memory, options.user, options.name)

        def scene(thread_id: str) -> Scene:
            now = datetime.now().astimezone()
            return Scene.at(now, Participant(key=user, name=options.user), words="in a terminal")

        manager = HistoryManager(storage, TokenBudget(WINDOW))
        client = OpenAI(base_url=options.base_url, api_key=os.environ.get("OPENAI_API_KEY") or "none")
        client = with_history(history_manager=manager)(client)
        client = with_memory(
            client, memory=memory, scene=scene, speakers={"user": user, "assistant": character}
        )
        # Each run is a conversation of its own: what is known of earlier ones is known from memory.
        with use_thread(f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S.%f}"):
            _talk(client, options)
    return 0


def _talk(client: OpenAI, options: argparse.Namespace) -> None:
    persona = (
        f"You are {options.name}, a warm and attentive companion of {options.user}. Blocks of remembered material "
        "are your own memory: speak from it as one who was there, and do not invent what it does not hold."
    )
    while (words := _heard(options.user)) is not None:
        messages = [{"role": "system", "content": persona}, {"role": "user", "content": words}]
        try:
            stream = client.chat.completions.create(
                model=options.model,
                messages=messages,
                stream=True,  # type: ignore[arg-type]
            )
            print(f"{options.name}: ", end="")
            for chunk in stream:
                print(chunk.choices[0].delta.content or "" if chunk.choices else "", end="", flush=True)
            print()
        except OpenAIError as error:
            print(f"(no answer: {error})", file=sys.stderr)


def _heard(user: str) -> str | None:
    """Return what the user says next; None when they leave."""
    while True:
        try:
            words = input(f"{user}: ").strip()
        except (EOFError, KeyboardInterrupt):
            print()
            return None
        if words == "/quit":
            return None
        if words:
            return words


def _acquainted(memory: CharacterMemory, user: str, character: str) -> tuple[MemoryId, MemoryId]:
    """Return the notions of both, introducing them to each other the first time."""
    notions = {
        name: derive_id("terminal-companion", role, name)
        for role, name in (("user", user), ("character", character))
    }
    refs = [MemoryObjectRef.of(ObjectType.ENTITY, notion) for notion in notions.values()]
    if len(memory.browse.get(*refs)) < len(refs):
        memory.remember(
            RememberInput(
                episode=EpisodeDraft(summary=f"{user} and {character} met."),
                entity_drafts=tuple(EntityDraft(id=notion) for notion in notions.values()),
                derived_memory_drafts=tuple(
                    DerivedMemoryDraft(
                        derived_type=DerivedType.CLAIM,
                        text=f"{name} is called {name}.",
                        entity_ids=(notion,),
                        assertions=(BeliefAssertion.known_as(notion, name),),
                    )
                    for name, notion in notions.items()
                ),
            )
        )
    return notions[user], notions[character]


def _settings(options: argparse.Namespace) -> dict[str, str]:
    """Return the memory's settings: embedded stores in the folder, and its secret."""
    secret = options.data / "fence-secret"
    if not secret.exists():
        descriptor = os.open(secret, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32))
    return {
        "OXIGRAPH_PATH": str(options.data / "graph"),
        "VECTOR_STORE_PATH": str(options.data / "vectors"),
        "RETRIEVAL_STATS_PATH": str(options.data / "statistics.sqlite3"),
        "FENCE_SECRET": secret.read_text(encoding="ascii"),
        "EMBEDDING_PROVIDER": options.embedding,
    }


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--base-url", help="the endpoint; OpenAI's if not given")
    parser.add_argument("--model", required=True, help="the model that speaks")
    parser.add_argument("--data", type=Path, default=Path("companion-data"), help="where everything is kept")
    parser.add_argument("--user", default="Ann", help="what the companion calls you")
    parser.add_argument("--name", default="Robin", help="what you call the companion")
    parser.add_argument("--embedding", default="wordllama", help="the embedding provider (wordllama)")
    options = parser.parse_args(arguments)
    if options.user == options.name:
        parser.error("--user and --name: two names are needed")
    return options


if __name__ == "__main__":
    raise SystemExit(main())

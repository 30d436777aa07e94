"""How the companion answers: by a model that is given what the character remembers, or by the memories alone.

Both keep the talk as rows of the host's database, and remember it in one collection, the character's.
"""

from functools import cache

from django.conf import settings
from openai import OpenAI, OpenAIError

from charactermemory import RetrievalContext
from charactermemory.history import HistoryManager, Message, TokenBudget
from charactermemory.integrations.openai import use_thread, with_history, with_memory
from memory_app.chat.storage import DjangoStorage
from memory_app.runtime import get_memory

COLLECTION = "companion"
WINDOW = 4_000
"""Tokens of the talk's last turns that go into a request."""
SHOWN = 2
"""Memories in an answer without a model."""

manager = HistoryManager(DjangoStorage(owner=COLLECTION), TokenBudget(WINDOW))


def said(thread: str) -> list[Message]:
    """Return what was said in a talk."""
    manager.get_or_create_thread(thread)
    messages = manager.get_messages(thread)
    return [item for item in messages if item.role in ("user", "assistant") and not item.hidden]


def answer(thread: str, words: str) -> str:
    """Answer, keep both sides, remember; return what went wrong, or nothing."""
    if not settings.COMPANION_MODEL:
        _by_memories(thread, words)
        return ""
    persona = (
        f"You are {settings.COMPANION_NAME}, a warm and attentive companion. Blocks of remembered material are "
        "your own memory: speak from it as one who was there, and do not invent what it does not hold."
    )
    messages = [{"role": "system", "content": persona}, {"role": "user", "content": words}]
    try:
        with use_thread(thread):
            _client().chat.completions.create(model=settings.COMPANION_MODEL, messages=messages)
    except OpenAIError as error:
        return f"The model did not answer: {error}"
    return ""


@cache
def _client() -> OpenAI:
    """One client a process: it puts the window and the memories before a call and keeps both sides after it."""
    client = OpenAI(base_url=settings.OPENAI_BASE_URL, api_key=settings.OPENAI_API_KEY)
    client = with_history(history_manager=manager)(client)
    return with_memory(client, memory=get_memory(COLLECTION))


def _by_memories(thread: str, words: str) -> None:
    memory = get_memory(COLLECTION)
    recalled = memory.retrieve(RetrievalContext(topic=words)).pack.salient_observations
    earlier = [item.text for item in recalled if item.text != words]  # the same question answers nothing
    reminded = " ".join(f"You said: “{text}”" for text in dict.fromkeys(earlier[:SHOWN]))
    manager.get_or_create_thread(thread)
    manager.add_message(thread, words, "user")
    manager.add_message(thread, reminded or "That is new to me. Tell me more.", "assistant")
    memory.remember(words)

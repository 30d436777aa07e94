"""OpenAI's client with a memory of the conversation, and with a character's memory of its life."""

from charactermemory.integrations.openai.client import use_thread, with_history
from charactermemory.integrations.openai.companion import said
from charactermemory.integrations.openai.exchange import Exchange, exchange_remembered, memory_failed
from charactermemory.integrations.openai.memory import with_memory

__all__ = [
    "Exchange",
    "exchange_remembered",
    "memory_failed",
    "said",
    "use_thread",
    "with_history",
    "with_memory",
]

"""OpenAI's client with a memory of the conversation."""

from charactermemory.integrations.openai.client import use_thread, with_history

__all__ = ["use_thread", "with_history"]

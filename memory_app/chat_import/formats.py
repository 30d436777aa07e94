"""The chat formats an import can read. Pure: nothing here knows the memory or Django.

Every reader checks the whole file before it returns, so that a bad line never leaves a chat half imported,
and gives sessions and turns *keys* that depend on the file's content alone. An importer derives ids from
the keys and `created_at` from the times; importing a file again, or with lines appended, then meets the
same objects again.
"""

from memory_app.chat_import.chat import ChatFormatError, ChatSession, ChatTurn
from memory_app.chat_import.jsonl import read_jsonl
from memory_app.chat_import.locomo import read_locomo

__all__ = ["ChatFormatError", "ChatSession", "ChatTurn", "read_jsonl", "read_locomo"]

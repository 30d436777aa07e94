"""The seed's basic example; only its import lines are changed."""

# ruff: noqa
# fmt: off
from typing import List
from charactermemory.history import BaseAlgorithm
from charactermemory.history import Message, Thread

class CustomAlgorithm(BaseAlgorithm):
    def __init__(self, max_messages: int = 100):
        super().__init__(max_messages=max_messages)
    
    def get_message_window(self, messages: List[Message]) -> List[Message]:
        """Select messages for context window."""
        # Simple example: keep last N messages
        return messages[-self.max_messages:]
    
    def process_thread(self, thread: Thread, new_message: Message) -> None:
        """Optional: Process thread when message is added."""
        pass  # No special processing needed

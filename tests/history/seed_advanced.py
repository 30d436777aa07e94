"""The seed's advanced example; only its import lines are changed."""

# ruff: noqa
# fmt: off
from datetime import datetime, timedelta, timezone
from typing import List
from charactermemory.history import BaseAlgorithm
from charactermemory.history import Message, Thread

class SmartAlgorithm(BaseAlgorithm):
    def __init__(
        self,
        max_messages: int = 100,
        time_window_hours: int = 24,
        importance_threshold: float = 0.8
    ):
        super().__init__(max_messages=max_messages)
        self.time_window = timedelta(hours=time_window_hours)
        self.importance_threshold = importance_threshold
    
    def get_message_window(self, messages: List[Message]) -> List[Message]:
        """Select messages based on time and importance."""
        now = datetime.now(timezone.utc)
        selected = []
        
        # Always include system messages
        system_messages = [
            msg for msg in messages
            if msg.role == "system"
        ]
        selected.extend(system_messages)
        
        # Select recent important messages
        recent_messages = [
            msg for msg in messages
            if (
                msg.role != "system" and
                now - msg.created_at <= self.time_window and
                self._is_important(msg)
            )
        ]
        selected.extend(recent_messages[-self.max_messages:])
        
        return selected
    
    def process_thread(self, thread: Thread, new_message: Message) -> None:
        """Update thread metadata with message stats."""
        # Count messages by role
        role_counts = {}
        for msg in thread.messages:
            role_counts[msg.role] = role_counts.get(msg.role, 0) + 1
        
        # Update thread metadata
        thread.metadata.update({
            "message_counts": role_counts,
            "last_message": new_message.created_at.isoformat(),
            "has_important": any(
                self._is_important(msg)
                for msg in thread.messages
            )
        })
    
    def _is_important(self, message: Message) -> bool:
        """Check if message is important."""
        # Use metadata if available
        if "importance" in message.metadata:
            return message.metadata["importance"] >= self.importance_threshold
        
        # Simple heuristic: longer messages might be more important
        return len(message.content) > 100

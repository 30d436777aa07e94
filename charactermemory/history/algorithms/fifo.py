"""The newest N messages."""

from __future__ import annotations

from collections.abc import Sequence

from charactermemory.history import validation
from charactermemory.history.algorithms.base import BaseAlgorithm
from charactermemory.history.algorithms.turns import is_instruction, with_request
from charactermemory.history.models import INSTRUCTION_ROLES, Message
from charactermemory.history.sequence import of_roles


class FIFO(BaseAlgorithm):
    """The newest `max_messages` of any role; in a tool loop the user's request takes the oldest one's place."""

    max_messages: int

    def __init__(self, max_messages: int = 100) -> None:
        super().__init__(validation.positive("max_messages", max_messages))

    def get_message_window(self, messages: Sequence[Message]) -> list[Message]:
        """Return the newest messages in stored order."""
        tail = messages[-self.max_messages :]
        return with_request(messages, tail, tail, self.max_messages)


class KeepSystem(FIFO):
    """Every system and developer message, then the newest `max_messages` of the others."""

    def get_message_window(self, messages: Sequence[Message]) -> list[Message]:
        """Return instructions first, then the newest other messages in stored order."""
        instructions = of_roles(messages, INSTRUCTION_ROLES)
        tail = messages[-(self.max_messages + len(instructions)) :]
        others = [message for message in tail if not is_instruction(message)][-self.max_messages :]
        return instructions + with_request(messages, others, tail, self.max_messages)

"""As many of the newest messages as fit a number of tokens."""

from __future__ import annotations

from collections.abc import Sequence

from charactermemory.errors import ValidationError
from charactermemory.history import validation
from charactermemory.history.algorithms.base import BaseAlgorithm
from charactermemory.history.algorithms.turns import is_instruction, last_user
from charactermemory.history.models import INSTRUCTION_ROLES, Message
from charactermemory.history.sequence import of_roles
from charactermemory.history.tokens import TokenCounter, approximate_tokens


class TokenBudget(BaseAlgorithm):
    """The newest messages whose cost by `counter` stays within `max_tokens` less `reserve`.

    `keep_system` keeps every system and developer message, inside the budget; `start_on_user` lets the
    window begin with a user message. Read newest first until the budget is full, so its cost does not grow
    with the thread. A newest message larger than the budget is sent alone, with the instructions, so that
    the API says so rather than the window being silently empty.
    """

    def __init__(
        self,
        max_tokens: int,
        counter: TokenCounter = approximate_tokens,
        *,
        reserve: int = 0,
        keep_system: bool = True,
        start_on_user: bool = True,
    ) -> None:
        super().__init__()
        self.max_tokens = validation.positive("max_tokens", max_tokens)
        self.reserve = validation.not_negative("reserve", reserve)
        if reserve >= max_tokens:
            raise ValidationError(
                field="reserve", problem=f"expected less than max_tokens ({max_tokens}), got {reserve}"
            )
        self.counter = counter
        self.keep_system = keep_system
        self.start_on_user = start_on_user

    def get_message_window(self, messages: Sequence[Message]) -> list[Message]:
        """Return instructions first, then the newest messages that fit, in stored order."""
        instructions = of_roles(messages, INSTRUCTION_ROLES) if self.keep_system else []
        room = self.max_tokens - self.reserve - sum(map(self.counter, instructions))
        tail: list[Message] = []
        for message in reversed(messages):
            if is_instruction(message):
                continue
            cost = self.counter(message)
            if cost > room:
                if not tail:
                    return [*instructions, message]
                break
            tail.append(message)
            room -= cost
        tail.reverse()
        return instructions + (self._started(messages, tail, room) if self.start_on_user else tail)

    def _started(self, messages: Sequence[Message], tail: list[Message], room: int) -> list[Message]:
        start = next((index for index, message in enumerate(tail) if message.role == "user"), None)
        if start is not None:
            return tail[start:]
        user = last_user(messages)
        if user is None:
            return tail
        # A tool loop has pushed the user's request out: its oldest steps make room for it.
        cost = self.counter(user)
        kept = list(tail)
        while cost > room and len(kept) > 1:
            room += self.counter(kept.pop(0))
        return [user, *kept] if cost <= room else tail

"""Windows by age, by importance, and by one algorithm after another."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from charactermemory.clock import Clock, utc_now
from charactermemory.errors import ValidationError
from charactermemory.history import validation
from charactermemory.history.algorithms.base import BaseAlgorithm
from charactermemory.history.algorithms.turns import is_instruction, with_request
from charactermemory.history.bridge import settle
from charactermemory.history.models import INSTRUCTION_ROLES, Message, Thread
from charactermemory.history.recalled import recalled
from charactermemory.history.sequence import created_since, of_roles


class TimeWindow(BaseAlgorithm):
    """System and developer messages, then those not older than `window`, at most `max_messages` of them."""

    def __init__(self, window: timedelta, max_messages: int | None = None, *, clock: Clock = utc_now) -> None:
        super().__init__(max_messages)
        if window <= timedelta(0):
            raise ValidationError(field="window", problem=f"expected a time span above zero, got {window}")
        self.window = window
        self.clock = clock

    def get_message_window(self, messages: Sequence[Message]) -> list[Message]:
        """Return instructions first, then the recent messages in stored order."""
        recent = created_since(messages, self.clock() - self.window)
        tail = [message for message in recent if not is_instruction(message)]
        if self.max_messages is not None:
            tail = tail[-self.max_messages :]
        return of_roles(messages, INSTRUCTION_ROLES) + with_request(messages, tail, messages[-1:])


class Importance(BaseAlgorithm):
    """System and developer messages, then the important ones, at most `max_messages` of them.

    A message's `metadata["importance"]` decides when it is a number (at least `threshold`); otherwise a text
    longer than `min_length` characters counts as important. `window` leaves
    out what is older.
    """

    max_messages: int

    def __init__(
        self,
        threshold: float = 0.8,
        max_messages: int = 100,
        *,
        window: timedelta | None = None,
        min_length: int = 100,
        clock: Clock = utc_now,
    ) -> None:
        super().__init__(validation.positive("max_messages", max_messages))
        self.threshold = threshold
        self.window = window
        self.min_length = validation.not_negative("min_length", min_length)
        self.clock = clock

    def get_message_window(self, messages: Sequence[Message]) -> list[Message]:
        """Return instructions first, then the important messages in stored order."""
        pool = messages if self.window is None else created_since(messages, self.clock() - self.window)
        tail = [message for message in pool if not is_instruction(message) and self.is_important(message)]
        return of_roles(messages, INSTRUCTION_ROLES) + with_request(
            messages, tail[-self.max_messages :], messages[-1:]
        )

    def is_important(self, message: Message) -> bool:
        """Say whether the message is important enough to be kept."""
        importance = message.metadata.get("importance")
        if isinstance(importance, int | float) and not isinstance(importance, bool):
            return importance >= self.threshold
        return len(message.text) > self.min_length


class NotRecalled(BaseAlgorithm):
    """Leaves out what memory tells in this call already; for use after another algorithm, in a `Composite`."""

    def get_message_window(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages whose words the pack does not hold, in the order given."""
        told = recalled().message_ids
        return [message for message in messages if message.id not in told]


class Composite(BaseAlgorithm):
    """One algorithm after another, each choosing from what the one before has left."""

    def __init__(self, *algorithms: BaseAlgorithm) -> None:
        super().__init__()
        if not algorithms:
            raise ValidationError(field="algorithms", problem="name at least one algorithm")
        self.algorithms = algorithms

    def get_message_window(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return what is left after the last algorithm."""
        for algorithm in self.algorithms:
            messages = settle(algorithm.get_message_window(messages))
        return messages

    def process_thread(self, thread: Thread, new_message: Message) -> None:
        """Let every algorithm take note, in order."""
        for algorithm in self.algorithms:
            settle(algorithm.process_thread(thread, new_message))

    @property
    def processes(self) -> bool:
        """Whether any of the algorithms takes note of messages."""
        return any(algorithm.processes for algorithm in self.algorithms)

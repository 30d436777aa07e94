"""The newest messages, and a summary of those before them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from charactermemory.errors import ValidationError
from charactermemory.history import validation
from charactermemory.history.algorithms.base import BaseAlgorithm
from charactermemory.history.algorithms.turns import is_instruction
from charactermemory.history.bridge import settle
from charactermemory.history.models import INSTRUCTION_ROLES, Message
from charactermemory.history.sequence import ThreadMessages, of_roles

logger = logging.getLogger(__name__)

Summariser = Callable[[str | None, list[Message]], str | Awaitable[str]]
"""Takes the summary so far (None at first) and the messages to fold into it; returns the new summary."""

METADATA_KEY = "summary"
"""Where a thread's metadata keeps {"text", "through"}: the summary and the last sequence number it covers."""


class Summarizing(BaseAlgorithm):
    """Instructions, one summary message, and a tail that starts on a user turn.

    When more than `trigger` messages lie after the last summary, all but about the newest `keep` are folded
    into it by `summarise`, a callable of the host's (sync or async). The summary is kept in the thread's
    metadata; stored messages are never changed or removed. When the summariser fails, the failure is logged
    and the window is the tail with the summary there was.
    """

    def __init__(self, summarise: Summariser, *, trigger: int = 40, keep: int = 20) -> None:
        super().__init__()
        self.summarise = summarise
        self.trigger = validation.positive("trigger", trigger)
        self.keep = validation.positive("keep", keep)
        if keep > trigger:
            raise ValidationError(field="keep", problem=f"expected at most trigger ({trigger}), got {keep}")

    def get_message_window(self, messages: Sequence[Message]) -> list[Message]:
        """Return instructions, the summary and the tail, folding first when the tail has grown too long."""
        text, through = _summary_of(messages)
        uncovered = messages.after(through) if isinstance(messages, ThreadMessages) else messages
        rest = [message for message in uncovered if not is_instruction(message)]
        cut = _user_turn(rest, len(rest) - self.keep) if len(rest) > self.trigger else 0
        if cut:
            folded = rest[:cut]
            try:
                text = settle(self.summarise(text, folded))
                through = folded[-1].seq if folded[-1].seq is not None else through
                if isinstance(messages, ThreadMessages) and messages.state is not None:
                    messages.state.keep(METADATA_KEY, {"text": text, "through": through})
            except Exception:
                logger.exception("the summariser failed; the window is the tail without a new summary")
        window = of_roles(messages, INSTRUCTION_ROLES)
        if text is not None:
            window.append(Message(text, "system", metadata={"summary": True, "through": through}))
        return window + rest[cut:]


def _summary_of(messages: Sequence[Message]) -> tuple[str | None, int]:
    if isinstance(messages, ThreadMessages) and messages.state is not None:
        kept = messages.state.metadata.get(METADATA_KEY)
        if isinstance(kept, dict):
            return str(kept["text"]), int(kept["through"])
    return None, -1


def _user_turn(rest: list[Message], cut: int) -> int:
    """Return the place nearest to `cut` where a user turn starts, later ones first."""
    after = (index for index in range(cut, len(rest)) if rest[index].role == "user")
    before = (index for index in range(cut, -1, -1) if rest[index].role == "user")
    return next(after, next(before, cut))

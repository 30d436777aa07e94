"""The transcript port: turns that were said lately and are not remembered yet (decisions "To R17")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from charactermemory.domain.model import Instant, Key, Model, Name, Text


class RecentTurn(Model):
    """One message of a transcript that no observation was made of so far.

    Attributes:
        conversation_id: where it was said; an episode's `source_conversation_id` once it is remembered.
        raw_ref: the message; an observation's `raw_ref` once it is remembered.
        role: who said it, as the chat has it: `user` or `assistant`.
        said_at: when.
        text: its words.
        remembered: always false; it tells readers that nothing vouches for the turn but the transcript.
    """

    conversation_id: Key
    raw_ref: Key
    role: Name
    said_at: Instant
    text: Text
    remembered: Literal[False] = False


class TranscriptSource(Protocol):
    """A store of transcripts that can be searched without a model."""

    def turns(self, topic: str, limit: int) -> Sequence[RecentTurn]:
        """Return up to `limit` recent turns that share words with `topic`, best first.

        Remembered ones may be among them. Whatever is raised makes recall go without.
        """
        ...

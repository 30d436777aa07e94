"""Recall on the same day, without a model: turns of the message store that share words with a topic.

What a talk brings is remembered when its turn ends, or when the host gets to it; until then its words are found
here. Nothing is weighed but words, so recall keeps these turns apart from memories.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import timedelta

from charactermemory.clock import Clock, utc_now
from charactermemory.domain.model import TEXT_LIMIT
from charactermemory.history import Message
from charactermemory.ports.transcript import RecentTurn
from memory_app.chat import rows
from memory_app.chat.words import STOP_WORDS, keys, words
from memory_app.models import ChatMessage

LOOKBACK = timedelta(hours=36)
"""How long a turn stays within reach: the day, and the evening before it."""
SCAN = 500
"""Messages looked through, newest first; a day of talk, and some 15 ms of work."""
TELLING = 5
"""A word tells turns apart while at most one in so many has it; among few turns, while three have it."""
WEAKEST = 0.5
"""The share of the best turn's weight that another one needs."""


class ChatTranscript:
    """A `TranscriptSource` over the threads of one owner, in the database `using`."""

    def __init__(
        self,
        owner: str,
        *,
        lookback: timedelta = LOOKBACK,
        using: str | None = None,
        clock: Clock = utc_now,
    ) -> None:
        self.owner = owner
        self.lookback = lookback
        self.using = using
        self.clock = clock

    def turns(self, topic: str, limit: int) -> list[RecentTurn]:
        """See `TranscriptSource.turns`.

        A word counts more the fewer turns have it, and a turn is found only by a word that few have.
        """
        asked = [keys(word) for word in dict.fromkeys(words(rows.folded(topic))) if word not in STOP_WORDS]
        if not asked:
            return []
        said = self._said()
        hits = [_matched(asked, message) for _, message in said]
        known = Counter(number for hit in hits for number in hit)
        few = max(3, len(said) // TELLING)
        weights = [
            sum(math.log1p(len(said) / known[number]) for number in hit)
            if any(known[number] <= few for number in hit)
            else 0.0
            for hit in hits
        ]
        best = max(weights, default=0.0)
        found = [
            (weight, place) for place, weight in enumerate(weights) if weight and weight >= WEAKEST * best
        ]
        ranked = sorted(found, key=lambda item: (-item[0], item[1]))[:limit]
        return [_turn(*said[place]) for _, place in ranked]

    def _said(self) -> list[tuple[str, Message]]:
        """Return the latest turns, newest first, each with its thread's id."""
        since = rows.to_database(self.clock() - self.lookback)
        found = (
            ChatMessage.objects.using(self.using)
            .filter(
                thread__owner=self.owner,
                thread__updated_at__gte=since,  # few threads, and their index begins with the owner
                created_at__gte=since,
                role__in=("user", "assistant"),
                hidden=False,
            )
            .order_by("-created_at", "-seq")
            .values_list("thread__thread_id", *rows.COLUMNS)[:SCAN]
        )
        return [(row[0], rows.from_row(row[1:])) for row in found]


def _matched(asked: list[set[str]], message: Message) -> set[int]:
    """Return the numbers of the topic's words that a message has."""
    has: set[str] = set()
    for word in set(words(rows.folded(message.text))):
        has |= keys(word)
    return {number for number, forms in enumerate(asked) if not forms.isdisjoint(has)}


def _turn(thread_id: str, message: Message) -> RecentTurn:
    return RecentTurn(
        conversation_id=thread_id,
        raw_ref=message.id,
        role=message.role,
        said_at=message.created_at,
        text=rows.storable_text(message.text)[:TEXT_LIMIT],
    )

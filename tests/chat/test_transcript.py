"""Recall on the same day, out of the message store and without a model."""

from __future__ import annotations

from datetime import timedelta

import pytest

from charactermemory.history import Message
from memory_app.chat.transcript import ChatTranscript
from tests.chat.conftest import START


@pytest.fixture
def now():
    return [START + timedelta(hours=6)]


@pytest.fixture
def transcript(storage, now):
    return ChatTranscript("", using=storage.database, clock=lambda: now[0])


@pytest.fixture
def morning(manager):
    manager.create_thread(thread_id="morning")

    def say(*texts, role="user", thread="morning", **fields):
        at = START + timedelta(minutes=manager.message_count("morning"))
        return manager.add_messages(thread, [Message(text, role, created_at=at, **fields) for text in texts])

    say(
        "The plumber comes at ten.",
        "I should water the tomatoes.",
        "It is a fine day for the garden.",
        "Do you like the sea?",
        "My sister called about the wedding.",
        "She wants us to bring the cake.",
    )
    return say


def found(transcript, topic, limit=10):
    return [turn.text for turn in transcript.turns(topic, limit)]


def test_a_turn_of_the_morning_is_found_by_its_words(transcript, morning):
    (turn,) = transcript.turns("When does the plumber come?", 10)
    assert turn.text == "The plumber comes at ten."
    assert (turn.conversation_id, turn.role, turn.remembered) == ("morning", "user", False)
    assert turn.said_at == START
    assert found(transcript, "Did the plumbers come?")[0] == "The plumber comes at ten."
    assert found(transcript, "WEDDING CAKES") == [
        "She wants us to bring the cake.",
        "My sister called about the wedding.",
    ]
    assert found(transcript, "WEDDING CAKES", limit=1) == ["She wants us to bring the cake."]


def test_what_shares_no_telling_word_is_not_found(transcript, morning):
    assert found(transcript, "What was that about the?") == []
    assert found(transcript, "quantum physics") == []
    assert found(transcript, "?!") == []
    morning(*(f"The sea, the sea, number {number}" for number in range(20)))
    # A word that most turns have tells none of them apart.
    assert found(transcript, "The sea") == []
    assert found(transcript, "the sea and the plumber") == ["The plumber comes at ten."]


def test_only_what_was_said_lately_and_may_be_shown(transcript, morning, manager, now):
    morning("The secret plumber.", hidden=True)
    morning("Be a plumber.", role="system")
    morning("plumber results", role="tool", tool_call_id="c")
    other = manager.scoped("bob")
    other.create_thread(thread_id="his")
    other.add_messages("his", [Message("Bob's plumber", "user", created_at=START)])
    morning("I noted the plumber.", role="assistant")
    assert sorted(found(transcript, "plumber")) == ["I noted the plumber.", "The plumber comes at ten."]
    now[0] = START + timedelta(hours=36)
    assert "The plumber comes at ten." in found(transcript, "plumber")
    now[0] = START + timedelta(hours=36, minutes=1)
    assert found(transcript, "plumber") == ["I noted the plumber."]


def test_parts_and_other_scripts_are_searched(transcript, morning):
    morning([{"type": "text", "text": "Der Schlüssel liegt im Café"}])
    morning("明日は京都へ行きます")
    morning("a \x00 strange zyzzyva")
    assert found(transcript, "schlüssel") == ["Der Schlüssel liegt im Café"]
    assert found(transcript, "京都のホテル") == ["明日は京都へ行きます"]
    assert found(transcript, "zyzzyva") == ["a � strange zyzzyva"]

"""A client with both memories: the talk in its window, and the character's life."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from charactermemory import (
    CharacterMemory,
    DerivedMemoryDraft,
    DerivedType,
    EntityDraft,
    MemoryId,
    MemoryObjectRef,
    ObjectType,
    Participant,
    RememberInput,
    Scene,
    new_id,
)
from charactermemory.adapters.embedding import HashingEmbedding
from charactermemory.errors import ConfigurationError, MissingValue, ValidationError
from charactermemory.history import FIFO, BaseAlgorithm, Composite, MemoryStorage, NotRecalled, recalled
from charactermemory.integrations.openai import (
    exchange_remembered,
    memory_failed,
    said,
    use_thread,
    with_history,
    with_memory,
)
from charactermemory.ports.transcript import RecentTurn
from charactermemory.testing.openai_stub import tool_call
from tests.support.plans import episode, naming, notion, observation, plan, uid

openai = pytest.importorskip("openai")

STABLE, VOLATILE = 'block="stable"', 'block="volatile"'


class Transcript:
    """A transcript source with fixed answers."""

    def __init__(self):
        self.found = []
        self.error = None

    def turns(self, topic, limit):
        if self.error:
            raise self.error
        return self.found[:limit]


@pytest.fixture
def storage():
    return MemoryStorage()


@pytest.fixture
def transcript():
    return Transcript()


@pytest.fixture
def life(tmp_path, transcript) -> Iterator[CharacterMemory]:
    """A memory that lives in this process."""
    settings = {
        "GRAPH_STORE_MODE": "in_memory",
        "VECTOR_STORE_PATH": str(tmp_path / "vectors"),
        "RETRIEVAL_STATS_PATH": str(tmp_path / "statistics.sqlite3"),
        "FENCE_SECRET": "not to be guessed in a test",
    }
    with CharacterMemory.open(
        settings, "ada", embedding_provider=HashingEmbedding(64), transcripts=transcript
    ) as opened:
        yield opened


@pytest.fixture
def companion(client, life):
    return with_memory(client, memory=life)


@pytest.fixture
def talk(companion):
    def say(text, thread="t", **options):
        messages = [{"role": "user", "content": text}] if isinstance(text, str) else text
        return companion.chat.completions.create(
            model="m", messages=messages, **{"thread_id": thread, **options}
        )

    return say


def episodes(memory):
    return sorted(
        (item.object for item in memory.browse.list()[0] if item.ref.object_type is ObjectType.EPISODE),
        key=lambda episode: episode.created_at,
    )


def observations(memory):
    return sorted(
        (item.object for item in memory.browse.list()[0] if item.ref.object_type is ObjectType.OBSERVATION),
        key=lambda item: (item.created_at, item.position),
    )


@pytest.fixture
def failures():
    seen = []

    def receive(sender, **values):
        seen.append(values)

    memory_failed.connect(receive)
    yield seen
    memory_failed.disconnect(receive)


def held_true(life, text):
    """Remember a belief on the host's word."""
    notion = EntityDraft(id=new_id())
    life.remember(
        RememberInput.new("It was settled.")
        .with_entity(notion)
        .with_derived_memory(
            DerivedMemoryDraft(
                derived_type=DerivedType.USER_PREFERENCE,
                text=text,
                entity_ids=[notion.id],
                given_by_application=True,
            )
        )
    )


# --- after the call ----------------------------------------------------------------------------------


def test_a_turn_becomes_an_episode_that_points_at_the_stored_messages(talk, stub, life, manager):
    stub.say("What a fine name.")
    talk("My cat is called Miso.")

    stored = manager.get_messages("t")
    (episode,) = episodes(life)
    assert episode.source_conversation_id == "t"
    assert episode.raw_ref == stored[0].id
    assert [(item.text, item.raw_ref, item.position) for item in observations(life)] == [
        ("My cat is called Miso.", stored[0].id, 0),
        ("What a fine name.", stored[1].id, 1),
    ]
    assert {item.episode_id for item in observations(life)} == {episode.id}
    assert len(stub.requests) == 1  # no model was asked to decide


def test_what_was_told_comes_up_in_another_talk(talk, stub):
    talk("My cat is called Miso.", "monday")
    talk("Do you remember the name of my cat?", "tuesday")

    messages = stub.bodies[-1]["messages"]
    assert [message["role"] for message in messages] == ["system", "user"]
    assert VOLATILE in messages[0]["content"]
    assert "My cat is called Miso." in messages[0]["content"]
    assert messages[-1]["content"] == "Do you remember the name of my cat?"


def test_a_turn_with_tools_is_one_episode_remembered_at_its_end(talk, stub, life, manager):
    stub.call(tool_call("c1", "look"))
    talk("What is the weather in Rome?")
    assert episodes(life) == []
    stub.call(tool_call("c2", "look"))
    talk([{"role": "tool", "tool_call_id": "c1", "content": "ask again"}])
    assert episodes(life) == []
    stub.say("It rains in Rome.")
    talk([{"role": "tool", "tool_call_id": "c2", "content": "rain"}])

    (episode,) = episodes(life)
    stored = manager.get_messages("t")
    assert [(item.text, item.raw_ref) for item in observations(life)] == [
        ("What is the weather in Rome?", stored[0].id),
        ("It rains in Rome.", stored[-1].id),
    ]
    assert episode.raw_ref == stored[0].id
    stub.say("Gladly.")
    talk("Thank you for looking.")
    assert [item.text for item in observations(life)][2:] == ["Thank you for looking.", "Gladly."]


def test_the_host_chooses_what_when_and_who(client, stub, life, manager):
    user, character = EntityDraft(id=new_id()), EntityDraft(id=new_id())
    life.remember(RememberInput.new("We met.").with_entity(user).with_entity(character))
    before = len(episodes(life))
    jobs = []
    with_memory(
        client,
        memory=life,
        remember=lambda turn: [m for m in said(turn) if not m.metadata.get("private")],
        speakers={"user": user.id, "assistant": character.id},
        later=jobs.append,
    )
    create = client.chat.completions.create
    for text, metadata in (("I moved to Oslo.", {}), ("My pin is 1234.", {"private": True})):
        create(
            model="m",
            messages=[{"role": "user", "content": text}],
            thread_id="t",
            message_metadata=metadata,
        )
    assert len(episodes(life)) == before
    for job in jobs:
        job()
    jobs[0]()  # remembering a turn again changes nothing
    assert len(episodes(life)) == before + 1
    new = [item for item in observations(life) if item.text != "We met."]
    assert [(item.text, item.speaker_entity_id) for item in new] == [
        ("I moved to Oslo.", user.id),
        ("ok", character.id),
    ]


def test_what_says_nothing_is_left_out_whoever_chose_it(client, stub, life, failures):
    with_memory(client, memory=life, remember=lambda turn: turn.messages)
    stub.say(" \n")
    ask = {"model": "m", "thread_id": "t"}
    client.chat.completions.create(messages=[{"role": "user", "content": "Good night."}], **ask)
    stub.say("\u200b")
    client.chat.completions.create(messages=[{"role": "user", "content": "\u200b\ufeff"}], **ask)
    assert [item.text for item in observations(life)] == ["Good night."]
    assert (len(episodes(life)), failures) == (1, [])


def test_the_host_adds_what_it_makes_of_a_turn(client, life, failures):
    home = EntityDraft(id=new_id())

    def enrich(turn, data):
        assert turn.thread_id == "t"
        return data.with_entity(home).with_derived_memory(
            DerivedMemoryDraft(
                derived_type=DerivedType.CLAIM, text="They live in Oslo.", entity_ids=[home.id]
            )
        )

    seen = []

    def remembered(sender, exchange, outcome):
        seen.append((exchange, outcome))

    exchange_remembered.connect(remembered)
    with_memory(client, memory=life, enrich=enrich)
    client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "I moved to Oslo."}], thread_id="t"
    )
    exchange_remembered.disconnect(remembered)
    ((_, outcome),) = seen
    derived = [ref for ref in outcome.persisted_object_ids if ref.object_type is ObjectType.DERIVED_MEMORY]
    memory = life.browse.get(*derived)[derived[0]].object
    assert memory.text == "They live in Oslo."
    assert set(memory.derived_from_observation_ids) == {item.id for item in observations(life)}
    assert failures == []


def raising(turn, data):
    raise RuntimeError("no idea")


def returning_none(turn, data):
    return None


def naming_nobody(turn, data):
    return data.replace(entity_ids=[MemoryId(int=5)])


@pytest.mark.parametrize("enrich", [raising, returning_none, naming_nobody])
def test_a_turn_is_remembered_though_the_host_fails_to_add(client, life, failures, enrich):
    with_memory(client, memory=life, enrich=enrich)
    client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "I moved to Oslo."}], thread_id="t"
    )
    assert [item.text for item in observations(life)] == ["I moved to Oslo.", "ok"]
    assert [failure["stage"] for failure in failures] == ["enrich"]


def test_hidden_answers_and_failed_calls_are_not_remembered(companion, talk, stub, life):
    from charactermemory.testing.openai_stub import Reply

    stub.queue(Reply(text="one", more=["two"]))
    talk("Say a number.", n=2)
    assert [item.text for item in observations(life)] == ["Say a number.", "one"]
    stub.queue(Reply(status=500))
    with pytest.raises(openai.APIError):
        talk("Are you there?")
    assert len(episodes(life)) == 1


def test_streams_are_remembered_when_they_end(talk, stub, life):
    stub.say("Far and wide.")
    for _ in talk("Where shall we go?", stream=True):
        assert episodes(life) == []
    assert [item.text for item in observations(life)] == ["Where shall we go?", "Far and wide."]


# --- before the call ---------------------------------------------------------------------------------


def test_blocks_stand_where_a_prompt_cache_keeps_serving(talk, stub, life):
    held_true(life, "They love jasmine tea.")
    for number in range(3):
        talk(
            [
                {"role": "system", "content": "Be kind."},
                {"role": "user", "content": f"tea again, cup {number}"},
            ]
        )

    bodies = [body["messages"] for body in stub.bodies]
    for messages in bodies:
        assert messages[0] == {"role": "system", "content": "Be kind."}
        assert STABLE in messages[1]["content"]
        assert "jasmine tea" in messages[1]["content"]
        assert messages[1] == bodies[0][1]
        assert messages[-1]["role"] == "user"
    # What a request shares with the one before it: everything up to that one's volatile block.
    for earlier, later in zip(bodies, bodies[1:], strict=False):
        volatile = next((i for i, m in enumerate(earlier) if VOLATILE in m["content"]), len(earlier) - 1)
        assert later[:volatile] == earlier[:volatile]
        assert later[volatile] == earlier[-1]


def test_blocks_are_never_stored(talk, manager, life):
    held_true(life, "They love jasmine tea.")
    talk("tea?")
    assert [message.content for message in manager.get_messages("t")] == ["tea?", "ok"]


def test_a_tool_pair_is_not_parted_and_the_turn_stays_the_topic(talk, stub, life):
    talk("My sister plays the cello.", "earlier")
    stub.call(tool_call("c1", "look"))
    talk("When does my sister play the cello?")
    talk([{"role": "tool", "tool_call_id": "c1", "content": "at eight"}])

    messages = stub.bodies[-1]["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool"]
    assert "My sister plays the cello." in messages[0]["content"]
    assert stub.bodies[-2]["messages"][0] == messages[0]


def test_the_talk_in_progress_is_told_once(talk, stub, manager):
    talk("My cat is called Miso.")
    talk("What is my cat called?")
    request = stub.bodies[-1]["messages"]
    assert sum("My cat is called Miso." in message["content"] for message in request) == 1
    assert request[0] == {"role": "user", "content": "My cat is called Miso."}

    manager.algorithm = FIFO(1)
    talk("Tell me once more what my cat is called.")
    request = stub.bodies[-1]["messages"]
    told = [message["content"] for message in request if "My cat is called Miso." in message["content"]]
    assert len(told) == 1
    line = next(line for line in told[0].splitlines() if "Miso" in line)
    assert "earlier in this conversation" in line


def test_a_window_may_leave_out_what_memory_tells(talk, stub, manager):
    seen = []

    class Looking(BaseAlgorithm):
        def get_message_window(self, messages):
            seen.append(recalled())
            return messages[-10:]

    manager.algorithm = Composite(Looking(), NotRecalled())
    talk("My cat is called Miso.")
    talk("What is my cat called?")

    first = manager.get_messages("t")[0]
    assert first.id in seen[-1].message_ids
    assert any(item.raw_ref == first.id for item in seen[-1].pack.salient_observations)
    request = stub.bodies[-1]["messages"]
    told = [message for message in request if "My cat is called Miso." in message["content"]]
    assert len(told) == 1
    assert VOLATILE in told[0]["content"]
    assert recalled().pack is None


def test_the_scene_is_that_of_the_call_or_of_the_host(client, life, manager):
    ann = EntityDraft(id=new_id())
    life.remember(RememberInput.new("We met.").with_entity(ann))
    now = life.stores.clock()
    with_memory(
        client, memory=life, scene=lambda thread: Scene.at(now, Participant(key=ann.id), words=thread)
    )
    create = client.chat.completions.create
    message = [{"role": "user", "content": "hello"}]
    create(model="m", messages=message, thread_id="kitchen")
    create(model="m", messages=message, thread_id="t", scene=Scene.at(now + timedelta(1), words="garden"))
    scenes = [episode.scene for episode in episodes(life) if episode.source_conversation_id]
    assert {scene.setting.words for scene in scenes} == {"kitchen", "garden"}
    assert {scene.participant_keys for scene in scenes} == {(ann.id,), ()}
    with pytest.raises(ValidationError, match="scene"):
        create(model="m", messages=message, thread_id="t", scene="the garden")


def test_a_prompt_tells_who_is_there_from_a_namesake(client, stub, life):
    cat, visitor = 1, 2
    said = observation(3, 9, "I sleep in the kitchen.", speaker_entity_id=uid(cat))
    people = [item for who in (cat, visitor) for item in (notion(who), naming(who + 4, who, "Miso"))]
    life.commit(plan(episode(9), said, *people))
    with_memory(client, memory=life, scene=Scene.at(life.stores.clock(), Participant(key=uid(visitor))))
    message = [{"role": "user", "content": "Who sleeps in the kitchen?"}]
    client.chat.completions.create(model="m", messages=message, thread_id="t")
    told = "".join(sent["content"] for sent in stub.bodies[-1]["messages"])
    assert "another Miso: I sleep in the kitchen." in told


def test_a_budget_and_a_role_are_kept(client, stub, life):
    held_true(life, "They love jasmine tea.")
    ask = {"model": "m", "messages": [{"role": "user", "content": "tea?"}], "thread_id": "t"}
    with_memory(client, memory=life, budget=0)
    client.chat.completions.create(**ask)
    assert [message["role"] for message in stub.bodies[-1]["messages"]] == ["user"]
    with_memory(client, memory=life, role="user", style="xml")
    client.chat.completions.create(**ask)
    assert {message["role"] for message in stub.bodies[-1]["messages"]} == {"user", "assistant"}
    assert "<preferences>" in stub.bodies[-1]["messages"][0]["content"]


# --- recent turns ------------------------------------------------------------------------------------


def recent(text, ref, conversation="morning"):
    return RecentTurn(
        conversation_id=conversation,
        raw_ref=ref,
        role="user",
        said_at=datetime(2026, 1, 1, 8, tzinfo=UTC),
        text=text,
    )


def test_recent_turns_stand_apart_until_they_are_remembered(life, transcript, caplog):
    transcript.found = [recent("The plumber comes at ten.", "m1"), recent("The plumber is dear.", "m2")]
    pack = life.retrieve("When does the plumber come?").pack
    assert [(turn.text, turn.remembered) for turn in pack.recent_turns] == [
        ("The plumber comes at ten.", False),
        ("The plumber is dear.", False),
    ]
    assert pack.admissions == ()
    text = life.render(pack).volatile
    assert "not yet remembered" in text
    assert "The plumber comes at ten." in text
    small = life.render(pack, budget=life.render(pack).tokens - 1)
    assert "at ten" in small.volatile
    assert "is dear" not in small.volatile

    life.remember(RememberInput(content="The plumber comes at ten.", raw_refs=["m1"]))
    pack = life.retrieve("When does the plumber come?").pack
    assert [turn.raw_ref for turn in pack.recent_turns] == ["m2"]
    assert [item.raw_ref for item in pack.salient_observations] == ["m1"]

    transcript.error = RuntimeError("gone")
    assert life.retrieve("When does the plumber come?").pack.recent_turns == ()
    assert "transcript source failed" in caplog.text


def test_a_forgotten_turn_does_not_come_back_from_the_transcript(life, transcript):
    from charactermemory import ForgetMemoryDraft

    transcript.found = [recent("My secret is blue.", "m1")]
    life.remember(RememberInput(content="My secret is blue.", raw_refs=["m1"]))
    (item,) = observations(life)
    life.forget(
        ForgetMemoryDraft(
            targets=[MemoryObjectRef.of(ObjectType.EPISODE, item.episode_id)], rationale="asked for"
        )
    )
    pack = life.retrieve("What is my secret?").pack
    assert pack.recent_turns == ()
    assert pack.salient_observations == ()


def test_a_recent_turn_of_the_window_is_not_told_twice(talk, stub, transcript, manager):
    talk("My cat is called Miso.")
    ref = manager.get_messages("t")[0].id
    transcript.found = [recent("My cat is called Miso.", ref, "t"), recent("The cat sleeps.", "other")]
    talk("What of my cat?")
    request = "\n".join(message["content"] for message in stub.bodies[-1]["messages"])
    assert request.count("My cat is called Miso.") == 1
    assert request.count("The cat sleeps.") == 1


# --- failing and wrapping ----------------------------------------------------------------------------


def test_a_memory_that_fails_loses_neither_call_nor_answer(companion, talk, stub, life, failures, manager):
    stub.say("Still here.")
    life.close()
    answer = talk("Are you there?")
    assert answer.choices[0].message.content == "Still here."
    assert stub.bodies[-1]["messages"] == [{"role": "user", "content": "Are you there?"}]
    assert [failure["stage"] for failure in failures] == ["recall", "remember"]
    assert {failure["thread_id"] for failure in failures} == {"t"}
    assert manager.message_count("t") == 2


def test_a_later_that_fails_loses_nothing(client, life, failures):
    def refuse(job):
        raise RuntimeError("full")

    with_memory(client, memory=life, later=refuse)
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert [failure["stage"] for failure in failures] == ["remember"]


def test_a_turn_that_is_not_stored_is_not_remembered(talk, life, manager, monkeypatch):
    monkeypatch.setattr(type(manager.storage), "writing", lambda *_: 1 / 0)
    assert talk("hi").choices[0].message.content == "ok"
    assert episodes(life) == []


def test_wrapping_says_what_is_missing(bare_client, client, tmp_path, life):
    with pytest.raises(ConfigurationError, match="with_history first"):
        with_memory(bare_client.copy(), memory=life)
    with pytest.raises(ValueError, match="budget"):
        with_memory(client, memory=life, budget=-1)
    settings = {
        "GRAPH_STORE_MODE": "in_memory",
        "VECTOR_STORE_PATH": str(tmp_path / "bare-vectors"),
        "RETRIEVAL_STATS_PATH": str(tmp_path / "bare.sqlite3"),
    }
    with (
        CharacterMemory.open(settings, "bare", embedding_provider=HashingEmbedding(64)) as bare,
        pytest.raises(MissingValue, match="FENCE_SECRET"),
    ):
        with_memory(client, memory=bare)
    with pytest.raises(ValidationError, match="with_memory"):
        client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": "hi"}],
            scene=Scene(time=life.stores.clock()),
        )


def test_wrapping_again_and_copies_remember_once(make_client, manager, life, stub):
    shared = with_history(history_manager=manager)
    client, plain = shared(make_client()), shared(make_client())
    with_memory(with_memory(client, memory=life), memory=life)
    shared(client)  # a new history keeps the memory
    ask = {"model": "m", "messages": [{"role": "user", "content": "hello there"}]}
    client.with_options(timeout=5).chat.completions.create(**ask)
    assert len(episodes(life)) == 1
    plain.chat.completions.create(**ask)
    assert len(episodes(life)) == 1


def test_the_responses_api_remembers_and_recalls(companion, stub, life):
    create = companion.responses.create
    with use_thread("monday"):
        create(model="m", input="My cat is called Miso.")
    with use_thread("tuesday"):
        create(model="m", input="What is my cat called?")
        create(model="m", input="And my cat?", previous_response_id="r", instructions="Be kind.")
    first, second, third = stub.bodies
    assert first["input"] == [{"role": "user", "content": "My cat is called Miso."}]
    assert [item["role"] for item in second["input"]] == ["system", "user"]
    assert "Miso" in second["input"][0]["content"]
    # The API holds that conversation; what it does not keep are instructions.
    assert third["input"] == "And my cat?"
    assert third["instructions"].startswith("Be kind.\n\n")
    assert "Miso" in third["instructions"]
    assert len(episodes(life)) == 3


def test_async_clients_remember_and_recall(stub, manager, life, failures):
    async def enrich(turn, data):
        await asyncio.sleep(0)
        return data.replace(episode=data.episode.replace(salience_score=0.9))

    async def run():
        async with openai.AsyncOpenAI(base_url=stub.url, api_key="any", max_retries=0) as bare:
            client = with_memory(with_history(history_manager=manager)(bare), memory=life, enrich=enrich)
            create = client.chat.completions.create
            await create(
                model="m", messages=[{"role": "user", "content": "My cat is called Miso."}], thread_id="a"
            )
            stream = await create(
                model="m",
                messages=[{"role": "user", "content": "What is my cat called?"}],
                thread_id="b",
                stream=True,
            )
            async for _ in stream:
                pass
            await asyncio.gather(
                *(
                    create(model="m", messages=[{"role": "user", "content": f"hi {n}"}], thread_id="c")
                    for n in range(4)
                )
            )

    asyncio.run(run())
    assert "Miso" in stub.bodies[1]["messages"][0]["content"]
    assert failures == []
    found = episodes(life)
    assert len(found) == 6
    assert {episode.salience_score for episode in found} == {0.9}
    assert sum(episode.source_conversation_id == "c" for episode in found) == 4

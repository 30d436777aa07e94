"""Living the sample life: once, whole, and taken up again where it was interrupted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from charactermemory import CharacterMemory, DerivedMemory, Stored
from charactermemory.errors import DeterministicIdCollision
from memory_app.models import ApiKey
from memory_app.presentation import recollect
from memory_app.quickstart.asking import SHOWN, SHOWN_OF_SECTION, SHOWN_SUPERSEDED, context_of, essence
from memory_app.quickstart.living import LifeClock, live
from memory_app.quickstart.plans import LifePlans, id_of
from memory_app.runtime import open_memory
from memory_app.sample.life import Question, SampleLife
from memory_app.sample.loader import load_life
from tests.quickstart.conftest import mapping


def names(life: SampleLife) -> dict[object, str]:
    plans = LifePlans(life)
    return {plans.ref(key): key for key in life.object_types}


def stored(memory: CharacterMemory, life: SampleLife, key: str) -> Stored:
    ref = LifePlans(life).ref(key)
    return memory.browse.get(ref)[ref]


def test_plans_are_the_same_byte_for_byte_and_ids_fixed_for_ever(life: SampleLife) -> None:
    first = [LifePlans(life).session(session).to_json() for session in life.sessions]
    assert first == [LifePlans(life).session(session).to_json() for session in life.sessions]
    assert str(id_of("person:mees")) == "7ca6458b-5a95-5e73-8363-2fd542733f6a"


def test_everything_of_the_life_is_stored_with_its_own_times(
    lived: CharacterMemory, life: SampleLife
) -> None:
    plans = LifePlans(life)
    found = lived.browse.get(*map(plans.ref, life.object_types))
    assert found.keys() == {plans.ref(key) for key in life.object_types}
    for session in life.sessions:
        turns = [found[plans.ref(key)].object for key in session.turn_keys]
        assert [turn.position for turn in turns] == list(range(len(turns)))
        assert [turn.text for turn in turns] == [turn.text for turn in session.turns]
        assert {item.created_at for item in turns} == {session.time}
        for correction in session.corrections:
            held = found[plans.ref(correction.replacement.key)].object
            assert isinstance(held, DerivedMemory)
            assert held.created_at == session.time and held.supersedes == (id_of(correction.target),)


def test_nothing_is_owed_and_the_stores_agree(lived: CharacterMemory) -> None:
    report = lived.upkeep.verify()
    assert report.differences == 0 and report.points > 100


def test_living_again_looks_first_and_writes_nothing(lived: CharacterMemory, life: SampleLife) -> None:
    head = lived.stores.graph.head()
    again = live(lived, life, LifeClock(life.beginning.time))
    assert again.nothing and again.turns == 0
    assert lived.stores.graph.head() == head


def test_without_looking_first_a_replay_of_what_was_forgotten_would_be_refused(
    lived: CharacterMemory, life: SampleLife
) -> None:
    (session,) = [session for session in life.sessions if session.key == "session:car-park"]
    with pytest.raises(DeterministicIdCollision):
        lived.commit(LifePlans(life).session(session))


@pytest.mark.parametrize("last", ["session:car-park", "session:let-go", "session:the-call"])
def test_an_interrupted_life_is_taken_up_where_it_ended(life: SampleLife, tmp_path: Path, last: str) -> None:
    """Also between a session and the correction or forgetting that belongs to it."""
    keys = [session.key for session in life.sessions]
    lived = life.sessions[: keys.index(last) + 1]
    cut = lived[-1].model_copy(update={"corrections": (), "forgettings": ()})
    begun = life.model_copy(update={"sessions": (*lived[:-1], cut), "questions": ()})
    clock = LifeClock(life.beginning.time)
    with CharacterMemory.open(mapping(tmp_path, "hashing"), "mees", clock=clock) as memory:
        live(memory, begun, clock)
        rest = live(memory, life, clock)
        assert rest.sessions == len(life.sessions) - len(lived)
        assert rest.corrections == 1
        assert rest.forgettings == (0 if keys.index(last) > keys.index("session:let-go") else 1)
        assert stored(memory, life, "session:car-park").suppressed
        assert stored(memory, life, "belief:bram-left").superseded
        assert memory.upkeep.verify().differences == 0


each_question = pytest.mark.parametrize("question", load_life().questions, ids=lambda question: question.key)


@each_question
def test_each_question_shows_what_it_promises(
    lived: CharacterMemory, life: SampleLife, question: Question
) -> None:
    key_of = names(life)
    outcome = lived.retrieve(context_of(question))
    admitted = {key_of[item.object] for item in outcome.pack.admissions}
    reasons = {
        key_of[item.object]: item.reason.value for item in outcome.rationale.lifecycle_filter_decisions
    }
    assert admitted >= set(question.found)
    assert [reasons.get(key) for key in question.superseded] == ["superseded_omitted"] * len(
        question.superseded
    )
    assert [reasons.get(key) for key in question.suppressed] == ["suppressed_omitted"] * len(
        question.suppressed
    )
    assert not outcome.rationale.degraded
    for word in question.absent:
        assert word.lower() not in outcome.pack.to_json().lower()


@each_question
def test_what_a_screen_shows_of_an_answer_holds_the_point_of_it(
    lived: CharacterMemory, life: SampleLife, question: Question
) -> None:
    key_of = names(life)
    whole = recollect(lived, lived.retrieve(context_of(question)))
    shown = essence(whole)
    assert len(shown.entries) <= SHOWN and len(shown.replaced) <= SHOWN_SUPERSEDED
    assert max(Counter(entry.section for entry in shown.entries).values()) <= SHOWN_OF_SECTION
    assert {key_of[entry.ref] for entry in shown.entries} >= set(question.found)
    assert {key_of[old.ref] for old in shown.replaced} >= set(question.superseded)
    assert (shown.admitted, shown.superseded) == (len(whole.entries), len(whole.replaced))


def test_without_serving_it_ends_after_the_answers(
    lived: CharacterMemory, settings: Any, db: None, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.CHARACTER_MEMORY = {
        "OXIGRAPH_PATH": str(lived.settings.oxigraph_path),
        "VECTOR_STORE_PATH": str(lived.settings.vector_store_path),
        "RETRIEVAL_STATS_PATH": str(lived.settings.retrieval_stats_path),
        "STATISTICS": "core",
    }
    call_command("quickstart", "--no-serve", "--collection", lived.collection)
    told = capsys.readouterr().out
    assert "nothing was imported" in told and "Serving" not in told
    assert f"--collection {lived.collection}" in told.partition("Go on:")[2]
    assert not ApiKey.objects.exists()


def test_the_life_is_not_lived_in_a_memory_of_somebody_elses(settings: Any, db: None, tmp_path: Path) -> None:
    settings.CHARACTER_MEMORY = mapping(tmp_path)
    with open_memory("ada") as memory:
        memory.remember("Ada planted tomatoes.")
        before = memory.stores.graph.head()
    with pytest.raises(CommandError, match="'ada' holds a memory already.*--collection"):
        call_command("quickstart", "--no-serve", "--collection", "ada")
    with open_memory("ada") as memory:
        assert memory.stores.graph.head() == before

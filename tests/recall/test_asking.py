"""A turn that only asks comes after what matches as well (docs/recall-tuning.md)."""

import pytest

from charactermemory.domain.objects import Observation
from charactermemory.recall import SectionLimits, reading
from charactermemory.recall.asking import ASKING, asks
from charactermemory.recall.sections import Section
from charactermemory.testing.builders import belief, episode, observation
from tests.recall.test_ranking import recomputed, scores_of
from tests.recall.test_reads import MAX_GRAPH_ROUND_TRIPS
from tests.recall.world import World, refs, refs_in


@pytest.mark.parametrize(
    "text",
    [
        "Where is the key?",
        "It is lost. Where is it ?! ",
        "He said: \u201cWhere is it?\u201d \U0001f914",
        "\u00bfD\u00f3nde est\u00e1?",
        "\u3069\u3053\uff1f",
        "\u0623\u064a\u0646\u061f",
        "\u03c0\u03bf\u03cd \u03b5\u03af\u03bd\u03b1\u03b9\u037e",
        "\u03c0\u03bf\u03cd \u03b5\u03af\u03bd\u03b1\u03b9;\u00bb",
        "Where is it\u2048",
        "Where is it\u203d",
    ],
)
def test_a_question_is_known_by_its_end_in_any_script(text: str) -> None:
    assert asks(text)


@pytest.mark.parametrize(
    "text",
    [
        "Where is it? On the table.",
        "It is there.",
        "\u00bf qu\u00e9 s\u00e9 yo",
        "...",
        "? no",
        "",
        "there;",
        "\u03b5\u03b4\u03ce; ok",
    ],
)
def test_what_goes_on_after_a_question_is_none(text: str) -> None:
    assert not asks(text)


def said(world: World, *texts: str) -> list[Observation]:
    """Store turns, each said on an occasion of its own."""
    days = [episode() for _ in texts]
    turns = [observation(day, text=text) for day, text in zip(days, texts, strict=True)]
    world.store(*days, *turns)
    return turns


def test_the_answer_comes_before_a_question_that_matches_a_little_more(world: World) -> None:
    question, answer = said(world, "Do you like tea?", "I like tea.")
    world.vectors.script(dense=[(question, 0.6), (answer, 0.5)])

    outcome = world.retrieve()

    assert refs_in(outcome, Section.SALIENT_OBSERVATIONS) == refs([answer, question])
    scores = scores_of(outcome, question)
    assert scores.asking_score == -ASKING
    assert scores.final_score == pytest.approx(recomputed(scores), abs=1e-9)
    assert scores_of(outcome, answer).asking_score is None


def test_a_question_that_matches_much_more_stays_before_it(world: World) -> None:
    question, answer = said(world, "Do you like tea?", "I like coffee.")
    world.vectors.script(dense=[(question, 0.6), (answer, 0.6 - 1.1 * ASKING)])

    assert refs_in(world.retrieve(), Section.SALIENT_OBSERVATIONS) == refs([question, answer])


def test_what_is_held_may_be_a_question(world: World) -> None:
    (turn,) = said(world, "I wonder about tea.")
    held = belief(turn, text="Does he like tea?")
    world.store(held)
    world.vectors.script(dense=[(held, 0.6)])

    assert scores_of(world.retrieve(), held).asking_score is None


@pytest.mark.parametrize(("questions", "reads"), [(2, 1), (10, 2)])
def test_it_is_as_if_every_turn_had_been_read(
    world: World, monkeypatch: pytest.MonkeyPatch, questions: int, reads: int
) -> None:
    day = episode()
    found = observation(day, 0, text="Tea.")
    asked = [observation(day, 1 + n, text="Tea?", salience_score=1.0) for n in range(questions)]
    told = [observation(day, 11 + n, text="Tea.", salience_score=0.9 - n / 10) for n in range(4)]
    world.store(day, found, *asked, *told)
    world.vectors.script(dense=[(found, 0.9)])
    limits = SectionLimits(salient_observations=5)
    usual = world.retrieve(section_limits=limits)
    # Of few objects all are read at once; now only those that may get into the pack are, if that is enough.
    monkeypatch.setattr(reading, "FEW", 0)
    world.clear_calls()

    outcome = world.retrieve(section_limits=limits, include_trace=False)

    assert outcome.pack == usual.pack
    beside = asked[:2]
    assert refs_in(outcome, Section.SALIENT_OBSERVATIONS) == refs([found, *beside, *told[:2]])
    assert sum(call.name == "read" for call in world.graph.calls) == reads
    assert len(world.graph.calls) <= MAX_GRAPH_ROUND_TRIPS


@pytest.mark.parametrize(("questions", "reads"), [(4, 1), (5, 2)])
def test_a_few_questions_that_give_way_take_no_second_read(
    world: World, monkeypatch: pytest.MonkeyPatch, questions: int, reads: int
) -> None:
    day = episode()
    found = observation(day, 0, text="Tea.")
    asked = [observation(day, 11 + n, text="Tea?", salience_score=1.0) for n in range(questions)]
    told = [observation(day, 31 + n, text=f"Tea {n}.", salience_score=0.9 - n / 100) for n in range(9)]
    world.store(day, found, *asked, *told)
    world.vectors.script(dense=[(found, 0.9)])
    monkeypatch.setattr(reading, "FEW", 0)
    world.clear_calls()

    outcome = world.retrieve(section_limits=SectionLimits(salient_observations=5), include_trace=False)

    assert refs_in(outcome, Section.SALIENT_OBSERVATIONS) == refs([found, *told[:4]])
    assert sum(call.name == "read" for call in world.graph.calls) == reads


def test_a_question_alone_is_shown_however_faint(world: World) -> None:
    (question,) = said(world, "Tea?")
    world.vectors.script(dense=[(question, 0.01)])

    assert question.ref in refs_in(world.retrieve())

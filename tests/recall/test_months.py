"""A topic that names a month is about what happened then (docs/recall-tuning.md)."""

from datetime import UTC, datetime
from typing import get_args

import pytest

from charactermemory.config.settings import Language
from charactermemory.domain.scene import Scene
from charactermemory.recall import RecallKnobs, reading
from charactermemory.recall.months import DATED, MONTHS, Month, happened_in, months_in
from charactermemory.testing.builders import belief, episode, notion, observation
from tests.recall.test_ranking import recomputed, scores_of
from tests.recall.world import World, refs_in


@pytest.mark.parametrize(
    ("text", "language", "months"),
    [
        ("What did we do in May?", "english", {Month(5)}),
        ("what happened in june", "english", {Month(6)}),
        ("Who came on May 3, 2023?", "english", {Month(5, 2023)}),
        ("Who came on 3 June, 2023?", "english", {Month(6, 2023)}),
        ("From May to July 2021", "english", {Month(5, 2021), Month(7, 2021)}),
        ("June, and long after it came 2021", "english", {Month(6)}),
        ("What about May, and then in 2021?", "english", {Month(5)}),
        ("March 2020", "english", {Month(3, 2020)}),
        ("May I ask you something?", "english", set()),
        ("Hello. May I come in?", "english", set()),
        ("You may march on, august one", "english", set()),
        ("Mayday, Marching", "english", set()),
        ("What was on 2023-05-14, and in 2022-11?", "english", {Month(5, 2023), Month(11, 2022)}),
        ("What was on 2023-05-14?", "japanese", {Month(5, 2023)}),
        ("2023年5月に何をしましたか", "japanese", {Month(5, 2023)}),
        ("我们5月3日去了哪里?12月呢?", "chinese", {Month(5), Month(12)}),
        ("2022년 11월에 뭐 했어?", "english", {Month(11, 2022)}),
        ("13月、3ヶ月、3か月、5月間、3个月、月曜日", "japanese", set()),
        ("Call 555-2023-05-14-1 or 2023-13", "english", set()),
        ("Was geschah im März 2023?", "german", {Month(3, 2023)}),
        ("Qu'a-t-on fait en Août ?", "french", {Month(8)}),
        ("¿Qué hicimos el 3 de mayo de 2023?", "spanish", {Month(5, 2023)}),
        ("What happened in May?", "german", set()),
        ("What happened in May?", "turkish", set()),
        ("Where were we in mid-May?", "english", {Month(5)}),
        ("In APR\u0130L, apr\u0131l or \u017feptember", "english", {Month(9)}),
        ("en aou\u0302t", "french", {Month(8)}),
        ("\uff12\uff10\uff12\uff13年\uff15月", "japanese", {Month(5, 2023)}),
        ("2023 年 5 月", "chinese", {Month(5, 2023)}),
        ("毎月第3月曜日、3월요일", "japanese", set()),
        ("From December 2022 to January 2023", "english", {Month(12, 2022), Month(1, 2023)}),
        ("", "english", set()),
    ],
)
def test_months_are_read_in_the_language_of_the_collection(
    text: str, language: str, months: set[Month]
) -> None:
    assert months_in(text, language) == months


def test_each_language_has_twelve_names_and_is_one_of_the_settings() -> None:
    assert set(MONTHS) <= set(get_args(Language))
    assert {len(set(names.split())) for names in MONTHS.values()} == {12}


def test_a_month_without_a_year_is_that_of_every_year() -> None:
    when = datetime(2023, 5, 31, 23, 59, tzinfo=UTC).timestamp()

    assert happened_in({Month(5)}, when)
    assert happened_in({Month(5, 2023)}, when)
    assert not happened_in({Month(5, 2022), Month(6)}, when)
    assert happened_in({Month(1)}, datetime.min.replace(tzinfo=UTC).timestamp())
    assert not happened_in({Month(12, 9999)}, datetime.max.replace(tzinfo=UTC).timestamp()), "rounded"
    assert not happened_in({Month(1)}, 0), "what has no time did not happen in January 1970"


def lived(month: int, **fields: object) -> list:
    """An occasion in a month of 2023, and the one turn of it."""
    day = episode(scene=Scene.at(datetime(2023, month, 14, tzinfo=UTC)), salience_score=0.0)
    return [day, observation(day, **fields)]


def test_what_happened_then_comes_before_what_matches_more(world: World) -> None:
    (june, later), (may, then) = lived(6), lived(5)
    world.store(june, later, may, then)
    world.vectors.script(dense=[(later, 0.6), (then, 0.4)])

    outcome = world.retrieve(topic="Tea in May")

    assert [ref for ref in refs_in(outcome) if ref in (later.ref, then.ref)] == [then.ref, later.ref]
    scores = scores_of(outcome, then)
    assert scores.dated_score == DATED
    assert scores.final_score == pytest.approx(recomputed(scores), abs=1e-9)
    assert scores_of(outcome, later).dated_score is None
    assert scores_of(world.retrieve(topic="Tea in May 2022"), then).dated_score is None
    world.knobs = RecallKnobs(language="german")
    assert scores_of(world.retrieve(topic="Tea in May"), then).dated_score is None


def test_what_did_not_match_gains_nothing_by_its_month(world: World) -> None:
    day, found = lived(5)
    beside = observation(day, 9)
    held = belief(found, created_at=day.scene.time, updated_at=day.scene.time)
    world.store(day, found, beside, held)
    world.vectors.script(dense=[(found, 0.6), (held, 0.5)])

    outcome = world.retrieve(topic="Tea in May")

    assert scores_of(outcome, found).dated_score == DATED
    assert scores_of(outcome, beside).dated_score is None
    assert scores_of(outcome, held).dated_score is None, "a belief has the time at which it was formed"


def test_whoever_is_called_may_is_no_month(world: World) -> None:
    day, said = lived(5)
    person = notion()
    world.store(day, said, person, belief(entity_ids=(person.id,), known_as="May"))
    world.vectors.script(dense=[(said, 0.6)])

    assert scores_of(world.retrieve(topic="Tea with May"), said).dated_score is None


@pytest.mark.parametrize("statistics", [True, False])
def test_it_is_as_if_everything_had_been_read(
    world: World, monkeypatch: pytest.MonkeyPatch, statistics: bool
) -> None:
    days = [lived(number % 3 + 4, salience_score=0.0) for number in range(24)]
    turns = [turn for _, turn in days]
    world.store(*(item for day in days for item in day), statistics=statistics)
    world.vectors.script(dense=[(turn, 0.9 - number / 1000) for number, turn in enumerate(turns)])
    asked = {"topic": "Tea in May", "section_limits": {"salient_observations": 3, "relevant_episodes": 2}}
    monkeypatch.setattr(reading, "FEW", 1000)
    usual = world.retrieve(**asked)
    monkeypatch.setattr(reading, "FEW", 0)

    outcome = world.retrieve(**asked)

    assert outcome.pack == usual.pack
    assert [item.id for item in outcome.pack.salient_observations] == [turns[n].id for n in (1, 4, 7)]

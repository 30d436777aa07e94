"""Tie closure, canonical order and verdicts, against engine stubs."""

from typing import NamedTuple
from uuid import UUID

import pytest

from charactermemory.adapters.qdrant.records import identify
from charactermemory.adapters.qdrant.search import (
    ENGINE_CAP,
    asks,
    canonical,
    close_ties,
    fetch_bound,
    leg,
    rounded,
    search_legs,
)
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.vectors import Completeness, VectorSurface


class Hit(NamedTuple):
    score: float
    number: int


def identities(hits):
    return [
        identify(MemoryObjectRef.of(ObjectType.OBSERVATION, UUID(int=hit.number)), VectorSurface.TEXT)
        for hit in hits
    ]


class Engine:
    """Returns its hits best first, equal scores in reverse order of id, and keeps what it was asked for."""

    def __init__(self, scores):
        self.hits = sorted(
            (Hit(score, n) for n, score in enumerate(scores, start=1)), key=lambda h: (-h.score, -h.number)
        )
        self.asked = []

    def __call__(self, ask):
        self.asked.append(ask)
        return self.hits[:ask]


def search_all(engines, limit, scanned=None, cap=ENGINE_CAP):
    """Return what both legs answer, and how many requests each engine call held."""
    calls = []

    def run(requests):
        calls.append(len(requests))
        return [engine(ask) for engine, ask in requests]

    makers = tuple(engine and (lambda ask, engine=engine: (engine, ask)) for engine in engines)
    return search_legs(run, identities, makers, limit, scanned, cap), calls


@pytest.mark.spec("recall-71")
@pytest.mark.parametrize(
    ("scanned", "verdict"),
    [
        (3, Completeness(kind="exhaustive", scanned=3)),
        (None, Completeness(kind="boundary_tie_closed", fetched=3)),
    ],
)
def test_a_tie_at_the_cut_is_fetched_whole(scanned, verdict):
    engine = Engine([1.0, 1.0, 0.5])
    answer = leg(engine, identities, 1, scanned)
    assert engine.asked == [2, 4]
    assert answer.completeness == verdict
    assert [candidate.ref.id.int for candidate in answer.candidates] == [1]


@pytest.mark.spec("recall-72")
def test_an_untied_cut_costs_one_fetch():
    engine = Engine([0.9, 0.8, 0.7])
    answer = leg(engine, identities, 2, None)
    assert engine.asked == [3]
    assert answer.completeness == Completeness(kind="boundary_tie_closed", fetched=3)
    assert [candidate.score for candidate in answer.candidates] == [0.9, 0.8]


@pytest.mark.spec("recall-73")
def test_more_ties_than_the_bound_leave_the_verdict_open_and_still_answer():
    engine = Engine([0.5] * 5000)
    answer = leg(engine, identities, 2, 5000)
    assert answer.completeness == Completeness(kind="boundary_tie_open", fetched=4098, fetch_bound=4098)
    assert engine.asked[-1] == 4098
    assert len(answer.candidates) == 2


@pytest.mark.spec("recall-74")
def test_the_bound_is_sixteen_times_the_limit_or_4096_more():
    assert fetch_bound(48) == 4144
    assert fetch_bound(400) == 6400
    assert fetch_bound(10**12) == ENGINE_CAP


def test_an_engine_that_caps_below_the_limit_is_left_open():
    engine = Engine([0.9, 0.8, 0.7, 0.6])
    assert not close_ties(engine, 5, cap=3).closed
    assert engine.asked == [3]


def test_scores_are_compared_as_rounded():
    """Two scores that only differ beyond 6 decimals are a tie, and a whole one."""
    engine = Engine([0.50000001, 0.50000004, 0.49999999, 0.4])
    answer = leg(engine, identities, 2, None)
    assert engine.asked == [3, 6]
    assert [candidate.ref.id.int for candidate in answer.candidates] == [1, 2]
    assert str(rounded(-1e-9)) == "0.0"


def test_one_candidate_a_surface_with_its_best_score():
    hits = [Hit(0.2, 2), Hit(0.3, 1), Hit(0.7, 1), Hit(0.1, 1)]
    found = canonical(zip([hit.score for hit in hits], identities(hits), strict=True), 5)
    assert [(candidate.ref.id.int, candidate.score) for candidate in found] == [(1, 0.7), (2, 0.2)]


def test_who_a_hit_below_the_cut_is_about_is_not_asked():
    engine = Engine([0.9, 0.8, 0.7, 0.6])
    seen = []

    def identify_seen(hits):
        seen.extend(hit.number for hit in hits)
        return identities(hits)

    answer = leg(engine, identify_seen, 2, None)
    assert [candidate.ref.id.int for candidate in answer.candidates] == seen == [1, 2]


def test_a_tie_that_the_second_try_closes_is_closed_in_the_first_engine_call():
    dense, lexical = Engine([0.9, 0.8, 0.7, 0.6]), Engine([1.0, 1.0, 0.5, 0.4, 0.3])
    found, calls = search_all((dense, lexical), 1)
    assert calls == [2]
    assert dense.asked == lexical.asked == [4]
    assert found.dense.completeness == Completeness(kind="boundary_tie_closed", fetched=2)
    assert found.lexical.completeness == Completeness(kind="boundary_tie_closed", fetched=4)


def test_of_a_larger_tie_the_rest_is_fetched_for_that_leg_alone():
    dense, lexical = Engine([0.9, 0.8]), Engine([1.0] * 5 + [0.5] * 5)
    found, calls = search_all((dense, lexical), 1)
    assert calls == [2, 1]
    assert (dense.asked, lexical.asked) == ([4], [4, 8])
    assert found.lexical.completeness == Completeness(kind="boundary_tie_closed", fetched=8)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 9, 30])
@pytest.mark.parametrize("cap", [3, 7, ENGINE_CAP])
def test_a_leg_answers_and_reports_as_one_that_fetches_try_by_try(size, cap):
    """What comes early changes neither candidates nor the verdict."""
    for limit in (1, 2, 4):
        for tied in range(size + 1):
            scores = [0.9] * tied + [0.8 - n / 100 for n in range(size - tied)]
            found, _ = search_all((None, Engine(scores)), limit, cap=cap)
            assert found.lexical == leg(Engine(scores), identities, limit, None, cap)
            assert found.dense.completeness.kind == "not_requested"


def test_what_is_asked_doubles_from_one_past_the_cut_up_to_the_bound():
    assert list(asks(2, 11)) == [3, 6, 11]
    assert list(asks(2, 3)) == list(asks(5, 3)) == [3]


def test_nothing_asked_of_both_legs_is_no_engine_call():
    found, calls = search_all((None, None), 3)
    assert calls == []
    assert found.dense.completeness.kind == found.lexical.completeness.kind == "not_requested"

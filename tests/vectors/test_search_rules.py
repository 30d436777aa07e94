"""Tie closure, canonical order and verdicts, against engine stubs."""

from uuid import UUID

import pytest

from charactermemory.adapters.qdrant.records import identify
from charactermemory.adapters.qdrant.search import (
    ENGINE_CAP,
    Hit,
    canonical,
    close_ties,
    fetch_bound,
    leg,
    rounded,
    search_legs,
)
from charactermemory.ids import MemoryObjectRef, ObjectType
from charactermemory.ports.vectors import Completeness, VectorSurface


def hit(score, number):
    ref = MemoryObjectRef.of(ObjectType.OBSERVATION, UUID(int=number))
    return Hit(score, lambda: identify(ref, VectorSurface.TEXT))


def number(hit):
    return hit.identity().ref.id.int


class Engine:
    """Returns its hits best first, equal scores in reverse order of id, and keeps what it was asked for."""

    def __init__(self, scores):
        self.hits = sorted(
            (hit(score, n) for n, score in enumerate(scores, start=1)), key=lambda h: (-h.score, -number(h))
        )
        self.asked = []

    def __call__(self, ask):
        self.asked.append(ask)
        return self.hits[:ask]


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
    answer = leg(engine, 1, scanned)
    assert engine.asked == [2, 4]
    assert answer.completeness == verdict
    assert [candidate.ref.id.int for candidate in answer.candidates] == [1]


@pytest.mark.spec("recall-72")
def test_an_untied_cut_costs_one_fetch():
    engine = Engine([0.9, 0.8, 0.7])
    answer = leg(engine, 2, None)
    assert engine.asked == [3]
    assert answer.completeness == Completeness(kind="boundary_tie_closed", fetched=3)
    assert [candidate.score for candidate in answer.candidates] == [0.9, 0.8]


@pytest.mark.spec("recall-73")
def test_more_ties_than_the_bound_leave_the_verdict_open_and_still_answer():
    engine = Engine([0.5] * 5000)
    answer = leg(engine, 2, 5000)
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
    engine = Engine([rounded(0.50000004), rounded(0.50000001), rounded(0.49999999), 0.4])
    answer = leg(engine, 2, None)
    assert engine.asked == [3, 6]
    assert [candidate.ref.id.int for candidate in answer.candidates] == [1, 2]
    assert str(rounded(-1e-9)) == "0.0"


def test_one_candidate_a_surface_with_its_best_score():
    found = canonical([hit(0.2, 2), hit(0.3, 1), hit(0.7, 1), hit(0.1, 1)], 5)
    assert [(candidate.ref.id.int, candidate.score) for candidate in found] == [(1, 0.7), (2, 0.2)]


def test_hits_below_the_cut_are_not_read():
    def unread():
        raise AssertionError("read")

    answer = leg(lambda ask: [hit(0.9, 1), hit(0.8, 2), Hit(0.7, unread)][:ask], 2, None)
    assert [candidate.ref.id.int for candidate in answer.candidates] == [1, 2]


def test_two_legs_share_the_first_engine_call():
    first, second = Engine([1.0, 1.0, 1.0]), Engine([0.9, 0.1])
    calls = []

    def run(requests):
        calls.append(len(requests))
        return [engine(ask) for engine, ask in requests]

    makers = [lambda ask: (first, ask), None, lambda ask: (second, ask)]
    answers = search_legs(run, makers, 1, 3)
    assert calls == [2, 1]
    assert (first.asked, second.asked) == ([2, 4], [2])
    assert answers[1].completeness.kind == "not_requested"
    assert [len(answer.candidates) for answer in answers] == [1, 0, 1]

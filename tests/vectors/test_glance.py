"""Looking at vectors in short form first answers as looking at each in full does."""

import random
from contextlib import closing
from math import sqrt
from typing import NamedTuple

import pytest

from charactermemory.adapters.qdrant.edge import EdgeVectorIndex
from charactermemory.adapters.qdrant.glance import ERROR, FEWEST, LOOKED_AT, Glance
from charactermemory.adapters.qdrant.records import candidate
from charactermemory.adapters.qdrant.search import rounded
from charactermemory.ids import ObjectType
from charactermemory.testing.vector_samples import EVERY_TYPE, record

from .conftest import FINGERPRINT

SIZE = 32
LIMIT = 40
MANY = 1500
"""Enough that most vectors are passed over."""


class Hit(NamedTuple):
    score: float


class TestSettling:
    """Two scores by the short form may be wrong, each by `ERROR` over the root of the dimension."""

    glance = Glance(make=lambda ask: ask, size=256)
    room = 2 * ERROR / sqrt(256)

    def hits(self, last, count=LOOKED_AT * LIMIT):
        return [*[Hit(0.5)] * LIMIT, *[Hit(0.5 - last)] * (count - LIMIT)]

    def test_enough_room_below_the_cut_settles_it(self):
        assert self.glance.settles(self.hits(self.room + 1e-4), LIMIT)

    def test_too_little_room_does_not(self):
        assert not self.glance.settles(self.hits(self.room - 1e-4), LIMIT)

    def test_it_is_the_room_below_the_cut_that_counts(self):
        best = [Hit(0.9)] * (LIMIT - 1)
        assert not self.glance.settles([*best, *self.hits(self.room - 1e-4)[LIMIT - 1 :]], LIMIT)
        assert self.glance.settles([*best, *self.hits(self.room + 1e-4)[LIMIT - 1 :]], LIMIT)

    def test_fewer_than_asked_for_are_all_there_are(self):
        assert self.glance.settles(self.hits(0, LOOKED_AT * LIMIT - 1), LIMIT)

    def test_nothing_wanted_is_settled(self):
        assert self.glance.settles([Hit(0.5)] * FEWEST, 0)

    def test_a_small_limit_is_given_room(self):
        assert self.glance.request(1) == FEWEST
        assert self.glance.request(1000) == 1000 * LOOKED_AT


@pytest.fixture
def index(open_edge):
    return open_edge("glance", SIZE)


def shard_of(index):
    return index._store.generation._shard


def spread(rng, count=SIZE):
    return [rng.gauss(0, 1) for _ in range(count)]


def near(rng, vector, away):
    return [value + rng.gauss(0, away) for value in vector]


def in_full(index, query):
    """Return every point with its score, by looking at each vector in full, as raw hits of the engine."""
    import qdrant_edge as qe

    nearest, params = qe.Query.Nearest(query), qe.SearchParams(exact=True)
    return shard_of(index).query(qe.QueryRequest(limit=10_000, query=nearest, params=params))


def in_short(index, query):
    """Return every point's score by the short form alone."""
    import qdrant_edge as qe

    short = qe.SearchParams(quantization=qe.QuantizationSearchParams(rescore=False))
    request = qe.QueryRequest(limit=10_000, query=qe.Query.Nearest(query), params=short)
    return {hit.id: hit.score for hit in shard_of(index).query(request)}


def expected(index, query, limit):
    hits = in_full(index, query)
    who = index._store.generation._identities(hits)
    ranked = sorted((-rounded(hit.score), found) for hit, found in zip(hits, who, strict=True))
    return tuple(candidate(found, -below) for below, found in ranked[:limit])


def looks(index, monkeypatch, query, limit=LIMIT):
    """Search, check the answer against the full look, and return how many engine calls it took."""
    generation, calls = index._store.generation, []
    run = type(generation)._run

    def counted(self, requests):
        calls.append(len(requests))
        return run(self, requests)

    with monkeypatch.context() as patched:
        patched.setattr(type(generation), "_run", counted)
        found = index.search(query, None, limit, EVERY_TYPE).dense
    assert found.candidates == expected(index, query, limit)
    return len(calls)


def test_one_look_answers_where_vectors_are_spread(index, monkeypatch):
    rng = random.Random(1)
    index.write([record(n, spread(rng), "text") for n in range(MANY)], [], 1)
    assert [looks(index, monkeypatch, spread(rng)) for _ in range(20)] == [1] * 20


def test_a_glance_looks_at_nothing_beyond_the_types_that_are_asked_for(index):
    rng = random.Random(7)
    types = ObjectType.OBSERVATION, ObjectType.EPISODE
    index.write([record(n, spread(rng), "text", types[n % 2]) for n in range(MANY)], [], 1)
    for _ in range(5):
        query = spread(rng)
        every = index.search(query, None, MANY, EVERY_TYPE).dense.candidates
        for asked in types:
            best = [found for found in every if found.ref.object_type is asked][:LIMIT]
            assert list(index.search(query, None, LIMIT, [asked]).dense.candidates) == best


def test_where_many_are_nearly_alike_each_is_looked_at_in_full(index, monkeypatch):
    """So near one another that the short form puts them in another order."""
    rng = random.Random(2)
    theme = spread(rng)
    index.write([record(n, near(rng, theme, 0.002), "text") for n in range(MANY)], [], 1)
    for _ in range(5):
        query = near(rng, theme, 0.5)
        short, full = in_short(index, query), in_full(index, query)
        best = sorted(short, key=short.__getitem__, reverse=True)[: LOOKED_AT * LIMIT]
        assert not {hit.id for hit in full[:LIMIT]} <= set(best), "the glance alone would answer wrongly"
        assert looks(index, monkeypatch, query) == 2


def test_a_crowd_that_ties_at_the_cut_is_found_whole(index, monkeypatch):
    """More of the same vector than a glance brings, some closer ones, and the lowest ids of the crowd."""
    rng = random.Random(3)
    query = spread(rng)
    said = [near(rng, query, 0.1) for _ in range(10)] + [near(rng, query, 0.4)] * 400
    said += [spread(rng) for _ in range(MANY)]
    numbers = list(range(len(said)))
    rng.shuffle(numbers)
    index.write([record(n, vector, "text") for n, vector in zip(numbers, said, strict=True)], [], 1)
    assert looks(index, monkeypatch, query) > 1


@pytest.mark.parametrize("kind", ["sparse", "leaning"])
def test_uncommon_vectors(index, monkeypatch, kind):
    """Of few dimensions each, as hashed words are, or all leaning one way, as those of some models do."""
    rng = random.Random(4)

    def vector():
        if kind == "leaning":
            return near(rng, [3.0] * SIZE, 1)
        taken = rng.sample(range(SIZE), 3)
        return [rng.choice([-1.0, 1.0]) if n in taken else 0.0 for n in range(SIZE)]

    index.write([record(n, vector(), "text") for n in range(MANY)], [], 1)
    for _ in range(10):
        looks(index, monkeypatch, vector())


def test_the_short_form_follows_replacing_deleting_and_reopening(root, monkeypatch):
    """It errs by no more than the bound, for each vector that is there now and for none that was."""
    rng = random.Random(5)
    vectors = {}
    commit = 0
    for _ in range(3):
        with closing(EdgeVectorIndex(root, "glance", SIZE, FINGERPRINT)) as index:
            for _ in range(4):
                commit += 1
                fresh = {n: spread(rng) for n in rng.sample(range(900), 250)}
                gone = rng.sample(sorted(vectors.keys() - fresh.keys()), 40) if vectors else []
                index.write(
                    [record(n, vector, "text") for n, vector in fresh.items()],
                    [record(n, [1.0] * SIZE, "text").surface.ref for n in gone],
                    commit,
                )
                vectors = {n: v for n, v in (vectors | fresh).items() if n not in gone}
                query = spread(rng)
                short = in_short(index, query)
                full = {hit.id: hit.score for hit in in_full(index, query)}
                assert len(full) == len(vectors)
                assert short == pytest.approx(full, abs=ERROR / sqrt(SIZE))
                looks(index, monkeypatch, query)


def test_the_short_form_is_there(index):
    """Else every glance would be a full look."""
    rng = random.Random(6)
    index.write([record(n, spread(rng), "text") for n in range(50)], [], 1)
    query = spread(rng)
    full = {hit.id: hit.score for hit in in_full(index, query)}
    assert in_short(index, query) != pytest.approx(full, abs=1e-6)


@pytest.mark.parametrize("size", [2, 64, 256, 1536])
def test_the_short_form_errs_by_less_than_half_of_the_bound_at_any_size(open_edge, size):
    """The bound was measured with one release of the engine (`benchmarks/short_form.py`)."""
    rng = random.Random(size)
    index = open_edge("glance", size)
    index.write([record(n, spread(rng, size), "text") for n in range(200)], [], 1)
    for _ in range(5):
        query = spread(rng, size)
        full = {hit.id: hit.score for hit in in_full(index, query)}
        assert in_short(index, query) == pytest.approx(full, abs=ERROR / 2 / sqrt(size))

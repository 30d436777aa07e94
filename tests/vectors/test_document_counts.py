"""Where the engine's own document counts are used, scores are those of counting the living over again."""

import random
import shutil

import pytest

from charactermemory.adapters.qdrant.edge import EdgeVectorIndex
from charactermemory.adapters.qdrant.lexical import SPARSE_NAME, Lexical
from charactermemory.ports.vectors import Cursor
from charactermemory.testing.vector_samples import EVERY_TYPE, record, ref

from .conftest import FINGERPRINT

ONE = [1.0, 0.0, 0.0, 0.0]
LEXICAL = Lexical()
WORDS = [f"word{n}x" for n in range(40)]
QUESTIONS = [" ".join(WORDS[n : n + 4]) for n in range(0, 40, 3)]


def spoken(numbers, seed=0):
    """Return records of sentences, every tenth of stop words alone, which has no sparse vector."""
    rng = random.Random(seed)
    return [
        record(n, ONE, "the" if n % 10 == 0 else " ".join(rng.choices(WORDS, k=rng.randrange(1, 12))))
        for n in numbers
    ]


def generation_of(index):
    return index._store.generation


def scores(index, *, counted_over):
    """Return the engine's raw scores of every question, by point."""
    import qdrant_edge as qe

    idf = qe.IdfParams(corpus=qe.Filter()) if counted_over else None
    params = qe.SearchParams(exact=True, idf=idf)
    found = []
    for question in QUESTIONS:
        terms = LEXICAL.query(question)
        query = qe.Query.Nearest(qe.SparseVector(terms.indices, terms.values), using=SPARSE_NAME)
        hits = generation_of(index)._shard.query(qe.QueryRequest(limit=500, query=query, params=params))
        found.append({hit.id: hit.score for hit in hits})
    return found


def equal(index):
    return scores(index, counted_over=False) == scores(index, counted_over=True)


def lexical_scores(index):
    legs = [index.search(None, question, 100, EVERY_TYPE).lexical for question in QUESTIONS]
    return [{hit.ref: hit.score for hit in leg.candidates} for leg in legs]


def as_good_as(scores):
    """Return the scores to compare with after a load, which may add each up in another order."""
    return [pytest.approx(found, rel=1e-6) for found in scores]


def loaded_copy(folder, root):
    """Open what the folder holds at this moment, as after a crash: the engine's log is read again."""
    shutil.copytree(folder, root / folder.name)
    return EdgeVectorIndex(root, folder.name, 4, FINGERPRINT)


def test_what_is_only_added_to_is_counted_by_the_engine_alone(open_edge, root):
    """To the last digit, after loads, appends, and any number of writes of the cursor."""
    index = open_edge()
    assert generation_of(index)._counts_only_living()
    index.write(spoken(range(1, 101)), [], 1)
    assert all(scores(index, counted_over=True)), "each question finds something"
    assert equal(index)
    for commit in range(2, 40):
        index.write(spoken([100 + commit]), [], commit)
        index.flush(applied=commit)
    assert index.cursor() == Cursor(applied=39, high=39)
    assert equal(index)
    index.close()
    index = open_edge()
    assert equal(index)
    index.write(spoken(range(200, 260)), [], 40)
    assert equal(index)
    assert generation_of(index)._counts_only_living()
    copy = loaded_copy(root / "contract", root / "copy")
    assert equal(copy)
    assert generation_of(copy)._counts_only_living()
    copy.close()


def test_after_a_delete_the_living_are_counted_until_the_engine_was_loaded_without_it(open_edge, root):
    index = open_edge()
    index.write(spoken(range(1, 101)), [], 1)
    index.flush()
    before = lexical_scores(index)
    index.write([], [ref(n) for n in range(20, 60)], 2)
    assert not equal(index), "the engine goes on counting them"
    assert not generation_of(index)._counts_only_living()
    found = lexical_scores(index)
    assert found != as_good_as(before)
    index.write(spoken([300]), [ref(300)], 3)
    index.write([], [ref(300)], 4)
    assert not generation_of(index)._counts_only_living()

    copy = loaded_copy(root / "contract", root / "crashed")
    assert not equal(copy), "it took the deletes from its log"
    assert not generation_of(copy)._counts_only_living()
    assert lexical_scores(copy) == as_good_as(found)
    copy.close()

    index.close()
    index = open_edge()
    assert equal(index)
    assert generation_of(index)._counts_only_living()
    assert lexical_scores(index) == as_good_as(found)


def test_the_delete_of_one_document_is_known_before_the_engine_is_told(open_edge):
    index = open_edge()
    index.write(spoken([1, 2]), [], 1)
    generation = generation_of(index)
    assert generation._counts_only_living()
    shard, seen = generation._shard, []

    class Watched:
        def __getattr__(self, name):
            return getattr(shard, name)

        def update(self, operation):
            seen.append(generation._counts_only_living())
            shard.update(operation)

    generation._shard = Watched()
    index.write(spoken([3]), [], 1)
    index.write([], [ref(1)], 1)
    assert seen == [True, False]


def test_a_rewritten_document_is_known_as_well(open_edge):
    index = open_edge()
    index.write(spoken(range(1, 40)), [], 1)
    assert generation_of(index)._counts_only_living()
    index.write(spoken(range(5, 10), seed=1), [], 2)
    assert not generation_of(index)._counts_only_living()
    index.close()
    index = open_edge()
    assert generation_of(index)._counts_only_living()
    assert equal(index)


@pytest.mark.parametrize("seed", range(4))
def test_where_the_counts_agree_so_do_the_scores(open_edge, root, seed):
    """Whatever was written, and whether the index was closed or cut off."""
    rng = random.Random(seed)
    index, agreed = open_edge(), set()
    for step in range(1, 25):
        numbers = rng.sample(range(1, 60), rng.randrange(1, 12))
        deed = rng.choice(["write", "write", "delete", "flush", "close", "crash"])
        if deed == "write":
            index.write(spoken(numbers, seed=step), [], step)
        elif deed == "delete":
            index.write([], [ref(n) for n in numbers[:3]], step)
        elif deed == "flush":
            index.flush(applied=step)
        elif deed == "close":
            index.close()
            index = EdgeVectorIndex(index._folder.parent, "contract", 4, FINGERPRINT)
        else:
            before, index = index, loaded_copy(index._folder, root / f"after{step}")
            before.close()
            shutil.rmtree(before._folder)
        generation_of(index)._only_living_counted = None
        agree = generation_of(index)._counts_only_living()
        assert not agree or equal(index), (step, deed)
        agreed.add(agree)
    index.close()
    assert agreed == {True, False}

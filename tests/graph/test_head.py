"""The end of the graph, which is read anew only where somebody else may have written."""

from __future__ import annotations

from contextlib import closing

import pytest

from charactermemory.adapters.oxigraph.mapping import VOLUME_SIZE
from charactermemory.errors import StoreUnavailable
from charactermemory.testing.builders import notion
from charactermemory.testing.graph_contract_writes import put
from charactermemory.testing.recording import Fault, RecordingConnection
from tests.graph.stores import Place


def test_every_store_of_a_collection_knows_the_end(place: Place) -> None:
    """Whoever wrote last, and whatever: a commit, or a fence that counts as the head."""
    with closing(place.open()) as one, closing(place.open()) as other:
        assert (one.head(), other.head()) == (0, 0)
        for number in range(1, 4):
            assert put(one if number % 2 else other, notion()) == number
            assert (one.head(), other.head()) == (number, number)
        one.raise_head(10)
        assert (one.head(), other.head()) == (10, 10)
        assert put(other, notion()) == 11
        assert put(one, notion()) == 12
        assert (one.head(), other.head()) == (12, 12)
        # Receipts lie in volumes, and others may begin new ones between two looks.
        for end in (VOLUME_SIZE - 2, 2 * VOLUME_SIZE - 1, 5 * VOLUME_SIZE + 3):
            one.raise_head(end)
            assert (other.head(), one.head()) == (end, end)
            assert put(other, notion()) == end + 1
            assert (one.head(), other.head()) == (end + 1, end + 1)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_commit_whose_answer_was_lost_leaves_the_right_end(embedded: Place, moment: str) -> None:
    connection = RecordingConnection(embedded.connection(), in_flight=False)
    with closing(embedded.over(connection)) as store:
        assert put(store, notion()) == 1
        connection.next_faults["update"] = Fault(moment, lose_response=True)  # type: ignore[arg-type]
        try:
            put(store, notion())
        except StoreUnavailable:
            assert moment == "before"
        with closing(embedded.open()) as fresh:
            assert store.head() == fresh.head() == (2 if moment == "after" else 1)

"""The graph store keeps its port's contract on all three connections."""

from __future__ import annotations

import pytest

from charactermemory.ports.graph import GraphStore
from charactermemory.testing.graph_contract import GraphStoreContract, OpenStore
from tests.graph.stores import Place

CASES = {
    "test_what_is_read_equals_what_was_written": "core-14",
    "test_all_bearers_of_a_name_are_returned_sorted": "core-63",
    "test_a_rename_moves_the_name": "core-64",
    "test_a_forgotten_rename_brings_no_name_back": "core-65",
    "test_only_an_assertion_names": "core-66",
    "test_two_links_that_say_the_same_are_two_nodes_and_one_edge": "core-96",
    "test_nothing_asked_is_nothing_found": "core-98",
}
for name, case in CASES.items():
    pytest.mark.spec(case)(getattr(GraphStoreContract, name))


class TestOxigraphStore(GraphStoreContract):
    @pytest.fixture
    def open_store(self, place: Place) -> OpenStore:
        def opened(collection: str = "contract") -> GraphStore:
            return place.open(collection)

        return opened

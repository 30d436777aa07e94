"""Every index keeps the one contract."""

import os
import uuid

import pytest

from charactermemory.adapters.qdrant.service import QdrantVectorIndex
from charactermemory.testing.vector_contract import VectorIndexContract
from charactermemory.testing.vectors import InMemoryVectorIndex
from tests.support.qdrant_stub import QdrantStub

from .conftest import FINGERPRINT

CASES = {
    "test_a_scope_holds_in_both_legs": "recall-75",
    "test_nothing_asked_is_not_requested": "recall-76",
    "test_a_query_without_length_scores_everything_nought": "recall-77",
    "test_a_query_of_another_size_is_refused": "recall-79",
    "test_close_twice_then_every_use_is_refused": "recall-86",
    "test_a_write_is_searchable_when_it_returns": "recall-89",
    "test_a_delete_removes_the_object_and_no_neighbour": "recall-90",
}
for name, case in CASES.items():
    pytest.mark.spec(case)(getattr(VectorIndexContract, name))

local_mode = pytest.mark.filterwarnings(
    "ignore:Payload indexes have no effect in the local Qdrant:UserWarning",
    "ignore:Local mode performs exact:UserWarning",
)


class TestInMemory(VectorIndexContract):
    @pytest.fixture
    def open_index(self, opened):
        def open_index(collection="contract", size=4):
            index = InMemoryVectorIndex(collection, size)
            opened.append(index)
            return index

        return open_index


class TestEdge(VectorIndexContract):
    @pytest.fixture
    def open_index(self, open_edge):
        return open_edge


@local_mode
class TestServiceMemory(VectorIndexContract):
    """service_memory: the service adapter on qdrant-client's local mode."""

    @pytest.fixture
    def open_index(self, open_service_memory):
        return open_service_memory


@pytest.fixture(scope="module")
def stub():
    with QdrantStub() as stub:
        yield stub


class TestServiceOverHttp(VectorIndexContract):
    """The service adapter over REST, on a stub whose store is the same local mode."""

    @pytest.fixture
    def open_index(self, stub, opened):
        run = uuid.uuid4().hex[:8]

        def open_index(collection="contract", size=4):
            index = QdrantVectorIndex(stub.url, f"{run}-{collection}", size, FINGERPRINT)
            opened.append(index)
            return index

        return open_index


@pytest.mark.skipif(
    os.environ.get("REQUIRE_QDRANT_TESTS") != "1", reason="needs a Qdrant server: REQUIRE_QDRANT_TESTS=1"
)
class TestServiceServer(VectorIndexContract):
    @pytest.fixture
    def open_index(self, opened):
        url = os.environ["QDRANT_CONNECTION_STRING"]
        run = uuid.uuid4().hex[:8]
        made = []

        def open_index(collection="contract", size=4):
            index = QdrantVectorIndex(url, f"test-{run}-{collection}", size, FINGERPRINT)
            opened.append(index)
            made.append(f"test-{run}-{collection}")
            return index

        yield open_index
        from charactermemory.adapters.qdrant.connection import build_client

        client = build_client(url)
        for item in client.get_collections().collections:
            if item.name.rsplit(".gen-", 1)[0] in made:
                client.delete_collection(item.name)
        client.close()

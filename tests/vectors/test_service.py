"""The service index on qdrant-client's local mode (service_memory), its transport rule and its errors."""

import os
from types import SimpleNamespace

import httpx
import pytest
from qdrant_client import models

from charactermemory.adapters.qdrant import service as service_module
from charactermemory.adapters.qdrant.connection import Connection, build_client, service_errors
from charactermemory.adapters.qdrant.records import CURSOR_POINT, payload
from charactermemory.domain.kinds import SCHEMA_VERSION
from charactermemory.errors import (
    CollectionIncompatible,
    OutOfDomain,
    UnsupportedSchemaVersion,
    VectorDatabaseError,
)
from charactermemory.ids import ObjectType
from charactermemory.ports.vectors import Cursor
from charactermemory.testing.vector_samples import EVERY_TYPE, numbers, record, ref

pytestmark = pytest.mark.filterwarnings(
    "ignore:Payload indexes have no effect in the local Qdrant:UserWarning",
    "ignore:Local mode performs exact:UserWarning",
    "ignore:Api key is used with an insecure connection:UserWarning",
)

ONE = [1.0, 0.0, 0.0, 0.0]
COSINE = models.VectorParams(size=4, distance=models.Distance.COSINE)
IDF = {"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)}


class Recorder:
    """A client that keeps the calls made through it."""

    def __init__(self, client):
        self._client = client
        self.calls = []

    def __getattr__(self, name):
        value = getattr(self._client, name)

        def call(*args, **kwargs):
            self.calls.append((name, args, kwargs))
            return value(*args, **kwargs)

        return call

    def names(self):
        return [name for name, _, _ in self.calls]


@pytest.fixture
def recorder(local_client):
    return Recorder(local_client)


@pytest.fixture
def index(recorder, opened):
    index = service_module.QdrantVectorIndex(recorder, "contract", 4, "one")
    opened.append(index)
    recorder.calls.clear()
    return index


def test_service_memory_points_lie_behind_an_alias(index, local_client):
    (alias,) = local_client.get_aliases().aliases
    assert (alias.alias_name, alias.collection_name) == ("contract", "contract.gen-1")
    info = local_client.get_collection("contract")
    assert info.config.metadata == {
        "kind": "vectors",
        "format": 1,
        "collection": "contract",
        "size": 4,
        "fingerprint": "one",
        "lexical": index._lexical.fingerprint,
        "record_schema_version": SCHEMA_VERSION,
    }


def test_service_memory_a_switch_is_one_alias_update(index, recorder, local_client):
    index.write([record(1, ONE)], [], 1)
    rebuild = index.begin_rebuild()
    rebuild.write([record(2, ONE)], [], 1)
    recorder.calls.clear()
    rebuild.switch(applied=1)
    assert recorder.names().count("update_collection_aliases") == 1
    assert [c.name for c in local_client.get_collections().collections] == ["contract.gen-2"]
    assert numbers(index.search(ONE, None, 5, EVERY_TYPE).dense) == [2]


def test_service_memory_an_unfinished_rebuild_is_gone_on_with_if_it_fits(
    index, open_service_memory, local_client
):
    index.begin_rebuild().write([record(1, ONE)], [], 1)
    assert index.begin_rebuild().present([ref(1)]) == {ref(1): "Label: "}
    names = sorted(c.name for c in local_client.get_collections().collections)
    assert names == ["contract.gen-1", "contract.gen-2"]
    other = open_service_memory(fingerprint="two", on_mismatch="rebuild_only")
    assert other.begin_rebuild().present([ref(1)]) == {}
    names = sorted(c.name for c in local_client.get_collections().collections)
    assert names == ["contract.gen-1", "contract.gen-2"], "made with another model, it is removed"
    other.begin_rebuild().write([record(1, ONE)], [], 1)
    local_client.delete("contract.gen-2", [str(CURSOR_POINT)])
    assert other.begin_rebuild().present([ref(1)]) == {}, "it was not made to its end"


def test_service_memory_other_collections_are_left_alone(index, local_client):
    local_client.create_collection("contract.gen-x", COSINE)
    local_client.create_collection("contractor.gen-7", COSINE)
    index.begin_rebuild().leave()
    index.begin_rebuild().switch(applied=0)
    names = {c.name for c in local_client.get_collections().collections}
    assert names == {"contract.gen-2", "contract.gen-x", "contractor.gen-7"}


@pytest.mark.spec("recall-76", "recall-91")
def test_service_memory_nothing_asked_reaches_no_engine(index, recorder):
    index.write([record(1, ONE, "dog")], [], 1)
    recorder.calls.clear()
    index.write([], [], 3)
    index.search(ONE, "dog", 5, ())
    index.search(ONE, "dog", 0, EVERY_TYPE)
    index.search(None, None, 5, EVERY_TYPE)
    index.present([])
    assert recorder.calls == []
    assert index.count() == 1


def test_service_memory_a_search_is_one_request_and_exact(index, recorder):
    index.write([record(1, ONE, "dog")], [], 1)
    recorder.calls.clear()
    index.search(ONE, "dog", 5, EVERY_TYPE)
    ((name, (_, requests), _),) = recorder.calls
    assert name == "query_batch_points"
    assert [request.params.exact for request in requests] == [True, True]


def test_service_memory_a_write_waits_and_raises_high_first(index, recorder):
    index.write([record(1, ONE)], [ref(2)], 5)
    ((name, (_, operations), options),) = recorder.calls
    assert (name, options) == ("batch_update_points", {"wait": True})
    assert [type(operation).__name__ for operation in operations] == [
        "SetPayloadOperation",
        "DeleteOperation",
        "UpsertOperation",
    ]
    assert isinstance(operations[1].delete, models.PointIdsList)


def test_service_memory_another_process_cannot_lower_the_cursor(index, local_client, opened):
    other = service_module.QdrantVectorIndex(local_client, "contract", 4, "one")
    opened.append(other)
    index.write([record(1, ONE)], [], 9)
    index.flush(applied=8)
    other.write([record(2, ONE)], [], 7)
    other.flush(applied=6)
    assert index.cursor() == other.cursor() == Cursor(applied=8, high=9)


def test_service_memory_a_lost_cursor_starts_from_nought(index, local_client, opened):
    index.write([record(1, ONE)], [], 9)
    local_client.delete("contract", models.PointIdsList(points=[str(CURSOR_POINT)]))
    assert index.cursor() == Cursor(applied=0, high=0)
    again = service_module.QdrantVectorIndex(local_client, "contract", 4, "one")
    opened.append(again)
    again.write([record(2, ONE)], [], 10)
    assert again.cursor() == Cursor(applied=0, high=10)


@pytest.mark.spec("recall-81")
@pytest.mark.parametrize(
    ("vectors", "sparse", "mismatch", "expected", "actual"),
    [
        (models.VectorParams(size=4, distance=models.Distance.DOT), IDF, "distance", "Cosine", "Dot"),
        ({"b": COSINE, "a": COSINE}, IDF, "named_vectors", "one unnamed vector", "a, b"),
        (None, IDF, "empty_vector_configuration", "one unnamed vector", "none"),
        (COSINE, None, "missing_vector_configuration", "a sparse vector bm25 with modifier idf", "none"),
        (COSINE, IDF, "fingerprint", "a record of how it was built", "none"),
    ],
)
@pytest.mark.parametrize("aliased", [True, False])
def test_service_memory_foreign_vectors_are_refused(
    local_client, open_service_memory, vectors, sparse, mismatch, expected, actual, aliased
):
    name = "contract.gen-1" if aliased else "contract"
    local_client.create_collection(name, vectors_config=vectors, sparse_vectors_config=sparse)
    if aliased:
        alias = models.CreateAlias(collection_name=name, alias_name="contract")
        local_client.update_collection_aliases([models.CreateAliasOperation(create_alias=alias)])
    with pytest.raises(CollectionIncompatible) as caught:
        open_service_memory()
    problem = caught.value
    assert (problem.mismatch, problem.expected, problem.actual) == (mismatch, expected, actual)


@pytest.mark.spec("recall-81")
def test_a_server_that_reports_no_vectors_at_all_is_refused(index):
    with pytest.raises(CollectionIncompatible) as caught:
        index._check_vectors(models.CollectionParams(vectors=None))
    assert caught.value.mismatch == "missing_vector_configuration"


def test_service_memory_a_collection_in_the_place_of_the_alias_is_refused(
    index, local_client, open_service_memory
):
    metadata = local_client.get_collection("contract").config.metadata
    local_client.create_collection("plain", COSINE, IDF, metadata=metadata)
    with pytest.raises(CollectionIncompatible) as caught:
        open_service_memory("plain", fingerprint="one")
    assert caught.value.mismatch == "collection_name"


@pytest.mark.spec("recall-80")
def test_service_memory_another_size_is_refused_and_left_as_it_was(open_service_memory):
    index = open_service_memory(size=8)
    index.write([record(1, [1.0] * 8, "dog")], [], 3)
    with pytest.raises(CollectionIncompatible) as caught:
        open_service_memory(size=16)
    assert (caught.value.mismatch, caught.value.expected, caught.value.actual) == ("vector_size", "16", "8")
    assert index.present([ref(1)]) == {ref(1): "Label: dog"}
    assert index.cursor() == Cursor(applied=0, high=3)


def test_service_memory_another_record_version_is_refused(index, local_client, open_service_memory):
    metadata = local_client.get_collection("contract").config.metadata
    local_client.update_collection("contract.gen-1", metadata=metadata | {"record_schema_version": "older"})
    with pytest.raises(UnsupportedSchemaVersion):
        open_service_memory(fingerprint="one")


def test_service_memory_rebuild_only_serves_words_and_waits(open_service_memory):
    old = open_service_memory(fingerprint="one")
    old.write([record(1, ONE, "dog")], [], 1)
    index = open_service_memory(fingerprint="two", on_mismatch="rebuild_only")
    assert numbers(index.search(None, "dog", 5, EVERY_TYPE).lexical) == [1]
    for refused in (
        lambda: index.search(ONE, "dog", 5, EVERY_TYPE),
        lambda: index.write([record(3, ONE)], [], 2),
    ):
        with pytest.raises(CollectionIncompatible):
            refused()
    rebuild = index.begin_rebuild()
    rebuild.write([record(1, ONE, "dog")], [], 1)
    rebuild.switch(applied=1)
    assert numbers(index.search(ONE, "dog", 5, EVERY_TYPE).dense) == [1]


def test_service_memory_a_rebuild_by_another_process_is_noticed(open_service_memory, monkeypatch):
    """A process that goes on with the old embedder must not meet the new vectors."""
    monkeypatch.setattr(service_module, "FIT_SECONDS", 0.0)
    here = open_service_memory(fingerprint="one")
    there = open_service_memory(fingerprint="two", on_mismatch="rebuild_only")
    there.begin_rebuild().switch(applied=0)
    with pytest.raises(CollectionIncompatible):
        here.search(ONE, None, 5, EVERY_TYPE)


@pytest.mark.spec("recall-87", "recall-88")
def test_service_memory_bad_points_fail_and_extra_fields_do_not(index, local_client):
    fields = payload(record(1, ONE)) | {f"extra_{n}": n for n in range(28)}
    local_client.upsert("contract", [models.PointStruct(id=1, vector={"": ONE}, payload=fields)])
    assert numbers(index.search(ONE, None, 5, EVERY_TYPE).dense) == [1]
    fields |= {"object_type": "gizmo"}
    local_client.upsert("contract", [models.PointStruct(id=2, vector={"": ONE}, payload=fields)])
    with pytest.raises(VectorDatabaseError) as caught:
        index.search(ONE, None, 5, EVERY_TYPE)
    assert caught.value.kind == "payload_deserialization"


@pytest.mark.spec("recall-82")
def test_service_memory_bad_collection_names_send_nothing(local_client, opened):
    recorder = Recorder(local_client)
    with pytest.raises(OutOfDomain) as caught:
        service_module.QdrantVectorIndex(recorder, "Main", 4, "one")
    assert caught.value.keys == ("collection_name",)
    assert recorder.calls == []


# --- transport and errors ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "grpc", "host", "port"),
    [
        ("http://somewhere:6334", True, "somewhere", 6334),
        ("grpc://somewhere", True, "somewhere", 6334),
        ("grpc://somewhere:7000", True, "somewhere", 7000),
        ("http://somewhere:6333", False, "somewhere", 6333),
        ("http://somewhere", False, "somewhere", 6333),
        ("https://somewhere:6334", False, "somewhere", 6334),
        ("https://somewhere/prefix", False, "somewhere", 443),
    ],
)
def test_the_url_says_the_transport(url, grpc, host, port):
    client = build_client(url, api_key="key")
    remote = client._client
    assert remote._prefer_grpc is grpc
    assert remote._host == host
    assert (remote._grpc_port if grpc else remote._port) == port
    assert remote._timeout == 30
    client.close()


@pytest.mark.parametrize("url", ["localhost:6333", "ftp://somewhere", "http://", "http://host:port", ""])
def test_a_bad_url_is_refused_without_its_password(url):
    with pytest.raises(VectorDatabaseError) as caught:
        build_client(url)
    assert caught.value.kind == "invalid_uri"
    with pytest.raises(VectorDatabaseError) as caught:
        build_client("ftp://user:secret@somewhere")
    assert "secret" not in str(caught.value)


def test_nobody_listening_is_http_connect():
    index = service_module.QdrantVectorIndex("http://127.0.0.1:9", "contract", 4, "one")
    with pytest.raises(VectorDatabaseError) as caught:
        index.count()
    index.close()
    assert (caught.value.backend, caught.value.kind) == ("qdrant", "http_connect")


def translated(error):
    with pytest.raises(VectorDatabaseError) as caught, service_errors():
        raise error
    return caught.value.kind, caught.value.status


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (400, "invalid_argument"),
        (401, "unauthenticated"),
        (403, "permission_denied"),
        (404, "not_found"),
        (408, "deadline_exceeded"),
        (409, "aborted"),
        (412, "failed_precondition"),
        (416, "out_of_range"),
        (429, "resource_exhausted"),
        (499, "cancelled"),
        (500, "internal"),
        (501, "unimplemented"),
        (503, "unavailable"),
        (504, "deadline_exceeded"),
        (418, "unrecognized(418)"),
    ],
)
def test_http_statuses_have_their_names(code, status):
    from qdrant_client.http.exceptions import UnexpectedResponse

    error = UnexpectedResponse(code, "because", b"{}", httpx.Headers())
    assert translated(error) == ("http_status", status)


def test_transport_failures_have_their_kinds():
    from qdrant_client.http.exceptions import ResponseHandlingException

    kinds = {
        httpx.ReadTimeout("slow"): "http_timeout",
        httpx.ConnectError("nobody"): "http_connect",
        httpx.ReadError("reset"): "http",
        ValueError("no json"): "json_to_payload",
    }
    for source, kind in kinds.items():
        assert translated(ResponseHandlingException(source)) == (kind, None)
    assert translated(FileNotFoundError(2, "gone")) == ("io", "gone")
    assert translated(RuntimeError("strange")) == ("response", None)


def test_grpc_failures_have_their_kinds():
    import grpc

    class Failure(grpc.RpcError):
        def __init__(self, code, details):
            self.code = lambda: code
            self.details = lambda: details

    status = grpc.StatusCode
    assert translated(Failure(status.INTERNAL, "Failed to connect to x")) == ("http_connect", "internal")
    assert translated(Failure(status.UNAVAILABLE, "failed to connect to all addresses"))[0] == "http_connect"
    assert translated(Failure(status.NOT_FOUND, "no")) == ("response", "not_found")
    assert translated(Failure(status.RESOURCE_EXHAUSTED, "slow down")) == (
        "resource_exhausted",
        "resource_exhausted",
    )


def test_a_full_server_says_when_to_come_back():
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse

    with pytest.raises(VectorDatabaseError) as caught, service_errors():
        raise ResourceExhaustedResponse("busy", 7)
    assert caught.value.kind == "resource_exhausted"
    assert caught.value.retry_after_seconds == 7.0


def test_a_client_is_built_in_the_process_that_uses_it(monkeypatch):
    """Not before first use, once, and anew in a forked child."""
    built = []

    def build(url, api_key):
        built.append(os.getpid())
        return SimpleNamespace(close=lambda: built.append("closed"))

    monkeypatch.setattr("charactermemory.adapters.qdrant.connection.build_client", build)
    connection = Connection("http://somewhere")
    assert built == []
    assert connection.client() is connection.client()
    assert built == [os.getpid()]
    child = os.fork()
    if child == 0:
        connection.client()
        os._exit(0 if built == [os.getppid(), os.getpid()] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    connection.close()
    connection.close()
    assert built == [os.getpid(), "closed"]


def test_service_memory_scope_filters_by_type(index, recorder):
    index.search(ONE, None, 5, [ObjectType.EPISODE])
    ((_, (_, requests), _),) = recorder.calls
    assert requests[0].filter.must[0].match.any == ["episode"]

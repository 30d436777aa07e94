"""What the service adapter says of a server in trouble, over real connections to a stub."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from qdrant_client import models

from charactermemory.adapters.qdrant import connection, service
from charactermemory.adapters.qdrant.service import QdrantVectorIndex
from charactermemory.errors import CollectionIncompatible, VectorDatabaseError
from charactermemory.ports.vectors import Cursor
from charactermemory.testing.vector_samples import EVERY_TYPE, numbers, record, ref
from tests.support.qdrant_stub import QdrantStub

ONE = [1.0, 0.0, 0.0, 0.0]


@pytest.fixture
def stub() -> Iterator[QdrantStub]:
    with QdrantStub() as stub:
        yield stub


@pytest.fixture
def index(stub: QdrantStub) -> Iterator[QdrantVectorIndex]:
    index = QdrantVectorIndex(stub.url, "ada", 4, "one")
    yield index
    index.close()


def test_a_server_that_refuses_says_its_status(stub: QdrantStub, index: QdrantVectorIndex) -> None:
    for status, name in ((503, "unavailable"), (500, "internal"), (403, "permission_denied")):
        with stub.troubled("fail", status=status), pytest.raises(VectorDatabaseError) as caught:
            index.write([record(1, ONE)], [], 1)
        assert (caught.value.kind, caught.value.status) == ("http_status", name)
    assert index.count() == 0


def test_a_server_that_is_away_comes_back_with_what_it_had(
    stub: QdrantStub, index: QdrantVectorIndex
) -> None:
    index.write([record(1, ONE)], [], 1)
    stub.stop()
    with pytest.raises(VectorDatabaseError) as caught:
        index.count()
    assert caught.value.kind in ("http_connect", "http")
    stub.start()
    index.write([record(2, ONE)], [], 2)
    assert sorted(numbers(index.search(ONE, None, 5, EVERY_TYPE).dense)) == [1, 2]


def test_a_slow_server_is_given_up_after_the_time_limit(
    stub: QdrantStub, index: QdrantVectorIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TIMEOUT_SECONDS", 1)
    slow = QdrantVectorIndex(stub.url, "ada", 4, "one")
    try:
        with stub.troubled("stall"), pytest.raises(VectorDatabaseError) as caught:
            slow.count()
        assert caught.value.kind == "http_timeout"
    finally:
        slow.close()


def test_an_answer_that_is_none_is_an_error_and_no_result(stub: QdrantStub, index: QdrantVectorIndex) -> None:
    index.write([record(1, ONE)], [], 1)
    with stub.troubled("nonsense"):
        for call in (index.count, index.cursor, lambda: index.search(ONE, None, 5, EVERY_TYPE)):
            with pytest.raises(VectorDatabaseError) as caught:
                call()
            assert caught.value.kind in ("json_to_payload", "response")


def test_deletes_may_fail_while_the_rest_goes_on(stub: QdrantStub, index: QdrantVectorIndex) -> None:
    index.write([record(1, ONE)], [], 1)
    with stub.troubled("fail", "deletes"):
        index.write([record(2, ONE)], [], 2)
        with pytest.raises(VectorDatabaseError):
            index.write([], [ref(1)], 3)
    assert index.count() == 2
    assert index.cursor() == Cursor(applied=0, high=2)


def test_a_lost_answer_may_have_been_done(stub: QdrantStub, index: QdrantVectorIndex) -> None:
    with stub.troubled("hang_up", "writes"), pytest.raises(VectorDatabaseError) as caught:
        index.write([record(1, ONE)], [], 1)
    assert caught.value.kind == "http"
    assert numbers(index.search(ONE, None, 5, EVERY_TYPE).dense) == [1]


def test_several_connections_are_answered_at_once(stub: QdrantStub, index: QdrantVectorIndex) -> None:
    """Gunicorn's workers come at the same time; nothing of theirs is lost."""
    failed: list[BaseException] = []

    def work(first: int) -> None:
        try:
            mine = QdrantVectorIndex(stub.url, "ada", 4, "one")
            for number in range(first, first + 10):
                mine.write([record(number, ONE)], [], number)
            mine.close()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(first,)) for first in (100, 200, 300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert index.count() == 30
    assert index.cursor().high == 309


def test_processes_that_open_a_new_memory_together_share_one_index(stub: QdrantStub) -> None:
    together = threading.Barrier(6)
    opened: list[QdrantVectorIndex] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            together.wait()
            opened.append(QdrantVectorIndex(stub.url, "new", 4, "one"))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    for number, index in enumerate(opened, 1):
        index.write([record(number, ONE)], [], number)
    assert [index.count() for index in opened] == [6] * 6
    assert set(opened[0]._generations()) == {"new.gen-1"}
    for index in opened:
        index.close()


@pytest.mark.parametrize(("fingerprint", "serving"), [("one", "ada.gen-1"), ("two", "ada.gen-2")])
def test_an_index_whose_maker_died_before_its_alias_is_finished(
    fingerprint: str,
    serving: str,
    stub: QdrantStub,
    index: QdrantVectorIndex,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of another model is left to the next rebuild, which removes it."""
    monkeypatch.setattr(service, "BEGIN_SECONDS", 0.0)
    delete = models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name="ada"))
    index._connection.client().update_collection_aliases([delete])
    other = QdrantVectorIndex(stub.url, "ada", 4, fingerprint)
    other.write([record(1, ONE)], [], 1)
    assert (other._serving(), other.count(), other.cursor().high) == (serving, 1, 1)
    other.close()


def test_an_index_that_is_opened_in_an_outage_is_there_afterwards(
    stub: QdrantStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "RETRY_SECONDS", 0.0)
    stub.stop()
    index = QdrantVectorIndex(stub.url, "late", 4, "one")
    with pytest.raises(VectorDatabaseError):
        index.write([record(1, ONE)], [], 1)
    stub.start()
    index.write([record(1, ONE)], [], 1)
    assert (index.count(), index.cursor()) == (1, Cursor(applied=0, high=1))
    index.close()


def test_a_server_that_was_just_out_is_not_asked_by_every_caller(stub: QdrantStub) -> None:
    with stub.troubled("fail"):
        index = QdrantVectorIndex(stub.url, "late", 4, "one")
        asked = len(stub.requests)
        for _ in range(5):
            with pytest.raises(VectorDatabaseError):
                index.count()
        assert len(stub.requests) == asked
    index.close()


def test_what_an_outage_hid_is_refused_when_it_is_seen(
    stub: QdrantStub, index: QdrantVectorIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "RETRY_SECONDS", 0.0)
    stub.stop()
    other = QdrantVectorIndex(stub.url, "ada", 4, "two")
    stub.start()
    for _ in range(2):
        with pytest.raises(CollectionIncompatible):
            other.count()
    other.close()


def test_a_server_that_refuses_is_told_at_once(stub: QdrantStub) -> None:
    with stub.troubled("fail", status=403), pytest.raises(VectorDatabaseError) as caught:
        QdrantVectorIndex(stub.url, "ada", 4, "one")
    assert caught.value.status == "permission_denied"

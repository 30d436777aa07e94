from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from charactermemory.testing.servers import OxigraphServer
from tests.graph.stores import MODES, Place


@pytest.fixture(scope="session")
def graph_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OxigraphServer]:
    with OxigraphServer(tmp_path_factory.mktemp("served") / "store") as running:
        yield running


def _place(mode: str, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    place = Place(mode, tmp_path, lambda: request.getfixturevalue("graph_server"))
    if mode == "service":
        with closing(place.connection()) as connection:
            connection.update("DROP ALL")
    return place


@pytest.fixture(params=MODES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return _place(request.param, tmp_path, request)


@pytest.fixture(params=["embedded", "service"])
def on_rocksdb(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return _place(request.param, tmp_path, request)


@pytest.fixture
def served(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    return _place("service", tmp_path, request)


@pytest.fixture
def embedded(tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    return _place("embedded", tmp_path, request)

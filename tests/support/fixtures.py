"""Fixtures of every test author; `tests/conftest.py` registers this module."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from charactermemory.testing.servers import OxigraphServer

if TYPE_CHECKING:
    from charactermemory.memory import CharacterMemory
    from tests.support.rig import Rig

OpenRig = Callable[..., "Rig"]
"""`open_rig(folder="", mode="persistent")`: a rig in a folder of its own below the test's."""


@pytest.fixture(scope="session")
def oxigraph_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OxigraphServer]:
    """A real `oxigraph serve` on RocksDB, shared by the session; empty a graph before relying on it."""
    with OxigraphServer(tmp_path_factory.mktemp("oxigraph") / "store") as running:
        yield running


@pytest.fixture
def open_rig(request: pytest.FixtureRequest, tmp_path: Path, unhurried: None) -> Iterator[OpenRig]:
    """Open rigs; all are closed at the end. Mode `service` starts the server and empties it."""
    opened: list[Rig] = []

    def open_one(folder: str = "", mode: str = "persistent") -> Rig:
        from tests.support.rig import Rig  # with all engines; here, so that only who uses them loads them

        url = None
        if mode == "service":
            from charactermemory.adapters.oxigraph.service import ServiceConnection

            url = request.getfixturevalue("oxigraph_server").url
            with closing(ServiceConnection(url)) as connection:
                connection.update("DROP ALL")
        opened.append(Rig(tmp_path / folder, mode, url))
        return opened[-1]

    yield open_one
    for rig in opened:
        rig.close()


@pytest.fixture
def rig(open_rig: OpenRig) -> Rig:
    """One memory on persistent Oxigraph, Edge and SQLite in the test's folder, every port watched."""
    return open_rig()


@pytest.fixture
def memory(rig: Rig) -> CharacterMemory:
    """The memory of `rig`, for tests that need nothing else."""
    return rig.memory


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index's place in the log moves by commits alone: what happens does not depend on the machine's speed."""
    from charactermemory.upkeep import derive

    monkeypatch.setattr(derive, "FLUSH_SECONDS", math.inf)

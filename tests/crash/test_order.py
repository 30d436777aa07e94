"""The order of writes, which a SIGKILL cannot prove: what is promised, or rested on, is durable before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from charactermemory.adapters.oxigraph import log_sync
from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection
from charactermemory.adapters.oxigraph.engine import Engine as StoreEngine
from charactermemory.adapters.qdrant.records import CURSOR_POINT
from charactermemory.adapters.qdrant.shard import EdgeGeneration
from charactermemory.domain.kinds import RelationType
from charactermemory.domain.lifecycle import Stored
from charactermemory.ids import MemoryObjectRef
from charactermemory.remember.outcome import CommitOptions
from memory_app.chat_import import importer
from tests.crash.fragile import Copies, FragileGround
from tests.crash.operations import OPERATIONS, live
from tests.revise.drafts import sourced
from tests.support.grounds import COLLECTION, DiskGround, Ground, MemoryGround
from tests.support.plans import episode_ref, link, memory_ref, plan, uid
from tests.support.steps import Moment, Step

WRITES = ("commit", "correct", "forget", "link", "import")
LEFT = CommitOptions(update_vectors=False, update_stats=False)


class Engine:
    """The index's engine; notes in `moves` every place in the log that was written, and whether after a flush."""

    def __init__(self, inner: Any, moves: list[tuple[int, bool]]) -> None:
        self._inner = inner
        self._moves = moves
        self._flushed = True

    def _applied(self) -> int:
        found = self._inner.retrieve([CURSOR_POINT], True, False)
        return int(found[0].payload["applied"]) if found else 0

    def update(self, operation: Any) -> Any:
        """Write points; the cursor's among them."""
        before = self._applied()
        self._inner.update(operation)
        if (applied := self._applied()) > before:
            self._moves.append((applied, self._flushed))
        self._flushed = False

    def flush(self) -> None:
        """Make what was written durable."""
        self._inner.flush()
        self._flushed = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.fixture
def moves(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
    """Every place that an index writes."""
    noted: list[tuple[int, bool]] = []
    begin = EdgeGeneration.__init__
    monkeypatch.setattr(
        EdgeGeneration,
        "__init__",
        lambda made, collection, size, engine: begin(made, collection, size, Engine(engine, noted)),  # type: ignore[arg-type]
    )
    return noted


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[DiskGround]:
    """A life on disk."""
    made = DiskGround(tmp_path)
    made.start()
    live(made.memory)
    yield made
    made.stop()


@pytest.mark.parametrize("operation", WRITES)
def test_the_log_is_synced_before_the_answer_and_before_what_rests_on_it(
    ground: DiskGround, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importer, "BATCH_OBJECTS", 6)
    logs = (ground.root / "graph" / COLLECTION).glob
    synced = {path.name: path.stat().st_size for path in logs("*.log")}
    real = log_sync.os.fdatasync

    def fdatasync(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        size = path.stat().st_size
        real(descriptor)
        synced[path.name] = size

    monkeypatch.setattr(log_sync.os, "fdatasync", fdatasync)
    updates = 0

    def durable() -> bool:
        return all(synced.get(path.name) == path.stat().st_size for path in logs("*.log"))

    def watch(step: Step, moment: Moment) -> None:
        nonlocal updates
        if (step.port, step.name, moment) == ("graph", "update", "after"):
            updates += 1
            assert not durable()
        derived = (step.port, step.name) in {("index", "write"), ("statistics", "apply")}
        if updates and derived and moment == "before":
            assert durable(), f"{step} came before the sync of what it rests on"

    ground.steps.watch = watch
    OPERATIONS[operation](ground.memory, lambda what, count: _assert(durable()))
    assert updates > 1 if operation == "import" else updates == 1


def _assert(true: bool) -> None:
    assert true


@pytest.mark.parametrize("operation", ["sweep", "rebuild", "close", "commit", "import"])
def test_the_index_is_flushed_before_its_place_is_written(
    moves: list[tuple[int, bool]], ground: DiskGround, operation: str
) -> None:
    """A commit writes the place when it is repeated; an import sweeps before it begins."""
    moves.clear()
    for _ in range(2):
        if operation != "close" or not moves:
            OPERATIONS[operation](ground.memory, lambda what, count: None)
    assert moves
    assert all(flushed for _, flushed in moves)


@pytest.fixture
def indexed() -> Iterator[Ground]:
    """A life in memory, swept."""
    made = MemoryGround()
    made.start()
    live(made.memory)
    made.memory.upkeep.sweep()
    yield made
    made.stop()


def before_read(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, ref: MemoryObjectRef, act: Callable[[], None]
) -> None:
    """Let `act` happen once, after the derive step has read the graph's head and before it reads `ref`.

    This holds at the port, so it does not matter which reads the adapter answers without asking its store.
    """
    graph = ground.memory.stores.graph
    head, read = graph.head, graph.read
    asked = []

    def noting() -> int:
        found = head()
        asked.append(found)
        return found

    def interrupted(refs: Collection[MemoryObjectRef], anew: bool = False) -> dict[MemoryObjectRef, Stored]:
        if asked and ref in refs:
            monkeypatch.undo()
            act()
        return read(refs, anew)

    monkeypatch.setattr(graph, "head", noting)
    monkeypatch.setattr(graph, "read", interrupted)


def supersede(ground: Ground, number: int) -> None:
    """Commit what takes the place of a memory, and die before it is derived."""
    successor = sourced(
        number + 0x100, "Note of how it is instead", episodes=(0x10,), supersedes=(uid(number),)
    )
    ground.memory.commit(plan(successor), LEFT)


def test_the_index_does_not_say_less_than_it_has_seen(
    indexed: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit lands after the head was read and before the lifecycle is: the index follows it, and says so."""
    stores = indexed.memory.stores
    before_read(indexed, monkeypatch, memory_ref(0x13), lambda: supersede(indexed, 0x13))
    report = indexed.memory.upkeep.reconcile(memory_ref(0x13))
    assert report.deleted == (memory_ref(0x13),)
    assert stores.vectors.cursor().high == stores.graph.head()


def test_the_statistics_do_not_say_less_than_they_have_seen(
    indexed: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same between the read of a link and that of its ends; what was read last is synced too."""
    stores = indexed.memory.stores
    tied = link(uid(0x40), memory_ref(0x13), RelationType.ASSOCIATED_WITH, episode_ref(0x10))
    made = indexed.memory.link(tied).link.ref
    after: list[str] = []

    def act() -> None:
        supersede(indexed, 0x13)
        indexed.steps.watch = lambda step, moment: after.append(f"{step.port}.{step.name}")

    before_read(indexed, monkeypatch, memory_ref(0x13), act)
    indexed.memory.upkeep.reconcile(made)
    (state,) = stores.statistics.states([memory_ref(0x13)]).values()
    assert not state.current
    assert stores.statistics.cursor().high == stores.graph.head()
    assert "graph.sync" in after[: after.index("statistics.apply")]


def test_rebuilt_statistics_do_not_say_less_than_they_have_seen(
    indexed: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit lands after the rebuild began: the new rows follow it, and say so; what was read is synced."""
    stores = indexed.memory.stores
    after: list[str] = []

    def act() -> None:
        supersede(indexed, 0x13)
        indexed.steps.watch = lambda step, moment: after.append(f"{step.port}.{step.name} {moment}")

    before_read(indexed, monkeypatch, memory_ref(0x13), act)
    indexed.memory.upkeep.rebuild_statistics()
    (state,) = stores.statistics.states([memory_ref(0x13)]).values()
    assert not state.current
    assert stores.statistics.cursor().high == stores.graph.head()
    assert "graph.sync after" in after[: after.index("statistics.rebuild after")]


def test_what_was_left_out_for_a_commit_that_is_lost_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index wrote nothing, so its mark says nothing of the later commit; that of the statistics does."""
    ground = FragileGround(tmp_path)
    ground.start()
    live(ground.memory)
    ground.memory.upkeep.sweep()
    copies: list[Copies] = []

    def act() -> None:
        copies.append(ground.copy())
        supersede(ground, 0x55)

    before_read(ground, monkeypatch, memory_ref(0x55), act)
    ground.memory.commit(plan(sourced(0x55, "Note of what it means", episodes=(0x10,))))
    stores = ground.memory.stores
    assert memory_ref(0x55) not in stores.vectors.present([memory_ref(0x55)])
    ground.stop()

    ground.put_back(copies[0], "graph")
    ground.start()
    assert ground.memory.upkeep.sweep().complete
    assert ground.memory.stores.graph.read([memory_ref(0x55)])[memory_ref(0x55)].current
    assert memory_ref(0x55) in ground.memory.stores.vectors.present([memory_ref(0x55)])
    ground.stop()


class Slow:
    """A store whose updates have taken effect, and are seen, before they come back."""

    def __init__(self, store: Any, meanwhile: Callable[[], None]) -> None:
        self._store = store
        self._meanwhile = meanwhile

    def update(self, text: str) -> None:
        """Update, and only then let others in."""
        self._store.update(text)
        self._meanwhile()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def test_an_update_that_others_see_already_is_synced_with_what_they_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine shows an update before the call that made it comes back; the end of the log is not known then."""
    connection = EmbeddedConnection(tmp_path, COLLECTION)
    synced: list[int] = []
    real = log_sync.os.fdatasync
    monkeypatch.setattr(log_sync.os, "fdatasync", lambda file: (synced.append(file), real(file)))

    def meanwhile() -> None:
        assert connection.ask("ASK { GRAPH <urn:g> { ?s ?p ?o } }")
        assert connection.version() is None
        connection.sync()

    monkeypatch.setattr(StoreEngine, "store", property(lambda engine: Slow(engine._store, meanwhile)))
    connection.update("INSERT DATA { GRAPH <urn:g> { <urn:s> <urn:p> 1 } }")
    assert synced
    assert connection.version() == 1
    monkeypatch.undo()
    connection.close()

"""A graph that ends before what was seen of it: restored from an older copy, or cut short (consistency.md R5)."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from charactermemory.errors import EmbeddingError, GraphWentBack
from charactermemory.ports.vectors import VectorSurface
from charactermemory.remember.outcome import CommitOptions
from charactermemory.upkeep.verify import WentBack
from tests.revise.drafts import forgetting, nothing_written, sourced
from tests.support.fixtures import OpenRig
from tests.support.plans import episode, episode_ref, memory_ref, plan
from tests.support.rig import Rig
from tests.upkeep.support import GRAPH, put_point

OLD, NEW, LATE = episode_ref(1), memory_ref(2), episode_ref(3)


def folder(rig: Rig) -> Path:
    assert rig.settings.oxigraph_path is not None
    return rig.settings.oxigraph_path


def live(rig: Rig) -> None:
    """What happens after the copy was made: three commits, one of which forgets what the copy holds."""
    rig.memory.commit(plan(sourced(2, "We shall meet again.", episodes=(1,))))
    rig.memory.forget(forgetting(OLD))
    rig.memory.commit(plan(episode(3, "We parted.")))


@pytest.fixture
def restored(rig: Rig, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Rig:
    """The graph is put back to one commit; the index and the statistics have seen four."""
    rig.memory.commit(plan(episode(1, "We met.")))
    rig.close()
    shutil.copytree(folder(rig), tmp_path / "copy")
    rig.reopen()
    live(rig)
    assert rig.points().keys() == {LATE}
    rig.close()
    shutil.rmtree(folder(rig))
    shutil.copytree(tmp_path / "copy", folder(rig))
    with caplog.at_level(logging.WARNING):
        rig.reopen()
    return rig


def agrees(rig: Rig) -> bool:
    rig.memory.upkeep.sweep()
    return rig.memory.upkeep.verify().found == () and rig.backlog() == (0, 0)


def test_it_is_reported_on_opening_and_can_be_read(restored: Rig, caplog: pytest.LogCaptureFixture) -> None:
    message = str(GraphWentBack("ada", 1, 4))
    assert [record.getMessage() for record in caplog.get_records("setup")] == [message]
    for number in ("commit 1", "commit 4"):
        assert number in message
    with nothing_written(restored):
        assert restored.stored(OLD).current
        recalled = restored.memory.retrieve("We parted.")
        assert str(LATE.id) not in recalled.pack.model_dump_json(), "the graph does not have it"
        report = restored.memory.upkeep.verify()
    assert report.went_back == WentBack(head=1, seen=4)
    assert {(item.kind, item.object) for item in report.found} == {
        ("vector_missing", OLD),
        ("statistics_state", OLD),
        ("vector_not_wanted", LATE),
        ("statistics_state", NEW),
        ("statistics_state", LATE),
    }


def commit(rig: Rig) -> None:
    assert rig.memory.commit(plan(episode(4, "We wrote."))).complete


def forget(rig: Rig) -> None:
    assert rig.memory.forget(forgetting(OLD)).complete


@pytest.mark.parametrize("write", [commit, forget])
def test_the_next_write_verifies_the_whole_first(restored: Rig, write: Callable[[Rig], None]) -> None:
    write(restored)
    assert restored.head() == 5, "numbered above everything that was seen"
    assert LATE not in restored.points()
    assert restored.statistics.inner.states([NEW, LATE]) == {}
    assert (OLD in restored.points()) == (write is commit)
    assert restored.memory.upkeep.verify().found == ()
    assert agrees(restored)

    restored.vectors.calls.clear()
    commit(restored)
    assert "scan" not in restored.vectors.names(), "once is enough"
    restored.reopen()
    assert agrees(restored)


def test_what_an_index_holds_beyond_its_mark_is_seen_too(rig: Rig) -> None:
    rig.memory.commit(plan(episode(1, "We met.")))
    rig.reopen()
    put_point(rig, LATE, "We parted.", VectorSurface.SUMMARY, high=2)
    assert rig.backlog()[0] == 0, "its mark says nothing of the commit that was lost"
    commit(rig)
    assert rig.head() == 3, "numbered above everything that was seen"
    assert LATE not in rig.points()


def test_a_sweep_verifies_the_whole_too(restored: Rig) -> None:
    report = restored.memory.upkeep.sweep()
    assert report.verified is not None
    assert report.verified.went_back == WentBack(head=1, seen=4)
    assert report.verified.left == ()
    assert report.complete
    assert restored.points().keys() == {OLD}
    assert restored.memory.upkeep.sweep().verified is None
    commit(restored)
    assert restored.head() == 5
    assert agrees(restored)


def test_a_repair_by_hand_accepts_the_graph(restored: Rig) -> None:
    report = restored.memory.upkeep.verify(repair=True)
    assert report.went_back == WentBack(head=1, seen=4)
    assert restored.memory.upkeep.verify().went_back is None
    commit(restored)
    assert restored.head() == 5
    assert agrees(restored)


def test_while_the_index_cannot_be_repaired_nothing_is_written(restored: Rig) -> None:
    """Whatever is missing then would be missing for ever, for no receipt beyond a mark speaks of it."""
    triples = restored.triples()
    restored.embedder.fail("bulk_generate_embeddings", EmbeddingError("transport"), times=10)
    with pytest.raises(GraphWentBack) as caught:
        commit(restored)
    assert (caught.value.head, caught.value.high) == (1, 4)
    swept = restored.memory.upkeep.sweep()
    assert swept.verified is not None
    assert swept.verified.left == (OLD,)
    assert not swept.complete
    assert restored.triples() == triples

    restored.embedder.recover()
    commit(restored)
    assert OLD in restored.points()
    assert agrees(restored)


def test_an_older_copy_of_the_index_only_has_to_catch_up(rig: Rig, tmp_path: Path) -> None:
    place = rig.settings.vector_store_path
    assert place is not None
    rig.memory.commit(plan(episode(1, "We met.")))
    rig.close()
    shutil.copytree(place, tmp_path / "copy")
    rig.reopen()
    live(rig)
    rig.close()
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "copy", place)
    rig.reopen()
    assert rig.points().keys() == {OLD}
    assert rig.backlog()[0] == 3

    # A commit does not hide the gap behind its own mark.
    rig.memory.commit(plan(episode(5, "We waited.")))
    rig.reopen()
    assert rig.backlog()[0] == 4

    report = rig.memory.upkeep.sweep()
    assert report.verified is None
    assert rig.points().keys() == {LATE, episode_ref(5)}
    assert agrees(rig)


# --- with several processes ---


def put_back(rig: Rig, lines: tuple[bytes, ...]) -> None:
    """Let the served graph hold these lines and nothing else, as a server does that lost its last writes."""
    body = "\n".join(line.decode().rsplit(" <", 1)[0] + " ." for line in lines)
    rig.connection.inner.update(f"DROP GRAPH {GRAPH}; INSERT DATA {{ GRAPH {GRAPH} {{ {body} }} }}")
    assert rig.triples() == lines


def test_with_several_processes_writes_wait_for_the_sweep(open_rig: OpenRig) -> None:
    rig = open_rig(mode="service")
    rig.memory.commit(plan(episode(1, "We met.")))
    lines = rig.triples()
    live(rig)
    put_back(rig, lines)

    for write in (commit, forget):
        with nothing_written(rig), pytest.raises(GraphWentBack) as caught:
            write(rig)
        assert (caught.value.head, caught.value.high) == (1, 4)
    assert rig.stored(OLD).current

    report = rig.memory.upkeep.sweep()
    assert report.verified is not None
    assert report.verified.went_back == WentBack(head=1, seen=4)
    assert rig.points().keys() == {OLD}
    commit(rig)
    assert rig.head() == 5
    rig.clock.forward(minutes=2)
    assert agrees(rig)


def test_with_several_processes_the_writer_lock_remembers_what_no_derived_store_saw(
    open_rig: OpenRig,
) -> None:
    rig = open_rig(mode="service")
    later = CommitOptions(update_vectors=False, update_stats=False)
    rig.memory.commit(plan(episode(1, "We met.")), later)
    lines = rig.triples()
    rig.memory.commit(plan(episode(3, "We parted.")), later)
    put_back(rig, lines)
    with pytest.raises(GraphWentBack) as caught:
        commit(rig)
    assert (caught.value.head, caught.value.high) == (1, 2)
    assert rig.memory.upkeep.sweep().complete
    commit(rig)
    assert rig.head() == 3

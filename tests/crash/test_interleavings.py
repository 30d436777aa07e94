"""However writers and upkeep interleave, wherever the process ends, and whatever older copy is put back: one
sweep, and graph, index and statistics agree (consistency.md §3, §11.3).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from charactermemory.adapters.oxigraph.store import OxigraphStore
from charactermemory.ids import MemoryObjectRef
from charactermemory.upkeep import rebuild, sweep
from tests.crash import histories
from tests.crash.fragile import Copies, FragileGround, Store
from tests.crash.histories import WRITES, assert_whole, keeper, taking_turns, writer
from tests.crash.operations import live
from tests.crash.turns import Turns
from tests.support.steps import Moment, Step

pytestmark = pytest.mark.usefixtures("unhurried")

HISTORIES = 40
PLANTED = range(150, 550)
"""Histories in which a planted fault must show; one in thirty shows it, or more."""
PROCESSES = 3
LATEST_END = 300
"""Turns after which a process dies at the latest, if it does; its work takes about as many."""
CHANGES = (1.0, 0.3, 0.1, 0.03)
"""Chances that another thread goes on, one of them drawn for every process."""


class History:
    """Processes one after the other on the same data; all that happens follows from the seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = Random(seed)
        self.ground = FragileGround(folder)
        self.acknowledged: list[tuple[str, str]] = []
        self.copied: tuple[Copies, int] | None = None
        self.ground.start()
        live(self.ground.memory)
        self.ground.stop()

    def go(self) -> None:
        """Run every process to its end, and see after each that one sweep makes everything agree."""
        try:
            for _ in range(PROCESSES):
                self.process()
                self.examine(went_back=self.disaster())
        except BaseException:
            self.ground.die()
            raise

    def process(self) -> None:
        """Two writers and a keeper; a copy of the stores is taken somewhere, and the process may die.

        It dies anywhere, or where that tells most: a derived store was just written, and the graph holds what no
        sync has made durable. What it died of was a power failure in half of all cases, in these always.
        """
        random, ground = self.random, self.ground
        (end,) = random.choices(("in good order", "anywhere", "exposed"), (4, 1, 3))
        end_at = random.randrange(1, LATEST_END) if end == "anywhere" else None
        copy_at = random.randrange(1, LATEST_END)
        turns = Turns(random, lambda: ground.steps.kill(), end_at, random.choice(CHANGES))

        def note(step: Step, moment: Moment) -> None:
            ground.note(step, moment)
            if moment == "after":
                if step.number == copy_at:
                    self.copied = (ground.copy(), len(self.acknowledged))
                if end == "exposed" and ground.ahead and (step.port, step.name) in WRITES:
                    turns.end()

        with taking_turns(ground, turns, random, note):
            memory = ground.memory
            seeds = [random.randrange(2**32) for _ in range(3)]
            died = turns.play(
                [
                    lambda: writer(memory, Random(seeds[0]), self.acknowledge),
                    lambda: writer(memory, Random(seeds[1]), self.acknowledge),
                    lambda: keeper(memory, Random(seeds[2])),
                ]
            )
        if not died:
            ground.stop()
            return
        ground.die()
        if end == "exposed" or random.random() < 0.5:
            ground.cut_power(random, index_too=random.random() < 0.5)

    def acknowledge(self, what: str, ref: MemoryObjectRef) -> None:
        """Note what an answer promises."""
        self.acknowledged.append((what, str(ref)))

    def disaster(self) -> bool:
        """Sometimes, older copies take the place of stores; return whether the graph went back by that."""
        if self.copied is None or self.random.random() < 0.5:
            return False
        copies, acknowledged = self.copied
        lost: tuple[tuple[Store, ...], ...] = (
            ("graph",),
            ("index",),
            ("statistics",),
            ("index", "statistics"),
        )
        chosen = self.random.choice(lost)
        for store in chosen:
            self.ground.put_back(copies, store)
            if store == "graph":
                del self.acknowledged[acknowledged:]
        return "graph" in chosen

    def examine(self, *, went_back: bool) -> None:
        """Open, sweep once, compare, and end in good order.

        Only a copy that was put back may leave the graph behind what a derived store has seen, no power failure:
        what they rest on was synced before.
        """
        self.ground.start()
        self.ground.steps.watch = self.ground.note
        report = self.ground.memory.upkeep.sweep()
        assert report.complete, "not swept to the end"
        assert went_back or report.verified is None, "a derived store ran ahead of the graph"
        assert_whole(self.ground.memory, set(self.acknowledged))
        self.ground.stop()


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_history_in_memory(seed: int, tmp_path: Path) -> None:
    History(seed, tmp_path).go()


class NoMutex:
    """Keeps nobody out."""

    def __init__(self, turns: Turns) -> None:
        """Take what `Mutex` does."""

    def __enter__(self) -> None:
        """Go on."""

    def __exit__(self, *error: object) -> None:
        """Go on."""


def no_sync(patch: pytest.MonkeyPatch) -> None:
    """Nobody makes durable what a derived write rests on; a commit's own sync stays."""
    patch.setattr(OxigraphStore, "sync", lambda self: None)


def no_derive_lock(patch: pytest.MonkeyPatch) -> None:
    """Two may read the graph and write what they read into a derived store at the same time."""
    patch.setattr(histories, "Mutex", NoMutex)


def no_comparison(patch: pytest.MonkeyPatch) -> None:
    """A sweep does not ask whether the graph went back."""
    patch.setattr(sweep, "recover", lambda stores: None)


def unsynced_rebuild(patch: pytest.MonkeyPatch) -> None:
    """Rebuilt statistics take over although what was read for them may be on no disk."""
    patch.setattr(rebuild, "synced_head", lambda stores: 0)


FAULTS: tuple[tuple[Callable[[pytest.MonkeyPatch], None], str], ...] = (
    (no_sync, "ran ahead"),
    (no_derive_lock, "the stores differ"),
    (no_comparison, "the stores differ"),
    (unsynced_rebuild, "ran ahead|the stores differ"),
)
"""Each fault, and what is seen of it."""


@pytest.mark.parametrize(("fault", "seen"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_a_planted_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], seen: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fault(monkeypatch)
    with pytest.raises(AssertionError, match=seen):
        for seed in PLANTED:
            (folder := tmp_path / str(seed)).mkdir()
            History(seed, folder).go()

"""However writers and upkeep interleave, wherever the process ends, and whatever older copy is put back: one
sweep, and graph, index and statistics agree (consistency.md §3, §11.3).
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from charactermemory.ids import MemoryObjectRef
from tests.crash.fragile import Copies, FragileGround, Store
from tests.crash.histories import assert_whole, keeper, taking_turns, writer
from tests.crash.operations import live
from tests.crash.turns import Turns
from tests.support.steps import Moment, Step

HISTORIES = 40
PROCESSES = 3
LATEST_END = 300
"""Turns after which a process dies at the latest, if it does; its work takes about as many."""


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
        for _ in range(PROCESSES):
            self.process()
            self.disaster()
            self.examine()

    def process(self) -> None:
        """Two writers and a keeper; a copy of the stores is taken somewhere, and the process may die."""
        random = self.random
        end_at = random.randrange(1, LATEST_END) if random.random() < 0.7 else None
        copy_at = random.randrange(1, LATEST_END)
        turns = Turns(random, lambda: self.ground.steps.kill(), end_at)

        def note(step: Step, moment: Moment) -> None:
            self.ground.note(step, moment)
            if moment == "after" and step.number == copy_at:
                self.copied = (self.ground.copy(), len(self.acknowledged))

        with taking_turns(self.ground, turns, note):
            memory = self.ground.memory
            seeds = [random.randrange(2**32) for _ in range(3)]
            died = turns.play(
                [
                    lambda: writer(memory, Random(seeds[0]), self.acknowledge),
                    lambda: writer(memory, Random(seeds[1]), self.acknowledge),
                    lambda: keeper(memory, Random(seeds[2])),
                ]
            )
        end = self.ground.die if died else self.ground.stop
        end()
        if died and random.random() < 0.5:
            self.ground.cut_power(index_too=random.random() < 0.5)

    def acknowledge(self, what: str, ref: MemoryObjectRef) -> None:
        """Note what an answer promises."""
        self.acknowledged.append((what, str(ref)))

    def disaster(self) -> None:
        """Sometimes, older copies take the place of stores."""
        if self.copied is None or self.random.random() < 0.5:
            return
        copies, acknowledged = self.copied
        lost: tuple[tuple[Store, ...], ...] = (
            ("graph",),
            ("index",),
            ("statistics",),
            ("index", "statistics"),
        )
        for store in self.random.choice(lost):
            self.ground.put_back(copies, store)
            if store == "graph":
                del self.acknowledged[acknowledged:]

    def examine(self) -> None:
        """Open, sweep once, compare, and end in good order."""
        self.ground.start()
        self.ground.steps.watch = self.ground.note
        assert self.ground.memory.upkeep.sweep().complete
        assert_whole(self.ground.memory, set(self.acknowledged))
        self.ground.stop()


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_history_in_memory(seed: int, tmp_path: Path) -> None:
    History(seed, tmp_path).go()

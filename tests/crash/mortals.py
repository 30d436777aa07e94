"""A process that makes mortal ones: it has everything loaded and no store open, and forks a child for every job.

A process that ever opened RocksDB must not be the parent of one that does (consistency.md §4), so the tests
themselves, which may have, keep this one. It reads a job a line and answers with how its child ended; what
the child has to say it writes down itself, so that it outlives the child.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import signal
import sys
import traceback
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from charactermemory.adapters.oxigraph import embedded as _embedded  # noqa: F401 - loaded once, for all children
from charactermemory.adapters.qdrant.shard import EdgeGeneration
from charactermemory.revise import correct, forget
from charactermemory.upkeep import derive
from memory_app.chat_import import importer
from tests.crash.operations import OPERATIONS, live
from tests.support.clock import START, SteppingClock
from tests.support.grounds import DiskGround
from tests.support.steps import Moment, Step, Stepped

HANGS_AFTER_SECONDS = 120
OBJECTS_OF_AN_IMPORT = 6
"""Objects of one commit of an import, so that a small chat takes several."""


class Mortal:
    """One child: opens the memory in a folder, does one job, and says what it finds."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.ground = DiskGround(Path(job["folder"]))
        self.clock = self.ground.clock = Clock()
        self.notes = os.open(job["notes"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        importer.BATCH_OBJECTS = OBJECTS_OF_AN_IMPORT
        # At every commit, so that a kill falls there too, and the steps do not depend on how fast the machine is.
        derive.FLUSH_SECONDS = 0.0
        begin = EdgeGeneration.__init__

        def stepped(made: EdgeGeneration, collection: str, size: int, engine: Any) -> None:
            begin(made, collection, size, Stepped(engine, "engine", self.ground.steps))

        EdgeGeneration.__init__ = stepped  # type: ignore[method-assign,assignment]

    def say(self, what: str, value: Any) -> None:
        """Write a note; it survives the kill, for the kernel has it."""
        os.write(self.notes, json.dumps([what, value]).encode() + b"\n")

    def work(self) -> None:
        """Do the job."""
        getattr(self, self.job["job"])()

    def prepare(self) -> None:
        """Live the life before, and end in good order."""
        self._start()
        live(self.ground.memory)
        self.ground.stop()

    def complete(self) -> None:
        """Do the operation undisturbed, and describe what it comes to."""
        self._start()
        self._operate()
        self._compare()

    def operate(self) -> None:
        """Do the operation; the process is killed before or after one of its steps, or at its end."""
        self._start()
        begun, number, moment = len(self.ground.steps.taken), self.job["number"], self.job["moment"]

        def kill(step: Step, when: Moment) -> None:
            if step.number == begun + number and when == moment:
                self.say("step", f"{moment} {step.port}.{step.name}")
                os.kill(os.getpid(), signal.SIGKILL)

        steps = self.ground.steps
        steps.watch = kill
        self._operate()
        self.say("steps", len(steps.taken) - begun)

    def recover(self) -> None:
        """Open what is left, sweep once, and compare; then do the operation once more, and compare again."""
        self._start()
        self._compare()
        self.ground.stop()
        self._start()
        self._operate()
        self._compare()

    def _start(self) -> None:
        self.ground.start()

    def _operate(self) -> None:
        """Do the operation at a fixed time and with fixed ids, so that it always writes the same."""
        self.clock.set(START + timedelta(hours=1))
        numbers = itertools.count(0xE000)
        for module in (correct, forget):
            module.new_id = lambda: UUID(int=next(numbers))
        OPERATIONS[self.job["operation"]](self.ground.memory, self.say)
        if self.job["operation"] == "close":
            self._start()

    def _compare(self) -> None:
        memory = self.ground.memory
        swept = memory.upkeep.sweep()
        self.say("swept", [swept.complete, swept.vector_backlog, swept.statistics_backlog])
        self.say("differences", [str(item) for item in memory.upkeep.verify().found])
        self.say("state", self._state())

    def _state(self) -> dict[str, Any]:
        stores = self.ground.memory.stores
        stored = stores.graph.read(stores.graph.scan(None, 1_000)[0])
        return {
            "graph": hashlib.sha256(b"".join(self.ground.memory.upkeep.export())).hexdigest(),
            "objects": {
                str(ref): [item.digest, item.suppressed, sorted(map(str, item.superseded_by))]
                for ref, item in stored.items()
            },
            "points": dict(sorted((str(ref), text) for ref, text in stores.vectors.scan(None, 1_000)[0])),
        }


class Clock(SteppingClock):
    """A clock that can be set."""

    def set(self, now: datetime) -> None:
        """Go on from `now`."""
        self._next = now


def main() -> None:
    """Fork a child for every job; say how it ended."""
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            signal.alarm(HANGS_AFTER_SECONDS)
            try:
                Mortal(job).work()
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()

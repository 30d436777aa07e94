"""How long comparing a whole memory with its index and statistics takes, and how much RAM.

    python -m benchmarks.verify [--objects 1000 10000 100000] [--folder DIR]

A life on embedded stores, filled past the commit path, so that verify finds nothing: it reads every object, point,
state and edge. Filling and verifying are processes of their own, so that what is measured is verifying. The figure
for RAM is the process's own (anonymous) memory, sampled; pages of the stores' mapped files are the system's.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks import support

ALLOWED_SECONDS = 60.0
"""For 100,000 objects."""


@dataclass(frozen=True)
class Figures:
    """What was measured at one size; memory in MiB."""

    objects: int
    points: int
    differences: int
    seconds: float
    cpu: float
    open: int
    peak: int


class OwnMemory:
    """Samples the process's own memory in a thread, in MiB."""

    def __init__(self) -> None:
        self.first = self.peak = self._now()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take no more samples."""
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._over.wait(0.05):
            self.peak = max(self.peak, self._now())

    @staticmethod
    def _now() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        (kib,) = (line.split()[1] for line in lines if line.startswith("RssAnon:"))
        return int(kib) // 1024


def verify(root: Path) -> Figures:
    """Verify the memory under `root` once."""
    with support.open_memory(root) as memory:
        own = OwnMemory()
        cpu, start = time.process_time(), time.perf_counter()
        report = memory.upkeep.verify()
        taken, used = time.perf_counter() - start, time.process_time() - cpu
        own.stop()
    return Figures(report.objects, report.points, report.differences, taken, used, own.first, own.peak)


def main() -> int:
    """Measure and print; 1 if anything differs, for then something else was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--objects", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--folder", help="where the stores are made")
    options = parser.parse_args()
    print(support.machine())
    found: list[Figures] = []
    spawn = multiprocessing.get_context("spawn")
    with (
        support.scratch(options.folder) as scratch,
        ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as processes,
    ):
        for objects in sorted(options.objects):
            root = scratch / str(objects)
            processes.submit(support.grow, root, max(objects // support.OBJECTS_PER_MOMENT, 1)).result()
            figures = processes.submit(verify, root).result()
            found.append(figures)
            print(
                f"{figures.objects:>7,} objects, {figures.points:,} points: {figures.differences} differences, "
                f"{figures.seconds:.1f} s (cpu {figures.cpu:.1f} s, {figures.objects / figures.cpu:,.0f} objects "
                f"a cpu second), {figures.open} MiB open, {figures.peak} MiB at most ({support.machine()})",
                flush=True,
            )
    last = found[-1]
    print(
        f"verify_objects={last.objects} verify_s={last.seconds:.1f} verify_cpu_s={last.cpu:.1f} "
        f"differences={sum(figures.differences for figures in found)} "
        f"peak_above_open_mib={last.peak - last.open} allowed_s={ALLOWED_SECONDS:.0f}"
    )
    return int(any(figures.differences for figures in found))


if __name__ == "__main__":
    sys.exit(main())

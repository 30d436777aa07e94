"""The process that makes mortal ones, and folders in memory for them to write to."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
KILLED = -9


@dataclass
class Life:
    """What one job came to: how its process ended, and what it noted."""

    ended: int
    notes: list[tuple[str, Any]] = field(default_factory=list)

    def noted(self, what: str) -> list[Any]:
        """Every note of this kind, in order."""
        return [value for kind, value in self.notes if kind == what]


class Mortals:
    """Has jobs done by processes that may die of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._jobs = 0
        self._maker = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.mortals"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, job: str, folder: Path, **details: Any) -> Life:
        """Have a job done in a process of its own."""
        self._jobs += 1
        notes = self.root / f"notes-{self._jobs}"
        assert self._maker.stdin and self._maker.stdout
        order = {"job": job, "folder": str(folder), "notes": str(notes), **details}
        self._maker.stdin.write(json.dumps(order) + "\n")
        self._maker.stdin.flush()
        ended = int(self._maker.stdout.readline())
        lines = notes.read_text().splitlines() if notes.exists() else []
        return Life(ended, [tuple(json.loads(line)) for line in lines])

    def copy(self, folder: Path) -> Path:
        """Copy a folder that no process has open; holes stay holes, or every copy would take 160 MB."""
        self._jobs += 1
        target = self.root / f"copy-{self._jobs}"
        subprocess.run(["cp", "-a", "--sparse=always", folder, target], check=True)
        return target

    def close(self) -> None:
        """End the maker."""
        assert self._maker.stdin and self._maker.stdout
        self._maker.stdin.close()
        self._maker.wait(10)
        self._maker.stdout.close()


@pytest.fixture(scope="session")
def memory_folder() -> Iterator[Path]:
    """A folder that is kept in memory where the system has such: a SIGKILL tells nothing about disks."""
    shared = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="crash-", dir=shared if shared.is_dir() else None))
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="session")
def mortals(memory_folder: Path) -> Iterator[Mortals]:
    """Processes to be killed."""
    made = Mortals(memory_folder)
    yield made
    made.close()

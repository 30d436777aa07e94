"""A process killed at any step leaves nothing torn and nothing acknowledged missing; one sweep mends the rest.

SIGKILL proves the order of writes, not that they are durable; that is `test_order.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.crash.conftest import KILLED, Life, Mortals

pytestmark = pytest.mark.long

OPERATIONS = ("commit", "correct", "forget", "link", "import", "sweep", "rebuild", "close")
POINTS = 6
"""Points of an operation in the default run, spread evenly; all of them are slow."""

Point = tuple[int, str]
State = dict[str, Any]


@pytest.fixture(scope="module")
def lived(mortals: Mortals) -> Path:
    """A life, closed in good order."""
    folder = mortals.root / "lived"
    assert mortals.do("prepare", folder).ended == 0
    return mortals.copy(folder)


@dataclass
class Trial:
    """One operation, what the stores hold without it and with it, and after how many steps it is done."""

    mortals: Mortals
    lived: Path
    operation: str

    def __post_init__(self) -> None:
        self.untouched = self._completed("nothing")
        self.complete = self._completed(self.operation)
        with self._folder() as folder:
            (self.steps,) = self._do("operate", folder, number=0, moment="").noted("steps")

    def _completed(self, operation: str) -> State:
        with self._folder() as folder:
            life = self.mortals.do("complete", folder, operation=operation)
        assert (life.ended, life.noted("differences")) == (0, [[]])
        (state,) = life.noted("state")
        return state

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        folder = self.mortals.copy(self.lived)
        yield folder
        shutil.rmtree(folder)

    def _do(self, job: str, folder: Path, **details: Any) -> Life:
        return self.mortals.do(job, folder, operation=self.operation, **details)

    def points(self) -> list[Point]:
        """Before and after every step, and after the last one when the caller has its answer."""
        around = [(number, moment) for number in range(1, self.steps + 1) for moment in ("before", "after")]
        return [*around, (self.steps + 1, "before")]

    def kill(self, point: Point) -> State:
        """Kill the operation there; return what a new process finds, once it has swept."""
        with self._folder() as folder:
            life = self._do("operate", folder, number=point[0], moment=point[1])
            assert life.ended == (KILLED if point[0] <= self.steps else 0), life
            recovered = self._do("recover", folder)
        where = life.noted("step") or ["after its end"]
        assert recovered.ended == 0, where
        assert recovered.noted("swept") == [[True, 0, 0]] * 2, where
        assert recovered.noted("differences") == [[], []], where
        found, again = recovered.noted("state")
        self._assert_nothing_missing(found, life, where)
        for store in ("objects", "points"):
            assert again[store] == self.complete[store], where
        return found

    def _assert_nothing_missing(self, found: State, life: Life, where: list[str]) -> None:
        if life.noted("done"):
            assert found == self.complete, where
        elif self.operation == "import":
            objects = found["objects"].items()
            assert self.untouched["objects"].items() <= objects <= self.complete["objects"].items(), where
            said = [
                name for name in found["objects"].keys() - self.untouched["objects"] if "observation" in name
            ]
            assert len(said) >= max(life.noted("turns"), default=0), where
        else:
            assert found in (self.untouched, self.complete), where


@pytest.fixture
def trial(mortals: Mortals, lived: Path, operation: str) -> Trial:
    return Trial(mortals, lived, operation)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_killed_at_some_steps(trial: Trial) -> None:
    points = trial.points()
    spread = range(0, len(points) - 1, -(-len(points) // (POINTS - 1)))
    assert_both_ends(trial, [points[index] for index in spread] + points[-1:])


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS)
def test_killed_at_every_step(trial: Trial) -> None:
    assert_both_ends(trial, trial.points())


def assert_both_ends(trial: Trial, points: list[Point]) -> None:
    """Kill at these points; the first leave the operation undone, the last find it done."""
    found = [trial.kill(point) for point in points]
    assert found[0] == trial.untouched
    assert found[-1] == trial.complete

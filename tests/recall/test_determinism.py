"""Same stores, same context: the same pack, byte for byte (DESIGN §1, recall.md §3), on embedded stores.

Nothing in an outcome is exempt: telemetry holds counts alone, and no time is taken.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from charactermemory import CharacterMemory
from charactermemory.recall import RetrievalOutcome
from tests.recall import retelling

pytestmark = pytest.mark.long

ORDERS = 20
ROOT = Path(__file__).parents[2]
ELSEWHERE = [("0", "Asia/Tokyo"), ("1", "America/St_Johns"), ("4242", "Pacific/Pago_Pago")]
"""Hash seeds and time zones; in the last it is still December when the first turns are said."""
PARTS = ("named_score", "present_score", "dated_score", "episode_score", "support_score", "asking_score")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CharacterMemory]:
    """The life, told in one order."""
    with retelling.open_at(tmp_path_factory.mktemp("told")) as memory:
        retelling.tell(memory, 0)
        yield memory


def test_the_questions_have_answers_worth_comparing(told: CharacterMemory) -> None:
    refs = retelling.refs_of(told)

    assert len(refs) > 30
    assert len({ref.object_type for ref in refs}) == 4
    outcomes = [told.retrieve(context) for context in retelling.contexts()]
    assert sum(outcome.rationale.lifecycle_omission_count > 0 for outcome in outcomes) >= 3
    assert any(name.resolution == "ambiguous" for outcome in outcomes for name in outcome.rationale.names)
    scores = [entry.scores for outcome in outcomes for entry in outcome.pack.admissions]
    assert all(any(getattr(score, name) for score in scores) for name in PARTS)
    assert any("another Ada" in answer for answer in retelling.answers(told))


@pytest.mark.spec("recall-10")
def test_the_order_in_which_it_happened_to_be_stored_changes_nothing(
    told: CharacterMemory, tmp_path: Path
) -> None:
    def answered(seed: int) -> list[str]:
        with retelling.open_at(tmp_path / str(seed)) as memory:
            retelling.tell(memory, seed)
            return retelling.answers(memory)

    expected = retelling.answers(told)
    with ThreadPoolExecutor(max_workers=4) as pool:  # they mostly wait for the disk
        for seed, found in enumerate(pool.map(answered, range(1, ORDERS)), start=1):
            assert found == expected, f"order {seed}"


def test_asking_again_changes_nothing(told: CharacterMemory) -> None:
    assert retelling.answers(told) == retelling.answers(told)


@pytest.mark.spec("recall-9")
def test_the_trace_changes_nothing(told: CharacterMemory) -> None:
    for with_trace, without in zip(
        retelling.answers(told, trace=True), retelling.answers(told, trace=False), strict=True
    ):
        if with_trace.startswith("{"):
            explained = RetrievalOutcome.from_json(with_trace)
            assert explained.trace is not None
            assert explained.replace(trace=None).to_json() == without
        else:
            assert with_trace == without


def test_what_time_it_is_changes_nothing(told: CharacterMemory, tmp_path: Path) -> None:
    for year in (1971, 2031):
        now = datetime(year, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC)
        with retelling.open_at(tmp_path / str(year), clock=lambda now=now: now) as memory:  # type: ignore[misc]
            retelling.tell(memory, year)
            assert retelling.answers(memory) == retelling.answers(told), year


def test_neither_hash_seed_nor_time_zone_changes_anything(told: CharacterMemory, tmp_path: Path) -> None:
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.recall.retelling", str(tmp_path / seed), seed],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": seed, "TZ": zone, "PYTHONUTF8": "1"},
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        for seed, zone in ELSEWHERE
    ]
    printed = [process.communicate(timeout=120)[0] for process in started]

    assert [process.returncode for process in started] == [0, 0, 0]
    assert printed == ["\n".join(retelling.answers(told)) + "\n"] * 3


def test_another_process_finds_the_same_in_the_same_stores(tmp_path: Path) -> None:
    with retelling.open_at(tmp_path) as memory:
        retelling.tell(memory, 7)
        expected = "\n".join(retelling.answers(memory)) + "\n"

    again = subprocess.run(
        [sys.executable, "-m", "tests.recall.retelling", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": "77", "TZ": "Asia/Kathmandu", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )

    assert again.stdout == expected

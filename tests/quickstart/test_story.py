"""The quickstart as a newcomer runs it: a process of its own, twice, on an empty data folder."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass
class Screen:
    """One question's part of the output: its memories with what stands below, and what was left out."""

    heading: str
    found: str
    left_out: str


@dataclass
class Run:
    opening: str
    screens: list[Screen]

    def screen(self, words: str) -> Screen:
        (found,) = [screen for screen in self.screens if words in screen.heading]
        return found


def run(data: Path) -> Run:
    # A provider that needs a key and a network is named on purpose: the quickstart must do without.
    environment = os.environ | {
        "DATA_DIR": str(data),
        "EMBEDDING_PROVIDER": "openai",
        "EMBEDDING_MODEL": "text-embedding-3-small",
        "OPENAI_API_KEY": "sk-none",
        "OPENAI_BASE_URL": "http://127.0.0.1:9",
        "COLUMNS": "100",
    }
    done = subprocess.run(
        [sys.executable, "manage.py", "quickstart", "--no-serve"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no progress bar where nobody watches
    opening, *parts = done.stdout.split("\n─ ")
    screens = []
    for part in parts:
        heading, _, answer = part.partition("\nCame back: ")
        found, _, left_out = answer.partition("\nLeft out\n")
        screens.append(Screen(flat(heading), flat(found), flat(left_out)))
    return Run(opening, screens)


def flat(text: str) -> str:
    """The text on one line, so that it does not matter where the terminal wraps it."""
    return " ".join(textwrap.dedent(text).split())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    data = tmp_path_factory.mktemp("data")
    return run(data), run(data)


def test_the_first_run_remembers_the_life_and_asks_its_questions(runs: tuple[Run, Run]) -> None:
    assert "Remembered: 17 sessions with 99 turns; corrections: 1; forgettings: 1." in runs[0].opening
    assert len(runs[0].screens) == 6


def test_the_new_name_is_found_and_the_old_one_left_out_as_superseded(runs: tuple[Run, Run]) -> None:
    screen = runs[0].screen("what name do they go by")
    assert (
        "reflection The one who helps Hanne in the shed on Saturdays goes by the name Robin" in screen.found
    )
    assert "is called Marit" not in screen.found
    assert "superseded Saskia's youngest is called Marit" in screen.left_out
    old = screen.left_out.index("is called Marit")
    assert (
        "now: The one who helps Hanne in the shed on Saturdays goes by the name Robin"
        in screen.left_out[old:]
    )


def test_the_mistaken_belief_comes_back_corrected(runs: tuple[Run, Run]) -> None:
    screen = runs[0].screen("Why did Bram move")
    assert "correction Bram moved to Trondheim for his work" in screen.found
    assert "fell out over the sale" not in screen.found
    assert "superseded Bram moved to Trondheim because he and Hanne fell out over" in screen.left_out


def test_what_was_forgotten_is_absent_and_reported_as_suppressed(runs: tuple[Run, Run]) -> None:
    screen = runs[0].screen("What do I know about Theo")
    assert "Hanne trusts Theo because he does his sums twice" in screen.found
    assert "suppressed 1 belief, 1 episode, forgotten" in screen.left_out
    everything = runs[0].opening + "".join(s.heading + s.found + s.left_out for s in runs[0].screens)
    assert "oyster" not in everything.lower() and "yerseke" not in everything.lower()


def test_a_promise_made_months_ago_is_there(runs: tuple[Run, Run]) -> None:
    screen = runs[0].screen("book the train to Trondheim")
    assert "Asked on 29 May 2026" in screen.heading
    promise = screen.found.index("commitment I promised Hanne: before she travels to Trondheim")
    why = screen.found[promise:].split("·")[0:2]
    assert "16 Nov 2025, 6 months before" in why[0]
    assert why[1].startswith(" because of the topic")


def test_every_memory_shown_says_why_it_came(runs: tuple[Run, Run]) -> None:
    for screen in runs[0].screens:
        assert screen.found.count("because of") == 5


def test_the_second_run_imports_nothing_and_answers_the_same(runs: tuple[Run, Run]) -> None:
    first, second = runs
    assert "Everything is there already, nothing was imported." in second.opening
    assert "Remembered" not in second.opening
    assert second.screens == first.screens

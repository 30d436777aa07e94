"""The quickstart as a newcomer runs it: a process of its own, twice, on an empty data folder."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.management import CommandError, call_command

pytestmark = pytest.mark.long

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
    serving: str
    answered: dict[str, Any]
    pages: dict[str, int]
    keys_served: list[int]

    def screen(self, words: str) -> Screen:
        (found,) = [screen for screen in self.screens if words in screen.heading]
        return found


def run(data: Path, *keys: str) -> Run:
    """Run the quickstart until it serves, do what it says, look at its pages, stop it by Ctrl-C.

    Args:
        keys: keys of earlier runs, to be tried as well.
    """
    # A provider that needs a key and a network is named on purpose: the quickstart must do without.
    environment = os.environ | {
        "DATA_DIR": str(data),
        "POSTGRES_DB": "",  # a database of its own, whatever the tests have
        "EMBEDDING_PROVIDER": "openai",
        "EMBEDDING_MODEL": "text-embedding-3-small",
        "OPENAI_API_KEY": "sk-none",
        "OPENAI_BASE_URL": "http://127.0.0.1:9",
        "COLUMNS": "100",
    }
    with subprocess.Popen(
        [sys.executable, "manage.py", "quickstart", "--port", "0"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Of whoever runs the tests in the background it would inherit that Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        hung = threading.Timer(120, process.kill)
        hung.start()
        try:
            assert process.stdout is not None
            told: list[str] = []
            for line in process.stdout:
                told.append(line)
                if line.startswith("    -d "):
                    break
            talk, _, serving = "".join(told).partition("\nServing at ")
            answered = json.loads(shell(serving.partition("Ask it something:\n")[2]))
            url = serving.split()[0]
            pages = {
                path: status(f"{url}{path}")
                for path in ("/", "/admin/login/", "/api/v1/docs", "/static/admin/css/base.css")
            }
            question = f"{url}/api/v1/collections/quickstart"
            served = [status(question, key) for key in keys]
        finally:
            process.send_signal(signal.SIGINT)
            farewell, errors = process.communicate()
            hung.cancel()
    assert process.returncode == 0, errors
    assert "Stopped" in farewell
    assert "remembering" not in errors  # no progress bar where nobody watches
    assert "Traceback" not in errors
    opening, *parts = talk.split("\n─ ")
    screens = []
    for part in parts:
        heading, _, answer = part.partition("\nCame back: ")
        found, _, left_out = answer.partition("\nLeft out\n")
        screens.append(Screen(flat(heading), flat(found), flat(left_out)))
    return Run(opening, screens, serving, answered, pages, served)


def shell(command: str) -> str:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=30)
    return done.stdout


def status(url: str, key: str | None = None) -> int:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    return httpx.get(url, headers=headers, timeout=30, follow_redirects=True).status_code


def key_in(serving: str) -> str:
    (key,) = re.findall(r"API key  (cm_\S+)", serving)
    return key


def flat(text: str) -> str:
    """The text on one line, so that it does not matter where the terminal wraps it."""
    return " ".join(textwrap.dedent(text).split())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run]:
    data = tmp_path_factory.mktemp("data")
    first = run(data)
    return first, run(data, key_in(first.serving))


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


def test_it_ends_by_serving_and_the_first_request_works_as_printed(runs: tuple[Run, Run]) -> None:
    for each in runs:
        assert "before she travels to Trondheim" in each.answered["text"]
        assert set(each.pages.values()) == {200}
    assert re.search(r"user quickstart, password \S{12}\)", runs[0].serving)
    assert "manage.py changepassword quickstart" in runs[1].serving


def test_a_key_of_an_earlier_run_still_serves(runs: tuple[Run, Run]) -> None:
    assert key_in(runs[0].serving) != key_in(runs[1].serving)
    assert runs[1].keys_served == [200]


def test_a_port_that_is_taken_is_told_before_anything_is_done() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandError, match=f"port {port}: Address already in use.*--port"):
            call_command("quickstart", port=port)
    with pytest.raises(CommandError, match="expected a number from 0 to 65535, not '70000'"):
        call_command("quickstart", "--port", "70000")

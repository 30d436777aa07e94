"""The example as a newcomer runs it: two runs of the program, and a stand-in for the model."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from charactermemory.testing.openai_stub import OpenAIStub, Reply

pytestmark = pytest.mark.long

pytest.importorskip("openai")

ROOT = Path(__file__).resolve().parents[2]


def recollecting(body: dict[str, Any]) -> Reply:
    """Answer as a model would that looks for the cat in what it was given to remember."""
    blocks = [message["content"] for message in body["messages"] if 'block="' in message["content"]]
    lines = [line for block in blocks for line in block.splitlines() if "cat" in line]
    return Reply(text=f"You told me: {lines[0]}" if lines else "Tell me more.")


def run(stub: OpenAIStub, data: Path, *lines: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(ROOT / "examples" / "terminal_companion.py")]
    options = ["--base-url", stub.url, "--model", "m", "--data", str(data), "--embedding", "hashing"]
    return subprocess.run(
        [*program, *options],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "", "PYTHONWARNINGS": "error"},
        timeout=120,
    )


def test_a_second_run_brings_up_what_was_told_in_the_first(tmp_path: Path) -> None:
    data = tmp_path / "companion"
    with OpenAIStub(default=recollecting) as stub:
        first = run(stub, data, "My cat is called Miso.", "", "/quit")
        second = run(stub, data, "Do you remember the name of my cat?")
    assert (first.returncode, first.stderr) == (0, "")
    assert (second.returncode, second.stderr) == (0, "")
    assert "Robin: Tell me more." in first.stdout
    answer = next(line for line in second.stdout.splitlines() if "Robin: " in line)
    assert "You told me: " in answer
    assert answer.endswith("Ann: My cat is called Miso.")

    told, asked = (body["messages"] for body in stub.bodies)
    assert [message["role"] for message in asked if 'block="' not in message["content"]] == ["system", "user"]
    assert asked[0] == told[0]
    assert asked[-1] == {"role": "user", "content": "Do you remember the name of my cat?"}
    assert stat.S_IMODE((data / "fence-secret").stat().st_mode) == 0o600


def test_a_model_that_fails_does_not_end_the_talk(tmp_path: Path) -> None:
    with OpenAIStub() as stub:
        stub.queue(Reply(status=400))
        stub.say("Here I am.")
        done = run(stub, tmp_path, "Are you there?", "Hello?")
    assert done.returncode == 0
    assert "no answer" in done.stderr
    assert "Robin: Here I am." in done.stdout

"""The walk through the API in docs/api.md: a shell runs every line against a server; answers are compared."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memory_app.models import MemoryCollection
from memory_app.quickstart.account import give_access
from memory_app.runtime import close_memories

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
MARK = "=== answer ==="


@dataclass
class Step:
    """Some lines of shell and the answer that stands below them: of the last line if it is JSON."""

    commands: str
    kind: str | None
    shown: str


def steps(text: str) -> list[Step]:
    found = re.findall(r"```sh\n(.*?)```\n(?:```(json|text)\n(.*?)```\n)?", text, re.DOTALL)
    return [Step(commands, kind or None, shown) for commands, kind, shown in found]


def test_every_line_runs_and_answers_what_is_shown(
    live_server: Any, settings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.CHARACTER_MEMORY = {**settings.CHARACTER_MEMORY, "EMBEDDING_PROVIDER": "wordllama"}
    MemoryCollection.objects.create(name="quickstart", language="english")
    key = give_access("quickstart").key
    text = PAGE.read_text(encoding="utf-8").replace("http://127.0.0.1:8000", live_server.url)
    text = text.replace("cm_...", key)
    walk = steps(text)
    script = f"\necho '{MARK}'\n".join(step.commands for step in walk)
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (python,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(python, PAGE.name, "exec"), {})
    assert "Ben planted tomatoes behind the shed." in capsys.readouterr().out
    close_memories()  # what the server's threads have open, before the test's database goes
    answers = done.stdout.split(f"{MARK}\n")
    assert (done.returncode, done.stderr, len(answers)) == (0, "", len(walk))
    for step, answer in zip(walk, answers, strict=True):
        if step.kind == "json":
            difference = differs(json.loads(step.shown), last_document(answer))
            assert difference is None, f"{difference}\n{step.commands}\n{answer}"
        elif step.kind == "text":
            assert [line.strip() for line in answer.splitlines()] == step.shown.splitlines()


def last_document(text: str) -> Any:
    """Read the last of the JSON documents that commands printed one after the other."""
    decoder, place, found = json.JSONDecoder(), 0, None
    while place < len(text.rstrip()):
        found, place = decoder.raw_decode(text, place)
        while place < len(text) and text[place].isspace():
            place += 1
    return found


def differs(shown: Any, answer: Any, place: str = "") -> str | None:
    """Return where an answer is not what the page shows, None if it is.

    The page may leave keys out, and writes `...` for what differs from run to run.
    """
    if isinstance(shown, dict) and isinstance(answer, dict):
        for key, value in shown.items():
            if key not in answer:
                return f"{place}/{key} is not in the answer"
            if (found := differs(value, answer[key], f"{place}/{key}")) is not None:
                return found
        return None
    if isinstance(shown, list) and isinstance(answer, list) and shown[-1:] != ["..."]:
        if len(shown) != len(answer):
            return f"{place} has {len(answer)} items, {len(shown)} are shown"
        pairs = enumerate(zip(shown, answer, strict=True))
        return next((found for at, pair in pairs if (found := differs(*pair, f"{place}/{at}"))), None)
    if isinstance(shown, list) and isinstance(answer, list):
        return None if answer else f"{place} is empty"
    if isinstance(shown, str) and isinstance(answer, str):
        pattern = re.escape(shown).replace(re.escape("..."), ".*")
        return None if re.fullmatch(pattern, answer, re.DOTALL) else f"{place} is {answer!r}"
    return None if shown in ("...", answer) else f"{place} is {answer!r}"


@pytest.mark.parametrize(
    ("shown", "answer", "agrees"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True),
        ({"a": "..."}, {"b": 1}, False),
        ({"a": "..."}, {"a": 7}, True),
        ({"a": "not ..."}, {"a": "not here"}, True),
        ({"a": "not ..."}, {"a": "here"}, False),
        ({"a": True}, {"a": False}, False),
        ([{"a": 1}], [{"a": 1}, {"a": 2}], False),
        (["..."], [], False),
        (["..."], [1, 2], True),
        ([{"a": 1}, {"a": 2}], [{"a": 1}, {"a": 3}], False),
    ],
)
def test_answers_are_compared(shown: Any, answer: Any, agrees: bool) -> None:
    assert (differs(shown, answer) is None) == agrees

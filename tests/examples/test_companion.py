"""The Django example as a newcomer runs it: migrate, serve, talk, stop, serve again; then with a model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from charactermemory.testing.openai_stub import OpenAIStub, Reply
from charactermemory.testing.servers import free_port
from tests.support.services import eventually

pytest.importorskip("openai")

MANAGE = Path(__file__).resolve().parents[2] / "examples" / "companion" / "manage.py"


def environment(data: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "COMPANION_DATA": str(data), **more}


def manage(data: Path, *arguments: str) -> str:
    command = [sys.executable, str(MANAGE), *arguments]
    done = subprocess.run(command, env=environment(data), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def served(data: Path, **more: str) -> Iterator[str]:
    """The address of the running example; ended by SIGTERM, which no store minds."""
    port = free_port()
    command = [sys.executable, str(MANAGE), "runserver", "--noreload", f"127.0.0.1:{port}"]
    with (data / "server.log").open("ab") as log:
        process = subprocess.Popen(command, env=environment(data, **more), stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, (data / "server.log").read_text()
        try:
            return httpx.get(f"{url}/health/live/").status_code == 200
        except httpx.TransportError:
            return False

    try:
        eventually("the example serves", answers)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=60)


def talk(url: str, *lines: str) -> list[str]:
    """Say lines in a browser session of its own; return everything the page shows of the talk."""
    with httpx.Client(base_url=url, follow_redirects=True, timeout=60) as browser:
        page = browser.get("/")
        for line in lines:
            (token,) = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)
            page = browser.post("/", data={"words": line, "csrfmiddlewaretoken": token})
            assert page.status_code == 200, page.text[:2000]
        return [unescape(said) for said in re.findall(r"<dd>(.*?)</dd>", page.text, re.DOTALL)]


def recollecting(body: dict[str, Any]) -> Reply:
    """Answer as a model would that looks for the cat in what it was given to remember."""
    blocks = [message["content"] for message in body["messages"] if 'block="' in message["content"]]
    lines = [line for block in blocks for line in block.splitlines() if "Miso" in line]
    return Reply(text=f"I remember: {lines[0]}" if lines else "Tell me more.")


def test_it_remembers_over_talks_and_restarts_with_and_without_a_model(tmp_path: Path) -> None:
    manage(tmp_path, "migrate", "--verbosity", "0")
    with served(tmp_path) as url:
        first = talk(url, "My cat is called Miso.", "<b>bold</b>")
        assert first[:3] == [
            "My cat is called Miso.",
            "That is new to me. Tell me more.",
            "<b>bold</b>",
        ]
        for _ in range(2):  # the question is remembered too, and is no answer to itself
            assert talk(url, "What is my cat called?")[1] == "You said: “My cat is called Miso.”"
        refused = httpx.post(f"{url}/", data={"words": "from elsewhere"})
        assert refused.status_code == 403, "without the form's token nothing is said"
    with OpenAIStub(default=recollecting) as stub:
        model = {"COMPANION_MODEL": "m", "OPENAI_BASE_URL": stub.url}
        with served(tmp_path, **model) as url:
            answer = talk(url, "Do you remember the name of my cat?")[1]
            assert answer.startswith("I remember: ") and "My cat is called Miso." in answer
            stub.default = Reply(status=401)
            with httpx.Client(base_url=url, timeout=60) as browser:
                token = re.findall(r'value="(\w+)"', browser.get("/").text)[0]
                page = browser.post("/", data={"words": "Still there?", "csrfmiddlewaretoken": token})
            assert page.status_code == 502
            assert "The model did not answer" in page.text
    said = manage(tmp_path, "memory_verify")
    assert " 0 differences" in said

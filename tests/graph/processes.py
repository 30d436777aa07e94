"""Other Python processes for the graph tests: they share a folder or an endpoint, and get killed."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

PREAMBLE = """
import os, signal, sys, time
from pathlib import Path
def say(word):
    print(word, flush=True)
def wait():
    sys.stdin.readline()
"""


class Script:
    """A Python script in a process of its own, which talks by lines and is killed at the end of `with`."""

    def __init__(
        self,
        text: str,
        *arguments: object,
        before: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        self.process = subprocess.Popen(
            [*before, sys.executable, "-c", PREAMBLE + textwrap.dedent(text), *map(str, arguments)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def hear(self) -> str:
        """The next line it says; empty when it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def go(self) -> None:
        """End its `wait()`."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                with suppress(BrokenPipeError):  # what a killed script did not read any more
                    pipe.close()

    def end(self) -> str:
        """All that it still says; it must end well."""
        output, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, self.process.returncode
        return output.strip()


def run(text: str, *arguments: object) -> str:
    """Run a script to its end and return what it said."""
    with Script(text, *arguments) as script:
        return script.end()

"""A writer process: commits contents of ids that other processes claim too."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from charactermemory.adapters.oxigraph.locks import FileWriterLock
from charactermemory.adapters.oxigraph.service import ServiceConnection
from charactermemory.adapters.oxigraph.store import OxigraphStore
from charactermemory.domain.objects import DerivedMemory
from charactermemory.errors import DeterministicIdCollision
from charactermemory.testing.builders import belief, numbered_id
from charactermemory.testing.graph_contract import put


def version(number: int, name: str) -> DerivedMemory:
    """The content that the writer `name` has for the id `number`."""
    subject = numbered_id(1_000)
    return belief(id=numbered_id(number), entity_ids=(subject,), text=f"as {name} has it")


def main(url: str, locks: str, name: str, rounds: str) -> None:
    """Say that this process is ready, wait for a line, then commit one content after the other."""
    with closing(OxigraphStore(ServiceConnection(url), "contract", FileWriterLock(Path(locks)))) as store:
        print("ready", flush=True)  # noqa: T201 - the test waits for it
        sys.stdin.readline()
        for number in range(1, int(rounds) + 1):
            try:
                print("won" if put(store, version(number, name)) else "replayed")  # noqa: T201
            except DeterministicIdCollision:
                print("collided")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Export: one collection's whole graph as TriG, with a manifest of digests (DESIGN R2).

The file holds one named graph, its triples in the order of their bytes, so two exports of one state are equal
byte for byte. Receipts, events and fences are in it: an import goes on counting where the export stood.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from charactermemory import SCHEMA_VERSION, CharacterMemory
from memory_app.operations import opening
from memory_app.operations.opening import Refused

FORMAT = 1
"""Version of the manifest."""


@dataclass(frozen=True)
class Manifest:
    """What an export holds; no time, so that equal exports have equal manifests.

    Attributes:
        format: version of this manifest.
        collection: the collection's name.
        file: name of the TriG file beside it.
        sha256: digest of the file.
        size: bytes of the file.
        triples: its triples.
        head: the last commit in it.
        schema_version: version of the stored objects.
    """

    format: int
    collection: str
    file: str
    sha256: str
    size: int
    triples: int
    head: int
    schema_version: str

    def to_json(self) -> str:
        """Return the manifest file's text."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"


def export(collection: str, folder: Path, progress: Callable[[int], None] = lambda done: None) -> Manifest:
    """Write `<collection>.trig` and `<collection>.manifest.json` into `folder`, whole or not at all.

    Raises:
        Refused: no such collection, or a file is there already.
        CharacterMemoryError: the graph cannot be read.
    """
    opening.require(collection)
    target = folder / f"{collection}.trig"
    beside = folder / f"{collection}.manifest.json"
    for path in (target, beside):
        if path.exists():
            raise Refused(f"{path} is there already; export into an empty folder")
    folder.mkdir(parents=True, exist_ok=True)
    draft = target.with_suffix(".trig.part")
    try:
        with opening.existing(collection) as memory:
            manifest = _write(memory, draft, target.name, progress)
        _durable(beside, manifest.to_json().encode())
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        beside.unlink(missing_ok=True)
        raise
    return manifest


def _write(memory: CharacterMemory, path: Path, name: str, progress: Callable[[int], None]) -> Manifest:
    digest, size, triples = hashlib.sha256(), 0, 0
    head = memory.stores.graph.head()
    with path.open("wb") as file:
        for line in _as_trig(memory.collection, memory.upkeep.export()):
            digest.update(line)
            size += len(line)
            triples += 1
            file.write(line)
            if triples % 10_000 == 0:
                progress(10_000)
        file.flush()
        os.fsync(file.fileno())
    triples -= 2  # the lines that open and close the graph
    progress(triples % 10_000)
    return Manifest(FORMAT, memory.collection, name, digest.hexdigest(), size, triples, head, SCHEMA_VERSION)


def _as_trig(collection: str, quads: Iterable[bytes]) -> Iterator[bytes]:
    """Turn the N-Quads lines of one graph into TriG: its triples inside the graph's braces."""
    graph = f"<urn:charactermemory:collection:{collection}>".encode()
    ending = b" " + graph + b" .\n"
    yield graph + b" {\n"
    for line in quads:
        yield line.removesuffix(ending) + b" .\n"
    yield b"}\n"


def _durable(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())

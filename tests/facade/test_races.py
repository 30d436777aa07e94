"""Two writers, one id, two contents: one wins (core-104). On RocksDB, embedded and served."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from pathlib import Path

import pytest

from charactermemory.adapters.oxigraph.connection import Connection
from charactermemory.adapters.oxigraph.embedded import EmbeddedConnection
from charactermemory.adapters.oxigraph.service import ServiceConnection
from charactermemory.errors import DeterministicIdCollision
from charactermemory.testing.servers import OxigraphServer
from tests.facade.conftest import Open
from tests.graph.processes import Script
from tests.support.plans import episode, episode_ref, plan, uid

ROUNDS = 15
WON, LOST = "won", f"{DeterministicIdCollision.code} {episode_ref(0).object_type}"


def contents(connection: Connection) -> dict[str, list[str]]:
    """Return the digests stored under every id."""
    rows = connection.query(
        "SELECT ?s ?d WHERE { GRAPH ?g { ?s <urn:charactermemory:vocab:digest> ?d } } ORDER BY ?s ?d"
    )
    found: dict[str, list[str]] = {}
    for subject, digest in rows:
        found.setdefault(str(subject), []).append(str(digest))
    return found


def judge(answers: list[list[str]], summaries: list[str | None], digests: dict[str, list[str]]) -> None:
    """One winner a round, whose content is stored; the other one was told; one digest an id."""
    assert len(digests) == ROUNDS
    assert all(len(found) == 1 for found in digests.values())
    for number, answer in enumerate(zip(*answers, strict=True)):
        assert sorted(answer) == sorted([WON, f"{LOST} {uid(number + 1)}"]), number
        assert summaries[number] == f"round {number + 1} as writer {answer.index(WON)} saw it"


@pytest.mark.spec("core-104")
def test_of_two_threads_on_an_embedded_store_one_wins(open_memory: Open, settings: dict[str, object]) -> None:
    memories = [open_memory(), open_memory()]
    assert memories[0].stores.graph is not memories[1].stores.graph
    starting = threading.Barrier(2)
    answers: list[list[str]] = [[], []]

    def write(writer: int) -> None:
        for number in range(1, ROUNDS + 1):
            planned = plan(episode(number, f"round {number} as writer {writer} saw it"))
            starting.wait(30)
            try:
                memories[writer].commit(planned)
                answers[writer].append(WON)
            except DeterministicIdCollision as error:
                answers[writer].append(f"{error.code} {error.object}")

    threads = [threading.Thread(target=write, args=(writer,)) for writer in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    refs = [episode_ref(number) for number in range(1, ROUNDS + 1)]
    stored = memories[0].stores.graph.read(refs)
    summaries = [getattr(stored[ref].object, "summary", None) for ref in refs]
    assert memories[0].upkeep.verify().differences == 0
    for memory in memories:
        memory.close()
    with closing(EmbeddedConnection(Path(str(settings["OXIGRAPH_PATH"])), "ada")) as connection:
        judge(answers, summaries, contents(connection))


WRITER = """
import json
from charactermemory.errors import DeterministicIdCollision
from charactermemory.memory import CharacterMemory
from tests.support.plans import episode, plan
settings, writer = json.loads(sys.argv[1]), sys.argv[2]
with CharacterMemory.open(settings, "ada") as memory:
    say("ready")
    for number in range(1, int(sys.argv[3]) + 1):
        planned = plan(episode(number, f"round {number} as writer {writer} saw it"))
        wait()
        try:
            memory.commit(planned)
            say("won")
        except DeterministicIdCollision as error:
            say(f"{error.code} {error.object}")
"""


@pytest.mark.spec("core-104")
def test_of_two_processes_on_a_served_store_one_wins(
    open_memory: Open, settings: dict[str, object], tmp_path: Path, oxigraph_server: OxigraphServer
) -> None:
    with closing(ServiceConnection(oxigraph_server.url)) as connection:
        connection.update("DROP ALL")
    settings |= {"GRAPH_STORE_MODE": "service", "OXIGRAPH_URL": oxigraph_server.url}

    def own(writer: int) -> str:
        """Only the graph is shared: an embedded index and its folder belong to one process."""
        place = tmp_path / f"writer-{writer}"
        apart = {"VECTOR_STORE_PATH": str(place), "RETRIEVAL_STATS_PATH": str(place / "statistics")}
        return json.dumps(settings | apart)

    answers: list[list[str]] = [[], []]
    with Script(WRITER, own(0), 0, ROUNDS) as one, Script(WRITER, own(1), 1, ROUNDS) as two:
        for script in (one, two):
            assert script.hear() == "ready"
        for _ in range(ROUNDS):
            for script in (one, two):
                script.go()
            for writer, script in enumerate((one, two)):
                answers[writer].append(script.hear())
        for script in (one, two):
            script.end()

    refs = [episode_ref(number) for number in range(1, ROUNDS + 1)]
    stored = open_memory().stores.graph.read(refs)
    summaries = [getattr(stored[ref].object, "summary", None) for ref in refs]
    with closing(ServiceConnection(oxigraph_server.url)) as connection:
        judge(answers, summaries, contents(connection))

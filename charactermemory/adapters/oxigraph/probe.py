"""A bounded probe of a SPARQL endpoint: conforming is not enough, servers differ in what one update guarantees
(consistency.md §10). It works in a graph of its own, which it drops.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from uuid import uuid4

from charactermemory.adapters.oxigraph.connection import STORE_NAME, Connection, Literal, ResponseLost
from charactermemory.domain.model import Model
from charactermemory.errors import DatabaseError, StoreUnavailable

RACERS = 8
ROUNDS = 10
WIDE = 200
"""Triples of one update while readers look on."""


class Finding(Model):
    """What one experiment found; `fit` False means that a memory must not be kept there."""

    experiment: str
    fit: bool
    found: str


def probe(connection: Connection) -> tuple[Finding, ...]:
    """Try what the memory relies on; some seconds, some thousand triples, all removed again.

    Raises:
        StoreUnavailable, DatabaseError: the endpoint cannot be used at all.
    """
    graph = f"urn:charactermemory:probe:{uuid4()}"
    experiments: tuple[Callable[[Connection, str], Finding], ...] = (
        _all_or_nothing,
        _one_snapshot,
        _racing_guards,
    )
    findings = []
    for number, experiment in enumerate(experiments):
        name = f"<{graph}:{number}>"
        try:
            findings.append(experiment(connection, name))
        except ResponseLost as lost:
            raise StoreUnavailable(store=STORE_NAME, detail=lost.detail) from lost
        finally:
            with suppress(ResponseLost):
                connection.update(f"DROP SILENT GRAPH {name}")
    return tuple(findings)


def _all_or_nothing(connection: Connection, graph: str) -> Finding:
    """Send an update whose second operation fails: creating a graph that is there already."""
    connection.update(f"CREATE SILENT GRAPH {graph}")
    connection.update(f"INSERT DATA {{ GRAPH {graph} {{ <urn:a> <urn:b> 0 }} }}")
    refused = False
    try:
        connection.update(f"INSERT DATA {{ GRAPH {graph} {{ <urn:a> <urn:b> 1 }} }} ; CREATE GRAPH {graph}")
    except (DatabaseError, ResponseLost):
        refused = True
    half = connection.ask(f"ASK {{ GRAPH {graph} {{ <urn:a> <urn:b> 1 }} }}")
    if refused:
        found = "half of a failing update was applied" if half else "a failing update leaves nothing"
        return Finding(experiment="all or nothing", fit=not half, found=found)
    return Finding(
        experiment="all or nothing", fit=True, found="the endpoint refuses no second CREATE; not told"
    )


def _one_snapshot(connection: Connection, graph: str) -> Finding:
    """Rewrite many triples by single updates while queries count the versions they see."""
    done = threading.Event()

    def rewrite() -> None:
        for version in range(ROUNDS):
            cells = " ".join(f"<urn:s{number}> <urn:v> {version} ." for number in range(WIDE))
            connection.update(
                f"DELETE WHERE {{ GRAPH {graph} {{ ?s ?p ?o }} }} ; INSERT DATA {{ GRAPH {graph} {{ {cells} }} }}"
            )
        done.set()

    torn = reads = 0
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(rewrite)
        while not done.is_set() and not writing.done():
            rows = connection.query(
                f"SELECT (COUNT(DISTINCT ?o) AS ?versions) (COUNT(*) AS ?n) "
                f"WHERE {{ GRAPH {graph} {{ ?s <urn:v> ?o }} }}"
            )
            versions, count = (int(term.value) for term in rows[0] if isinstance(term, Literal))
            reads += 1
            torn += versions > 1 or count not in (0, WIDE)
        writing.result()
    return Finding(
        experiment="one query is one snapshot",
        fit=not torn,
        found=f"{torn} of {reads} queries saw half an update"
        if torn
        else f"{reads} queries saw whole updates",
    )


def _racing_guards(connection: Connection, graph: str) -> Finding:
    """Let racers insert under a guard that only the first may pass; no server need serialise them."""
    start = threading.Barrier(RACERS)

    def race(round_: int, racer: int) -> None:
        start.wait()
        connection.update(
            f"INSERT {{ GRAPH {graph} {{ <urn:r{round_}> <urn:won> {racer} }} }} WHERE {{ FILTER NOT EXISTS "
            f"{{ GRAPH {graph} {{ <urn:r{round_}> <urn:won> ?o }} }} }}"
        )

    with ThreadPoolExecutor(RACERS) as pool:
        for round_ in range(ROUNDS):
            for running in [pool.submit(race, round_, racer) for racer in range(RACERS)]:
                running.result()
    rows = connection.query(
        f"SELECT ?r (COUNT(?o) AS ?n) WHERE {{ GRAPH {graph} {{ ?r <urn:won> ?o }} }} GROUP BY ?r"
    )
    several = sum(isinstance(row[1], Literal) and int(row[1].value) > 1 for row in rows)
    return Finding(
        experiment="guarded insert under racers",
        fit=True,
        found=f"several winners in {several} of {ROUNDS} rounds; the writer lock prevents it",
    )

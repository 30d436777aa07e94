"""Finding out what became of an update whose answer never came (consistency.md R4).

A client that gives up, or dies, does not stop the endpoint: an update given up after 0.3 s was applied after
2.2 s. So a fence is added first: the guard of every commit with a lower token fails from then on. An update
under evaluation when the fence came may still land, so the endpoint is watched for five times the longest
allowed update. After that the receipt is there, or it never will be.
"""

from __future__ import annotations

import time

from charactermemory.adapters.oxigraph.connection import STORE_NAME, Connection, NamedNode, ResponseLost
from charactermemory.adapters.oxigraph.terms import fence_iri, receipt_iri
from charactermemory.adapters.oxigraph.vocabulary import FENCE_CLASS, TOKEN, TYPE
from charactermemory.errors import CommitOutcomeUnknown, DatabaseError, StoreUnavailable

WATCH_SECONDS = 5.0
"""How long the endpoint must have answered: five times the largest allowed update (consistency.md R4)."""

PATIENCE_SECONDS = 10.0
"""How long, beyond three times the watch, the endpoint may fail to answer steadily; an update's time-out."""

_STALL_SECONDS = 1.0
"""An answer slower than this means that the endpoint may have stood still; the watch begins anew."""

_PROBE_SECONDS = 0.2
_TROUBLE = (StoreUnavailable, DatabaseError, ResponseLost)


def fence_update(graph: NamedNode, token: int) -> str:
    """Return the update that adds the fence at `token`; adding it again changes nothing."""
    return (
        f"INSERT DATA {{ GRAPH {graph} {{ {fence_iri(token)} {TYPE} {FENCE_CLASS} ; {TOKEN} {token:d} }} }}"
    )


def settle(
    connection: Connection,
    graph_name: NamedNode,
    old_token: int,
    own_token: int,
    watch_seconds: float = WATCH_SECONDS,
) -> bool:
    """Return whether the commit numbered `old_token` took effect; afterwards it never will.

    Call it while holding the writer lock, with an `own_token` above `old_token` that no later holder goes
    below. Adds one fence. Takes `watch_seconds`, less if the receipt is found sooner.

    Raises:
        CommitOutcomeUnknown: the endpoint did not answer steadily within three times the watch and
            `PATIENCE_SECONDS`.
    """
    give_up = time.monotonic() + 3 * watch_seconds + PATIENCE_SECONDS
    trouble = _fence(connection, graph_name, own_token, give_up)
    receipt = f"ASK {{ GRAPH {graph_name} {{ {receipt_iri(old_token)} ?p ?o }} }}"
    steady_since = time.monotonic()
    while time.monotonic() < give_up:
        asked = time.monotonic()
        try:
            if connection.ask(receipt):
                return True
        except _TROUBLE as error:
            trouble = str(error)
            asked = float("-inf")
        now = time.monotonic()
        if now - asked > _STALL_SECONDS:
            steady_since = now
        elif now - steady_since >= watch_seconds:
            return False
        time.sleep(min(_PROBE_SECONDS, watch_seconds / 5))
    raise CommitOutcomeUnknown(
        store=STORE_NAME, detail=f"commit {old_token}: {trouble or 'no steady answers'}"
    )


def _fence(connection: Connection, graph: NamedNode, token: int, give_up: float) -> str:
    """Add the fence and see it stored. This one update may be sent again, for it only adds itself."""
    there = f"ASK {{ GRAPH {graph} {{ {fence_iri(token)} {TYPE} {FENCE_CLASS} }} }}"
    trouble = ""
    while time.monotonic() < give_up:
        try:
            connection.update(fence_update(graph, token))
            if connection.ask(there):
                return trouble
        except _TROUBLE as error:
            trouble = str(error)
            time.sleep(_PROBE_SECONDS)
    raise CommitOutcomeUnknown(store=STORE_NAME, detail=f"no fence at {token} could be set: {trouble}")
